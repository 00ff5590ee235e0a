"""Replies of services, kept in a file as they came, for whoever looks for a fault."""

from __future__ import annotations

import contextlib
import logging
import os
import threading

from genai_host.api import Clock
from genai_host.util.text import one_line

_log = logging.getLogger(__name__)
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0)
_NO_WAITING = getattr(os, "O_NONBLOCK", 0)  # as a pipe would have it


class RawReplies:
    """The file that one conversation's replies are added to. May be used from many threads.

    Each reply comes after a line with the time, the model and the tag. Nobody but the
    owner can read the file. One that cannot be written is told of in the log, and
    disturbs nothing: it is there to look at, and no answer needs it.

    Args:
        wanted: The file; where that is another conversation's, the tag is added to its name.
        tag: Of the conversation: the first line of its file ends with it.
    """

    def __init__(self, wanted: str, tag: str, clock: Clock) -> None:
        self._wanted = wanted
        self._tag = tag
        self._clock = clock
        self._lock = threading.Lock()

    def add(self, model: str, reply: str) -> str:
        """The file that the reply is in then; empty if it is not kept.

        Args:
            model: Which model at which provider.
        """
        time = self._clock.now().isoformat(timespec="seconds")
        text = f"--- {time} {one_line(model)} {self._tag}\n{reply}\n"
        with self._lock:
            try:
                return self._add(text.encode("utf-8", "backslashreplace"))
            except (OSError, ValueError) as error:  # the latter for a name with NUL in it
                _log.warning("a raw reply is not kept: %s", error)
                return ""

    def _add(self, data: bytes) -> str:
        wanted = os.path.abspath(os.path.expanduser(self._wanted))
        os.makedirs(os.path.dirname(wanted), mode=0o700, exist_ok=True)
        stem, extension = os.path.splitext(wanted)
        for file in (wanted, f"{stem}_{self._tag}{extension}"):
            descriptor = self._opened(file)
            if descriptor is not None:
                with os.fdopen(descriptor, "wb") as stream:
                    stream.write(data)
                return file
        raise FileExistsError(f"{wanted} is there already, and not this conversation's")

    def _opened(self, file: str) -> int | None:
        """None if it is not this conversation's."""
        flags = os.O_WRONLY | os.O_APPEND | _NO_LINKS | _NO_WAITING
        try:
            return os.open(file, flags | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return os.open(file, flags) if self._is_own(file) else None

    def _is_own(self, file: str) -> bool:
        try:
            descriptor = os.open(file, os.O_RDONLY | _NO_LINKS | _NO_WAITING)
        except OSError:
            return False
        with os.fdopen(descriptor, "rb") as stream, contextlib.suppress(OSError):
            return stream.readline().endswith(f" {self._tag}\n".encode())
        return False
