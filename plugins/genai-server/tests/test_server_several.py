"""Several servers and workers with one store: each continues the conversations of the others."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import requests

from genai_host_testing.fake_service import HOLD, FakeService, Received, Reply
from genai_host_testing.internal.servers import (
    HEADERS,
    Client,
    Several,
    client_of,
    configure,
    serving,
    user_texts,
    wait_until,
)
from genai_host_testing.services.openai import chat

pytestmark = pytest.mark.slow


def behind(received: Received) -> Reply:
    """Repeat the message; some replies wait until the test releases them."""
    body = received.json()
    texts = [each["content"] for each in body["messages"] if each["role"] == "user"]
    reply = chat(" | ".join(map(str, texts)), streamed=body.get("stream", False))
    if texts[-1] == "begin":
        steps = list(reply.steps)
        return Reply([*steps[:7], HOLD, *steps[7:]], keep=reply.keep)  # head, role, five letters
    if texts[-1] == "hold":
        return Reply([HOLD, *reply.steps], keep=reply.keep)
    return reply


@pytest.fixture
def service(home: Path, place: str) -> Iterator[FakeService]:
    with FakeService(answer=behind) as service:
        configure(
            home, service, conversations={"database": place}, server={"graceful_timeout": 1.0}
        )
        yield service


@pytest.fixture(params=["workers", "servers"])
def clients(
    request: pytest.FixtureRequest, service: FakeService
) -> Iterator[tuple[Client, Client]]:
    """Clients of two processes, one each."""
    with ExitStack() as stack:
        if request.param == "servers":
            servers = [stack.enter_context(serving()) for _ in range(2)]
            for each in servers:
                wait_until(partial(is_ready, each))
            yield tuple(stack.enter_context(client_of(each.url)) for each in servers)  # type: ignore[misc]  # two
            return
        if sys.platform != "linux":
            pytest.skip("it looks into /proc")
        server: Several = stack.enter_context(serving("--workers", "2"))
        yield tuple(stack.enter_context(server.at(each)) for each in server.workers())  # type: ignore[misc]  # two


def is_ready(server: Several) -> bool:
    return requests.get(f"{server.url}/ready", timeout=30).ok


def turns(client: Client, path: str) -> list[Any]:
    listed: list[Any] = client.get(path)["turns"]
    return listed


class TestWhatOneBegan:
    def test_is_gone_on_with_at_the_other_at_once(self, clients: tuple[Client, Client]) -> None:
        path = clients[0].opened()
        for number, word in enumerate("abcd"):
            turn = clients[number % 2].post(f"{path}/turns", {"message": word})
            assert turn["answer"]["text"] == " | ".join("abcd"[: number + 1])
        for each in clients:
            assert user_texts(turns(each, path)) == list("abcd")
            assert each.get("/api/v1/conversations")["data"][0]["turns"] == 4

    def test_as_responses(self, clients: tuple[Client, Client]) -> None:
        """With an explicit `store`, and by default."""
        one, other = clients
        fields = {"model": "remote/m", "store": True}
        first = one.post("/v1/responses", {**fields, "input": "a"})
        after = {"previous_response_id": first["id"]}
        second = other.post("/v1/responses", {**fields, "input": "b", **after})
        assert second["output"][0]["content"][0]["text"] == "a | b"
        conversation = other.post("/v1/conversations", {})["id"]
        for each, word in ((one, "a"), (other, "b"), (one, "c")):
            body = {"model": "remote/m", "input": word, "conversation": conversation}
            response = each.post("/v1/responses", body)
        assert response["output"][0]["content"][0]["text"] == "a | b | c"

    def test_as_a_job(self, clients: tuple[Client, Client], service: FakeService) -> None:
        one, other = clients
        job = one.post("/api/v1/jobs", {"message": "hold", "model": "remote/m"})
        service.wait_for_requests(1)
        assert other.get(f"/api/v1/jobs/{job['id']}") == job
        service.let_go()
        result = other.get(f"/api/v1/jobs/{job['id']}/result?wait=30")
        assert result["answer"]["text"] == "hold"
        assert other.get(f"/api/v1/jobs/{job['id']}")["status"] == "done"
        assert other.send("DELETE", f"/api/v1/jobs/{job['id']}").status_code == 204
        assert other.send("GET", f"/api/v1/jobs/{job['id']}").status_code == 404


class TestTwoTurnsAtOnce:
    def test_second_is_refused(self, clients: tuple[Client, Client], service: FakeService) -> None:
        one, other = clients
        path = one.opened()
        replies: list[Any] = []
        first = threading.Thread(
            target=lambda: replies.append(one.post(f"{path}/turns", {"message": "hold"}))
        )
        first.start()
        service.wait_for_requests(1)
        for act in ("turns", "undo", "abandon", "resume"):
            body = {"message": "b"} if act == "turns" else {}
            refused = other.send("POST", f"{path}/{act}", body)
            assert refused.status_code == 409, (act, refused.text)
            assert "in progress" in refused.json()["error"]["message"]
        assert other.get(path)["status"] == "running"
        service.let_go()
        first.join(30)
        assert replies[0]["answer"]["text"] == "hold"
        assert user_texts(turns(other, path)) == ["hold"]
        assert other.post(f"{path}/turns", {"message": "c"})["answer"]["text"] == "hold | c"

    def test_that_begin_together(self, clients: tuple[Client, Client]) -> None:
        """One is answered, or both in turn: none is duplicated or lost."""
        path = clients[0].opened()
        answered: list[str] = []
        for number in range(12):
            begin = threading.Barrier(2)
            replies: dict[str, requests.Response] = {}

            def say(client: Client, word: str) -> None:
                begin.wait()  # noqa: B023 - joined in this round
                replies[word] = client.send("POST", f"{path}/turns", {"message": word})  # noqa: B023

            words = [f"{number}-{each}" for each in "ab"]
            threads = [
                threading.Thread(target=say, args=pair) for pair in zip(clients, words, strict=True)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            for each in replies.values():
                assert each.status_code in (200, 409), each.text
            good = [word for word, each in replies.items() if each.status_code == 200]
            assert good
            answered += good
        recorded = turns(clients[1], path)
        assert sorted(user_texts(recorded)) == sorted(answered)
        last = [each["answer"]["text"] for each in recorded if each["answer"]][-1]
        assert last == " | ".join(user_texts(recorded))

    def test_one_is_cancelled_at_the_other(
        self, clients: tuple[Client, Client], service: FakeService
    ) -> None:
        one, other = clients
        path = one.opened()
        replies: list[requests.Response] = []
        first = threading.Thread(
            target=lambda: replies.append(one.send("POST", f"{path}/turns", {"message": "hold"}))
        )
        first.start()
        service.wait_for_requests(1)
        assert other.post(f"{path}/cancel", {}) == {"cancelled": True}
        assert other.post(f"{path}/turns", {"message": "b"})["answer"]["text"] == "b"
        service.let_go()
        first.join(30)
        assert replies[0].status_code == 409
        assert replies[0].json()["error"]["code"] == "cancelled"
        assert user_texts(turns(other, path)) == ["b"]
        assert other.post(f"{path}/cancel", {}) == {"cancelled": False}

    def test_one_that_is_streamed_is_cancelled_at_the_other(
        self, clients: tuple[Client, Client]
    ) -> None:
        one, other = clients
        path = one.opened()
        body = {"message": "begin", "stream": True}
        url = f"{one.url}{path}/turns"
        with one.session.post(url, json=body, headers=HEADERS, stream=True, timeout=60) as reply:
            lines = reply.iter_lines()
            for letter in "begin":
                assert any(f'"{letter}"' in line.decode() for line in lines)
            assert other.post(f"{path}/cancel", {}) == {"cancelled": True}
            *_, event, error = [line for line in lines if line]
        assert event == b"event: error"
        assert json.loads(error.removeprefix(b"data: "))["code"] == "cancelled"
        [turn] = turns(other, path)
        assert (turn["status"], turn["error"]["code"]) == ("failed", "cancelled")
        assert turn["partial"] == "begin"
