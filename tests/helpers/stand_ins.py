"""Test doubles: an unused provider, and a cancel token that reports waiting callers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from genai_host.api import (
    Cancellation,
    CancelToken,
    DialectEndpoint,
    Provider,
    ProviderReply,
    ProviderRequest,
    ReplyStream,
)
from genai_host.api.cancellation import Registration


class UnaskedProvider(Provider):
    """Serves the plain format, and fails where it is asked."""

    serves = {"plain": DialectEndpoint()}

    def __init__(self, *_: Any) -> None:
        pass

    def send(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
        raise NotImplementedError

    def stream(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply | ReplyStream:
        return self.send(request, limits)


class AwaitedCancellation(Cancellation):
    """Sets `waits` when somebody waits under it."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = threading.Event()

    def on_cancel(self, wake: Callable[[], None]) -> Registration:
        registration = super().on_cancel(wake)
        self.waits.set()
        return registration
