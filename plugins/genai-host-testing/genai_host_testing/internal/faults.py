"""Hostile JSON for every door of a host, with checks of its store afterwards, and killed processes,
simulated within one process.

door = Door(HttpRoutes(host))
for text in variants({"title": "a"}, 3):
    door.send("POST", "/api/v1/conversations", text)
check_store(make_store)
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from attrs import evolve, frozen

from genai_host.api import Cancellation, Job, RouteRequest, read_json
from genai_host.serving.router import HttpRoutes
from genai_host.store import Store
from genai_host.store.documents import Documents
from genai_host.store.jobs import JobWorker
from genai_host.store.records import Summary
from genai_host.store.store import StoredRecord
from genai_host_testing.internal.stores import CODEC, MakeStore
from genai_host_testing.purity import places_in, with_other

_DEEP = 10_000
_NOISE = "".join(hashlib.sha256(bytes([number])).hexdigest() for number in range(150))
_STRINGS = (r"\ud83c", r"a\ud800\u0000b", r"\u0000", "x" * 5000, _NOISE, "İ" * 90, "")
_MORE_STRINGS = (r"\u001b[2J\u202e\u2028\u0085", r"../\r\n%00", "1e400", "data:image/png;base64,?")
_NUMBERS = (-1, 2**31, 2**53, 2**63 - 1, 2**63, -(2**64), 10**400, 0.5, 1e308, -0.0)

HOSTILE: tuple[str, ...] = (
    *(f'"{each}"' for each in (*_STRINGS, *_MORE_STRINGS)),
    *map(str, _NUMBERS),
    *("1e400", "NaN", "-Infinity", "9" * 5000, "true", "null"),
    *("[]", r'["\ud83c"]', "{}", r'{"\ud83c": "\udfff", "a": 18446744073709551616}', "[[[[]]]]"),
    *(r'{"a": 1, "a": "\u0000"}', r'{"": {"\u0000": null}}', '{"a":' * 99 + "1" + "}" * 99),
    "[" * _DEEP + "]" * _DEEP,
)
"""Texts of JSON values that programs seldom expect. Some are invalid JSON."""

_MARK = "\N{SNOWMAN}"
_KINDS = tuple(map(re.compile, ('"', r"\{", r"\[", "")))


def variants(value: Any, each: int) -> Iterator[str]:
    """Yield JSON texts of a value in which one value is replaced by a hostile one: at each place by
    `each` of the same type, and as many of any type. The next place has the next ones."""
    every = itertools.cycle(HOSTILE)
    alike = {kind: itertools.cycle(filter(kind.match, HOSTILE)) for kind in _KINDS}
    for place in places_in(value):
        text = json.dumps(with_other(value, place, _MARK), ensure_ascii=False)
        before = json.dumps(functools.reduce(lambda inner, key: inner[key], place, value))
        same = next(alike[kind] for kind in _KINDS if kind.match(before))
        for other in (*itertools.islice(same, each), *itertools.islice(every, each)):
            yield text.replace(f'"{_MARK}"', other)


def readable(texts: Iterator[str]) -> Iterator[Any]:
    """Yield the values of the texts that are valid JSON."""
    for text in texts:
        try:
            yield read_json(text)
        except ValueError:
            continue


@frozen
class Door:
    """A client of routes in this process, whose requests never fail by a fault of the server."""

    _routes: HttpRoutes
    _user: str = ""

    def send(self, method: str, path: str, body: Any = None, **options: Any) -> tuple[int, Any]:
        """Send a request with a text, bytes or a value that is sent as JSON, and return the status
        and the JSON of the reply. The options are arguments of `RouteRequest`."""
        text = body if isinstance(body, str | bytes) else "" if body is None else json.dumps(body)
        sent = text.encode() if isinstance(text, str) else text
        with Cancellation() as limits:
            request = RouteRequest(
                method, path, body=sent, limits=limits, user=self._user, **options
            )
            reply = self._routes.answer(request)
            written = reply.body if isinstance(reply.body, bytes) else b"".join(reply.body)
        assert reply.status < 500, (method, path, sent[:1000], options, written)
        is_json = reply.headers.get("content-type", "").startswith("application/json")
        return reply.status, read_json(written) if is_json else written


def check_store(make_store: MakeStore, store: Store) -> list[Summary]:
    """Check that everything derived from a store works, also after a restart; then delete all
    conversations, and return what they were.
    """
    for opened in (store, make_store()):
        listed = opened.conversations(limit=None)
        assert {each.status for each in listed} <= {"idle", "failed", "interrupted"}
        opened.search("hi", limit=10**6)
        rows = opened.usage(by=["day", "user", "feature", "model", "provider"])
        assert all(0 <= each.input_tokens < 2**54 for each in rows)
        health = opened.health()
        assert health is not None
        assert health.faults == ()
        json.dumps([each.cost.dollars for each in listed], allow_nan=False)
    for each in listed:
        json.dumps(store.export(each.id)).encode()
        store.markdown(each.id, CODEC).encode()
        store.delete(each.id)
    assert store.conversations(limit=None) == []
    return listed


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

    def put_or_die(self: Documents, *arguments: Any, **named: Any) -> int:
        count()
        return put(self, *arguments, **named)

    def append_or_die(self: StoredRecord, entry: Any) -> None:
        count()
        append(self, entry)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Documents, "put", put_or_die)
        patched.setattr(StoredRecord, "append", append_or_die)
        yield


class ByHand:
    """Background jobs that a test does itself, in place of the workers.

    Args:
        patch: Ends it.
        kinds: Kinds of these jobs; empty for all. Workers do the others.

    Attributes:
        submitted: Jobs to do, with their workers.
    """

    def __init__(self, patch: pytest.MonkeyPatch, *kinds: str) -> None:
        self.submitted: list[tuple[JobWorker, Job]] = []
        start = JobWorker._start

        def submit(worker: JobWorker, job: Job) -> None:
            if kinds and job.kind not in kinds:
                start(worker, job)
            else:
                self.submitted.append((worker, job))

        patch.setattr(JobWorker, "_start", submit)

    def do(self, number: int | None = None, **fields: Any) -> bool:
        """Do the last job. Returns whether the process was killed before a write of this number,
        after which another does it, with these fields of the job."""
        worker, job = self.submitted.pop()
        del worker._under_way[job.id]
        worker.queue.drop(job.id)
        work: Callable[[Job, Cancellation], None] = worker._works[job.kind]
        if number is not None:
            try:
                with killed_before(number):
                    work(job, Cancellation())
                return False
            except Killed:
                pass
        work(evolve(job, **fields), Cancellation())
        return number is not None
