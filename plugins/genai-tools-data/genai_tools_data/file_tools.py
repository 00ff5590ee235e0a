"""Tools that read files of one directory.

The user configures the directory, never a model. Nothing outside it can be read: not by `..`, an
absolute path, a link, or a directory that is replaced by a link during the access. Names that start
with a dot are ignored, because such files are for programs and can contain secrets.
"""

from __future__ import annotations

import codecs
import fnmatch
import io
import mimetypes
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Annotated, Any

from attrs import frozen

from genai_host.api import (
    CancelToken,
    Tool,
    ToolContext,
    decode_text,
    encoding_of,
    is_text,
    tool,
)
from genai_host.errors import ConfigurationError, ValidationError
from genai_tools_data.terminal_view import JOINERS

SETTING = "folder"

_WINDOWS = "cp1252"
_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # opening a pipe would block
_BY_STEPS = os.open in os.supports_dir_fd and bool(_NO_LINK)


@frozen
class FilePlace:
    """A file or directory in the configured directory. `inner` is its relative path without links;
    empty for the directory itself."""

    root: str
    inner: str

    @property
    def path(self) -> str:
        return os.path.join(self.root, self.inner) if self.inner else self.root


class Folder:
    """The configured directory; `named` is empty for none."""

    def __init__(self, named: str) -> None:
        self._named = named

    def is_named(self) -> bool:
        """Whether a directory is configured."""
        return bool(self._named)

    def place_of(self, path: str) -> FilePlace:
        """Resolve a path. Raises `ValidationError` if it is outside the directory, does not exist
        or is hidden, and `ConfigurationError` if the directory does not exist.
        """
        root = self._root()
        given = path.lstrip("/")
        if "\0" in given:
            raise ValidationError("a path cannot contain NUL")
        try:
            found = os.path.join(root, given)
            if not os.path.lexists(found):  # models add blanks to names, but a name can have some
                found = os.path.join(root, path.strip().lstrip("/"))
            found = os.path.realpath(found, strict=True)
        except (OSError, ValueError, RuntimeError) as error:
            raise ValidationError(
                f"no such file: {_shown(path)}; list_files lists the files"
            ) from error
        if found == root:
            return FilePlace(root, "")
        if not found.startswith(root.rstrip(os.sep) + os.sep):
            raise ValidationError(f"{_shown(path)} is outside the directory tools.files.folder")
        inner = os.path.relpath(found, root)
        if is_hidden(inner):
            raise ValidationError(f"{_shown(path)} is hidden and cannot be read")
        return FilePlace(root, inner)

    def _root(self) -> str:
        if not self._named:
            hint = "set it: genai-host config set tools.files.folder=FOLDER"
            raise ConfigurationError("tools.files.folder is not set", hint=hint, setting=SETTING)
        root = os.path.realpath(os.path.expanduser(self._named))
        try:
            found = os.stat(root)
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                "the directory tools.files.folder does not exist", setting=SETTING
            ) from error
        if not stat.S_ISDIR(found.st_mode):
            raise ConfigurationError("tools.files.folder is not a directory", setting=SETTING)
        return root


def is_hidden(inner: str) -> bool:
    return any(part.startswith(".") for part in inner.split(os.sep))


@contextmanager
def opened(place: FilePlace) -> Iterator[int]:
    """Open a place as a file descriptor. Raises `ValidationError` if that fails, also if a
    directory of the path has become a link.
    """
    try:
        descriptor = _walked(place) if _BY_STEPS else os.open(place.path, _FLAGS)
    except OSError as error:
        raise ValidationError(f"{_shown(place.inner)} cannot be read: {error.strerror}") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _walked(place: FilePlace) -> int:
    """Open a place directory by directory, without following links."""
    descriptor = os.open(place.root, _FLAGS | os.O_DIRECTORY)
    for part in place.inner.split(os.sep) if place.inner else ():
        try:
            inner = os.open(part, _FLAGS | _NO_LINK | _NO_WAIT, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = inner
    return descriptor


def _shown(path: str) -> str:
    return repr(path[:200])


MAX_TEXT = 20_000
"""Maximum number of characters per call."""

MAX_LINE = 2000
MAX_LINES = 1000
MAX_BYTES = 64 * 2**20
"""Maximum number of bytes to scan for a line."""

MAX_LISTED = 500
MAX_LOOKED_AT = 20_000
"""Maximum number of names to scan for a list."""

MAX_DEPTH = 30
"""Maximum depth of nested directories."""

_HEAD = 8192
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f]")


