"""`genai-host serve`: everything that the host can do, over HTTP."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from genai_host.cli.app import App, pass_app
from genai_host.cli.options import FiniteRange
from genai_host.cli.terminal import echo, echo_json_line, note
from genai_host.config.schema import MOST_WORKERS
from genai_host.errors import GenaiError

if TYPE_CHECKING:
    from genai_host.server.listener import SharedListener
    from genai_host.server.server import Server
    from genai_host.server.settings import AccessLogEntry
    from genai_host.server.supervisor import WorkerProcess

Listening = Callable[[str, str], None]
"""Told the address, and what stands before all paths there, once it is listened at."""

_FILES = 65536
_MOST = 10**9  # requests, or seconds
_ARENA_MAX, _MMAP_THRESHOLD = -8, -3  # of mallopt, as malloc.h has them


class Log(NamedTuple):
    """What shows a request that was answered, and what shows a warning."""

    answered: Callable[[AccessLogEntry], None]
    warning: Callable[[str], None]


@click.command(name="serve")
@click.option("--host", "bind", metavar="ADDRESS", help="Address to listen on.  [127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="Port; 0 selects a free one.  [8642]")
@click.option(
    "--allow-host",
    "hosts",
    metavar="NAME",
    multiple=True,
    help="Accept this Host header, for example behind a proxy (repeatable; * for any).",
)
@click.option(
    "--cors",
    metavar="ORIGIN",
    multiple=True,
    help="Allow requests from pages of this origin (repeatable).",
)
@click.option("--root-path", metavar="PATH", help="Path prefix added by a reverse proxy.")
@click.option(
    "--at-once",
    type=click.IntRange(1, _MOST),
    metavar="N",
    help="Maximum number of concurrent requests.  [64]",
)
@click.option(
    "--waiting",
    type=click.IntRange(0, _MOST),
    metavar="N",
    help="Queue size; further requests get 429.  [twice --at-once]",
)
@click.option(
    "--rate",
    type=click.IntRange(1, _MOST),
    metavar="N",
    help="Requests per minute per user, or per address without tokens.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, MOST_WORKERS),
    metavar="N",
    help="Number of worker processes.  [1]",
)
@click.option(
    "--drain",
    type=FiniteRange(min=0, max=_MOST),
    metavar="SECONDS",
    help="Time for running requests to finish at shutdown.  [10]",
)
@click.option(
    "--certfile", type=click.Path(exists=True, dir_okay=False), help="TLS certificate (PEM)."
)
@click.option(
    "--keyfile", type=click.Path(exists=True, dir_okay=False), help="TLS private key (PEM)."
)
@click.option("--log", is_flag=True, default=None, help="Log requests.")
@click.option("--log-json", is_flag=True, default=None, help="Write the log as lines of JSON.")
@click.option("--open", "opens", is_flag=True, help="Open the web page in a browser.")
@click.option("--json", "as_json", is_flag=True, help="Print the address as JSON.")
@pass_app
def command(app: App, /, opens: bool, as_json: bool, **given: Any) -> None:
    """Start the HTTP server and web page.

    It serves the APIs of OpenAI, Anthropic, Gemini and Ollama, its own API, and a page to
    chat in.

    Without a token it listens only on this machine. Set a token in GENAI_HOST_SERVER_TOKEN, or
    server.token in the configuration.

    \b
    genai-host serve
    OPENAI_BASE_URL=http://127.0.0.1:8642/v1 OPENAI_API_KEY=- my-program

    Ctrl-C or SIGTERM stops it. Requests in progress have the time of --drain to finish; after
    that, their turns are interrupted and can be resumed. A second signal stops it immediately.
    SIGHUP replaces the worker processes one after another.
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

    chosen = {name: value for name, value in given.items() if value not in (None, ())}
    if app.worker is not None:
        _work(app, app.worker, chosen)
        return
    server = read_config().server
    log = _log(app, chosen.pop("log_json", server.log_json))
    workers = chosen.pop("workers", server.workers)
    if workers > 1:
        chosen = {**server._asdict(), "bind": server.host, **chosen}
        _supervise(app, chosen, workers, listening, log)
    else:
        _serve(app, chosen, listening, log)


