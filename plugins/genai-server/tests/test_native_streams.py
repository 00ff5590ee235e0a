"""Streams of the native API: keep-alive comments, and their ends."""

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
    RouteResponse,
    Turn,
    write_json,
)
from genai_host.conversations.transcript import turns_of
from genai_host.errors import Cancelled, GenaiError, Interrupted
from genai_host.serving.completion import COMMENT
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


def heard(url: str, silence: bytes) -> bytes:
    """A stream that goes on once it has said for the second time that it does."""
    with requests.Session() as client:
        opened = client.post(f"{url}/api/v1/conversations", json={"feature": "pauses"}, timeout=30)
        path = f"{url}/api/v1/conversations/{opened.json()['id']}/turns"
        said = b""
        body = {"message": "hi", "stream": True}
        with client.post(path, json=body, stream=True, timeout=30) as reply:
            for piece in reply.iter_content(None):
                said += piece
                if said.count(silence) > 1:
                    GO_ON.set()
    return said


def test_a_stream_that_is_silent_says_that_it_goes_on(host: Host) -> None:
    with servers.served(host, silence=0.01) as server:
        said = heard(server.url, COMMENT)
    names = [name for name, _ in events_of(said.replace(COMMENT, b""))]
    assert names == ["turn", "progress", "step", "answer"]


def test_it_can_be_told_to_be_silent(host: Host) -> None:
    with servers.served(host, silence=0) as server:
        said = heard(server.url, b"event: ")
    assert COMMENT not in said


def outcome(host: Host, id: str) -> str:
    [turn] = turns_of(host.store_for("").entries(id, host.codec))
    return turn.outcome


def taken(host: Host, limits: Cancellation, **body: Any) -> tuple[str, RouteResponse]:
    """A turn that is under way, in a stream, and the id of its conversation."""
    api = Api(host)
    with host.open("pauses", owner="") as conversation:
        id = conversation.id
    said = {"message": "hi", "stream": True, **body}
    reply = api.say(RouteRequest("POST", "/x", {"id": id}, body=write_json(said), limits=limits))
    assert reply.begin is not None
    reply.begin()
    return id, reply


@pytest.mark.parametrize(
    ("reason", "status"),
    [(None, "failed"), (Cancelled("gone"), "failed"), (Interrupted("the end"), "unfinished")],
)
def test_a_stream_that_nobody_reads_on_ends_as_what_ended_it(
    host: Host, reason: GenaiError | None, status: str
) -> None:
    """The next chunk is not requested, as with a client that reads too slowly."""
    limits = Cancellation()
    id, reply = taken(host, limits)
    pieces: Any = reply.body
    assert next(iter(pieces)).startswith(b"event: turn\n")
    if reason is not None:
        limits.cancel(reason)
    pieces.close()
    assert outcome(host, id) == status


def test_a_stream_whose_limits_end_says_so(host: Host) -> None:
    limits = Cancellation()
    id, reply = taken(host, limits)
    pieces: Any = iter(reply.body)
    begun = [next(pieces), next(pieces)]
    limits.cancel(Interrupted("the end"))
    *_, (name, data) = events_of(b"".join([*begun, *pieces]))
    assert (name, data["code"]) == ("error", "interrupted")
    assert outcome(host, id) == "unfinished"
