"""Streams of the native API, and their ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from genai_server.native.api import Api

from genai_host import Host
from genai_host.api import (
    Answer,
    CallFunction,
    Cancellation,
    Feature,
    FeatureSteps,
    NoSettings,
    Now,
    Progress,
    RouteRequest,
    Turn,
)
from genai_host.conversations.transcript import turns_of
from genai_host.errors import Cancelled, GenaiError, Interrupted
from genai_host.store import Store
from genai_host_testing import FakeModel, InlinePlugin
from genai_host_testing.internal import servers
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.native_api import CONFIG, events_of

pytestmark = pytest.mark.part

GO_ON = threading.Event()


def pause() -> None:
    assert GO_ON.wait(30)


def pauses(turn: Turn[NoSettings]) -> FeatureSteps:
    yield from Now()  # what is before the first step is not on record
    yield Progress("it begins")
    yield from CallFunction(pause)
    return Answer("it went on")


@pytest.fixture
def host(make_host: MakeHost, tmp_path: Path) -> Iterator[Host]:
    GO_ON.clear()
    feature = Feature("pauses", NoSettings, pauses, roles={})
    with Store(tmp_path / "store.db") as store:
        yield make_host(
            fake=FakeModel(), config=CONFIG, store=store, extra=InlinePlugin(features=[feature])
        )


def test_it_can_be_told_to_be_silent(host: Host) -> None:
    """tests/server/test_faults_behind.py shows that it says that it goes on otherwise."""
    said = b""
    with servers.served(host, silence=0) as server, requests.Session() as client:
        path = f"{server.url}/api/v1/conversations"
        id = client.post(path, json={"feature": "pauses"}, timeout=30).json()["id"]
        body = {"message": "hi", "stream": True}
        with client.post(f"{path}/{id}/turns", json=body, stream=True, timeout=30) as reply:
            for piece in reply.iter_content(None):
                said += piece
                if said.count(b"event: ") > 1:
                    GO_ON.set()
    assert [name for name, _ in events_of(said)] == ["turn", "progress", "step", "answer"]


def outcome(host: Host, id: str) -> str:
    [turn] = turns_of(host.store_for("").entries(id, host.codec))
    return turn.outcome


def taken(host: Host, limits: Cancellation) -> tuple[str, Any]:
    """The id of a conversation with a turn in progress, and its stream."""
    with host.open("pauses", owner="") as conversation:
        id = conversation.id
    body = b'{"message": "hi", "stream": true}'
    reply = Api(host).say(RouteRequest("POST", "/x", {"id": id}, body=body, limits=limits))
    assert reply.begin is not None
    reply.begin()
    return id, reply.body


@pytest.mark.parametrize(
    ("reason", "status"),
    [(None, "failed"), (Cancelled("gone"), "failed"), (Interrupted("the end"), "unfinished")],
)
def test_a_stream_that_nobody_reads(host: Host, reason: GenaiError | None, status: str) -> None:
    """The next chunk is not requested, as with a client that reads too slowly."""
    limits = Cancellation()
    id, pieces = taken(host, limits)
    assert next(iter(pieces)).startswith(b"event: turn\n")
    if reason is not None:
        limits.cancel(reason)
    pieces.close()
    assert outcome(host, id) == status


def test_a_stream_whose_limits_end_says_so(host: Host) -> None:
    limits = Cancellation()
    id, body = taken(host, limits)
    pieces = iter(body)
    begun = [next(pieces), next(pieces)]
    limits.cancel(Interrupted("the end"))
    *_, (name, data) = events_of(b"".join([*begun, *pieces]))
    assert (name, data["code"]) == ("error", "interrupted")
    assert outcome(host, id) == "unfinished"
