"""The folder that the user allows a model to read in: never one of a model's choice.

Nothing outside it can be read,
whatever leads there: `..`, an absolute path, a link, or a folder that becomes a link while
it is looked at. Names that begin with a dot are left out: they are for programs, and may
have keys in them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from attrs import frozen

from genai_host.errors import ConfigurationError, ValidationError

SETTING = "folder"

_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # as a pipe makes who opens it wait
_BY_STEPS = os.open in os.supports_dir_fd and bool(_NO_LINK)


@frozen
class Place:
    """Something in the folder.

    inner   its path in the folder, without links; empty for the folder itself
    """

    root: str
    inner: str

    @property
    def path(self) -> str:
        return os.path.join(self.root, self.inner) if self.inner else self.root


class Folder:
    """What the user has named.

    named   its path; empty for none
    """

    def __init__(self, named: str) -> None:
        self._named = named

    def is_named(self) -> bool:
        """Whether there is a folder to read in."""
        return bool(self._named)

    def place_of(self, path: str) -> Place:
        """Where a path leads to. Raises `ValidationError` if it leads out of the folder, to
        nothing, or to what is hidden, and `ConfigurationError` if there is no folder."""
        root = self._root()
        given = path.strip().lstrip("/") if path.strip().startswith("/") else path.strip()
        if "\0" in given:
            raise ValidationError("a path cannot have NUL in it")
        try:
            found = os.path.realpath(os.path.join(root, given), strict=True)
        except (OSError, ValueError, RuntimeError) as error:
            raise ValidationError(
                f"there is no {_shown(path)}: list_files says what there is"
            ) from error
        if found == root:
            return Place(root, "")
        if not found.startswith(root.rstrip(os.sep) + os.sep):
            raise ValidationError(f"{_shown(path)} is outside of the folder that may be read")
        inner = os.path.relpath(found, root)
        if is_hidden(inner):
            raise ValidationError(f"{_shown(path)} is hidden, and may not be read")
        return Place(root, inner)

    def _root(self) -> str:
        if not self._named:
            hint = "genai-host config set tools.files.folder=FOLDER names it"
            raise ConfigurationError("no folder is named to read in", hint=hint, setting=SETTING)
        root = os.path.realpath(os.path.expanduser(self._named))
        try:
            found = os.stat(root)
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                "the folder to read in is not there", setting=SETTING
            ) from error
        if not stat.S_ISDIR(found.st_mode):
            raise ConfigurationError("what is named to read in is no folder", setting=SETTING)
        return root


def is_hidden(inner: str) -> bool:
    return any(part.startswith(".") for part in inner.split(os.sep))


@contextmanager
def opened(place: Place) -> Iterator[int]:
    """Its file descriptor, for as long. Raises `ValidationError` if it cannot be opened: where a
    folder on the way has become a link, too."""
    try:
        descriptor = _walked(place) if _BY_STEPS else os.open(place.path, _FLAGS)
    except OSError as error:
        raise ValidationError(f"{_shown(place.inner)} cannot be read: {error.strerror}") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _walked(place: Place) -> int:
    """Folder by folder, none of which is a link."""
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
