"""JSON as text: what is JSON, and nothing else."""

from __future__ import annotations

import json
import math
import tracemalloc
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import pytest

from genai_host import Host
from genai_host.api import (
    Answer,
    Detail,
    DialectEndpoint,
    Feature,
    FeatureSteps,
    NoSettings,
    Progress,
    Prompt,
    ToolCall,
    ToolSchema,
    Turn,
    VendorPart,
    http_provider,
)
from genai_host.api.json_text import (
    ValueBudget,
    _is_long,
    check_numbers,
    json_as_text,
    read_json,
    write_json,
    write_long_json,
)
from genai_host.errors import InvalidParameter, PluginError, ValidationError
from genai_host_testing import FakeService, InlinePlugin
from genai_host_testing.internal.fixtures import MakeHost


@pytest.mark.parametrize(("text", "value"), [
    ("1e308", 1e308),
    ("-1.5E+2", -150.0),
    ("1e-999", 0.0),
    ('[0.5, 12, true, null, "é"]', [0.5, 12, True, None, "é"]),
    ('{"a": {"b": []}}', {"a": {"b": []}}),
])  # fmt: skip
def test_what_is_json_is_read(text: str, value: Any) -> None:
    assert read_json(text) == value
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        assert read_json(text.encode(encoding)) == value


@pytest.mark.parametrize("text", [
    "", "{", "NaN", "[Infinity]", '{"a": -Infinity}', "'a'", "1e999", '{"a": [-1e999]}',
    "[" * 99_999,
], ids=lambda text: text[:12])  # fmt: skip
def test_what_is_none_is_refused(text: str) -> None:
    """Numbers that Python has no place for as well: written again, they would be no JSON."""
    for value in (text, text.encode()):
        with pytest.raises(ValueError, match=r".+"):
            read_json(value)


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^not UTF-8 at byte 7$"):
        read_json(b'{"a": "\xff"}')


def test_json_is_written_compactly() -> None:
    value = {"a": ["é", 1.5, None], "b": MappingProxyType({"c": True})}
    assert write_json(value) == '{"a":["é",1.5,null],"b":{"c":true}}'.encode()
    assert json.loads(write_json("\ud800")) == "\ud800"
    with pytest.raises(TypeError, match="set has no JSON form"):
        write_json({1})


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_no_json_are_not_written(number: float) -> None:
    for value in (number, [number], {"a": [{"b": number}]}, {"a": "\ud800", "b": number}):
        with pytest.raises(ValueError, match=r"(NaN|Infinity) is not JSON \(at \$"):
            write_json(value)


@pytest.mark.parametrize(("value", "where"), [
    (math.nan, r"NaN is not JSON \(at \$\)"),
    ({"a": [1.5, {"b": math.inf}]}, r"Infinity is not JSON \(at \$\.a\[1\]\.b\)"),
    ((0, -math.inf), r"-Infinity is not JSON \(at \$\[1\]\)"),
])  # fmt: skip
def test_where_a_number_is_no_json(value: Any, where: str) -> None:
    with pytest.raises(ValidationError, match=where):
        check_numbers(value)


TEXTS = ["", "a", "é" * 9, "x" * 20 + "😀", '€\n"\\😀' * 5, "\u2028\x7f\x00"]
LONG: list[Any] = [
    *TEXTS,
    TEXTS,
    tuple(TEXTS),
    dict.fromkeys(TEXTS, TEXTS),
    {"a": 1, "long": {"x" * 20 + "😀": [*range(20), {}, [], ()]}, "last": None},
    {1: "x" * 20, None: True, 2.5: MappingProxyType({"a": ["x" * 20]}), False: 1e16},
]


