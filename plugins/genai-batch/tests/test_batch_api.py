"""Batches over HTTP: created, answered, listed, cancelled, expired, continued after a kill."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import genai_batch
import genai_wire_openai
import pytest
import requests

from genai_host import Config
from genai_host.api.storage import MAX_TRIES
from genai_host.config import BudgetConfig, BudgetsConfig
from genai_host.errors import RateLimited, StoreError
from genai_host.store.documents import Documents
from genai_host.store.jobs import JobWorker
from genai_host_testing import FakeModel, ManualClock, RecordedPrompt, RouteServer
from genai_host_testing.internal.faults import ByHand
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.stores import MakeStore

pytestmark = pytest.mark.part

CHAT = "/v1/chat/completions"
HI = {"role": "user", "content": "hi"}
CONFIG = Config(models={"chat": "fake", "embed": "fake-embed"})
DAY = 24 * 60 * 60
Line = Mapping[str, Any]


class Client:
    """A client of the batches of one server."""

    def __init__(self, url: str) -> None:
        self._url = url

    def ask(self, method: str, path: str, **options: Any) -> requests.Response:
        return requests.request(method, f"{self._url}/v1{path}", timeout=60, **options)

    def get(self, path: str, **query: Any) -> Any:
        return self.ask("GET", path, params=query).json()

    def upload(self, data: bytes, purpose: str = "batch") -> str:
        form = {"files": {"file": ("rows.jsonl", data)}, "data": {"purpose": purpose}}
        id: str = self.ask("POST", "/files", **form).json()["id"]
        return id

    def create(self, *rows: Any, endpoint: str = CHAT, **fields: Any) -> Any:
        lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
        body = {
            "input_file_id": self.upload(b"\n".join(lines)),
            "endpoint": endpoint,
            "completion_window": "24h",
            **fields,
        }
        return self.ask("POST", "/batches", json=body).json()

    def ended(self, batch: Line, meanwhile: Callable[[], None] = lambda: None) -> Any:
        """Wait for the end of a batch by polling, as its clients do."""
        waits = threading.Event()
        for _ in range(3000):
            now = self.get(f"/batches/{batch['id']}")
            if now["status"] in ("completed", "failed", "expired", "cancelled"):
                return now
            meanwhile()
            waits.wait(0.02)
        raise AssertionError(f"the batch did not end: {now}")

    def lines(self, batch: Line, file: str = "output_file_id") -> list[Any]:
        if batch[file] is None:
            return []
        text = self.ask("GET", f"/files/{batch[file]}/content").text
        return [json.loads(line) for line in text.splitlines()]

    def texts(self, batch: Line) -> dict[str, str]:
        """The texts of the answers, by the ids of their rows."""
        return {
            line["custom_id"]: line["response"]["body"]["choices"][0]["message"]["content"]
            for line in self.lines(batch)
        }

    def codes(self, batch: Line) -> dict[str | None, Any]:
        """The codes of the errors, by the ids of their rows."""
        return dict(map(outcome, self.lines(batch, "error_file_id")))


def outcome(line: Line) -> tuple[str | None, Any]:
    """The id of a row, and the code of its error, or the status of its response."""
    code = line["error"]["code"] if line["error"] else line["response"]["status_code"]
    return line["custom_id"], code


def chat(id: str, text: str, model: str = "fake", **fields: Any) -> dict[str, Any]:
    body = {"model": model, "messages": [{"role": "user", "content": text}]}
    return {"custom_id": id, "method": "POST", "url": CHAT, "body": body, **fields}


Serve = Callable[..., Client]


@pytest.fixture
def serve(make_host: MakeHost, make_store: MakeStore) -> Iterator[Serve]:
    """Serve hosts that share a store: `serve(answer, user="ann")`."""
    with ExitStack() as opened:

        def start(answer: Any = None, *, user: str = "", **options: Any) -> Client:
            fake = FakeModel(*([] if answer is None else [answer]))
            plugins = {"fake": fake, "openai": genai_wire_openai, "batch": genai_batch}
            host = make_host(**{"store": make_store(), "config": CONFIG, **plugins, **options})
            return Client(opened.enter_context(RouteServer(host, user=user)).url)

        yield start
    assert not threads_of("batch_")


def threads_of(batch: str) -> list[str]:
    names = (thread.name for thread in threading.enumerate())
    return [name for name in names if name.startswith(f"genai-{batch}")]


def reverses(prompt: RecordedPrompt) -> str:
    text = prompt.messages[-1].text
    if text == "limit":
        raise RateLimited("too many requests")
    return text[::-1]


def test_each_row_has_its_answer_in_the_order_of_the_rows(serve: Serve) -> None:
    client = serve(reverses)
    rows = [chat(f"r{number}", f"n{number}") for number in range(20)]
    expiry = {"anchor": "created_at", "seconds": DAY}
    new = client.create(*rows, metadata={"a": "b"}, output_expires_after=expiry)
    assert new["object"] == "batch"
    assert (new["status"], new["errors"], new["output_file_id"]) == ("validating", None, None)
    assert new["expires_at"] - new["created_at"] == DAY
    batch = client.ended(new)
    assert batch["status"] == "completed"
    assert batch["request_counts"] == {"total": 20, "completed": 20, "failed": 0}
    assert (batch["metadata"], batch["error_file_id"]) == ({"a": "b"}, None)
    assert batch["created_at"] <= batch["in_progress_at"] <= batch["completed_at"]
    lines = client.lines(batch)
    assert [line["custom_id"] for line in lines] == [row["custom_id"] for row in rows]
    assert len({line["id"] for line in lines}) == 20
    for line in lines:
        assert set(line) == {"id", "custom_id", "response", "error"}
        assert set(line["response"]) == {"status_code", "request_id", "body"}
        assert (line["error"], line["response"]["status_code"]) == (None, 200)
        assert line["response"]["body"]["object"] == "chat.completion"
    assert client.texts(batch)["r12"] == "21n"
    file = client.get(f"/files/{batch['output_file_id']}")
    assert file["purpose"] == "batch_output"
    assert file["expires_at"] == file["created_at"] + DAY
    assert file["bytes"] == len(client.ask("GET", f"/files/{file['id']}/content").content)


WRONG: list[tuple[Any, str | None, str | int]] = [
    (b"{", None, "invalid_json_line"),
    (b"[1]", None, "invalid_json_line"),
    (b"[" * 100_000, None, "invalid_json_line"),
    (b'{"custom_id": "\xff"}', None, "invalid_json_line"),
    (b'{"custom_id": "\\ud800"}', "\ud800", "invalid_method"),
    ({"a": 1}, None, "missing_required_parameter"),
    (chat("", "x"), None, "missing_required_parameter"),
    (chat("twice", "x"), "twice", ""),
    (chat("twice", "y"), None, "duplicate_custom_id"),
    (chat("get", "x", method="GET"), "get", "invalid_method"),
    (chat("url", "x", url="/v1/embeddings"), "url", "mismatched_url"),
    (chat("body", "x", body="x"), "body", "missing_required_parameter"),
    (chat("stream", "x", body={"stream": True}), "stream", "invalid_request"),
    (chat("model", "x", model="nowhere"), "model", 404),
    (chat("empty", "x", body={"model": "fake", "messages": []}), "empty", 400),
    (chat("limit", "limit"), "limit", 429),
]


def test_a_wrong_row_fails_alone(serve: Serve) -> None:
    """The clock of the waits before the last row is attempted again is not the real one."""
    clock = ManualClock()
    client = serve(reverses, clock=clock)
    new = client.create(*(row for row, _, _ in WRONG), chat("last", "abc"))
    batch = client.ended(new, meanwhile=lambda: clock.advance(60))
    assert batch["status"] == "completed"
    assert client.texts(batch) == {"twice": "x", "last": "cba"}
    errors = client.lines(batch, "error_file_id")
    assert [*map(outcome, errors)] == [(id, code) for _, id, code in WRONG if code]
    assert batch["request_counts"] == {"total": 17, "completed": 2, "failed": 15}
    (refused,) = [line for line in errors if line["custom_id"] == "model"]
    assert refused["response"]["body"]["error"]["code"] == "model_not_found"
    lines = [each["error"]["message"][:7] for each in errors if each["custom_id"] is None]
    assert lines == [f"line {number}:"[:7] for number in (1, 2, 3, 4, 6, 7, 9)]


@pytest.mark.parametrize(("endpoint", "body", "kind"), [
    ("/v1/completions", {"model": "fake", "prompt": "hi"}, "text_completion"),
    ("/v1/embeddings", {"model": "fake-embed", "input": "hi"}, "list"),
    ("/v1/responses", {"model": "fake", "input": "hi"}, "response"),
    ("/chat/completions", {"model": "fake", "messages": [HI]}, "chat.completion"),  # of Azure
])  # fmt: skip
def test_other_endpoints(serve: Serve, endpoint: str, body: Any, kind: str) -> None:
    client = serve()
    row = {"custom_id": "a", "method": "POST", "url": endpoint, "body": body}
    other = {**row, "custom_id": "b", "url": f"/v1{endpoint.removeprefix('/v1')}"}
    batch = client.ended(client.create(row, other, endpoint=endpoint))
    assert (batch["status"], batch["endpoint"]) == ("completed", endpoint), batch
    lines = client.lines(batch)
    assert [line["response"]["body"]["object"] for line in lines] == [kind] * 2


@pytest.mark.parametrize(("fields", "param"), [
    ({"input_file_id": "file_0"}, "input_file_id"), ({"input_file_id": None}, "input_file_id"),
    ({"endpoint": "/v1/nothing"}, "endpoint"), ({"endpoint": "/files"}, "endpoint"),
    ({"endpoint": None}, "endpoint"), ({"completion_window": "1h"}, "completion_window"),
    ({"metadata": {"a": 1}}, "metadata"),
    ({"output_expires_after": {"anchor": "created_at"}}, "output_expires_after.seconds"),
])  # fmt: skip
def test_an_invalid_request_creates_no_batch(serve: Serve, fields: Any, param: str) -> None:
    client = serve()
    assert client.create(chat("a", "x"), **fields)["error"]["param"] == param
    assert client.get("/batches")["data"] == []


def test_a_file_of_another_purpose_is_refused(serve: Serve) -> None:
    client = serve()
    reply = client.create(input_file_id=client.upload(b"{}", "assistants"))
    assert reply["error"]["param"] == "input_file_id"


@pytest.mark.parametrize(
    ("data", "code"), [(b"\n \n", "empty_file"), (b"{}\n" * 50_001, "too_many_rows")]
)
def test_a_file_that_is_no_batch_fails_the_batch(serve: Serve, data: bytes, code: str) -> None:
    client = serve()
    batch = client.ended(client.create(data))
    assert batch["status"] == "failed"
    (error,) = batch["errors"]["data"]
    assert error["code"] == code
    assert (batch["output_file_id"], batch["error_file_id"]) == (None, None)


def test_batches_belong_to_their_user(serve: Serve) -> None:
    ann, bob = serve(reverses, user="ann"), serve(reverses, user="bob")
    first, second = (ann.ended(ann.create(chat("a", "x"))) for _ in range(2))
    assert [each["id"] for each in ann.get("/batches")["data"]] == [second["id"], first["id"]]
    page = ann.get("/batches", limit=1)
    assert (page["has_more"], page["last_id"]) == (True, second["id"])
    assert ann.get("/batches", after=second["id"])["data"] == [first]
    assert bob.get("/batches")["data"] == []
    for method, path in (("GET", ""), ("POST", "/cancel")):
        assert bob.ask(method, f"/batches/{first['id']}{path}").status_code == 404
    assert bob.ask("GET", f"/files/{first['output_file_id']}").status_code == 404
    assert bob.create(input_file_id=first["input_file_id"])["error"]["param"] == "input_file_id"


def test_the_budget_of_a_user_holds_for_the_rows(serve: Serve) -> None:
    """They are not attempted again: the clock stands still."""
    budgets = BudgetsConfig(users={"ann": BudgetConfig(day_tokens=0)})
    options = {"config": Config(models={"chat": "fake"}, budgets=budgets), "clock": ManualClock()}
    for user, codes in (("ann", {"a": 429}), ("bob", {})):
        client = serve(reverses, user=user, **options)
        batch = client.ended(client.create(chat("a", "x")))
        assert batch["status"] == "completed"
        assert client.codes(batch) == codes


def create_unsubmitted(client: Client, *rows: Any) -> Any:
    """Create a batch as a server does that is killed before it submits the job."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JobWorker, "submit", lambda *args: None)
        return client.create(*rows)


