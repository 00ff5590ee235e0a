"""Settings of the server: read from the configuration; one line of the access log."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import field, frozen

from genai_host.api import Secret
from genai_host.api.settings import Setting
from genai_host.config import Config
from genai_host.errors import ConfigurationError
from genai_host.secrets.keys import SecretStore
from genai_host.util.addresses import is_loopback
from genai_host.util.names import SERVER_SECRET


@frozen
class AccessLogEntry:
    """It has no query, in which keys may stand, and nothing that drives a terminal.

    method, path   `-` if none could be read
    status         of the reply; 499 if the client went before there was one
    seconds        from the first of its bytes to the last of the reply
    user           whose token it had; empty for whoever runs the server
    """

    method: str
    path: str
    status: int
    seconds: float
    user: str

    def __str__(self) -> str:
        said = f"{self.method} {self.path} {self.status} {self.seconds:.3f} s {self.user or '-'}"
        return ascii(said)[1:-1]


PORT = 8642
ANY = "*"
_NAME = re.compile(r"(?!-)[a-z0-9.-]{1,253}|\[[0-9a-f:.]+\]")
_ORIGIN = re.compile(r"https?://([a-z0-9.-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")
_ROOT = re.compile(r"(/[A-Za-z0-9._~-]+)*")
_SHORTEST = 16  # characters of a token: 64 bits if it is written in hexadecimal
_VISIBLE = re.compile(r"[!-~]+")


def _lower(given: Iterable[str]) -> tuple[str, ...]:
    return tuple(name.lower() for name in given)


def _without_slash(given: str) -> str:
    return given.rstrip("/")


@frozen(kw_only=True)
class ServerSettings:
    """
    bind          the address to listen at; others than this machine's own need a token
    port          0 for any that is free
    tokens        whoever has one of these is let in: users by name, whose conversations are
                  theirs alone; the empty name is whoever runs the server. None: everybody
    guess_delay   seconds that a request with a token waits, at most, after wrong ones came from
                  the same address
    hosts         names under which clients may ask for it, besides its own; `*` for any
    cors          origins whose pages may use it, as `https://app.example`
    root_path     what stands before all paths behind a proxy, as `/host`
    at_once       requests that are answered at once
    waiting       requests that wait while so many are answered; None for twice as many
    rate          requests a minute of one user, or of one address without tokens; None for
                  no limit
    bodies        bytes of all bodies that are held at once
    connections   that may be open at once; None for as many as the limit of open files leaves room
                  for (`usual_connections`)
    head_size     bytes of the head of a request
    head_seconds  in which it must be there
    body_seconds  in which the body must be there
    send_seconds  in which a client that reads must take something
    head_wait     seconds that a stream may take to begin before its head is sent: what goes wrong
                  after that has no status any more, and is told in the stream
    silence       seconds without a piece after which a reply says that it goes on, if it can;
                  0 for never
    drain         seconds that those under way may go on once the server is to end
    log           is told of each request that was answered, which is a line by `str`; None for
                  none. It is called in the loop
    certfile, keyfile   for https, in PEM

    Raises `ConfigurationError` for what does not fit.
    """

    bind: str = "127.0.0.1"
    port: int = PORT
    tokens: Mapping[str, Secret] = field(factory=dict, repr=False)
    guess_delay: float = 2.0
    hosts: tuple[str, ...] = field(default=(), converter=_lower)
    cors: tuple[str, ...] = field(default=(), converter=_lower)
    root_path: str = field(default="", converter=_without_slash)
    at_once: int = 64
    waiting: int | None = None
    rate: int | None = None
    bodies: int = 512 * 1024 * 1024
    connections: int | None = None
    head_size: int = 64 * 1024
    head_seconds: float = 10.0
    body_seconds: float = 30.0
    send_seconds: float = 60.0
    head_wait: float = 1.0
    silence: float = 15.0
    drain: float = 10.0
    log: Callable[[AccessLogEntry], None] | None = None
    certfile: str | None = None
    keyfile: str | None = None

    def __attrs_post_init__(self) -> None:
        _check_access(self)
        _check_names(self)
        _check_numbers(self)

    @property
    def most_waiting(self) -> int:
        return 2 * self.at_once if self.waiting is None else self.waiting

    @property
    def most_connections(self) -> int:
        return usual_connections() if self.connections is None else self.connections

    @property
    def scheme(self) -> str:
        return "https" if self.certfile else "http"


_FILES = 64  # that are open besides: of the store, the plugins, and calls of services
_MOST_CONNECTIONS = 20_000


def usual_connections() -> int:
    """A quarter of the files that may be open is left to what requests open themselves."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return _MOST_CONNECTIONS
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return _MOST_CONNECTIONS
    return max(8, min(_MOST_CONNECTIONS, files - max(_FILES, files // 4)))


def _check_access(settings: ServerSettings) -> None:
    if not settings.tokens and not is_loopback(settings.bind):
        raise ConfigurationError(
            f"listening on {settings.bind} requires a token",
            hint="set one: export GENAI_HOST_SERVER_TOKEN=$(openssl rand -hex 32)",
        )
    for user, token in settings.tokens.items():
        owner = f"the token of {user}" if user else "the token of the server"
        if 0 < len(token.reveal()) < _SHORTEST:
            raise ConfigurationError(
                f"{owner} is shorter than {_SHORTEST} characters, and could be guessed",
                hint="generate one: openssl rand -hex 32",
            )
        if not _VISIBLE.fullmatch(token.reveal()):
            raise ConfigurationError(
                f"{owner} is empty, or has characters that HTTP headers cannot have",
                hint="generate one: openssl rand -hex 32",
            )
    if len({token.reveal() for token in settings.tokens.values()}) < len(settings.tokens):
        raise ConfigurationError(
            "two users have the same token", hint="give each user a separate token"
        )
    if settings.keyfile and not settings.certfile:
        raise ConfigurationError("a key requires a certificate", hint="use --certfile FILE")


def _check_names(settings: ServerSettings) -> None:
    for name in settings.hosts:
        if name != ANY and not _NAME.fullmatch(name):
            raise ConfigurationError(f"invalid host name {name!r}", hint="for example host.example")
    for origin in settings.cors:
        if not _ORIGIN.fullmatch(origin):
            raise ConfigurationError(
                f"invalid origin {origin!r}", hint="for example https://app.example"
            )
    if not _ROOT.fullmatch(settings.root_path) or {".", ".."} & set(settings.root_path.split("/")):
        raise ConfigurationError(
            f"invalid root path {settings.root_path!r}", hint="for example /host"
        )


def _check_numbers(settings: ServerSettings) -> None:
    if not 0 <= settings.port < 65536:
        raise ConfigurationError(f"server.port must be 0 to 65535, not {settings.port}")
    for name in ("at_once", "rate", "bodies", "connections", "head_size"):
        value = getattr(settings, name)
        if value is not None and value < 1:
            raise ConfigurationError(f"server.{name} must be at least 1, not {value}")
    seconds = (
        "head_seconds",
        "body_seconds",
        "send_seconds",
        "head_wait",
        "silence",
        "drain",
        "guess_delay",
    )
    for name in ("waiting", *seconds):
        value = getattr(settings, name)
        if value is not None and not value >= 0:
            raise ConfigurationError(f"server.{name} must be at least 0, not {value}")


_TOKEN = Setting("token", "Secret", "", (), True, True, None)


def settings_of(
    config: Config, keys: SecretStore, environ: Mapping[str, str] | None = None
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


def _tokens(config: Config, keys: SecretStore, environ: Mapping[str, str]) -> dict[str, Secret]:
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


def _token(keys: SecretStore, name: str, given: Mapping[str, Any], table: str) -> Secret:
    found = keys.find(name, _TOKEN, given=given, table=table)
    assert found is not None, "what is referred to is there, or an error"
    return found.secret
