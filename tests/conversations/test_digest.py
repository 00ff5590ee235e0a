"""Digests of steps: equal for equal steps, and for no others."""

from __future__ import annotations

import datetime
import enum
import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from attrs import evolve, frozen
from hypothesis import given, strategies as st

from genai_host.api import (
    All,
    AllSettled,
    CallFunction,
    Embed,
    Image,
    Message,
    NewId,
    Now,
    Part,
    Pause,
    Prompt,
    Reasoning,
    Step,
    Text,
    ToolCall,
    ToolResult,
    ToolSchema,
    VendorPart,
)
from genai_host.conversations.digests import digest, old_digest

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.text("ab", max_size=2),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text("ab", max_size=1), inner, max_size=2)
    ),
    max_leaves=4,
)


@frozen
class Twin(Part):
    """As `Text`, but for its class."""

    type = "text"
    text: str


def add(a: int, b: int) -> int:
    return a + b


def test_a_digest_is_sha256_in_hex() -> None:
    result = digest(Now())
    assert len(result) == 64
    assert set(result) <= set("0123456789abcdef")


@given(one=json_values, other=json_values)
def test_json_has_equal_digests_where_it_is_equal(one: Any, other: Any) -> None:
    written = [json.dumps(each, sort_keys=True) for each in (one, other)]
    assert (digest(one) == digest(other)) == (written[0] == written[1])
    assert digest(one) == digest(json.loads(written[0]))


HI = Message("user", "hi")
PROMPT = Prompt([HI])
CALL: Any = {"a": 1, "b": 2}
STEPS: list[Step[Any]] = [
    PROMPT,
    Prompt([]),
    Prompt([HI, HI]),
    Prompt([Message("user", "ho")]),
    Prompt([Message("system", "hi")]),
    Prompt([Message("user", "hi", extra={"mine": {"new": 1}})]),
    Prompt([Message("user", Text("hi", extra={"mine": {"new": 1}}))]),
    evolve(PROMPT, role="other"),
    evolve(PROMPT, tool_choice="auto"),
    evolve(PROMPT, stream=False),
    evolve(PROMPT, parameters={"temperature": 1}),
    evolve(PROMPT, parameters={"temperature": "1"}),
    evolve(PROMPT, tools=[ToolSchema("a", "b")]),
    evolve(PROMPT, tools=[ToolSchema("a", "b", {"type": "object"})]),
    evolve(PROMPT, schema={}),
    evolve(PROMPT, schema={"type": "object"}),
    Embed(["hi"]),
    Embed(["h", "i"]),
    Embed(["hi"], purpose="query"),
    CallFunction(add, CALL),
    CallFunction(add, {"a": 2, "b": 1}),
    CallFunction(print, CALL),
    CallFunction(add, CALL, returns=int),
    CallFunction(add, CALL, returns=Message),
    CallFunction(add, CALL, idempotent=True),
    Pause("approval"),
    Pause("approval", payload={}),
    Pause("approval", payload=[]),
    Pause("approval", payload=b""),
    Now(),
    NewId(),
    NewId("x"),
    All([Now()]),
    All([Now(), Now()]),
    AllSettled([Now()]),
]


def test_steps_that_differ_have_different_digests() -> None:
    assert len({digest(step): step for step in STEPS}) == len(STEPS)


def test_a_step_that_is_made_again_has_the_same_digest() -> None:
    def make() -> Step[Any]:
        look = ToolCall("1", "look", {"at": [1, {"x": None}]})
        messages = [
            Message("system", "s"),
            Message("user", ["What?", Image(b"abc", "image/png")]),
            Message("assistant", [Reasoning("hm"), look, VendorPart("d", {"k": 1})]),
            Message("tool", ToolResult("1", content=["ok", Image(url="u")], error=True)),
        ]
        return Prompt(messages, parameters={"a": 1, "b": 2})

    assert digest(make()) == digest(make())
    assert digest(All([make(), make()])) == digest(All((make(), make())))


@pytest.mark.parametrize(("one", "other"), [
    *((1, "1"), (1, True), (0, False), (None, "None"), (b"x", "x"), (b"x", b"y"), ([], {})),
    *(([1], 1), ({"a": 1}, [["a", 1]]), ({"a": 1}, {"mapping": [["a", 1]]}), ({1}, [1])),
    *(({1}, {"set": [1]}), (set(), []), (Text("x"), "x"), (Text("x"), Reasoning("x"))),
    *((Text("x"), Twin("x")), (int, "builtins:int"), (int, float), (list[int], list[str])),
    *(({1: "a"}, {"1": "a"}), ([1, 2], [2, 1])),
], ids=repr)  # fmt: skip
def test_what_looks_alike_is_told_apart(one: Any, other: Any) -> None:
    assert digest(one) != digest(other)


