"""How the host is to be served, as the configuration says."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from genai_host.api import Secret
from genai_host.api.settings import Setting
from genai_host.config import Config
from genai_host.keys import Keys
from genai_host.names import SERVER_SECRET

_TOKEN = Setting("token", "Secret", "", (), True, True, None)


def settings_of(
    config: Config, keys: Keys, environ: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """As `ServerSettings` takes them. Raises `ConfigurationError` for a token that is not
    where it should be."""
    server = config.server
    return {
        "bind": server.host,
        "port": server.port,
        "hosts": server.hosts,
        "cors": server.cors,
        "root_path": server.root_path,
        "at_once": server.at_once,
        "waiting": server.waiting,
        "rate": server.rate,
        "drain": server.drain,
        "certfile": server.certfile or None,
        "keyfile": server.keyfile or None,
        "tokens": _tokens(config, keys, os.environ if environ is None else environ),
    }


def _tokens(config: Config, keys: Keys, environ: Mapping[str, str]) -> dict[str, Secret]:
    """By user: that of whoever runs the server under the empty name."""
    server = config.server
    tokens = {}
    if environ.get(SERVER_SECRET):
        tokens[""] = Secret(environ[SERVER_SECRET])
    elif server.token is not None:
        tokens[""] = _token(keys, "server", server.token, "")
    for name, given in server.users.items():
        tokens[name] = _token(keys, name, given, "server__users")
    return tokens


def _token(keys: Keys, name: str, given: Mapping[str, Any], table: str) -> Secret:
    found = keys.find(name, _TOKEN, given=given, table=table)
    assert found is not None, "what is referred to is there, or an error"
    return found.secret