class Gate:
    """A model that answers `wait` only when it is opened."""

    def __init__(self) -> None:
        self.reached, self._opened = threading.Event(), threading.Event()
        self.open = self._opened.set

    def __call__(self, prompt: RecordedPrompt) -> str:
        if prompt.messages[-1].text == "wait":
            self.reached.set()
            assert self._opened.wait(60)
        return prompt.messages[-1].text


def test_a_cancelled_batch_has_the_rows_that_were_answered(serve: Serve) -> None:
    gate = Gate()
    client = serve(gate)
    new = client.create(*(chat(f"r{number}", "hi") for number in range(20)), chat("w", "wait"))
    assert gate.reached.wait(60)
    cancelled = client.ask("POST", f"/batches/{new['id']}/cancel").json()
    assert cancelled["status"] in ("cancelling", "cancelled")
    gate.open()
    batch = client.ended(new)
    assert batch["status"] == "cancelled"
    assert batch["cancelling_at"] <= batch["cancelled_at"]
    done = batch["request_counts"]["completed"]
    assert len(client.lines(batch)) == done >= 13  # at most 8 were in progress
    again = client.ask("POST", f"/batches/{new['id']}/cancel")
    assert again.status_code == 400
    assert "cancelled" in again.json()["error"]["message"]


def test_cancelled_amid_invalid_rows(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    client = serve()
    put = Documents.put

    def cancels(self: Documents, id: str, value: Any, *, expect: int | None = None) -> int:
        version = put(self, id, value, expect=expect)
        if "is_error" in value:
            client.ask("POST", f"/batches/{new['id']}/cancel")
        return version

    new = create_unsubmitted(client, *[b"{"] * 9)
    monkeypatch.setattr(Documents, "put", cancels)
    batch = client.ended(new)
    assert batch["status"] == "cancelled"
    assert batch["request_counts"] == {"total": 9, "completed": 0, "failed": 1}


def test_rows_that_wait_for_a_rate_limit_do_not_delay_other_batches(serve: Serve) -> None:
    reached = threading.Semaphore(0)

    def limits(prompt: RecordedPrompt) -> str:
        reached.release()
        return reverses(prompt)

    client = serve(limits, clock=ManualClock())
    for _ in range(4):
        client.create(*(chat(f"r{number}", "limit") for number in range(8)))
    for _ in range(32):
        assert reached.acquire(timeout=60)
    batch = client.ended(client.create(chat("a", "abc")))
    assert client.texts(batch) == {"a": "cba"}
    assert not threads_of(batch["id"])
    assert threads_of("batch_")  # until the server is closed


def test_an_expired_batch_names_the_rows_without_an_answer(serve: Serve) -> None:
    gate, clock = Gate(), ManualClock()
    client = serve(gate, clock=clock)
    new = client.create(chat("a", "hi"), chat("w", "wait"))
    assert gate.reached.wait(60)
    clock.advance(DAY)
    gate.open()
    batch = client.ended(new)
    assert batch["status"] == "expired"
    assert client.codes(batch).get("w") == "batch_expired"
    assert client.texts(batch).keys() | client.codes(batch).keys() == {"a", "w"}


def test_killed_anywhere_it_is_continued(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files are the same as without the kill."""
    by_hand = ByHand(monkeypatch)
    client = serve(reverses)
    rows = [chat("a", "x"), b"{", chat("b", "y"), chat("c", "z", model="nowhere")]
    number, is_killed = 0, True
    while is_killed:
        new = client.create(*rows)
        is_killed = by_hand.do(number)
        batch = client.get(f"/batches/{new['id']}")
        assert batch["status"] == "completed", f"killed before write {number}"
        assert client.texts(batch) == {"a": "x", "b": "y"}
        assert client.codes(batch) == {None: "invalid_json_line", "c": 404}
        assert batch["request_counts"] == {"total": 4, "completed": 2, "failed": 2}
        number += 1
    assert number > 7


def test_continued_with_few_results_at_once(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """A result can have many megabytes."""
    by_hand, limits = ByHand(monkeypatch), list[int]()
    client, read = serve(reverses), Documents.list

    def recorded(self: Documents, **fields: Any) -> Any:
        if self._collection.startswith("batch/row/"):
            limits.append(fields["limit"])
        return read(self, **fields)

    monkeypatch.setattr(Documents, "list", recorded)
    new = client.create(*(chat(f"r{number}", "x") for number in range(20)))
    assert by_hand.do(18)
    batch = client.get(f"/batches/{new['id']}")
    assert batch["request_counts"] == {"total": 20, "completed": 20, "failed": 0}
    assert len(client.lines(batch)) == 20
    assert 0 < max(limits) <= 8


@pytest.mark.parametrize("seconds", [0, 1, DAY])
def test_a_worker_that_lost_its_batch_does_not_change_it_after_its_end(
    serve: Serve, make_store: MakeStore, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    """Its process was suspended for some seconds in the last row."""
    by_hand, clock, gate = ByHand(monkeypatch), ManualClock(), Gate()
    prompts: list[str] = []

    def recorded(prompt: RecordedPrompt) -> str:
        prompts.append(prompt.messages[-1].text)
        return prompts[-1]

    suspended, other = serve(gate, clock=clock), serve(recorded, clock=clock)
    new = suspended.create(chat("a", "x"), chat("b", "y"), chat("w", "wait"))
    with ThreadPoolExecutor(1) as threads:
        lost = threads.submit(by_hand.do)
        assert gate.reached.wait(60)
        other.get(f"/batches/{new['id']}")  # submits it again
        by_hand.do()
        batch, files = other.get(f"/batches/{new['id']}"), other.get("/files")
        assert batch["status"] == "completed"
        calls = len(prompts)
        clock.advance(seconds)
        gate.open()
        lost.result(60)
    assert other.get(f"/batches/{new['id']}") == batch
    assert other.get("/files") == files
    assert not by_hand.submitted
    assert len(prompts) == calls
    assert other.texts(batch) == {"a": "x", "b": "y", "w": "wait"}
    assert make_store().documents(f"batch/row/{new['id']}").count() == 0


def test_a_batch_that_kills_its_workers(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    by_hand = ByHand(monkeypatch)
    client = serve(reverses)
    new = client.create(chat("a", "x"), chat("b", "y"))
    assert by_hand.do(2, tries=MAX_TRIES + 1)  # after the start and the result of one row
    batch = client.get(f"/batches/{new['id']}")
    assert batch["status"] == "failed"
    assert "repeatedly" in batch["errors"]["data"][0]["message"]
    assert batch["request_counts"] == {"total": 2, "completed": 1, "failed": 0}
    assert client.texts(batch) in ({"a": "x"}, {"b": "y"})
    assert batch["error_file_id"] is None


@pytest.mark.parametrize("path", ["/batches/{id}", "/batches"])
def test_reading_submits_a_batch(serve: Serve, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """Its server was killed between the two."""
    by_hand = ByHand(monkeypatch)
    client = serve(reverses)
    batch = create_unsubmitted(client, chat("a", "x"))
    client.get(path.format(id=batch["id"]))
    assert [job.id for _, job in by_hand.submitted] == [batch["id"]]
    by_hand.do()
    client.get(path.format(id=batch["id"]))
    assert not by_hand.submitted
    assert client.texts(client.get(f"/batches/{batch['id']}")) == {"a": "x"}


def test_a_store_that_fails_creates_no_batch(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    client = serve(reverses)
    put = Documents.put

    def fails(self: Documents, id: str, value: Any, *, expect: int | None = None) -> int:
        if value.get("kind") == "batch":
            raise StoreError("the disk is full")
        return put(self, id, value, expect=expect)

    with monkeypatch.context() as patch:
        patch.setattr(Documents, "put", fails)
        assert "full" in client.create(chat("a", "x"))["error"]["message"]
    assert client.get("/batches")["data"] == []
