"""Answers in JSON: asked for in words, read from a text, checked against a schema."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from genai_host.api import (
    Answer,
    ChatCall,
    Completion,
    FinishReason,
    Message,
    RouteInfo,
    SchemaValidator,
    Usage,
)
from genai_host.calls.structured_output import Answers, with_schema_in_prompt, with_value
from genai_host.errors import OutputValidationError
from genai_host_testing.internal.garbage import finite_json

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
ANYTHING = SchemaValidator({})


def completion_of(text: str, finish: FinishReason = "stop", vendor: str = "") -> Completion:
    return Completion(Message("assistant", text), finish, Usage(1, 2), vendor_finish=vendor)


def test_the_schema_is_asked_for_in_a_last_system_message() -> None:
    schema = {**SCHEMA, "description": "é"}
    call = ChatCall(model_id="m", messages=[Message("user", "hi")], schema=schema, stream=True)
    request = with_schema_in_prompt(call)
    assert request.schema is None
    assert (request.model_id, request.stream) == ("m", True)
    *before, last = request.messages
    assert before == list(call.messages)
    assert last.role == "system"
    assert json.loads(last.text.partition("\n")[2]) == schema
    assert "é" in last.text
    assert call.schema is schema
    assert len(call.messages) == 1


@pytest.mark.parametrize("text", [
    '{"a": 1}', ' \n{"a": 1}\n', '```json\n{"a": 1}\n```', '```\n{"a": 1}\n```',
    '\n\n```json\n{"a": 1}\n```\n\n', '```json   \n\n{"a":\n1}\n\n   ```',
])  # fmt: skip
def test_the_value_of_the_text_is_added(text: str) -> None:
    result = with_value(completion_of(text, vendor="end"), SchemaValidator(SCHEMA))
    assert result.value == {"a": 1}
    assert (result.text, result.usage, result.vendor_finish) == (text, Usage(1, 2), "end")


@pytest.mark.parametrize("value", [None, False, 0, "", [], {}, "```", "a\n```\nb"], ids=repr)
def test_any_json_is_a_value(value: Any) -> None:
    assert with_value(completion_of(json.dumps(value)), ANYTHING).value == value
    assert with_value(completion_of(f"```json\n{json.dumps(value)}\n```"), ANYTHING).value == value


@pytest.mark.parametrize("text", [
    "", "The answer is 1.", '{"a": 1', '{"a": 1} and more', 'Here it is: ```json\n{"a": 1}\n```',
    '```json\n{"a": 1}', "[" * 100_000, "[" * 100_000 + "]" * 100_000, "1" * 5_000, "NaN",
    '{"a": NaN}', '{"a": 1, "b": Infinity}', '{"a": 1, "b": [-Infinity]}',
], ids=lambda text: text[:24])  # fmt: skip
def test_what_is_no_json_is_no_answer(text: str) -> None:
    with pytest.raises(OutputValidationError) as caught:
        with_value(completion_of(text, vendor="end_turn"), ANYTHING)
    error = caught.value
    assert error.message.startswith("the answer is not valid JSON for the schema: ")
    assert (error.reason, error.detail, error.hint) == ("end_turn", text, "")


@pytest.mark.parametrize(("schema", "text"), [
    (SCHEMA, "{}"),
    (SCHEMA, '{"a": "x"}'),
    (SCHEMA, "[1]"),
    ({"multipleOf": 0.03}, "1" + "0" * 400),
    ({"pattern": "^(a|a)*$"}, '"' + "a" * 60 + 'b"'),
    ({"$ref": "http://127.0.0.1:9/x"}, "1"),
    ({"type": "string"}, "[" * 500 + "]" * 500),
], ids=lambda value: repr(value)[:40])  # fmt: skip
def test_what_does_not_fit_the_schema_is_no_answer(schema: Any, text: str) -> None:
    with pytest.raises(OutputValidationError) as caught:
        with_value(completion_of(text), SchemaValidator(schema))
    assert caught.value.detail == text


def test_an_answer_that_was_cut_says_so() -> None:
    with pytest.raises(OutputValidationError) as caught:
        with_value(completion_of('{"a": ', "length"), ANYTHING)
    assert caught.value.reason == "length"
    assert "max_tokens" in caught.value.hint


@pytest.mark.timeout(10, method="signal")
@pytest.mark.parametrize("text", [
    "```json" + "\n" * 6_000, "```json\n{" + "\n" * 6_000, "```json\n" + " \n" * 6_000 + "{",
    "```" + "\n```" * 6_000 + "x", " " * 20_000 + "x",
], ids=lambda text: repr(text[:12]))  # fmt: skip
def test_an_answer_that_repeats_itself_is_read_quickly(text: str) -> None:
    """As models do that are held to JSON and have nothing to say."""
    with pytest.raises(OutputValidationError):
        with_value(completion_of(text, "length"), ANYTHING)


class Stay:
    """Has a schema of its own for each dialect."""

    def __init__(self, nights: int) -> None:
        self.nights = nights

    @classmethod
    def llm_schema(cls, dialect: str) -> dict[str, Any]:
        return {"type": "object", "properties": {"nights": {}}, "required": [f"nights-{dialect}"]}

    @classmethod
    def deserialize(cls, raw: str) -> Stay:
        return cls(next(iter(json.loads(raw).values())))


def test_an_answer_is_held_to_the_schema_of_the_dialect_that_it_came_in() -> None:
    completion = evolve(completion_of("x"), route=RouteInfo("m", "p", "b"))
    first, second = ({f"nights-{dialect}": 3} for dialect in "ab")
    request, answers = Stay.llm_schema("a"), Answers("f")
    assert answers.built(Answer("x", data=second), request, Stay, completion).data.nights == 3
    with pytest.raises(OutputValidationError):
        answers.built(Answer("x", data=first), request, Stay, completion)
    assert answers.built(Answer("x", data=first), request, Stay).data.nights == 3
    assert answers.built(Answer("x", data=first), None, Stay, completion).data is first


@given(value=finite_json, indent=st.none() | st.integers(0, 4), fence=st.booleans())
def test_every_value_is_read_as_it_was_written(value: Any, indent: int | None, fence: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    if fence:
        text = f"```json\n{text}\n```"
    assert with_value(completion_of(text), ANYTHING).value == value


@given(text=st.text(st.sampled_from('`json \n{}[]":,1eaN\\u')))
def test_no_text_raises_anything_else(text: str) -> None:
    try:
        with_value(completion_of(text), SchemaValidator(SCHEMA))
    except OutputValidationError as error:
        assert error.detail == text
