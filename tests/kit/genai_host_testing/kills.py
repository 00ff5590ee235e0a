"""Killed processes, simulated within one process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from genai_host.store.documents import Documents
from genai_host.store.store import StoredRecord


class Killed(BaseException):
    """The process was killed."""


@contextmanager
def killed_before(number: int) -> Iterator[None]:
    """Raise `Killed` at the write of this thread with this number, and at all later ones."""
    me, writes = threading.current_thread(), 0
    put, append = Documents.put, StoredRecord.append

    def count() -> None:
        nonlocal writes
        if threading.current_thread() is me:
            if writes >= number:
                raise Killed
            writes += 1

    def put_or_die(self: Documents, *given: Any, **named: Any) -> int:
        count()
        return put(self, *given, **named)

    def append_or_die(self: StoredRecord, entry: Any) -> None:
        count()
        append(self, entry)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Documents, "put", put_or_die)
        patched.setattr(StoredRecord, "append", append_or_die)
        yield
