"""Responses that are kept: gone on from, shown again, deleted, compacted; where, and whose."""

from __future__ import annotations

from typing import Any

import pytest
from genai_wire_openai.responses.api import Seals
from genai_wire_openai.responses.state import RESPONSES, ResponseStore
from responses_api import CALL, CLOCK, CONFIG, Api, calls_the_clock, output_of, two_users, user

from genai_host import Config
from genai_host.api import Completion, Message, Reasoning, ToolCall, ToolResult, Usage, VendorPart
from genai_host.config import ServerConfig
from genai_host.errors import Conflict, LimitExceeded, NotFound, StoreError
from genai_host.serving.memory import MemoryCache
from genai_host.store import Store
from genai_host_testing import FakeModel
from genai_host_testing.clock import ManualClock
from genai_host_testing.internal.fixtures import MakeHost

pytestmark = pytest.mark.part

RECORDING: Config = CONFIG._replace(server=ServerConfig(record_api_calls=True))
DAY = 24 * 3600


def last_prompt(api: Api) -> list[str]:
    return [f"{message.role}: {message.text}" for message in api.fake.prompts[-1].messages]


def test_going_on_from_a_response(api: Api) -> None:
    first = api.response("one", instructions="be kind")
    second = api.response("two", previous_response_id=first["id"])
    api.response("three", previous_response_id=second["id"], instructions="be brief")
    assert last_prompt(api) == [
        "system: be brief", "user: one", "assistant: one", "user: two", "assistant: two",
        "user: three",
    ]  # fmt: skip
    assert second["previous_response_id"] == first["id"]
    api.response("other", previous_response_id=first["id"])  # another branch
    assert last_prompt(api) == ["user: one", "assistant: one", "user: other"]


def test_a_loop_of_tools(api: Api) -> None:
    calls = [ToolCall("c", "clock", {}), ToolCall("d", "clock", {})]
    api.fake.answer = lambda prompt: Completion(Message("assistant", calls), "tool_calls")
    first = api.response("when?", tools=[CLOCK])
    api.fake.answer = lambda prompt: "noon"
    outputs = [output_of("d", "2"), output_of("c", "1")]
    api.response(outputs, previous_response_id=first["id"], tools=[CLOCK])
    assert list(api.fake.prompts[-1].messages[1:]) == [
        Message("assistant", calls),
        Message("tool", [ToolResult("d", "clock", "2"), ToolResult("c", "clock", "1")]),
    ]
    missing = api.refused("so?", previous_response_id=first["id"])
    assert missing["param"] == "input"
    assert "'c'" in missing["message"]
    none = api.refused([output_of("x")], previous_response_id=first["id"])
    assert "'x'" in none["message"]


def test_what_the_model_thought_is_heard_by_it_again(api: Api) -> None:
    parts = [Reasoning("hm"), VendorPart("fake", {"secret": 1}), VendorPart("fake", 2)]
    api.fake.answer = lambda prompt: Completion(Message("assistant", [*parts, "so"]))
    first = api.response()
    assert "encrypted_content" not in first["output"][0]
    api.response("and?", previous_response_id=first["id"])
    assert list(api.fake.prompts[-1].messages[1].content)[:3] == parts
    path = f"/responses/{first['id']}"
    assert "encrypted_content" not in api.ok("GET", path)["output"][0]
    query = {"include[]": "reasoning.encrypted_content"}
    assert api.ok("GET", path, **query)["output"][0]["encrypted_content"]


