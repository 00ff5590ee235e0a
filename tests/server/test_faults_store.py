"""A full disk, or a database locked by another program: the user still gets the answer, and a
warning that it was not stored."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from fronts import FRONTS, WORD, Front, Place, place

from genai_host.config import ServerConfig
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.services.openai import chat

pytestmark = pytest.mark.part

LONG = "much " * 20_000
NATIVE = FRONTS[-1]
Broken = Callable[[Place], AbstractContextManager[None]]


@contextmanager
def full(here: Place) -> Iterator[None]:
    """Fail as a full disk does."""
    with closing(sqlite3.connect(here.database)) as connection:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
    store: Any = here.host.store
    connect = store._writer._database.connect

    def connect_to_full_disk() -> Any:
        connection = connect()
        connection.execute(f"PRAGMA max_page_count = {pages}").fetchall()
        return connection

    store._writer._database.connect = connect_to_full_disk
    store._writer._let_go()  # a connection that has failed is made anew
    yield
    del store._writer._database.connect
    store._writer._let_go()


@contextmanager
def locked(here: Place) -> Iterator[None]:
    with closing(sqlite3.connect(here.database, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield
        other.execute("ROLLBACK")


@pytest.fixture
def here(make_host: MakeHost, tmp_path: Path) -> Iterator[Place]:
    """A server that records all API calls."""
    with place(
        make_host, tmp_path, patience=0.0, config={"server": ServerConfig(record_api_calls=True)}
    ) as here:
        yield here


broken_in_each_way = pytest.mark.parametrize("broken", [full, locked], ids=["full", "locked"])


def long_said(front: Front) -> Mapping[str, Any]:
    """Return a request with a message that does not fit on the disk."""
    message = {"role": "user", "content": LONG}
    bodies: dict[str, dict[str, Any]] = {
        "responses": {"input": LONG, "store": True},
        "gemini": {"contents": [{"parts": [{"text": LONG}]}]},
        "native": {"message": LONG},
    }
    return bodies.get(front.name, {"messages": [message]})


@broken_in_each_way
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_answer_reaches_the_user_by_every_api(here: Place, broken: Broken) -> None:
    for front in FRONTS:
        for stream in (False, True):
            here.service.replies = [chat(WORD)]
            assert here.ask(front, stream=False).status_code == 200, front  # and it is kept
            path, body = here.asked(front, stream=stream)
            here.service.replies = [chat(WORD, streamed=stream)]
            with broken(here):
                reply = here.send("POST", path, {**body, **long_said(front)})
            assert reply.status_code == 200, (front, reply.text)
            assert WORD[-1] in reply.text
            if stream:
                assert front.done in reply.content, front
            if front is NATIVE:
                assert '"record_error"' in reply.text


@broken_in_each_way
def test_what_needs_the_store_is_503_and_nothing_of_before_is_lost(
    here: Place, broken: Broken
) -> None:
    here.service.replies = [chat(WORD)]
    id = here.opened()
    path = f"/api/v1/conversations/{id}"
    assert here.send("POST", f"{path}/turns", {"message": "before"}).status_code == 200
    before = here.send("GET", path).json()
    with broken(here):
        reply = here.send("PATCH", path, {"title": LONG[:200]})
        opened = here.send("POST", "/api/v1/conversations", {"title": "x"})
        for each in (reply, opened):
            # what is short may have found room
            assert each.status_code == 503 or (broken is full and each.ok), each.text
            if each.status_code == 503:
                assert each.json()["error"]["code"] == "store"
                assert each.json()["error"]["hint"]
    if reply.status_code == 503:
        assert here.send("GET", path).json() == before
    assert here.send("POST", f"{path}/turns", {"message": "after"}).status_code == 200
