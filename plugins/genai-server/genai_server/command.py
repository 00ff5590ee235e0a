"""`genai-host serve`: the HTTP server, and its log as text or as JSON lines."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import attrs
import click

from genai_host.cli.app import App, pass_app
from genai_host.cli.log import write_json
from genai_host.cli.terminal import echo, echo_json_line, note
from genai_host.config.key import ConfigKey
from genai_host.config.migration import RENAMED, VALUES
from genai_host.config.schema import ServerConfig, keys_of, read_key
from genai_host.errors import ConfigurationError, GenaiError
from genai_host.util.interpreter import resume_collection

if TYPE_CHECKING:
    from genai_server import Server
    from genai_server.listener import SharedListener
    from genai_server.settings import AccessLogEntry
    from genai_server.supervisor import WorkerProcess


_REQUESTS = "genai_host.requests"


class ServeLog(NamedTuple):
    """Functions that show an answered request and a warning."""

    answered: Callable[[AccessLogEntry], None]
    warning: Callable[[str], None]


def text_log() -> ServeLog:
    """The log as text on standard error."""
    return ServeLog(lambda answered: note(str(answered)), lambda line: note(line, fg="yellow"))


def json_log() -> ServeLog:
    """The log as JSON lines on standard error."""
    return ServeLog(_write_answered, _write_warning)


def _write_answered(answered: AccessLogEntry) -> None:
    fields = {"message": str(answered), **attrs.asdict(answered)}
    fields["seconds"] = round(answered.seconds, 6)
    write_json(datetime.now(UTC).timestamp(), "INFO", _REQUESTS, fields)


def _write_warning(text: str) -> None:
    fields = {"message": text.removeprefix("warning: ")}
    write_json(datetime.now(UTC).timestamp(), "WARNING", "genai_host.cli", fields)


F = TypeVar("F", bound=Callable[..., Any])
Listening = Callable[[str, str], None]
"""Called with the address and the path prefix once the server is listening."""

_FILES = 65536
_ARENA_MAX, _MMAP_THRESHOLD = -8, -3  # options of mallopt, see malloc.h


def _options(function: F) -> F:
    """Add an option for each key of the table `server` that has one, and a hidden one for its old
    name."""
    keys = {key.field: key for key in keys_of(ServerConfig) if key.option is not None}
    for old, new in RENAMED.items():
        table, _, last = old.partition(".")
        if table == "server" and new in keys and not keys[new].option:
            value = VALUES.get(old, {}).get(True)
            name = f"--{last.replace('_', '-')}"
            function = _option(keys[new], name, last, hidden=True, flag_value=value)(function)
    for key in reversed(keys.values()):
        name = key.option or f"--{key.field.replace('_', '-')}"
        function = _option(key, name, key.field)(function)
    return function


def _option(
    key: ConfigKey,
    name: str,
    parameter: str,
    *,
    hidden: bool = False,
    flag_value: str | None = None,
) -> Callable[[F], F]:
    repeatable = " (repeatable)" if key.kind is list else ""
    help = f"{key.help[0].upper()}{key.help[1:]}{repeatable}."
    if key.kind is bool or flag_value is not None:
        return click.option(
            name,
            parameter,
            is_flag=True,
            flag_value=True if flag_value is None else flag_value,
            default=None,
            hidden=hidden,
            help=help,
        )
    if key.default:
        help += f"  [{key.default:g}]" if key.kind in (int, float) else f"  [{key.default}]"
    return click.option(
        name,
        parameter,
        type=click.Path(exists=True, dir_okay=False) if key.metavar == "FILE" else str,
        metavar=key.metavar or "N",
        multiple=key.kind is list,
        callback=partial(_read, key),
        hidden=hidden,
        help=help,
    )


def _read(key: ConfigKey, context: click.Context, option: click.Parameter, value: Any) -> Any:
    """Parse an option as the value of its key; None if it was not given."""
    if value in (None, ()):
        return None
    try:
        text = ",".join(value) if key.kind is list else value
        return read_key("", text, f"server.{key.field}")
    except ConfigurationError as error:
        raise click.BadParameter(str(error).strip()) from error


@click.command(name="serve")
@_options
@click.option("--open", "opens", is_flag=True, help="Open the web page in a browser.")
@click.option("--json", "as_json", is_flag=True, help="Print the address as JSON.")
@click.option("--worker", hidden=True, help="Descriptors from the supervisor of workers.")
@pass_app
def command(app: App, /, opens: bool, as_json: bool, worker: str | None, **given: Any) -> None:
    """Start the HTTP server and web page.

    It serves its own API, those of the installed API formats (genai-wire-...), and a page to
    chat in.

    Without a token it listens only on this machine. Set a token in GENAI_HOST_SERVER_TOKEN, or
    server.token in the configuration.

    \b
    genai-host serve
    OPENAI_BASE_URL=http://127.0.0.1:8642/v1 OPENAI_API_KEY=- my-program

    Ctrl-C or SIGTERM stops it. Requests in progress have the time of --graceful-timeout to
    finish; after that, their turns are interrupted and can be resumed. A second signal stops it
    immediately. SIGHUP replaces the worker processes one after another.
    """
    from genai_host.config import read_config

    _bound_kept_memory()

    def listening(url: str, root_path: str) -> None:
        if as_json:
            echo_json_line({"url": url})
        else:
            echo(f"listening on {url}")
        if opens:
            _open_page(url + root_path)

    given = {name: value for name, value in given.items() if value is not None}
    chosen = {RENAMED.get(f"server.{name}", name): value for name, value in given.items()}
    if worker is not None:
        _work(app, worker, chosen)
        return
    server = read_config().server._replace(**chosen)
    log = _log(app, server.log_format == "json")
    if server.workers > 1:
        _supervise(app, server, listening, log)
    else:
        started = _server(app, server, log)
        started.run(lambda: listening(started.url, started.settings.root_path))


def _bound_kept_memory() -> None:
    """Limit memory that the C library retains after it is freed (mallopt(3)).

    All threads allocate from two arenas: by default, glibc creates eight per core, and each retains
    the memory of its largest request. Blocks from 64 KiB on are mapped, and therefore returned to
    the system when freed: by default, glibc raises that threshold up to 32 MiB.
    """
    # other C libraries lack these options
    with contextlib.suppress(AttributeError, OSError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_ARENA_MAX, 2)
        mallopt(_MMAP_THRESHOLD, 64 * 1024)


def _log(app: App, as_json: bool) -> ServeLog:
    """Show the log, and return the functions that show requests and warnings."""
    if not as_json:
        return text_log()
    app.show_log_as_json()
    return json_log()


def _supervise(app: App, server: ServerConfig, listening: Listening, log: ServeLog) -> None:
    """Supervise several server processes."""
    from genai_server.listener import listen, url_of
    from genai_server.supervisor import Child, Supervisor, check_platform

    resume_collection()
    check_platform()
    listener = listen(server.host, server.port)
    scheme = "https" if server.certfile else "http"
    url = url_of(server.host, listener.getsockname()[1], scheme)

    def start(number: int) -> Child:
        return Child(listener, app.arguments, number)

    supervisor = Supervisor(listener, server.workers, start, log.warning)
    supervisor.run(lambda: listening(url, server.root_path.rstrip("/")))


def _work(app: App, handed: str, chosen: dict[str, Any]) -> None:
    """Serve as one of several processes, with descriptors from the supervisor."""
    from genai_server.supervisor import WorkerProcess

    try:
        listener, channel = map(int, handed.split(","))
    except ValueError:
        raise click.UsageError("--worker is for the supervisor alone") from None
    with contextlib.closing(WorkerProcess(listener, channel)) as worker:
        _serve_as(worker, app, chosen)


def _serve_as(worker: WorkerProcess, app: App, chosen: dict[str, Any]) -> None:
    try:
        server = app.host.config.server._replace(**chosen)
        # another process may receive the client's next request
        server = server._replace(workers=max(2, server.workers))
        log = _log(app, server.log_format == "json")
        worker.run(_server(app, server, log, worker.listener))
    except GenaiError as error:
        worker.fail(error)
        raise click.exceptions.Exit(1) from error


def _server(
    app: App, config: ServerConfig, log: ServeLog, listener: SharedListener | None = None
) -> Server:
    from genai_server import Server
    from genai_server.settings import settings_of

    app.host.config = app.host.config._replace(server=config)
    if app.host.config.record:
        app.host.store = app.store
    settings = settings_of(app.host.config, app.host.keys)
    settings["access_log"] = log.answered if config.access_log or app.is_verbose else None
    server = Server(app.host, listener, **settings)
    _take_files()
    _collect_seldom()
    return server


def _take_files() -> None:
    """Raise the limit of open files: each client and each provider call needs one."""
    try:
        import resource
    except ImportError:  # not available on Windows, which has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _collect_seldom() -> None:
    """Reduce garbage collection: answering a request leaves no reference cycles. The default
    threshold of a few hundred new objects would cost 5 % of the time, and pauses of 0.1 s."""
    import gc

    gc.set_threshold(10_000, 10, 10)


def _open_page(url: str) -> None:
    import webbrowser

    if not webbrowser.open(f"{url}/"):
        note("no browser found")
