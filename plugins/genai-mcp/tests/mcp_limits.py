"""Limits of calls."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from genai_host.api import Cancellation
from genai_host.errors import ProviderTimeout


@contextmanager
def within(seconds: float, what: str) -> Iterator[Cancellation]:
    """Limits that end after some seconds."""
    limits = Cancellation()
    late = ProviderTimeout(f"{what} took longer than {seconds:g} s")
    timer = threading.Timer(seconds, limits.cancel, [late])
    timer.start()
    try:
        yield limits
    finally:
        timer.cancel()