def test_reasoning_is_completed_by_its_id(make_host: MakeHost) -> None:
    parts = [Reasoning("hm"), VendorPart("fake", {"secret": 1}), CALL]
    fake = FakeModel(lambda prompt: Completion(Message("assistant", parts), "tool_calls"))
    with two_users(make_host, fake) as (ann, bob):
        items: list[Any] = [user("when?")]
        for turn in range(3):  # a client appends the items of each reply to its input
            output = ann.response(items, tools=[CLOCK])["output"]
            items += [*output, output_of(CALL.id, str(turn))]
            assert "encrypted_content" not in output[0]
        sent = fake.prompts[-1].messages
        assert [list(each.content) for each in sent if each.role == "assistant"] == [parts] * 2
        for api in (ann, bob):
            unknown = [{**items[1], "id": "rs_1"}, *items[2:4]]
            unknown = unknown if api is ann else items[1:4]
            api.response([items[0], *unknown], tools=[CLOCK])
            assert list(fake.prompts[-1].messages[1].content) == [parts[0], CALL]


def test_thoughts_that_were_sealed_elsewhere_are_left_out(make_host: MakeHost) -> None:
    completion = Completion(Message("assistant", [VendorPart("fake", {"secret": 1}), "so"]))
    with two_users(make_host, FakeModel(lambda prompt: completion)) as (ann, bob):
        output = ann.response(include=["reasoning.encrypted_content"])["output"]
        sealed = output[0]["encrypted_content"]
        ann.response([user("hi"), *output, user("so?")])
        prompts = ann.fake.prompts
        assert [part.type for part in prompts[-1].messages[1].content] == ["opaque", "text"]
        for api, content in ((bob, sealed), (ann, sealed[:-8] + "AAAAAAA="), (ann, "gAAA")):
            thought: Any = {"type": "reasoning", "summary": [], "encrypted_content": content}
            made_up = {**thought, "opaque": [{"dialect": "fake", "data": 1}]}
            api.response([user("hi"), made_up, output[1], user("so?")])
            assert [part.type for part in prompts[-1].messages[1].content] == ["text"]


def test_a_response_that_was_not_kept(api: Api) -> None:
    response = api.response(store=False)
    id = response["id"]
    assert response["store"] is False
    assert api.error("GET", f"/responses/{id}")["code"] == "response_not_found"
    error = api.refused(status=404, previous_response_id=id)
    assert error["code"] == "previous_response_not_found"


