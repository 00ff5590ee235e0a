"""Settings of the server, read from the configuration, and the entries of the access log."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import field, fields, frozen

from genai_host.api import Secret
from genai_host.api.settings import Setting
from genai_host.config import Config, ServerConfig
from genai_host.config.key import ConfigKey
from genai_host.config.schema import keys_of
from genai_host.errors import ConfigurationError
from genai_host.secrets.keys import SecretStore
from genai_host.util.addresses import is_loopback
from genai_host.util.names import SERVER_SECRET


@frozen
class AccessLogEntry:
    """Entry of the access log. It contains no query, which may have keys, and no control
    characters.

    Attributes:
        method, path: `-` if the request could not be parsed.
        status: Status of the reply; 499 if the client disconnected before.
        seconds: Time from the first byte of the request to the last of the reply.
        user: User of the token; empty for the operator.
        request_id: Id of the request, as in the header `x-request-id` of the reply.
    """

    method: str
    path: str
    status: int
    seconds: float
    user: str
    request_id: str

    def __str__(self) -> str:
        what = f"{self.method} {self.path} {self.status} {self.seconds:.3f} s"
        return ascii(f"{what} {self.user or '-'} {self.request_id}")[1:-1]


_MIN_TOKEN_LENGTH = 16  # characters of a token: 64 bits if hexadecimal
_TOKEN_CHARACTERS = re.compile(r"[!-~]+")


_DEFAULTS = ServerConfig()


def _lowercase(given: Iterable[str]) -> tuple[str, ...]:
    return tuple(name.lower() for name in given)


def _without_slash(given: str) -> str:
    return given.rstrip("/")


@frozen(kw_only=True)
class ServerSettings:
    """Settings of a server. `ServerConfig` describes those that are keys of the configuration.

    Attributes:
        bind: The key `server.host`.
        tokens: Tokens by user, who have separate conversations. The empty name is the operator.
            Without tokens, only clients on this machine are accepted.
        guess_delay: Longest delay, in seconds, of a request with a token after requests with wrong
            tokens from the same address.
        max_body_memory: Bytes of request bodies that are held concurrently.
        connections: Largest number of open connections; None for what the limit of open files
            allows (`default_connections`).
        head_size: Largest number of bytes of the head of a request.
        head_seconds: Timeout of the head of a request.
        body_seconds: Timeout of the body of a request.
        send_seconds: Timeout of a client that receives nothing of a reply.
        head_delay: Seconds that a stream may take to begin before its head is sent. A later error
            has no status, and is an event of the stream.
        keepalive_interval: Seconds without data after which a reply sends a keep-alive, if its
            format has one; 0 for never.
        access_log: Called with each request that was answered, in the event loop; None for no log.
        certfile: Certificate for HTTPS, in PEM.
        keyfile: Private key for HTTPS, in PEM.

    Raises:
        ConfigurationError: A setting is not valid.
    """

    bind: str = _DEFAULTS.host
    port: int = _DEFAULTS.port
    tokens: Mapping[str, Secret] = field(factory=dict, repr=False)
    guess_delay: float = 2.0
    allowed_hosts: tuple[str, ...] = field(default=(), converter=_lowercase)
    cors_origins: tuple[str, ...] = field(default=(), converter=_lowercase)
    root_path: str = field(default=_DEFAULTS.root_path, converter=_without_slash)
    max_concurrency: int = _DEFAULTS.max_concurrency
    queue_size: int | None = _DEFAULTS.queue_size
    rate_limit: int | None = _DEFAULTS.rate_limit
    max_body_memory: int = 512 * 1024 * 1024
    connections: int | None = None
    head_size: int = 64 * 1024
    head_seconds: float = 10.0
    body_seconds: float = 30.0
    send_seconds: float = 60.0
    head_delay: float = 1.0
    keepalive_interval: float = 15.0
    graceful_timeout: float = _DEFAULTS.graceful_timeout
    access_log: Callable[[AccessLogEntry], None] | None = None
    certfile: str = ""
    keyfile: str = ""

    def __attrs_post_init__(self) -> None:
        _check_access(self)
        _check_values(self)

    @property
    def max_queue_size(self) -> int:
        return 2 * self.max_concurrency if self.queue_size is None else self.queue_size

    @property
    def max_connections(self) -> int:
        return default_connections() if self.connections is None else self.connections

    @property
    def scheme(self) -> str:
        return "https" if self.certfile else "http"


_RESERVED_FILES = 64  # reserve for the store, the plugins and provider calls
_MAX_CONNECTIONS = 20_000


def default_connections() -> int:
    """Return the default limit of connections. It leaves a quarter of the limit of open files."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return _MAX_CONNECTIONS
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return _MAX_CONNECTIONS
    return max(8, min(_MAX_CONNECTIONS, files - max(_RESERVED_FILES, files // 4)))


def _check_access(settings: ServerSettings) -> None:
    if not settings.tokens and not is_loopback(settings.bind):
        raise ConfigurationError(
            f"listening on {settings.bind} requires a token",
            hint="set one: export GENAI_HOST_SERVER_TOKEN=$(openssl rand -hex 32)",
        )
    for user, token in settings.tokens.items():
        owner = f"the token of {user}" if user else "the token of the server"
        if 0 < len(token.reveal()) < _MIN_TOKEN_LENGTH:
            raise ConfigurationError(
                f"{owner} is shorter than {_MIN_TOKEN_LENGTH} characters, and could be guessed",
                hint="generate one: openssl rand -hex 32",
            )
        if not _TOKEN_CHARACTERS.fullmatch(token.reveal()):
            raise ConfigurationError(
                f"{owner} is empty, or has characters that HTTP headers cannot contain",
                hint="generate one: openssl rand -hex 32",
            )
    if len({token.reveal() for token in settings.tokens.values()}) < len(settings.tokens):
        raise ConfigurationError(
            "two users have the same token", hint="give each user a separate token"
        )
    if settings.keyfile and not settings.certfile:
        raise ConfigurationError("a key requires a certificate", hint="use --certfile FILE")


_MINIMUMS = {
    **dict.fromkeys(("max_body_memory", "connections", "head_size"), 1),
    **dict.fromkeys(("head_seconds", "body_seconds", "send_seconds"), 0),
    **dict.fromkeys(("head_delay", "keepalive_interval", "guess_delay"), 0),
}


def _check_values(settings: ServerSettings) -> None:
    keys = [
        *_shared_keys(),
        *(ConfigKey("", name, least, field=name) for name, least in _MINIMUMS.items()),
    ]
    for key in keys:
        what, hint = key.wrong(getattr(settings, key.field))
        if what:
            raise ConfigurationError(f"server.{key.field} {what}", hint=hint)


def _shared_keys() -> list[ConfigKey]:
    """Keys that are settings of the same name and need no conversion."""
    names = {each.name for each in fields(ServerSettings)} - {"access_log"}
    return [key for key in keys_of(ServerConfig) if key.field in names]


_TOKEN_SETTING = Setting("token", "Secret", "", (), True, True, None)


def settings_of(
    config: Config, keys: SecretStore, environ: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the configured arguments for `ServerSettings`. Raises `ConfigurationError` if the
    reference of a token cannot be resolved."""
    return {
        **{key.field: getattr(config.server, key.field) for key in _shared_keys()},
        "bind": config.server.host,
        "tokens": _tokens(config, keys, os.environ if environ is None else environ),
    }


def _tokens(config: Config, keys: SecretStore, environ: Mapping[str, str]) -> dict[str, Secret]:
    """Tokens by user; the empty name is the operator."""
    server = config.server
    tokens = {}
    if environ.get(SERVER_SECRET):
        tokens[""] = Secret(environ[SERVER_SECRET])
    elif server.token is not None:
        tokens[""] = _token(keys, "server", server.token, "")
    for name, given in server.users.items():
        tokens[name] = _token(keys, name, given, "server__users")
    return tokens


def _token(keys: SecretStore, name: str, given: Mapping[str, Any], table: str) -> Secret:
    found = keys.find(name, _TOKEN_SETTING, given=given, table=table)
    assert found is not None, "what is referred to is there, or an error"
    return found.secret