@pytest.mark.parametrize("value", LONG, ids=range(len(LONG)))
def test_long_values_are_written_in_pieces(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = write_json(value)
    monkeypatch.setattr("genai_host.api.json_text._SLICE", 7)
    assert write_long_json(value) == expected
    assert read_json(json_as_text(value)) == read_json(expected)


@pytest.mark.parametrize(("value", "is_long"), [
    ("x" * 7, False),
    ("x" * 8, True),
    (["x" * 5], False),  # each value counts as one more character
    (["x" * 6], True),
    (("x" * 6,), True),
    ({"x": "x" * 3}, False),
    ({"x": "x" * 4}, True),
    ([0] * 6, False),
    ([0] * 7, True),
    (MappingProxyType({"a": "x" * 99}), False),
], ids=repr)  # fmt: skip
def test_which_values_are_long(value: Any, is_long: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("genai_host.api.json_text._SLICE", 7)
    assert _is_long(value) is is_long


def test_long_values_that_are_no_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("genai_host.api.json_text._SLICE", 7)
    circular: list[Any] = []
    circular.append(circular)
    for value in (circular, math.nan, object(), {(1,): 2}):
        with pytest.raises((ValueError, TypeError)):
            write_long_json(["x" * 20, value])
    assert read_json(write_long_json(["x" * 20, "\ud83d"])) == ["x" * 20, "\ud83d"]


def test_long_values_take_less_memory() -> None:
    value = {"a": ["x" * 10_000] * 100 + ["😀"]}
    peaks = []
    for write in (write_json, write_long_json):
        tracemalloc.start()
        write(value)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] / 2


def test_few_characters_above_ffff_are_escaped_in_columns() -> None:
    few, many = "é" + "x" * 100_000 + "😀\U0010ffff", "😀" * 30_000
    assert json_as_text(few) == '"é' + "x" * 100_000 + r"\ud83d\ude00\udbff\udfff" + '"'
    assert json_as_text(many) == f'"{many}"'


@pytest.mark.parametrize(("text", "is_read"), [
    (f'["{"[," * 9_000}"]', True),  # what is in a string is no value
    (f"[{'0,' * 9_000}0]", False),
    (f'["{"," * 9_000}"{",0" * 8_254}]', True),  # 8,255 values in 25,512 bytes
    (f'["{"," * 9_000}"{",0" * 8_255}]', False),
    (f'["\\"", {"0," * 9_000}0]', False),
], ids=["string", "list", "most", "more", "escaped"])  # fmt: skip
@pytest.mark.parametrize("encode", [str, str.encode])
def test_values_are_limited(text: str, is_read: bool, encode: Callable[[str], str | bytes]) -> None:
    budget = ValueBudget()
    if is_read:
        assert budget.read(encode(text)) == json.loads(text)
    else:
        with pytest.raises(ValidationError, match="there are more than"):
            budget.read(encode(text))


def test_numbers_that_are_json() -> None:
    check_numbers({"a": [1, 1.5, 10**400, True, "nan", None]})
    endless: list[Any] = []
    endless.append(endless)
    check_numbers(endless)


class TestWhoeverGivesThem:
    """A number that is no JSON is refused by name, wherever it comes from."""

    def test_a_parameter(self, host: Host) -> None:
        with pytest.raises(InvalidParameter, match="'temperature': NaN is not JSON") as caught:
            host.open("chat", "mock", parameters={"temperature": math.nan})
        assert caught.value.parameter == "temperature"

    def test_what_was_said(self) -> None:
        with pytest.raises(ValidationError, match=r"Infinity is not JSON \(at \$\.at"):
            ToolCall("1", "look", {"at": [math.inf]})
        with pytest.raises(ValidationError, match=r"Infinity is not JSON \(at \$\.at"):
            VendorPart("plain", {"at": math.inf})

    @pytest.mark.parametrize("schema", [{"maximum": math.nan}, {"const": {"a": math.inf}}])
    def test_a_schema(self, host: Host, schema: Any) -> None:
        with pytest.raises(ValidationError, match=r"invalid JSON Schema: .* is not JSON"):
            host.open("chat", "mock").say("hi", output_type=schema)

    def test_a_context(self, host: Host) -> None:
        with pytest.raises(ValidationError, match="the context is not JSON"):
            host.open("chat", "mock").say("hi", context={"a": math.nan})

    @pytest.mark.part
    def test_a_tool_of_a_feature(self, make_host: MakeHost) -> None:
        """It is a plugin's, and known to be wrong when the request is written."""

        def ask(turn: Turn[NoSettings]) -> FeatureSteps:
            tool = ToolSchema("look", "looks", {"properties": {"at": {"maximum": math.nan}}})
            yield from Prompt([turn.message], tools=[tool])
            return Answer("")

        plugin = InlinePlugin(features=[Feature("ask", NoSettings, ask)])
        with FakeService() as service, pytest.raises(PluginError, match="JSON"):
            acme = http_provider("acme", service.url, {"openai-chat": DialectEndpoint()})
            host = make_host(ask=plugin, acme=InlinePlugin(providers=[acme]))
            host.open("ask", "acme/m").say("hi")

    @pytest.mark.parametrize("wrong", [
        Answer("", data=math.nan),
        Answer("", state=[math.nan]),
        Answer("", details=[Detail("a", "b", {"c": math.nan})]),
    ])  # fmt: skip
    def test_an_answer(self, make_host: MakeHost, wrong: Answer) -> None:
        def answer(turn: Turn[NoSettings]) -> FeatureSteps:
            yield from Progress("soon")
            return wrong

        plugin = InlinePlugin(features=[Feature("answer", NoSettings, answer, roles={})])
        with pytest.raises(PluginError, match="JSON"):
            make_host(answer=plugin).open("answer").say("hi")
