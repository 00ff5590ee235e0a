"""Raw replies of services in a file, for debugging."""

from __future__ import annotations

import logging
import os
import threading

from genai_host.api import Clock
from genai_host.util.text import shorten

_log = logging.getLogger(__name__)
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0)
_NO_WAITING = getattr(os, "O_NONBLOCK", 0)  # so that a FIFO does not block


class RawReplies:
    """The file for the raw replies of one conversation. Thread-safe.

    Each reply follows a line with time, model and tag. Only the owner can read the file. A write
    error is logged and has no other effect.

    Args:
        wanted: Path of the file; if it belongs to another conversation, the tag is added to the
            name.
        tag: Tag of the conversation, at the end of the first line of its file.
        clock: Source of time.
    """

    def __init__(self, wanted: str, tag: str, clock: Clock) -> None:
        self._wanted = wanted
        self._tag = tag
        self._clock = clock
        self._lock = threading.Lock()

    def add(self, model: str, reply: str) -> str:
        """Add a reply.

        Args:
            model: Model and provider.
            reply: The reply.

        Returns:
            Path of the file; empty if the reply was not stored.
        """
        time = self._clock.now().isoformat(timespec="seconds")
        text = f"--- {time} {shorten(model)} {self._tag}\n{reply}\n"
        with self._lock:
            try:
                return self._add(text.encode("utf-8", "backslashreplace"))
            except (OSError, ValueError) as error:  # ValueError for a name that contains NUL
                _log.warning("a raw reply was not stored: %s", error)
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
        raise FileExistsError(f"{wanted} belongs to another conversation")

    def _opened(self, file: str) -> int | None:
        """None if the file belongs to another conversation."""
        flags = os.O_WRONLY | os.O_APPEND | _NO_LINKS | _NO_WAITING
        try:
            return os.open(file, flags | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return os.open(file, flags) if self._is_own(file) else None

    def _is_own(self, file: str) -> bool:
        try:
            descriptor = os.open(file, os.O_RDONLY | _NO_LINKS | _NO_WAITING)
            with os.fdopen(descriptor, "rb") as stream:
                return stream.readline().endswith(f" {self._tag}\n".encode())
        except OSError:
            return False
