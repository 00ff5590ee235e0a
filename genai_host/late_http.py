"""The transport of a provider instance, made with its first request: what it is built on
takes long to import, and many providers need none."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from genai_host.api import Framing, Http, HttpRequest, Limits, ProviderReply, ReplyStream
from genai_host.bounds import Bounds


class LateHttp:
    """What `Services.http` is; `bounds` are to be set before it is used."""

    def __init__(self) -> None:
        self.bounds = Bounds()
        self._lock = threading.Lock()
        self._transport: Any = None

    def send(self, request: HttpRequest, limits: Limits) -> ProviderReply:
        reply: ProviderReply = self._made().send(request, limits)
        return reply

    def stream(
        self,
        request: HttpRequest,
        limits: Limits,
        framings: Mapping[str, Framing] | None = None,
    ) -> ReplyStream | ProviderReply:
        reply: ReplyStream | ProviderReply = self._made().stream(request, limits, framings)
        return reply

    def close(self) -> None:
        with self._lock:
            if self._transport is not None:
                self._transport.close()

    def _made(self) -> Http:
        if self._transport is None:
            from genai_host.http.transport import Transport

            bounds = self.bounds
            with self._lock:
                if self._transport is None:
                    self._transport = Transport(
                        connect=bounds.connect,
                        total=bounds.total,
                        proxy=bounds.proxy,
                        ca_file=bounds.ca_file,
                    )
        made: Http = self._transport
        return made
