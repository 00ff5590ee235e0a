"""`/v1/conversations`: items that clients and responses add, listed a page at a time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from genai_wire_openai.responses.fields import Fields
from genai_wire_openai.responses.replies import item_tail
from genai_wire_openai.responses.state import CONVERSATIONS, ConversationStore, ResponseStore
from responses_api import CLOCK, Api, output_of, two_users, user
from sqlalchemy import event
from stored import run_concurrently

from genai_host.api import Completion, Message, ToolCall, VendorPart
from genai_host.api.json_text import write_long_json
from genai_host.errors import ServiceUnavailable
from genai_host.store import Store
from genai_host_testing.clock import ManualClock
from genai_host_testing.internal.fixtures import MakeHost

pytestmark = pytest.mark.part


@pytest.fixture(params=["memory", "store"])
def store(request: pytest.FixtureRequest, sqlite_store: Store) -> Store | None:
    return sqlite_store if request.param == "store" else None


@pytest.fixture
def api(make_host: MakeHost, store: Store | None) -> Iterator[Api]:
    with Api.serving(make_host, store=store) as api:
        yield api


def texts(page: dict[str, Any]) -> list[str]:
    return [item["content"][0]["text"] for item in page["data"]]


def begun(api: Api, *texts: str, **more: Any) -> str:
    """The path of a new conversation."""
    items = [user(text) for text in texts]
    return f"/conversations/{api.ok('POST', '/conversations', {'items': items, **more})['id']}"


def test_from_beginning_to_end(api: Api) -> None:
    created = api.ok("POST", "/conversations", {"metadata": {"a": "b"}})
    assert created["object"] == "conversation"
    assert created["metadata"] == {"a": "b"}
    path = f"/conversations/{created['id']}"
    assert api.ok("GET", path) == created
    changed = api.ok("POST", path, {"metadata": {"c": "d"}})
    assert changed == api.ok("GET", path) == {**created, "metadata": {"c": "d"}}
    assert api.ok("POST", path, {"metadata": None})["metadata"] == {}
    assert api.ok("DELETE", path) == {
        "id": created["id"], "object": "conversation.deleted", "deleted": True,
    }  # fmt: skip
    assert api.error("GET", path)["code"] == "conversation_not_found"


def test_one_of_nothing(api: Api) -> None:
    path = f"/conversations/{api.ok('POST', '/conversations')['id']}/items"
    empty = {"object": "list", "data": [], "first_id": "", "last_id": "", "has_more": False}
    assert api.ok("GET", path) == empty


def test_items(api: Api) -> None:
    path = begun(api, "one", "two")
    added = api.ok("POST", f"{path}/items", {"items": [user("three"), user("four")]})
    assert texts(added) == ["three", "four"]
    assert (added["first_id"], added["last_id"]) == tuple(item["id"] for item in added["data"])
    newest = api.ok("GET", f"{path}/items", limit=3)
    assert texts(newest) == ["four", "three", "two"]
    assert newest["has_more"]
    rest = api.ok("GET", f"{path}/items", after=newest["last_id"])
    assert (texts(rest), rest["has_more"]) == (["one"], False)
    assert texts(api.ok("GET", f"{path}/items", order="asc", limit=1)) == ["one"]
    item = added["data"][0]
    assert api.ok("GET", f"{path}/items/{item['id']}") == item
    assert api.ok("DELETE", f"{path}/items/{item['id']}") == api.ok("GET", path)
    assert api.error("GET", f"{path}/items/{item['id']}")["code"] == "item_not_found"
    api.error("DELETE", f"{path}/items/{item['id']}")
    assert texts(api.ok("GET", f"{path}/items")) == ["four", "two", "one"]
    again = api.ok("POST", f"{path}/items", {"items": [user("five"), user("six")]})
    ids = [each["id"] for each in api.ok("GET", f"{path}/items")["data"]]
    assert len({*ids, item["id"]}) == 6
    assert ids[:2] == [each["id"] for each in reversed(again["data"])]


def test_a_list_goes_on_after_a_deleted_item(api: Api) -> None:
    path = begun(api, "one", "two", "three", "four")
    items = f"{path}/items"
    page = api.ok("GET", items, limit=2)
    for item in page["data"]:
        api.ok("DELETE", f"{items}/{item['id']}")
    assert texts(api.ok("GET", items, after=page["last_id"])) == ["two", "one"]
    api.ok("POST", items, {"items": [user("five")]})
    assert texts(api.ok("GET", items, after=page["first_id"], order="asc")) == ["five"]
    for id in ("msg_unknown", "(conversation)", "\0"):
        reply = api.ask("GET", items, after=id)
        assert (reply.status_code, reply.json()["error"]["param"]) == (400, "after")
    api.ok("DELETE", path)
    api.error("GET", items)


def test_ids_of_items_are_kept_unless_they_are_taken(api: Api) -> None:
    path = begun(api)
    mine = {**user("one"), "id": "msg_mine"}
    added = api.ok("POST", f"{path}/items", {"items": [mine, mine]})["data"]
    assert added[0]["id"] == "msg_mine" != added[1]["id"]


def test_a_response_in_a_conversation(api: Api) -> None:
    path = begun(api, "one")
    id = path.rpartition("/")[2]
    call = ToolCall("c", "clock", {})
    api.fake.answer = lambda prompt: Completion(
        Message("assistant", [VendorPart("fake", 1), call]), "tool_calls"
    )
    first = api.response("two", conversation=id, tools=[CLOCK], store=False)
    assert first["conversation"] == {"id": id}
    api.fake.answer = lambda prompt: "noon"
    events = api.events([output_of("c")], conversation={"id": id}, tools=[CLOCK])
    assert [message.role for message in api.fake.prompts[-1].messages] == [
        "user", "user", "assistant", "tool",
    ]  # fmt: skip
    assert api.fake.prompts[-1].messages[2].content == (VendorPart("fake", 1), call)
    items = api.ok("GET", f"{path}/items", order="asc")["data"]
    assert [item["type"] for item in items] == [
        "message", "message", "reasoning", "function_call", "function_call_output", "message",
    ]  # fmt: skip
    assert items[3] == first["output"][1]
    assert items[-1] == events[-1]["response"]["output"][0]
    query = {"include[]": "reasoning.encrypted_content", "order": "asc"}
    assert api.ok("GET", f"{path}/items", **query)["data"][2]["encrypted_content"]
    elsewhere = api.refused("so", previous_response_id=events[-1]["response"]["id"])
    assert id in elsewhere["message"]
    reference = {"type": "item_reference", "id": items[0]["id"]}
    api.fake.answer = lambda prompt: prompt.text
    assert api.response([reference])["output"][0]["content"][0]["text"] == "one"


def test_a_failure_adds_nothing(api: Api) -> None:
    path = begun(api, "one")
    api.fake.faults[0] = ServiceUnavailable("down")
    api.refused("two", status=503, conversation=path.rpartition("/")[2])
    assert texts(api.ok("GET", f"{path}/items")) == ["one"]


def test_a_conversation_that_is_deleted_meanwhile(api: Api) -> None:
    path = begun(api, "one")
    api.fake.answer = lambda prompt: (api.ok("DELETE", path), "so")[1]
    gone = {"conversation": path.rpartition("/")[2]}
    assert api.refused("two", status=404, **gone)["code"] == "conversation_not_found"
    path = begun(api, "one")
    last = api.events("two", conversation=path.rpartition("/")[2])[-1]
    assert last["type"] == "response.failed"


@pytest.mark.parametrize(("body", "param"), [
    ({"items": [user("x")] * 21}, "items"),
    ({"items": [{"type": "item_reference", "id": "msg_1"}]}, "items[0]"),
    ({"items": [{"type": "computer_call", "id": "cu_1"}]}, "items[0].type"),
    ({"items": "x"}, "items"), ({"metadata": {"a": 1}}, "metadata"),
    ({"metadata": {"a" * 65: ""}}, "metadata"), ({"metadata": {"a": "b" * 513}}, "metadata"),
    ({"metadata": {str(n): "" for n in range(17)}}, "metadata"),
    ([], None),
])  # fmt: skip
def test_what_is_no_conversation(api: Api, body: Any, param: str | None) -> None:
    assert api.error("POST", "/conversations", body, 400)["param"] == param


def test_what_a_change_must_have(api: Api) -> None:
    path = begun(api)
    assert api.error("POST", path, {}, 400)["param"] == "metadata"
    assert api.error("POST", f"{path}/items", {}, 400)["param"] == "items"


def test_a_conversation_is_of_one_user(make_host: MakeHost, store: Store | None) -> None:
    with two_users(make_host, store=store) as (ann, bob):
        path = begun(ann, "one")
        item = ann.ok("GET", f"{path}/items")["data"][0]["id"]
        for method, rest in [
            ("GET", ""), ("DELETE", ""), ("GET", "/items"), ("GET", f"/items/{item}"),
            ("DELETE", f"/items/{item}"),
        ]:  # fmt: skip
            bob.error(method, path + rest)
        bob.error("POST", path, {"metadata": {}})
        bob.error("POST", f"{path}/items", {"items": [user("x")]})
        bob.refused(status=404, conversation=path.rpartition("/")[2])
        assert ann.fake.calls == 0
        assert texts(ann.ok("GET", f"{path}/items")) == ["one"]


def test_they_are_in_the_store_if_there_is_one(make_host: MakeHost, sqlite_store: Store) -> None:
    with Api.serving(make_host, store=sqlite_store) as api:
        path = begun(api, "one")
    with Api.serving(make_host, store=sqlite_store) as again:
        assert texts(again.ok("GET", f"{path}/items")) == ["one"]
        again.ok("DELETE", path)
    assert rows(sqlite_store) == 0


def test_one_that_no_longer_fits_into_memory(make_host: MakeHost) -> None:
    with Api.serving(make_host) as api:
        path = begun(api, "one")
        huge = {"items": [user("x" * 9 * 2**20)]}
        assert "a store" in api.error("POST", f"{path}/items", huge, 422)["message"]
        assert texts(api.ok("GET", f"{path}/items")) == ["one"]
        api.error("POST", "/conversations", huge, 422)


def rows(store: Store) -> int:
    """The number of documents of conversations."""
    with store._database.reading() as connection:
        statement = "SELECT count(*) FROM documents WHERE collection LIKE 'response_conv%'"
        return int(connection.exec_driver_sql(statement).scalar_one())


class Written:
    """What is written: the sizes of texts, and the number of statements of the database."""

    def __init__(self, store: Store | None, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: list[int] = []
        self.statements = 0
        if store is not None:
            event.listen(store._database.engine, "before_cursor_execute", self._execute)
            return

        def write(value: Any) -> bytes:
            self.sizes.append(len(write_long_json(value)))
            return write_long_json(value)

        monkeypatch.setattr("genai_host.serving.memory.write_long_json", write)

    def _execute(self, *given: Any) -> None:
        self.statements += 1
        self.sizes += [len(each) for each in given[3] if isinstance(each, str)]

    def take(self) -> tuple[int, int]:
        taken = sum(self.sizes), self.statements
        self.sizes, self.statements = [], 0
        return taken


def test_a_turn_costs_what_it_adds(
    api: Api, store: Store | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = begun(api).rpartition("/")[2]
    written = Written(store, monkeypatch)

    def turn() -> tuple[int, int]:
        api.fake.answer = lambda prompt: "y" * 10_000
        api.response("x" * 10_000, conversation=id, store=False)
        return written.take()

    first = turn()
    assert 20_000 < first[0] < 30_000
    later = [turn() for _ in range(20)][-1]
    assert later[0] < first[0] + 10  # numbers have more digits
    assert later[1] == first[1]


def test_turns_at_the_same_time_are_all_added(sqlite_store: Store, make_host: MakeHost) -> None:
    with Store(sqlite_store.location) as other:
        stores = [ConversationStore(ResponseStore(make_host(store=each)))
                  for each in (sqlite_store, other)]  # fmt: skip
        id = stores[0].create("", Fields({}, "$"), lambda text: None)["id"]

        def add(number: int) -> None:
            for turn in range(5):
                items = [{"type": "message", "id": "", "turn": (number, turn)} for _ in range(2)]
                stores[number % 2].add("", id, items)

        run_concurrently(add, range(4))
        turns = [tuple(item["turn"]) for item in stores[0].items("", id)]
        assert turns[::2] == turns[1::2]  # no turn is between the items of another
        assert sorted(turns[::2]) == [(number, turn) for number in range(4) for turn in range(5)]


def test_an_item_whose_id_was_chosen_by_a_client_stays(make_host: MakeHost) -> None:
    conversations = ConversationStore(ResponseStore(make_host()))
    id = conversations.create("", Fields({}, "$"), lambda text: None)["id"]
    chosen = [f"msg_{item_tail(id.removeprefix('conv_'), number)}" for number in (2, 5)]
    conversations.add("", id, [message(chosen[0], "a"), message("", "b")])
    conversations.add("", id, [message(chosen[1], "c")])
    for text in "de":
        conversations.add("", id, [message("", text)])
    items = conversations.items("", id)
    assert [item["content"][0]["text"] for item in items] == [*"abcde"]
    assert [items[at]["id"] for at in (0, 2)] == chosen


def test_a_conversation_stays_while_seconds_pass(make_host: MakeHost) -> None:
    class Hasty(ManualClock):
        """Another second each time that somebody looks."""

        def now(self) -> datetime:
            self.advance(1)
            return super().now()

    conversations = ConversationStore(ResponseStore(make_host(clock=Hasty())))
    created = conversations.create("", Fields({}, "$"), lambda text: None)
    assert conversations.show("", created["id"]) == created


def message(id: str, text: str) -> dict[str, Any]:
    """An item as it is stored."""
    content = [{"type": "input_text", "text": text}]
    return {"id": id, "type": "message", "role": "user", "status": "completed", "content": content}


class TestConversationsOfEarlierVersions:
    """Each was one document with all its items."""

    id = "conv_" + "0" * 48
    path = f"/conversations/{id}"

    @pytest.fixture
    def api(self, make_host: MakeHost, sqlite_store: Store) -> Iterator[Api]:
        items = [message("msg_mine", "one"), message("msg_" + "0" * 48 + "_2", "two")]
        value = {
            "id": self.id, "created_at": 7, "metadata": {"a": "b"}, "items": items, "count": 3,
        }  # fmt: skip
        sqlite_store.documents(CONVERSATIONS).put(self.id, value)
        with Api.serving(make_host, store=sqlite_store) as api:
            yield api

    def test_they_are_read(self, api: Api) -> None:
        shown = api.ok("GET", self.path)
        assert (shown["created_at"], shown["metadata"]) == (7, {"a": "b"})
        assert texts(api.ok("GET", f"{self.path}/items", order="asc")) == ["one", "two"]
        api.fake.answer = lambda prompt: "three"
        api.response("so", conversation=self.id)
        assert [each.text for each in api.fake.prompts[-1].messages] == ["one", "two", "so"]
        listed = api.ok("GET", f"{self.path}/items", order="asc")
        assert texts(listed) == ["one", "two", "so", "three"]
        assert len({item["id"] for item in listed["data"]}) == 4

    def test_they_are_changed(self, api: Api, sqlite_store: Store) -> None:
        assert api.ok("POST", self.path, {"metadata": {"c": "d"}})["metadata"] == {"c": "d"}
        api.ok("DELETE", f"{self.path}/items/msg_mine")
        assert texts(api.ok("GET", f"{self.path}/items")) == ["two"]
        assert sqlite_store.documents(CONVERSATIONS).list() == []

    def test_they_are_deleted(self, api: Api, sqlite_store: Store) -> None:
        api.ok("DELETE", self.path)
        api.error("GET", self.path)
        assert rows(sqlite_store) == 0

    def test_one_whose_conversion_was_interrupted_is_deleted(
        self, api: Api, sqlite_store: Store
    ) -> None:
        former = sqlite_store.documents(CONVERSATIONS)
        value = former.get(self.id).value
        api.ok("GET", self.path)
        former.put(self.id, value)  # as if the process had ended before it removed the document
        assert texts(api.ok("GET", f"{self.path}/items", order="asc")) == ["one", "two"]
        api.ok("DELETE", self.path)
        api.error("GET", self.path)

    def test_one_that_an_earlier_version_changes_while_it_is_converted(
        self, api: Api, sqlite_store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        former = sqlite_store.documents(CONVERSATIONS)
        put_all = type(former).put_all

        def late(self: Any, *args: Any, **named: Any) -> None:
            monkeypatch.undo()
            put_all(self, *args, **named)
            value = former.get(TestConversationsOfEarlierVersions.id).value
            items = [*value["items"], message("msg_late", "three")]
            former.put(TestConversationsOfEarlierVersions.id, {**value, "items": items})

        monkeypatch.setattr(type(former), "put_all", late)
        listed = api.ok("GET", f"{self.path}/items", order="asc")
        assert texts(listed) == ["one", "two", "three"]
        assert former.list() == []

    def test_one_that_is_deleted_while_it_is_converted(
        self, api: Api, sqlite_store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        documents = type(sqlite_store.documents(CONVERSATIONS))
        put_all = documents.put_all

        def late(self: Any, *args: Any, **named: Any) -> None:
            monkeypatch.undo()
            api.ok("DELETE", TestConversationsOfEarlierVersions.path)
            put_all(self, *args, **named)

        monkeypatch.setattr(documents, "put_all", late)
        api.error("GET", self.path)
        assert rows(sqlite_store) == 0
