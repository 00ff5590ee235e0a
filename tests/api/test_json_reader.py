"""What the APIs of the server read requests with."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from genai_wire_anthropic.server import requests as anthropic_tools
from genai_wire_ollama.server.requests import images_in
from genai_wire_openai.server import requests as openai_tools
from genai_wire_openai.server.requests import messages_in

from genai_host.api import Message, RouteRequest, Text
from genai_host.api.cancellation import Cancellation
from genai_host.api.json_reader import MAX_LEVELS, JsonReader, body_of
from genai_host.api.json_text import write_json
from genai_host.errors import ValidationError
from genai_host.serving import Pairing, each_once, merge_consecutive, offered_tool


@contextmanager
def wrong(*, path: str) -> Iterator[None]:
    with pytest.raises(ValidationError) as caught:
        yield
    assert caught.value.path == path


class TestFields:
    def test_either_spelling(self) -> None:
        reader = JsonReader({"top_p": 1, "topK": 2, "a_b_c": None}, "$", camel=True)
        assert (reader.number("topP"), reader.whole("topK")) == (1, 2)
        assert "aBC" not in reader
        assert reader.at("topP") == "$.top_p"
        with wrong(path="$.topP"):
            JsonReader({"top_p": 1, "topP": 1}, "$", camel=True)

    @pytest.mark.parametrize(("read", "value"), [
        ("text", 1),
        ("flag", 0),
        ("whole", 1.5),
        ("whole", True),
        ("whole", "1.0"),
        ("whole", "9" * 19),
        ("number", True),
        ("number", "1"),
        ("data", "!"),
        ("data", "A"),
        ("values", {}),
        ("object", []),
        ("mapping", []),
        ("refuse", "x"),
    ])  # fmt: skip
    def test_of_the_wrong_kind(self, read: str, value: Any) -> None:
        with wrong(path="$.a"):
            getattr(JsonReader({"a": value}, "$"), read)("a")

    @pytest.mark.parametrize("bounds", [(2, None), (None, 0), (-1, 0), (2, 3)])
    @pytest.mark.parametrize("read", ["whole", "number"])
    def test_out_of_bounds(self, read: str, bounds: tuple[int | None, int | None]) -> None:
        with wrong(path="$.a"):
            getattr(JsonReader({"a": 1}, "$"), read)("a", *bounds)

    def test_a_required_text(self) -> None:
        reader = JsonReader({"a": "abc", "b": ""}, "$")
        assert reader.required_text("a") == "abc"
        for name in "bc":
            with wrong(path=f"$.{name}"):
                reader.required_text(name)

    def test_a_text_or_none(self) -> None:
        reader = JsonReader({"a": "abc", "b": ""}, "$")
        assert [reader.text_or_none(name, 3) for name in "abc"] == ["abc", "", None]
        with wrong(path="$.a"):
            reader.text_or_none("a", 2)

    def test_what_nobody_read(self) -> None:
        reader = JsonReader({"a": 1, "b": None, "c": 2}, "$.d")
        reader.raw("a")
        with wrong(path="$.d"):
            reader.nothing_else()
        reader.raw("c")
        reader.nothing_else()

    @pytest.mark.parametrize("is_sent", [True, False])
    def test_fields_for_the_same_dialect(self, is_sent: bool) -> None:
        value = {"a": 1, "b": {"c": 1, "d": 2}, "e": None, "mark": {"f": 1}, "new": [1], "no": []}
        reader = JsonReader({"given": value}, "$")
        reader.carry("mine", lambda: is_sent)
        inner = reader.object("given")
        assert inner is not None
        inner.raw("a")
        b, mark = inner.object("b"), inner.peek("mark")
        assert b is not None
        assert mark is not None
        b.raw("c")
        mark.raw("f")
        fields = {"b": {"d": 2}, "mark": {"f": 1}, "new": [1]}
        assert inner.extra_fields("mark", "no") == ({"mine": fields} if is_sent else None)
        assert reader.dropped == ([] if is_sent else ["given.b.d", "given.new"])
        assert inner.extra_fields() is None
        assert reader.dropped == ([] if is_sent else ["given.b.d", "given.new"])

    def test_fields_without_a_dialect_are_dropped(self) -> None:
        reader = JsonReader({"a": 1, "b": 2}, "$")
        with wrong(path="$.a"):
            reader.refuse_elsewhere("a")
        assert reader.extra_fields() is None
        assert reader.dropped == ["b"]

    def test_base64_of_either_alphabet(self) -> None:
        reader = JsonReader({"a": "-_8", "b": "+/8=", "c": "+/8"}, "$")
        assert {reader.data(name) for name in "abc"} == {b"\xfb\xff"}

    @pytest.mark.parametrize("levels", [MAX_LEVELS - 2, MAX_LEVELS + 2])
    def test_depth(self, levels: int) -> None:
        value: Any = 1
        for _ in range(levels):
            value = {"a": value}
        with Cancellation() as limits:
            request = RouteRequest("POST", "/", body=write_json(value), limits=limits)
            if levels < MAX_LEVELS:
                assert body_of(request).value == value
                return
            with wrong(path="$"):
                body_of(request)


class TestPairing:
    def test_by_id_then_by_name_then_by_order(self) -> None:
        pairing = Pairing()
        assert pairing.call("x", "look") == "x"
        second, third = pairing.call("", "look"), pairing.call("", "hear")
        assert pairing.result("", "hear", "$") == (third, "hear")
        assert pairing.result("x", "", "$") == ("x", "look")
        assert pairing.result("", "", "$") == (second, "look")
        with wrong(path="$.here"):
            pairing.result("", "look", "$.here")

    def test_ids_that_come_again(self) -> None:
        pairing = Pairing()
        first = pairing.call("x", "look")
        assert pairing.result("x", "look", "$") == (first, "look")
        second = pairing.call("x", "look")
        assert second != first
        assert pairing.result("x", "look", "$") == (second, "look")
        assert pairing.call("call_1", "look") != second

    @pytest.mark.parametrize("name", ["look", ""])
    def test_those_that_were_answered_are_not_looked_at_again(self, name: str) -> None:
        """Each takes its own time and not that of all others."""

        def seconds(count: int) -> float:
            pairing = Pairing()
            calls = [pairing.call("", "look") for _ in range(count)]
            began = time.process_time()
            assert [pairing.result("", name, "$")[0] for _ in calls] == calls
            return time.process_time() - began

        least = {count: min(seconds(count) for _ in range(3)) for count in (5_000, 80_000)}
        assert least[80_000] < 64 * least[5_000]  # the square would be 256

    def test_together(self) -> None:
        roles: Any = ["user", "user", "tool", "tool", "user"]
        messages = [Message(role, str(number)) for number, role in enumerate(roles)]
        merged = Message("tool", [Text("2"), Text("3")])
        assert merge_consecutive(messages, "tool") == [*messages[:2], merged, messages[4]]


class TestTools:
    def test_that_are_wrong(self) -> None:
        with wrong(path="$.t"):
            offered_tool("", "", None, "$.t")
        with wrong(path="$.t"):
            offered_tool("a", "", {"type": "array"}, "$.t")
        with wrong(path="$.t.properties.b"):
            offered_tool("a", "", {"properties": {"b": 1}}, "$.t")

    def test_null_for_what_is_not_set(self) -> None:
        form = {"type": "object", "properties": None, "required": None, "default": None}
        assert offered_tool("a", "", form, "$.t").parameters == {"type": "object", "default": None}

    def test_too_many(self) -> None:
        with wrong(path="$.tools"):
            each_once((offered_tool(str(n), "", None, "$") for n in range(513)), "$.tools")
        with wrong(path="$.tools"):
            each_once([offered_tool("a", "", None, "$")] * 2, "$.tools")

    @pytest.mark.parametrize(("read", "tool"), [
        (openai_tools.tools_in, {"type": "function", "function": {"name": "a"}}),
        (anthropic_tools.tools_in, {"name": "a", "input_schema": {}}),
    ])  # fmt: skip
    def test_those_after_one_that_is_wrong_are_not_checked(
        self, read: Callable[[JsonReader], Any], tool: dict[str, Any]
    ) -> None:
        """However many there are, each of them takes its time."""
        with wrong(path="$.tools"):
            read(JsonReader({"tools": [tool, tool, {"type": "nonsense"}]}, "$"))


class TestCosts:
    """Twice as much takes twice as long."""

    def test_of_results_of_tools(self) -> None:
        call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        message = {"role": "assistant", "tool_calls": [call]}
        result = {"role": "tool", "tool_call_id": "a", "content": "x"}

        def read(count: int) -> None:
            body = JsonReader({"messages": [message, *[result] * count]}, "$")
            *_, results = messages_in(body, bool)
            assert len(results.content) == count

        assert calls_of(read, 800) < 2.2 * calls_of(read, 400)

    def test_of_pictures(self) -> None:
        def read(count: int) -> None:
            assert len(images_in(JsonReader({"images": ["iVBORw0KGgo="] * count}, "$"))) == count

        assert calls_of(read, 800) < 2.2 * calls_of(read, 400)


def calls_of(read: Callable[[int], None], count: int) -> int:
    """How many functions are called meanwhile."""
    calls = 0

    def profile(frame: object, kind: str, argument: object) -> None:
        nonlocal calls
        calls += kind in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        read(count)
    finally:
        sys.setprofile(before)
    return calls
