"""Conversations over the native API."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
import requests
from attrs import evolve
from hypothesis import given, strategies as some

from genai_host.api import (
    Answer,
    Citation,
    Completion,
    Feature,
    FeatureSteps,
    Image,
    Message,
    NewId,
    NoSettings,
    Pause,
    Prompt,
    Text,
    Turn,
)
from genai_host.errors import Interrupted, ServiceUnavailable, StoreError
from genai_host_testing import FakeModel, InlinePlugin
from genai_host_testing.fake_service import HANG
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.native_api import Api, native_api, served

pytestmark = pytest.mark.part


def waits(turn: Turn[NoSettings]) -> FeatureSteps:
    value = yield from Pause("number", {"least": 3})
    return Answer(f"it is {value}")


def cut(turn: Turn[NoSettings]) -> FeatureSteps:
    yield from NewId("x")  # with which the turn is on record
    if turn.message.text == "cut":
        raise Interrupted("as if it was killed")
    return Answer("done")


def approves(turn: Turn[NoSettings]) -> FeatureSteps:
    value = yield from Pause("number", {})
    completion = yield from Prompt([turn.message])
    return Answer(f"{value} {completion.text}")


def draws(turn: Turn[NoSettings]) -> FeatureSteps:
    yield from ()
    pictures = [Image(b"\x89PNG", "image/png"), Image(b"<svg/>", "image/svg+xml")]
    return Answer("look", images=pictures)


FEATURES: list[Any] = [
    *(Feature(each.__name__, NoSettings, each, roles={}) for each in (waits, cut, draws)),
    Feature("approves", NoSettings, approves),
]


@pytest.fixture
def api(make_host: MakeHost, tmp_path: Path) -> Iterator[Api]:
    with native_api(make_host, tmp_path, extra=InlinePlugin(features=FEATURES)) as api:
        yield api


def test_a_conversation_from_its_beginning_to_its_end(api: Api) -> None:
    path = api.opened(title="mine", parameters={"temperature": 0.5})
    assert api.take_turn(path)["answer"]["text"] == "hi"
    shown = api.get(path)
    assert (shown["title"], shown["status"]) == ("mine", "idle")
    assert shown["parameters"] == {"temperature": 0.5}
    [turn] = shown["turns"]
    assert turn["status"] == "answered"
    assert turn["message"]["content"] == [{"type": "text", "text": "hi"}]
    assert "details" not in turn["answer"]
    assert api.get(f"{path}?details=true")["turns"][0]["answer"]["details"]
    api.patch(path, {"title": "ours", "parameters": {"temperature": None, "top_p": 1}})
    shown = api.get(path)
    assert (shown["title"], shown["parameters"]) == ("ours", {"top_p": 1})
    assert api.send("DELETE", path).status_code == 204
    assert api.refused("GET", path) == (404, "not_found")


_CHANGED: dict[str, Any] = {
    "title": "mine", "parameters": {"temperature": 0.5, "top_p": 1},
    "settings": {"system_prompt": "x", "history_turns": 2}, "tools": [],
    "models": {"main": "other@fake", "support": "other@fake"},
}  # fmt: skip


@pytest.mark.parametrize(("change", "after"), [
    ({"title": None}, {"title": ""}), ({"parameters": None}, {"parameters": {}}),
    ({"settings": None}, {"settings": {}}),
    ({"settings": {"system_prompt": None}}, {"settings": {"history_turns": 2}}),
    ({"tools": None}, {"tools": None}),
    ({"models": {"support": None}}, {"models": {"main": "other@fake"}}),
    ({"model": None}, {"models": {"main": "fake", "support": "other@fake"}}),
    ({"models": None}, {"models": {"main": "fake"}}),
    ({"models": None, "model": "new@fake"}, {"models": {"main": "new@fake"}}),
    ({"provider": None}, {}), ({}, {}),
], ids=str)  # fmt: skip
def test_null_resets_to_the_default(api: Api, change: Any, after: Any) -> None:
    path = api.opened(**_CHANGED)
    shown = api.patch(path, change)
    assert {name: shown[name] for name in _CHANGED} == {**_CHANGED, **after}
    assert api.take_turn(path)["status"] == "answered"


def test_a_turn_as_it_comes(api: Api) -> None:
    path = api.opened()
    events = api.events(f"{path}/turns", {"message": "a rather long message"})
    names = [name for name, _ in events]
    assert names[0] == "turn"
    assert names[-1] == "answer"
    assert {*names} == {"turn", "delta", "step", "answer"}
    text = "".join(data.get("text", "") for name, data in events if name == "delta")
    assert text == events[-1][1]["text"] == "a rather long message"
    assert events[-1][1]["details"]


def test_what_is_wrong_is_a_status_and_what_fails_later_an_event(api: Api) -> None:
    path = api.opened()
    wrong = {"message": "hi", "stream": True, "context": 3}
    assert api.refused("POST", f"{path}/turns", wrong)[0] == 400
    api.fake.faults[0] = ServiceUnavailable("away")
    *_, (name, data) = api.events(f"{path}/turns", {"message": "hi"})
    assert (name, data["code"], data["message"]) == ("error", "unavailable", "away")
    api.fake.faults[1] = ServiceUnavailable("away")
    assert api.refused("POST", f"{path}/turns", {"message": "hi"}) == (503, "unavailable")
    assert [turn["status"] for turn in api.get(path)["turns"]] == ["failed", "failed"]


def test_a_turn_is_said_again_and_taken_back(api: Api) -> None:
    path = api.opened()
    api.take_turn(path, "one")
    api.take_turn(path, "two", regenerate=True)
    assert [turn["status"] for turn in api.get(path)["turns"]] == ["replaced", "answered"]
    message = api.post(f"{path}/undo")["message"]
    assert message["content"][0]["text"] == "two"
    assert api.post(f"{path}/undo")["message"] is None


def test_a_turn_waits_and_goes_on(api: Api) -> None:
    path = api.opened(feature="waits")
    paused = api.take_turn(path)
    assert paused["status"] == "paused"
    assert paused["pause"] == {"kind": "number", "payload": {"least": 3}}
    shown = api.get(path)
    assert (shown["status"], shown["pause"]["kind"]) == ("paused", "number")
    assert api.refused("POST", f"{path}/turns", {"message": "hi"})[0] == 409
    done = api.post(f"{path}/resume", {"result": 5})
    assert done["answer"]["text"] == "it is 5"
    api.take_turn(path)
    assert api.post(f"{path}/abandon")["turns"][1]["status"] == "failed"
    never = api.opened()
    for stream in (False, True):
        assert api.refused("POST", f"{never}/resume", {"stream": stream}) == (409, "replay")


def test_a_turn_that_waits_is_told_in_a_stream(api: Api) -> None:
    path = api.opened(feature="waits")
    names = [name for name, _ in api.events(f"{path}/turns", {"message": "hi"})]
    assert names == ["turn", "paused"]
    *_, (name, data) = api.events(f"{path}/resume", {"result": 4})
    assert (name, data["text"]) == ("answer", "it is 4")


Turns = Callable[[str], Future[Any]]


@pytest.fixture
def hanging(api: Api, background: Callable[..., Future[Any]]) -> Turns:
    """Starts a turn that does not end, for its status and the code of its error."""

    def start(path: str) -> Future[Any]:
        api.fake.faults[api.fake.calls] = HANG
        session = requests.Session()  # one thread's alone
        own = evolve(api, client=session)
        turn = background(own.refused, "POST", f"{path}/turns", {"message": "hi"})
        turn.add_done_callback(lambda _: session.close())
        assert api.fake.hanging.wait(30)
        return turn

    return start


def test_one_with_a_turn_in_progress_is_deleted(api: Api, hanging: Turns) -> None:
    path = api.opened()
    turn = hanging(path)
    assert api.send("DELETE", path).status_code == 204
    assert turn.result(30)[0] == 409
    assert api.refused("GET", path) == (404, "not_found")
    assert api.get("/conversations")["data"] == []


def test_one_turn_at_a_time_and_it_can_be_cancelled(api: Api, hanging: Turns) -> None:
    path = api.opened()
    turn = hanging(path)
    job = {"conversation": path.rpartition("/")[2], "message": "x"}
    for method, busy, body in [
        ("POST", f"{path}/turns", {"message": "x"}),
        ("POST", f"{path}/turns", {"message": "x", "stream": True}),
        ("POST", f"{path}/resume", {}),
        ("POST", f"{path}/resume", {"stream": True}),
        ("POST", f"{path}/undo", {}),
        ("POST", f"{path}/abandon", {}),
        ("PATCH", path, {"parameters": {"top_p": 1}}),
        ("POST", "/jobs", job),
    ]:
        assert api.refused(method, busy, body) == (409, "conversation_busy"), (busy, body)
    assert api.patch(path, {"title": "it has a name"})["status"] == "running"
    with served(api.host, api.fake) as other:
        assert other.post(f"{path}/cancel") == {"cancelled": False}  # it is another server's
    assert api.get(path)["status"] == "running"
    assert api.post(f"{path}/cancel") == {"cancelled": True}
    assert turn.result(30) == (409, "cancelled")
    assert [turn["status"] for turn in api.get(path)["turns"]] == ["failed"]
    assert api.post(f"{path}/cancel") == {"cancelled": False}


def test_what_is_wrong_drops_no_turn_that_was_cut_off(api: Api) -> None:
    """One that is right ends it: it is gone on without."""
    path = api.opened(feature="cut")
    assert api.refused("POST", f"{path}/turns", {"message": "cut"}) == (503, "interrupted")
    assert api.refused("POST", f"{path}/turns", {"message": "x", "nonsense": 1})[0] == 400
    assert [turn["status"] for turn in api.get(path)["turns"]] == ["unfinished"]
    again = api.take_turn(path, "again")
    assert (again["turn"], again["answer"]["text"]) == (1, "done")
    assert [turn["status"] for turn in api.get(path)["turns"]] == ["failed", "answered"]


@pytest.mark.parametrize("end", ["remove", "disable"])
def test_a_conversation_goes_on_without_its_provider(api: Api, end: str) -> None:
    api.host.instances.add("p1", "fake")
    paths = [api.opened(model="fake@p1", feature="approves") for _ in range(3)]
    for path in paths:
        assert api.take_turn(path)["status"] == "paused"
    getattr(api.host.instances, end)("p1")
    undone, abandoned, resumed = paths
    assert api.post(f"{undone}/undo")["message"]["content"][0]["text"] == "hi"
    assert api.post(f"{abandoned}/abandon")["status"] == "failed"
    for path in (undone, abandoned):
        assert api.refused("POST", f"{path}/turns", {"message": "hi"}) == (404, "no_route")
    assert api.refused("POST", f"{resumed}/resume", {"result": 5}) == (404, "no_route")
    assert api.get(resumed)["status"] == "paused"
    assert api.refused("PATCH", resumed, {"model": "nobody"}) == (404, "no_route")
    assert api.patch(resumed, {"model": "fake"})["models"] == {"main": "fake"}
    assert api.post(f"{resumed}/resume", {"result": 5})["answer"]["text"] == "5 hi"
    api.patch(undone, {"model": "fake"})
    assert api.take_turn(undone)["status"] == "paused"


def test_conversations_are_listed_page_by_page_and_found(api: Api) -> None:
    paths = [api.opened() for _ in range(3)]
    api.take_turn(paths[0], "where is the needle")
    page = api.get("/conversations?limit=2")
    assert len(page["data"]) == 2
    rest = api.get(f"/conversations?limit=2&after={page['next']}")
    assert rest["next"] is None
    ids = [each["id"] for each in page["data"] + rest["data"]]
    assert {f"/conversations/{id}" for id in ids} == {*paths}
    whole = api.get("/conversations?limit=3")["data"]
    last = f"/conversations/{page['data'][1]['id']}"
    for change in (lambda: api.take_turn(last), lambda: api.send("DELETE", last)):
        change()
        assert api.get(f"/conversations?after={page['next']}")["data"] == whole[2:]
    assert api.get(f"/conversations?after={whole[0]['id']}")["data"] == whole[2:]
    for wrong in (last.rpartition("/")[2], "1-", "x-y"):
        assert api.refused("GET", f"/conversations?after={wrong}") == (404, "not_found")
    [match, *_] = api.get("/conversations?search=needle")["data"]
    assert f"/conversations/{match['conversation']}" == paths[0]


def test_turns_come_page_by_page(api: Api) -> None:
    path = api.opened()
    for number in range(5):
        api.take_turn(path, str(number))
    last = api.get(f"{path}?limit=2")
    assert [turn["turn"] for turn in last["turns"]] == [3, 4]
    assert last["more"]
    first = api.get(f"{path}?limit=10&before=3")
    assert [turn["turn"] for turn in first["turns"]] == [0, 1, 2]
    assert not first["more"]
    assert api.get(f"{path}?before=0")["turns"] == []
    for none in ("9" * 5000, "1" + "0" * 10, "-1", "x", "1.5", "\u0661"):
        for query in (f"before={none}", f"limit={none}"):
            assert api.refused("GET", f"{path}?{query}")[0] == 400, query
    for wrong in ("limit=0", "limit=1001", "details=2"):
        assert api.refused("GET", f"{path}?{wrong}")[0] == 400, wrong


def test_a_message_has_parts(api: Api) -> None:
    path = api.opened()
    api.take_turn(path, [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])
    api.take_turn(path, {"role": "user", "content": [{"type": "text", "text": "c"}]})
    image = {"type": "image", "url": "https://example.org/x.png"}
    api.take_turn(path, [{"type": "text", "text": "d"}, image])
    assert [prompt.text for prompt in api.fake.prompts] == ["ab", "c", "d"]
    assert api.get(path)["turns"][2]["message"]["content"][1] == image


def test_data_is_of_the_schema_that_is_asked_for(api: Api) -> None:
    api.fake.answer = lambda prompt: '{"city": "Oslo"}'
    schema = {"type": "object", "required": ["city"]}
    assert api.take_turn(api.opened(), output_schema=schema)["answer"]["data"] == {"city": "Oslo"}


def test_pictures_are_never_what_runs(api: Api) -> None:
    path = api.opened(feature="draws")
    assert len(api.take_turn(path)["answer"]["images"]) == 2
    kinds = [
        api.send("GET", f"{path}/images/0/{number}").headers["content-type"] for number in (0, 1)
    ]
    assert kinds == ["image/png", "application/octet-stream"]
    assert api.refused("GET", f"{path}/images/0/2") == (404, "not_found")


OWNED = [
    ("GET", "", None), ("PATCH", "", {"title": "theirs"}),
    ("PATCH", "", {"parameters": {"top_p": 1}}), ("DELETE", "", None),
    ("POST", "/turns", {"message": "x"}), ("POST", "/turns", {"message": "x", "stream": True}),
    ("POST", "/resume", {"result": 1}), ("POST", "/cancel", {}), ("POST", "/undo", {}),
    ("POST", "/abandon", {}), ("GET", "/export", None), ("GET", "/images/0/0", None),
]  # fmt: skip


def test_the_beginning_of_an_id_is_none(api: Api) -> None:
    path = api.opened()
    for method, below, body in OWNED:
        assert api.refused(method, path[:-1] + below, body) == (404, "not_found")
    job = {"conversation": path.rpartition("/")[2][:-1], "message": "x"}
    assert api.refused("POST", "/jobs", job) == (404, "not_found")
    assert api.get(path)["turns"] == []


@pytest.mark.parametrize("title", ["a\nb", "a\x1b[0m", "\ud800", "a\u2028b", "x" * 501])
def test_a_title_is_one_line(api: Api, title: str) -> None:
    path = api.opened(title="👩‍👩‍👧 mine")
    assert api.refused("PATCH", path, {"title": title}) == (400, "invalid_data")
    assert api.get(path)["title"] == "👩‍👩‍👧 mine"
    assert api.patch(path, {"title": ""})["title"] == ""


def test_an_answer_that_is_not_kept_says_so(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def add(*arguments: Any) -> None:
        raise StoreError("the disk is full")

    path = api.opened()
    with monkeypatch.context() as patched:
        patched.setattr("genai_host.store.writer.EntryWriter.add", add)
        answer = api.take_turn(path)["answer"]
        *_, (_, streamed) = api.events(f"{path}/turns", {"message": "hi"})
    for each in (answer, streamed):
        assert each["text"] == "hi"
        assert each["record_error"]["code"] == "store"
    assert "record_error" not in api.take_turn(path)["answer"]


def test_pages_that_an_answer_cites(api: Api) -> None:
    said = Text("It is cold.", citations=[Citation("https://a.example", "A", start=6, end=10)])
    api.fake.answer = lambda prompt: Completion(Message("assistant", said))
    path = api.opened()
    events = api.events(f"{path}/turns", {"message": "hi"})
    cited = {"url": "https://a.example", "title": "A", "start": 6, "end": 10}
    deltas = [data["citations"] for name, data in events if name == "delta" and "citations" in data]
    assert deltas == [[cited]]
    listed = [{"number": 1, "title": "A", "link": "https://a.example"}]
    for answer in (events[-1][1], api.get(path)["turns"][0]["answer"]):
        assert answer["citations"] == [cited]
        assert answer["reactions"] == [{"type": "sources", "sources": listed}]
    assert "1. A <https://a.example>" in api.send("GET", f"{path}/export?format=markdown").text


def test_exports(api: Api) -> None:
    path = api.opened()
    api.take_turn(path)
    assert api.get(f"{path}/export")
    assert "hi" in api.send("GET", f"{path}/export?format=markdown").text
    assert api.refused("GET", f"{path}/export?format=pdf")[0] == 400


@pytest.mark.parametrize(("body", "status"), [
    ({"feature": "nobody"}, 404), ({"model": "nobody"}, 404), ({"model": 3}, 400),
    ({"parameters": []}, 400), ({"parameters": {"nonsense": 1}}, 400),
    ({"settings": {"nonsense": 1}}, 400), ({"models": {"main": 3}}, 400),
    ({"models": {"nobody": "fake"}}, 400), ({"tools": "all"}, 400), ({"nonsense": 1}, 400),
    ([], 400),
])  # fmt: skip
def test_what_is_wrong_opens_nothing(api: Api, body: Any, status: int) -> None:
    assert api.refused("POST", "/conversations", body)[0] == status
    assert api.get("/conversations")["data"] == []


@pytest.mark.parametrize("body", [
    {}, {"message": ""}, {"message": []}, {"message": 3},
    {"message": {"role": "system", "content": [{"type": "text", "text": "x"}]}},
    {"message": {"role": "assistant", "content": [{"type": "text", "text": "x"}]}},
    {"message": [{"type": "nonsense"}]},
    {"message": [{"type": "tool_result", "id": "1"}]},
    {"message": ["x", {"type": "tool_call", "id": "1", "name": "x"}]},
    {"message": [{"type": "opaque", "dialect": "plain", "data": {}}]},
    {"message": [{"type": "image", "url": "file:///etc/passwd"}]},
    {"message": "x", "context": []}, {"message": "x", "output_schema": 3},
    {"message": "x", "stream": "yes"}, {"message": "x", "nonsense": 1},
])  # fmt: skip
def test_what_is_wrong_begins_no_turn(api: Api, body: Any) -> None:
    path = api.opened()
    assert api.refused("POST", f"{path}/turns", body)[0] == 400
    assert api.get(path)["turns"] == []


def test_without_a_store_nothing_is_kept_and_that_is_said(make_host: MakeHost) -> None:
    with served(make_host(fake=FakeModel()), FakeModel()) as api:
        assert api.refused("POST", "/conversations", {}) == (400, "configuration")
        assert api.get("")["keeps"] is False


values = some.recursive(
    some.none() | some.booleans() | some.integers(-9, 9) | some.text(max_size=5)
    | some.sampled_from(["user", "text", "chat", "fake", "\ud800"]),
    lambda inner: some.lists(inner, max_size=3)
    | some.dictionaries(
        some.sampled_from(["role", "content", "type", "text", "main", "temperature", "x"]),
        inner,
        max_size=3,
    ),
    max_leaves=8,
)  # fmt: skip
fields = some.sampled_from(
    ["feature", "model", "provider", "models", "parameters", "settings", "tools", "title",
     "message", "regenerate", "context", "output_schema", "stream", "result", "conversation", "x"]
)  # fmt: skip


@given(body=some.dictionaries(fields, values, max_size=5) | values)
def test_whatever_comes_is_no_failure_of_the_server(api: Api, body: Any) -> None:
    path = api.opened()
    for method, where in (
        ("POST", "/conversations"),
        ("PATCH", path),
        ("POST", f"{path}/turns"),
        ("POST", f"{path}/resume"),
        ("POST", "/jobs"),
    ):
        assert api.send(method, where, body).status_code < 500