def _bound_kept_memory() -> None:
    """Bound what the C library keeps of memory that was freed (mallopt(3)).

    All threads allocate from two arenas: glibc makes eight for each core, and each keeps what the
    largest request in one of its threads took. Blocks from 64 KiB on are mapped, and so given back
    when they are freed: glibc raises that limit up to 32 MiB as such blocks are freed.
    """
    # another C library has no such options
    with contextlib.suppress(AttributeError, OSError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_ARENA_MAX, 2)
        mallopt(_MMAP_THRESHOLD, 64 * 1024)


def _log(app: App, as_json: bool) -> Log:
    """Have the log shown, and give what shows a request that was answered, or a warning."""
    if not as_json:
        return Log(lambda answered: note(str(answered)), lambda line: note(line, fg="yellow"))
    from genai_host.cli.log import write_answered, write_note

    app.show_log_as_json()
    return Log(write_answered, write_note)


def _serve(app: App, chosen: dict[str, Any], listening: Listening, log: Log) -> None:
    """In this process alone."""
    server = _server(app, chosen, log)
    server.run(lambda: listening(server.url, server.settings.root_path))


def _supervise(
    app: App,
    chosen: dict[str, Any],
    workers: int,
    listening: Listening,
    log: Log,
) -> None:
    """In processes of their own, which this one looks after."""
    from genai_host.server.listener import listen, url_of
    from genai_host.server.supervisor import Child, Supervisor, must_share

    must_share()
    listener = listen(chosen["bind"], chosen["port"])
    scheme = "https" if chosen["certfile"] else "http"
    url = url_of(chosen["bind"], listener.getsockname()[1], scheme)

    def start(number: int) -> Child:
        return Child(listener, app.arguments, number)

    supervisor = Supervisor(listener, workers, start, log.warning)
    supervisor.run(lambda: listening(url, chosen["root_path"].rstrip("/")))


def _work(app: App, worker: WorkerProcess, chosen: dict[str, Any]) -> None:
    """As one of several processes: how many and where, the supervisor has chosen."""
    several = max(2, chosen.pop("workers", 2))
    try:
        # what a client asks for next may be asked of another of them
        app.host.config = app.host.config.replaced({"server.workers": several})
        log = _log(app, chosen.pop("log_json", app.host.config.server.log_json))
        worker.run(_server(app, chosen, log, worker.listener))
    except GenaiError as error:
        worker.fail(error)
        raise click.exceptions.Exit(1) from error


def _server(
    app: App, chosen: dict[str, Any], log: Log, listener: SharedListener | None = None
) -> Server:
    from genai_host.server.server import Server

    if app.host.config.record:
        app.host.store = app.store
    server = Server(app.host, listener, **_settings(app, chosen, log))
    _take_files()
    _collect_seldom()
    return server


def _settings(app: App, chosen: dict[str, Any], log: Log) -> dict[str, Any]:
    """What is given here comes before what is configured."""
    from genai_host.server.settings import settings_of

    wants_log = chosen.pop("log", app.host.config.server.log) or app.is_verbose
    chosen["log"] = log.answered if wants_log else None
    return {**settings_of(app.host.config, app.host.keys), **chosen}


def _take_files() -> None:
    """As many open files as may be had: each client is one, and each call to a service."""
    try:
        import resource
    except ImportError:  # not there on Windows, which has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _collect_seldom() -> None:
    """What answers a request leaves no cycles behind. To look for some whenever a few hundred
    objects more are in use than before, as there are with each request under way, would take a
    twentieth of the time, and hold up all of them for a tenth of a second now and then."""
    import gc

    gc.set_threshold(10_000, 10, 10)


def _open_page(url: str) -> None:
    import webbrowser

    if not webbrowser.open(f"{url}/"):
        note("no browser found")