class FileTools:
    """Each of its methods is a tool."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def tools(self) -> Sequence[Tool]:
        given: Mapping[str, Any] = {
            "idempotent": True,
            "timeout": 30.0,
            "available_when": lambda context: self._folder.is_named(),
        }
        return tool(self.list_files, **given), tool(self.read_file, **given)

    def read_file(
        self,
        path: Annotated[str, "path of a file, from list_files"],
        run: ToolContext,
        first_line: Annotated[int, "number of the first line, from 1"] = 1,
        lines: Annotated[int, f"number of lines, at most {MAX_LINES}"] = 200,
    ) -> str:
        """Read a text file of the user's, or some lines of it."""
        if first_line < 1 or lines < 1:
            raise ValidationError("first_line and lines must be at least 1")
        place = self._folder.place_of(path)
        with opened(place) as descriptor:
            found = os.fstat(descriptor)
            if stat.S_ISDIR(found.st_mode):
                raise ValidationError(f"{path[:200]!r} is a directory: use list_files")
            if not stat.S_ISREG(found.st_mode):
                raise ValidationError(f"{path[:200]!r} is not a file")
            with open(descriptor, "rb", closefd=False) as stream:
                head = stream.read(_HEAD)
                stream.seek(0)
                if not is_text(head):
                    return _binary(place, found.st_size)
                return _Lines(stream, head, run.limits).text(
                    place.inner, first_line, min(lines, MAX_LINES)
                )

    def list_files(
        self,
        run: ToolContext,
        folder: Annotated[str, "path of a directory, from list_files; empty for the top"] = "",
        pattern: Annotated[str, "pattern of file names, for example *.md"] = "*",
        deep: Annotated[bool, "whether to include subdirectories"] = False,
    ) -> str:
        """List the files of the user's that can be read, with their sizes in bytes.

        A name with a slash at its end is a folder."""
        place = self._folder.place_of(folder)
        if len(pattern) > 200 or pattern.count("*") > 10:
            raise ValidationError("the pattern is too long: use for example *.md")
        matches = re.compile(fnmatch.translate(pattern), re.IGNORECASE).match
        lines: list[str] = []
        room = MAX_TEXT
        walk = _Walk(self._folder, run.limits)
        for inner, line in walk.through(place, deep):
            if not matches(os.path.basename(inner)):
                continue
            room -= len(line) + 1
            if len(lines) == MAX_LISTED or room < 0:
                return "\n".join((*lines, "(there are more: use a folder or a pattern)"))
            lines.append(line)
        if walk.is_cut:
            lines.append("(too many files: use a folder)")
        return "\n".join(lines) or "no matching files"


class _Walk:
    """A walk through directories, limited in names and depth. `is_cut` is whether a limit was
    reached."""

    def __init__(self, folder: Folder, limits: CancelToken) -> None:
        self._folder = folder
        self._limits = limits
        self._left = MAX_LOOKED_AT
        self.is_cut = False

    def through(self, place: FilePlace, deep: bool, within: int = 0) -> Iterator[tuple[str, str]]:
        """Yield each path with its line: a directory first, then its content."""
        for name in self._names(place):
            if not self._left:
                self.is_cut = True
                return
            self._left -= 1
            inner = os.path.join(place.inner, name) if place.inner else name
            if is_hidden(name):
                continue
            try:
                target = self._folder.place_of(inner)
                found = os.stat(target.path)
            except (ValidationError, OSError):  # a link to the outside, or a dangling one
                continue
            if stat.S_ISDIR(found.st_mode):
                yield inner, f"{_plain(inner)}/"
                if not deep or target.inner != inner:  # links can form a cycle
                    continue
                if within < MAX_DEPTH:
                    yield from self.through(target, deep, within + 1)
                else:
                    self.is_cut = True
            elif stat.S_ISREG(found.st_mode):
                yield inner, f"{_plain(inner)} ({found.st_size} bytes)"

    def _names(self, place: FilePlace) -> list[str]:
        """Return the names in a directory, with one more than the limit if there are too many."""
        self._limits.check()
        with opened(place) as descriptor:
            if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
                raise ValidationError(f"{place.inner[:200]!r} is not a directory: use read_file")
            within = descriptor if os.scandir in os.supports_fd else place.path
            with os.scandir(within) as entries:
                return sorted(entry.name for entry in islice(entries, self._left + 1))


def _plain(name: str) -> str:
    """Return a name as text; invalid bytes are replaced."""
    text = os.fsencode(name).decode("utf-8", "replace")
    return "".join(each if each.isprintable() or each in JOINERS else "�" for each in text)


def _binary(place: FilePlace, size: int) -> str:
    kind = mimetypes.guess_type(place.inner)[0] or "of unknown type"
    return f"{_plain(place.inner)} is not text: {kind}, {size} bytes"


def _encoding_of(head: bytes) -> str:
    """The encoding of a file by its first bytes, which may end within a character."""
    encoding = encoding_of(head)
    try:
        codecs.getincrementaldecoder(encoding)().decode(head, final=len(head) < _HEAD)
    except UnicodeDecodeError:
        if decode_text(head) == head.decode(_WINDOWS, "replace"):
            return _WINDOWS
    return encoding


class _Lines:
    """The lines of a text, up to the limit."""

    def __init__(self, stream: io.BufferedReader, head: bytes, limits: CancelToken) -> None:
        self._stream = stream
        self._limits = limits
        self._encoding = _encoding_of(head)

    def text(self, name: str, first: int, most: int) -> str:
        taken: list[str] = []
        room, number, cut = MAX_TEXT, 0, False
        for number, line in enumerate(self._decoded(), 1):
            if number < first:
                continue
            plain = _CONTROLS.sub("�", line.rstrip("\r\n"))
            if len(plain) > MAX_LINE:
                plain = f"{plain[:MAX_LINE]}… (truncated)"
            room -= len(plain) + 1
            if len(taken) == most or room < 0:
                cut = True
                break
            taken.append(plain)
        if not taken:
            if number == 0:
                return f"{_plain(name)} is empty"
            raise ValidationError(f"{_plain(name)} has {number} lines; there is no line {first}")
        last = first + len(taken) - 1
        of = "there are more" if cut else "end of the file"
        return f"{_plain(name)}, lines {first} to {last} ({of}):\n" + "\n".join(taken)

    def _decoded(self) -> Iterator[str]:
        text = io.TextIOWrapper(self._stream, self._encoding, errors="replace", newline=None)
        try:
            room = MAX_BYTES
            while line := text.readline(MAX_BYTES // 16):
                self._limits.check()
                room -= len(line)
                if room < 0:
                    raise ValidationError(
                        f"the lines are beyond the first {MAX_BYTES >> 20} MiB of the file"
                    )
                yield line
        finally:
            text.detach()
