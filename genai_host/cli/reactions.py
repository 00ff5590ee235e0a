"""Output of tools for the user, shown below an answer: reactions as text, and images, which can be
saved as files."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from genai_host.cli.app import App
from genai_host.cli.terminal import echo, note, safe
from genai_host.util.text import shorten

if TYPE_CHECKING:
    from genai_host.api import Answer, Image

F = TypeVar("F", bound=Callable[..., Any])

MAX_SHOWN = 100
"""Maximum number of reactions and images shown."""

_PIPED_WIDTH = 100  # columns if the output is piped
_MIN_WIDTH, _MAX_WIDTH = 20, 500
_LINK = re.compile(r"(?:\[\d+\])? *https?://\S+")

# commonly used media types with a registration (RFC 2048 and successors)
_SUFFIXES = {
    "image/avif": "avif",
    "image/bmp": "bmp",
    "image/gif": "gif",
    "image/heic": "heic",
    "image/jpeg": "jpg",
    "image/png": "png",
    "image/svg+xml": "svg",
    "image/tiff": "tiff",
    "image/webp": "webp",
}
_OTHER_SUFFIX = "image"


def images_option(function: F) -> F:
    """Add `--save-images` to a command, as `save_images`."""
    return click.option(
        "--save-images",
        metavar="DIR",
        type=click.Path(file_okay=False),
        help="Save images returned by tools to this directory.",
    )(function)


def show_reactions_of(
    app: App, answer: Answer, save_images: str | None, *, show: Callable[[str], None] | None = echo
) -> None:
    """Show the tool output of a turn. See `show_reactions`."""
    show_reactions(app, answer.reactions, answer.images, save_images, answer.text, show=show)


def show_reactions(
    app: App,
    reactions: Sequence[Mapping[str, Any]],
    pictures: Sequence[Image],
    save_images: str | None,
    printed: str = "",
    *,
    show: Callable[[str], None] | None = echo,
) -> None:
    """Show reactions that have a text form with `show`, unless it is None or their text was
    `printed` before; list others and images on standard error, and save the images if there is a
    directory for them. Raises `ConfigurationError` if an image cannot be saved."""
    if not reactions and not pictures:
        return
    from genai_host.tools.reactions import ReactionViews

    views = ReactionViews(app.host.registry.reactions, app.host.clock)
    width = shutil.get_terminal_size((_PIPED_WIDTH, 24)).columns
    width = max(_MIN_WIDTH, min(_MAX_WIDTH, width))
    is_below = bool(printed)
    shown = reactions[:MAX_SHOWN]
    found: list[Image] = list(pictures)
    for reaction in shown:
        own = views.pictures(reaction)
        found += own
        if show is None:
            continue
        lines = views.lines(reaction, width)
        if lines is None:
            if not own:
                note(_fitting(_named(reaction), width), dim=True)
        elif lines and " ".join(lines).split() != printed.split():
            if is_below and len(lines) > 1:
                show("")
            for line in lines:
                show(_fitting(line, width))
            is_below = True
    if show is not None or save_images is not None:
        for image in found[:MAX_SHOWN]:
            note(_image_line(image, save_images))
        left_out = len(reactions) - len(shown) + len(found[MAX_SHOWN:])
        if left_out:
            note(f"({left_out} more reactions and images omitted)", dim=True)


def _named(reaction: Mapping[str, Any]) -> str:
    rest = {name: value for name, value in reaction.items() if name != "type"}
    text = ""
    with contextlib.suppress(RecursionError):  # nested too deeply to serialize
        text = json.dumps(rest, ensure_ascii=False, separators=(",", ":")) if rest else ""
    return f"reaction: {reaction['type']} {text}".rstrip()


def _fitting(text: str, width: int) -> str:
    """One safe line of at most the given width; longer for a link, which would lead elsewhere if
    it were truncated."""
    from rich.cells import cell_len, set_cell_size

    from genai_host.tools.reactions import MAX_LETTERS

    line = text[: MAX_LETTERS * width].encode("utf-8", "backslashreplace").decode()
    line = safe(line.replace("\n", " ").replace("\t", " "))
    if len(line) < MAX_LETTERS * width and _LINK.fullmatch(line):
        return line
    return line if cell_len(line) <= width else set_cell_size(line, width - 1).rstrip() + "…"


def _image_line(image: Image, folder: str | None) -> str:
    """Description of an image on one line, with its file if it is saved."""
    if image.url:
        return f"image: {shorten(image.url)}"
    kind = shorten(image.media_type) or "of unknown type"
    line = f"image: {kind}, {len(image.data)} bytes"
    return line if folder is None else f"{line}: {save_image(image, folder)}"


def save_image(image: Image, folder: str) -> str:
    """Save an image in a directory, which is created if needed, under an unused name; return its
    path. Raises `ConfigurationError` if writing fails."""
    from genai_host.util.files import writing

    folder = os.path.expanduser(folder)
    media_type = image.media_type.partition(";")[0].strip().lower()
    suffix = _SUFFIXES.get(media_type, _OTHER_SUFFIX)
    with writing(folder, "use another directory"):
        os.makedirs(folder, exist_ok=True)
        for number in itertools.count(1):
            path = os.path.join(folder, f"picture-{number}.{suffix}")
            # existing files are never overwritten, including links
            with contextlib.suppress(FileExistsError):
                _write(path, image.data)
                return path
    raise AssertionError("unreachable: the count has no end")


def _write(path: str, data: bytes) -> None:
    """Write a new file, or none if writing fails. Raises `FileExistsError` and `OSError`."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(path)
        raise
