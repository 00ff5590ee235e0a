"""Replies of services, kept in a file as they came, for whoever looks for a fault."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator

from genai_host.api import (
    Clock,
    Limits,
    Provider,
    ProviderReply,
    ProviderRequest,
    ReplyStream,
    StreamEvent,
)
from genai_host.errors import GenaiError
from genai_host.telling import one_line

_log = logging.getLogger(__name__)
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0)
_NO_WAITING = getattr(os, "O_NONBLOCK", 0)  # as a pipe would have it


class RawReplies:
    """The file that one conversation's replies are added to.

    named   the file that is wanted; where that is another conversation's, the tag is
            added to its name
    tag     of the conversation: the first line of its file ends with it
    file    the file itself, where the last reply is kept in it; else empty

    Each reply comes after a line with the time, the model and the tag. Nobody but the
    owner can read the file. One that cannot be written is told of in the log, and
    disturbs nothing: it is there to look at, and no answer needs it.
    """

    def __init__(self, named: str, tag: str, clock: Clock) -> None:
        self.file = ""
        self._named = os.path.abspath(os.path.expanduser(named))
        self._tag = tag
        self._clock = clock

    def add(self, model: str, reply: str) -> None:
        """
        model   which model at which provider
        """
        self.file = ""
        time = self._clock.now().isoformat(timespec="seconds")
        text = f"--- {time} {one_line(model)} {self._tag}\n{reply}\n"
        try:
            os.makedirs(os.path.dirname(self._named), mode=0o700, exist_ok=True)
            self._add(text.encode("utf-8", "backslashreplace"))
        except (OSError, ValueError) as error:  # the latter for a name with NUL in it
            _log.warning("a raw reply is not kept: %s", error)

    def _add(self, data: bytes) -> None:
        stem, extension = os.path.splitext(self._named)
        for file in (self._named, f"{stem}_{self._tag}{extension}"):
            descriptor = self._opened(file)
            if descriptor is not None:
                with os.fdopen(descriptor, "wb") as stream:
                    stream.write(data)
                self.file = file
                return
        raise FileExistsError(f"{self._named} is there already, and not this conversation's")

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


class Overheard(Provider):
    """A provider, for one call, with an ear to what its service answers.

    text   what came, whole or in part
    """

    def __init__(self, provider: Provider) -> None:
        self.serves = provider.serves
        self._provider = provider
        self._pieces: list[bytes] = []

    @property
    def text(self) -> str:
        return b"\n".join(self._pieces).decode("utf-8", "backslashreplace")

    def wire_id(self, model_id: str) -> str:
        return self._provider.wire_id(model_id)

    def explain_error(self, reply: ProviderReply) -> GenaiError | None:
        return self._provider.explain_error(reply)

    def send(self, request: ProviderRequest, limits: Limits) -> ProviderReply:
        return self._hear(self._provider.send(request, limits))

    def stream(self, request: ProviderRequest, limits: Limits) -> ReplyStream | ProviderReply:
        events = self._provider.stream(request, limits)
        if isinstance(events, ProviderReply):
            return self._hear(events)
        return _OverheardStream(events, self._pieces)

    def _hear(self, reply: ProviderReply) -> ProviderReply:
        self._pieces.append(reply.body)
        return reply


class _OverheardStream:
    def __init__(self, events: ReplyStream, pieces: list[bytes]) -> None:
        self._events = events
        self._pieces = pieces
        self.close = events.close

    def __iter__(self) -> Iterator[StreamEvent]:
        for event in self._events:
            self._pieces.append(event.data)
            yield event