def test_the_order_of_a_mapping_does_not_count() -> None:
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}) != digest({"a": 2, "b": 1})
    assert digest((1, 2)) == digest([1, 2])
    assert digest({1, 2}) == digest(frozenset([2, 1]))


@pytest.mark.smoke
@pytest.mark.process
def test_a_digest_is_the_same_in_another_process() -> None:
    program = (
        "from genai_host.conversations.digests import digest\n"
        "from genai_host.api import Prompt, Message\n"
        "step = Prompt([Message('user', 'hi')], parameters={'a': {'x', 'y', 'z'}, 'b': 1})\n"
        "print(digest(step))"
    )

    def elsewhere(seed: str) -> str:
        environ = {**os.environ, "PYTHONHASHSEED": seed}
        ran = subprocess.run(
            [sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True
        )
        return ran.stdout.strip()

    step = Prompt([Message("user", "hi")], parameters={"b": 1, "a": {"z", "y", "x"}})
    assert elsewhere("1") == elsewhere("2") == digest(step)


class Counted(dict[str, Any]):
    """A mapping that counts how often it is read."""

    reads = 0

    def items(self) -> Any:
        Counted.reads += 1
        return super().items()


def test_a_message_is_digested_once() -> None:
    message = Message("assistant", ToolCall("1", "look", Counted(a=1)))
    Counted.reads = 0
    first = digest(Prompt([message]))
    assert digest(Prompt([message])) == first
    digest([message, message])
    digest(message)
    assert Counted.reads == 1


class View(Mapping[str, int]):
    """A mapping that is no dict."""

    def __getitem__(self, key: str) -> int:
        return {"a": 1}[key]

    def __iter__(self) -> Iterator[str]:
        return iter(["a"])

    def __len__(self) -> int:
        return 1


def test_a_mapping_counts_by_what_it_holds() -> None:
    assert digest(View()) == digest({"a": 1})


@pytest.mark.parametrize("text", ["\ud800", "é", "\0", "\U0001f600"], ids=ascii)
def test_any_text_has_a_digest(text: str) -> None:
    assert digest(text) == digest(text)
    assert digest({text: text}) != digest({text: ""})


class Colour(enum.Enum):
    RED = 1


class Called:
    def __call__(self) -> None: ...


@pytest.mark.parametrize("value", [
    *(object(), Colour.RED, datetime.date(2026, 1, 1), bytearray(b"x"), range(3)),
    *(functools.partial(add, 1), Called()),
], ids=lambda value: type(value).__name__)  # fmt: skip
def test_what_cannot_be_put_on_record_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="cannot be recorded"):
        digest(CallFunction(add, {"a": value}))


@pytest.mark.parametrize(("step", "now", "old"), [
    (Prompt([Message("user", "hi")]),
     "e159fa197ecc4d8cdd732af2660dbbdaf7a8d7c59209e90f97ba400ec3ef7cae",
     "75ad178f0538100c27b4384a828864d5ea2bce9c0cc4b6d1a48b1dba84dce162"),
    (Prompt([HI, Message("assistant", [ToolCall("1", "send", {"to": "bob"})])]),
     "8627fe7722f9645f0cee4ec876c4a2630ea27f1cb93981dab05afb47f69e6d0e",
     "063d5dcf96818fd6881f13daca94378aa385cbc2f38ccb3d46ebc328022b0381"),
    (Pause("approval", {"a": 1}),
     "1a1e77ebb149d6678b8ac95e6bedac497b5c989fdedb975fec5a11950a416b1a",
     "da82a7d88cb2d807a0ce06bc7e2c85657456bc89450d0208b51ef46ba16993e7"),
], ids=["prompt", "call", "pause"])  # fmt: skip
def test_the_digest_of_a_step_stays_what_it_was(step: Step[Any], now: str, old: str) -> None:
    """Else turns on record could not be gone on with, for example after an upgrade: a field more
    needs a default that is one object."""
    assert (digest(step), old_digest(step)) == (now, old)
