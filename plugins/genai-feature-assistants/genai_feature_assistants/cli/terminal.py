"""Shared parts of the commands: the API in this process, uploaded files, output.

The commands use the API of Assistants in this process, over the host and the store of the command
line. `keep_file` stores a file of the user as the API stores an upload.

Output is tables, JSON and notes. Names, answers and files are untrusted: at a terminal their
control characters are shown as a sign and have no effect. Piped output is exact.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from genai_feature_assistants.cli.checks import await_searchable
from genai_feature_assistants.service.files import MOST_BYTES
from genai_feature_assistants.service.shelf import Object, Shelf
from genai_host.api import RouteRequest, RouteResponse
from genai_host.api.cancellation import Cancellation
from genai_host.api.json_text import read_json, write_json
from genai_host.errors import NotFound, ValidationError

if TYPE_CHECKING:
    from genai_feature_assistants.service.service import Service
    from genai_host.host import Host


# C0 but tab and newline, DEL, C1, and what reorders text (Unicode TR9)
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]")
_WIDEST = 48  # characters of a cell at a terminal


def safe(text: str) -> str:
    """The text with a sign for each control character; newline and tab stay."""
    return _CONTROLS.sub("\ufffd", text.replace("\r\n", "\n"))


def line_of(text: str) -> str:
    """The same on one line."""
    return " ".join(safe(text).split())


def is_seen() -> bool:
    """Whether somebody looks at standard error, for whom progress is told."""
    return sys.stderr is not None and sys.stderr.isatty()


def echo(text: str, *, end: str = "\n") -> None:
    """Print to standard output, at once."""
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    text = safe(text) if is_terminal else _encodable(text)
    click.echo(text + end, nl=False)


def note(text: str) -> None:
    """Print to standard error: what is said about the output, and no part of it."""
    click.echo(_encodable(safe(text)), err=True)


def progress(text: str) -> None:
    """Take the place of what was told before, where somebody looks."""
    if is_seen():
        click.echo(f"\r{line_of(text)}\033[K", err=True, nl=False)


def end_progress() -> None:
    if is_seen():
        click.echo("\r\033[K", err=True, nl=False)


def echo_json(value: Any) -> None:
    """Indented; in ASCII, so that it is safe anywhere."""
    click.echo(json.dumps(value, indent=2))


def echo_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table for people; where it is piped, lines with tabs between and without a head."""
    lines = [[line_of(cell) for cell in row] for row in rows]
    if sys.stdout is None or not sys.stdout.isatty():
        for line in lines:
            echo("\t".join(line))
        return
    lines = [[_short(cell) for cell in line] for line in [list(columns), *lines]]
    widths = [max(len(line[at]) for line in lines) for at in range(len(columns))]
    for number, line in enumerate(lines):
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.secho("  ".join(padded).rstrip(), bold=True if not number else None)


def when(seconds: int) -> str:
    """A time of the API, as people have it where this runs."""
    try:
        moment = datetime.fromtimestamp(seconds, UTC).astimezone()
    except (OverflowError, OSError, ValueError):
        return str(seconds)
    return moment.strftime("%Y-%m-%d %H:%M")


def _short(cell: str) -> str:
    return cell if len(cell) <= _WIDEST else f"{cell[: _WIDEST - 3]}..."


def _encodable(text: str) -> str:
    """Half a surrogate pair has no form in UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()


_USER = "genai_feature_assistants.user"
_MOST_NAMED = 5


def be_user(ctx: click.Context, user: str) -> None:
    """The commands below are for this user."""
    ctx.meta[_USER] = user


def user_of(ctx: click.Context) -> str:
    """Whose assistants they are: empty for whoever runs the server."""
    user: str = ctx.meta.get(_USER, "")
    return user


def host_of(ctx: click.Context) -> Host:
    """The host, with the store of the command line."""
    host: Host = ctx.obj.host
    if host.store is None:
        host.store = ctx.obj.store
    return host


@contextmanager
def service_of(ctx: click.Context) -> Iterator[Service]:
    from genai_feature_assistants.service.service import Service

    service = Service(host_of(ctx))
    try:
        yield service
    finally:
        service.close()


def request(ctx: click.Context, body: Any = None, **parameters: str) -> RouteRequest:
    """As a client of the server would send it."""
    return RouteRequest(
        "POST" if body is not None else "GET",
        "/",
        parameters=parameters,
        body=b"" if body is None else write_json(body),
        limits=Cancellation(),
        user=user_of(ctx),
    )


def value_of(reply: RouteResponse) -> Any:
    assert isinstance(reply.body, bytes)
    return read_json(reply.body)


def shelf_of(ctx: click.Context, kind: str) -> Shelf:
    return Shelf(host_of(ctx), user_of(ctx), kind)


def found(ctx: click.Context, given: str, kind: str = "assistant") -> Object:
    """The one that is meant: by its id, the beginning of it that no other has, or its name if
    no other is called so. Raises `NotFound`."""
    shelf = shelf_of(ctx, kind)
    exact = shelf.find(given) if given else None
    if exact is not None:
        return exact
    every = list(shelf.all()) if given else []
    chosen = [each for each in every if each.get("name") == given]
    chosen = chosen or [each for each in every if each["id"].startswith(given)]
    if len(chosen) == 1:
        return chosen[0]
    lists = "genai-host assistants list"
    if not chosen:
        hint = lists if kind == "assistant" else "its id was told when it was begun"
        raise NotFound(f"there is no {kind} {given!r:.80}", hint=hint)
    ids = [each["id"] for each in chosen[:_MOST_NAMED]]
    more = " ..." if len(chosen) > _MOST_NAMED else ""
    raise NotFound(
        f"{len(chosen)} {kind}s are called {given!r:.80}, or have ids that begin so: "
        f"{', '.join(ids)}{more}",
        hint="give more of the id of the one that is meant",
    )


def tools_of(assistant: Mapping[str, Any]) -> list[str]:
    """Names of the tools, those of functions among them."""
    return [
        tool["function"]["name"] if tool["type"] == "function" else tool["type"]
        for tool in assistant["tools"]
    ]


def keep_file(ctx: click.Context, service: Service, path: Path, purpose: str) -> str:
    """Its id. Raises `ValidationError` for one that is too large, and `OSError`."""
    with path.open("rb") as stream:
        data = stream.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ValidationError(
            f"{path} is larger than {MOST_BYTES >> 20} MiB", hint="cut it into several files"
        )
    id: str = service.files.keep(user_of(ctx), path.name, data, purpose)["id"]
    return id


def await_files(ctx: click.Context, service: Service, store: str) -> list[str]:
    """Wait until all files of a vector store are searchable; a line for each that is not."""
    try:
        return await_searchable(ctx.obj.host, service, user_of(ctx), [store], progress)
    finally:
        end_progress()
