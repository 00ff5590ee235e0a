"""`genai-host serve`: everything that the host can do, over HTTP."""

from __future__ import annotations

from typing import Any

import click

from genai_host.cli.app import App, pass_app
from genai_host.cli.terminal import echo, echo_json_line, note

_FILES = 65536


@click.command(name="serve")
@click.option("--host", "bind", metavar="ADDRESS", help="Listen at this address.  [127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="Or 0 for any free one.  [8642]")
@click.option(
    "--allow-host",
    "hosts",
    metavar="NAME",
    multiple=True,
    help="Answer under this name, too, as behind a proxy; * for any.",
)
@click.option(
    "--cors", metavar="ORIGIN", multiple=True, help="Let pages of this origin use it, too."
)
@click.option("--root-path", metavar="PATH", help="What a proxy puts before all paths.")
@click.option(
    "--at-once", type=click.IntRange(min=1), metavar="N", help="Answer so many at once.  [64]"
)
@click.option(
    "--waiting",
    type=click.IntRange(min=0),
    metavar="N",
    help="Let so many wait, and refuse others.  [twice as many]",
)
@click.option(
    "--rate",
    type=click.IntRange(min=1),
    metavar="N",
    help="Take so many requests a minute of one user, or address.",
)
@click.option(
    "--drain",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Let requests go on so long once it is to end.  [10]",
)
@click.option("--certfile", type=click.Path(exists=True, dir_okay=False), help="For https: PEM.")
@click.option("--keyfile", type=click.Path(exists=True, dir_okay=False), help="Its key: PEM.")
@click.option("--log", is_flag=True, default=None, help="Print a line for each request.")
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
@click.option("--json", "as_json", is_flag=True, help="Print the address as JSON.")
@pass_app
def command(app: App, /, opens: bool, as_json: bool, **given: Any) -> None:
    """Serve it all over HTTP: for programs that speak the API of OpenAI, Anthropic, Gemini
    or Ollama, for those that speak its own, and, with a page to chat in, for browsers.

    Whoever can reach this machine alone can use it, unless there is a token: without one it
    listens at no other address. The token is in GENAI_HOST_SERVER_TOKEN, or the configuration
    says where.

    \b
    genai-host serve
    OPENAI_BASE_URL=http://127.0.0.1:8642/v1 OPENAI_API_KEY=- my-program

    It ends with Ctrl-C or SIGTERM: what is under way may go on for a while, then it is ended
    and can be resumed. The second time, it ends at once.
    """
    from genai_host.server.server import Server

    if app.host.config.record:
        app.host.store = app.store
    server = Server(app.host, **_settings(app, given))

    def listening() -> None:
        if as_json:
            echo_json_line({"url": server.url})
        else:
            echo(f"listening on {server.url}")
        if opens:
            _open_page(server.url + server.settings.root_path)

    _take_files()
    _collect_seldom()
    server.run(listening)


def _settings(app: App, given: dict[str, Any]) -> dict[str, Any]:
    """What is given here comes before what is configured."""
    from genai_host.server.configured import settings_of

    chosen = {name: value for name, value in given.items() if value not in (None, ())}
    wants_log = chosen.pop("log", app.host.config.server.log) or app.is_verbose
    chosen["log"] = note if wants_log else None
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
        note("there is no browser to open it in")