def test_showing_and_deleting(api: Api) -> None:
    response = api.response()
    path = f"/responses/{response['id']}"
    assert api.ok("GET", path) == response
    assert "cannot be streamed" in api.error("GET", f"{path}?stream=true", status=400)["message"]
    assert api.error("POST", f"{path}/cancel", status=400)["type"] == "invalid_request_error"
    deleted = api.ok("DELETE", path)
    assert deleted == {"id": response["id"], "object": "response", "deleted": True}
    for method, rest in (("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("GET", "/input_items")):
        api.error(method, path + rest)


def test_input_items(api: Api) -> None:
    items = [
        user("one"),
        user([{"type": "input_text", "text": "two"}]),
        {"id": "msg_mine", "role": "assistant", "content": "three"},
    ]
    path = f"/responses/{api.response(items)['id']}/input_items"
    page = api.ok("GET", path, order="asc")
    one, two, three = page["data"]
    assert one["content"] == [{"type": "input_text", "text": "one"}]
    assert (one["type"], one["role"], one["status"]) == ("message", "user", "completed")
    assert three["id"] == "msg_mine"
    assert (page["first_id"], page["last_id"], page["has_more"]) == (one["id"], "msg_mine", False)
    newest = api.ok("GET", path, limit=2)
    assert newest["data"] == [three, two]
    assert newest["has_more"] is True
    rest = api.ok("GET", path, limit=2, after=newest["last_id"])
    assert (rest["data"], rest["has_more"]) == ([one], False)
    for query in ("limit=0", "limit=101", "limit=x", "limit=²", "order=up", "after=msg_x"):
        api.error("GET", f"{path}?{query}", status=400)
    api.error("GET", f"{path}?limit=000000001{'9' * 5000}", status=400)


def test_items_can_be_referred_to(api: Api) -> None:
    first = api.response("one")
    (answer,) = first["output"]
    (question,) = api.ok("GET", f"/responses/{first['id']}/input_items")["data"]
    references = [{"type": "item_reference", "id": item["id"]} for item in (question, answer)]
    api.response([references[0], {"id": answer["id"]}, user("two")])
    assert last_prompt(api) == ["user: one", "assistant: one", "user: two"]
    api.response([references[1], user("two")], previous_response_id=first["id"])
    for id in ("msg_x", f"{answer['id']}0", "msg_" + "0" * 52, "\0"):
        gone = [{"type": "item_reference", "id": id}]
        assert api.refused(gone, status=404)["code"] == "item_not_found"


def test_what_is_kept_is_of_one_user(make_host: MakeHost, sqlite_store: Store) -> None:
    """Nothing of it is read, changed or told by whether it is there."""
    with two_users(make_host, store=sqlite_store) as (ann, bob):
        for store in (None, True):  # in memory, and in the store
            response = ann.response(store=store)
            path = f"/responses/{response['id']}"
            item = {"id": response["output"][0]["id"]}
            for method, rest in (
                ("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("GET", "/input_items"),
            ):  # fmt: skip
                bob.error(method, path + rest)
            bob.refused(status=404, previous_response_id=response["id"])
            bob.refused([item], status=404)
            assert ann.ok("GET", path) == response


@pytest.mark.parametrize("how", ["recording", "asked"])
def test_in_the_store(make_host: MakeHost, sqlite_store: Store, how: str) -> None:
    """Another process has it as well."""
    settings: dict[str, Any] = {"config": RECORDING if how == "recording" else CONFIG}
    more = {} if how == "recording" else {"store": True}
    with Api.serving(make_host, store=sqlite_store, **settings) as api:
        response = api.response("one", **more)
    with Api.serving(make_host, store=sqlite_store, **settings) as again:
        assert again.ok("GET", f"/responses/{response['id']}") == response
        second = again.response("two", previous_response_id=response["id"])
        assert last_prompt(again) == ["user: one", "assistant: one", "user: two"]
        again.ok("DELETE", f"/responses/{response['id']}")
        again.refused(status=404, previous_response_id=second["id"])


def test_in_memory_unless_it_is_asked_for(make_host: MakeHost, sqlite_store: Store) -> None:
    with Api.serving(make_host, store=sqlite_store) as api:
        response = api.response()
        api.ok("GET", f"/responses/{response['id']}")
    assert sqlite_store.documents(RESPONSES).list() == []
    with Api.serving(make_host, store=sqlite_store) as again:
        again.error("GET", f"/responses/{response['id']}")


@pytest.mark.parametrize("in_store", [False, True])
def test_responses_are_kept_for_thirty_days(
    make_host: MakeHost, sqlite_store: Store, clock: ManualClock, in_store: bool
) -> None:
    settings: dict[str, Any] = {"store": sqlite_store, "config": RECORDING} if in_store else {}
    with Api.serving(make_host, clock=clock, **settings) as api:
        old = [api.response()["id"], api.response()["id"]]
        clock.advance(30 * DAY)
        api.ok("GET", f"/responses/{old[0]}")
        clock.advance(1)
        api.error("GET", f"/responses/{old[0]}")
        api.response()
        api.error("GET", f"/responses/{old[1]}")
    if in_store:
        assert len(sqlite_store.documents(RESPONSES).list()) == 1


def test_answers_need_no_store(
    make_host: MakeHost, sqlite_store: Store, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise StoreError("the disk is full")

    documents = type(sqlite_store.documents(RESPONSES))
    with Api.serving(make_host, store=sqlite_store) as api:
        monkeypatch.setattr(documents, "put", fails)
        response = api.response(store=True)
        api.response(previous_response_id=response["id"])
        assert "the disk is full" in caplog.text


def test_the_memory_is_bounded() -> None:
    memory = MemoryCache(100)
    mine, yours = (memory.shelf(user, RESPONSES) for user in ("me", "you"))
    mine.put("a", {"x": "y" * 20})
    yours.put("a", {"x": "z" * 20})
    mine.put("b", {"x": "y" * 20})
    mine.get("a")  # used last
    mine.put("c", {"x": "y" * 20})
    with pytest.raises(NotFound):
        yours.get("a")
    assert mine.get("a").value == {"x": "y" * 20}
    mine.put("d", {"x": "y" * 100})  # too large by itself: the others stay
    with pytest.raises(NotFound):
        mine.get("d")
    assert mine.delete("a")
    assert not mine.delete("a")
    mine.get("b")
    mine.get("c")
    with pytest.raises(LimitExceeded):
        mine.put("b", {"x": "y" * 100}, expect=1)
    assert mine.get("b").version == 1


def test_documents_in_memory_that_are_removed_together() -> None:
    memory = MemoryCache(100)
    talk = memory.shelf("me", "talk", together=True)
    talk.put_all({"head": {"n": 1}, "a": {"x": 1}, "b": {"x": 2}}, expect={"head": 0})
    with pytest.raises(Conflict):
        talk.put_all({"c": {}, "head": {"n": 3}}, expect={"head": 2})
    talk.put_all({"head": {"n": 2}, "c": {"x": 3}}, expect={"head": 1, "c": 0})
    listed = talk.list(after="head", limit=2, newest_first=False)
    assert [(each.id, each.value["x"]) for each in listed] == [("a", 1), ("b", 2)]
    assert [each.id for each in talk.list()] == ["c", "b", "a", "head"]
    number = talk.get("b").number
    with pytest.raises(Conflict):
        talk.delete("b", expect=2)
    assert talk.delete("b", expect=1)
    assert not talk.delete("b")
    assert [each.id for each in talk.list(after=number)] == ["a", "head"]
    assert [each.id for each in talk.list(after=number, newest_first=False)] == ["c"]
    with pytest.raises(NotFound):
        talk.list(after="b")
    with pytest.raises(LimitExceeded):
        talk.put_all({"head": {"n": 3}, "d": {"x": "y" * 80}}, expect={"head": 2})
    assert (talk.get("head").value, talk.get("head").version) == ({"n": 2}, 2)
    memory.shelf("me", "other").put("x", {"x": "y" * 80})
    assert talk.list() == []
    assert talk.clear() == 0
    talk.put_all({"a": {}, "b": {}}, expect={})
    assert talk.clear() == 2
    with pytest.raises(NotFound):
        talk.get("a")


class TestSeveralServers:
    """Of one store."""

    def test_what_one_has_sealed_the_other_reads(
        self, make_host: MakeHost, sqlite_store: Store
    ) -> None:
        with Store(sqlite_store.location) as other:
            stores = (sqlite_store, other, None)
            first, second, alone = (Seals(make_host(store=each)) for each in stores)
            sealed = first.seal({"thought": 1}, "ann")
            assert second.unseal(sealed, "ann") == {"thought": 1}
            assert second.unseal(sealed, "bob") is None
            assert alone.unseal(sealed, "ann") is None

    @pytest.mark.parametrize("workers", [1, 2])
    def test_of_several_workers_all_that_may_be_gone_on_from_is_in_the_store(
        self, make_host: MakeHost, sqlite_store: Store, workers: int
    ) -> None:
        config, id = Config(server=ServerConfig(workers=workers)), "resp_" + "0" * 48
        with Store(sqlite_store.location) as other:
            one, another = (
                ResponseStore(make_host(store=each, config=config))
                for each in (sqlite_store, other)
            )
            one.keep_response("", id, {"n": 1}, asked=False)
            if workers == 1:
                with pytest.raises(NotFound):
                    another.find("", id)
            else:
                assert another.find("", id)["n"] == 1


COMPACT = ("POST", "/responses/compact")
SUMMARY = Completion(Message("assistant", "noon in CET"), usage=Usage(7, 3))


def test_a_summary_takes_the_place_of_answers_and_calls(api: Api) -> None:
    api.fake.answer = calls_the_clock
    items = [user("when?"), *api.response("when?", tools=[CLOCK])["output"], output_of("c1")]
    api.fake.answer = lambda prompt: SUMMARY
    body = {"model": "fake", "input": items, "instructions": "be kind", "tools": [CLOCK]}
    compacted = api.ok(*COMPACT, body)
    last_prompt = api.fake.prompts[-1]
    assert [message.role for message in last_prompt.messages] == [
        "system", "user", "assistant", "tool", "user",
    ]  # fmt: skip
    assert last_prompt.messages[0].text == "be kind"
    assert "Summarize" in last_prompt.messages[-1].text
    assert compacted["object"] == "response.compaction"
    assert compacted["usage"]["total_tokens"] == 10
    question, summary = compacted["output"]
    assert question["content"] == [{"type": "input_text", "text": "when?"}]
    assert summary["type"] == "compaction"
    api.response([*compacted["output"], user("and in UTC?")])
    assert [message.text for message in api.fake.prompts[-1].messages] == [
        "when?", "Summary of the conversation so far:\n\nnoon in CET", "and in UTC?",
    ]  # fmt: skip


@pytest.mark.parametrize("summary", [
    Completion(Message("assistant", "noon in C"), finish="length"),
    Completion(Message("assistant", "I cannot"), finish="content_filter"),
    Completion(Message("assistant", " ")),
], ids=["cut off", "refused", "empty"])  # fmt: skip
def test_an_incomplete_summary_takes_no_place(api: Api, summary: Completion) -> None:
    api.fake.answer = lambda prompt: summary
    reply = api.ask(*COMPACT, {"model": "fake", "input": "hi"})
    assert reply.status_code >= 400
    assert "the summary is not complete" in reply.json()["error"]["message"]


def test_a_limit_of_answers_does_not_cut_off_the_summary(api: Api) -> None:
    api.ok(*COMPACT, {"model": "fake", "input": "hi", "max_output_tokens": 16})
    assert "max_tokens" not in api.fake.prompts[-1].parameters


def test_a_changed_compaction_is_refused(api: Api) -> None:
    output = api.ok(*COMPACT, {"model": "fake", "input": "hi"})["output"]
    sealed = output[-1]["encrypted_content"]
    output[-1]["encrypted_content"] = ("B" if sealed[0] == "A" else "A") + sealed[1:]
    body = {"model": "fake", "input": output}
    assert api.ask("POST", "/responses", body).status_code == 400


def test_a_compaction_of_a_stored_response(api: Api) -> None:
    first = api.response("hello")
    body = {"model": "fake", "previous_response_id": first["id"], "input": "and now"}
    compacted = api.ok(*COMPACT, body)
    assert [item["type"] for item in compacted["output"]] == ["message", "message", "compaction"]


def test_that_of_another_user_is_refused(make_host: MakeHost) -> None:
    with two_users(make_host, FakeModel(lambda prompt: SUMMARY)) as (ann, bob):
        compacted = ann.ok(*COMPACT, {"model": "fake", "input": "hi"})
        assert ann.response(compacted["output"])["status"] == "completed"
        assert bob.refused(compacted["output"])["param"] == "input[1].encrypted_content"


@pytest.mark.parametrize(("body", "param"), [
    ({"input": "hi"}, "model"),
    ({"model": "fake"}, "input"),
    ({"model": "feature:chat", "input": "hi"}, "model"),
    ({"model": "fake", "input": [{"type": "compaction", "encrypted_content": "AAAA"}]},
     "input[0].encrypted_content"),
])  # fmt: skip
def test_what_is_refused(api: Api, body: object, param: str) -> None:
    reply = api.ask(*COMPACT, body)
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)
    assert api.fake.calls == 0
