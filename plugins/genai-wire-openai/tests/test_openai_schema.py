"""Schemas as services in OpenAI's form take them, and answers that were held to one."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from attrs import evolve
from genai_wire_openai.dialect.chat import OpenAIChat
from genai_wire_openai.dialect.common import fit, strict_form, unwrapped
from genai_wire_openai.dialect.responses import OpenAIResponses
from hypothesis import given, strategies as st

from genai_host.api import (
    ChatCall,
    Completion,
    Delta,
    Dialect,
    Message,
    ProviderReply,
    Reasoning,
    SchemaValidator,
    StreamEvent,
    schema_of,
)
from genai_host.errors import IncompleteReply, ValidationError

TEXT = {"type": "string"}
OPEN = {"type": "object", "properties": {"a": TEXT}, "required": ["a"]}
CLOSED = {**OPEN, "additionalProperties": False}


@dataclass
class Place:
    name: str
    kind: Literal["city", "river"] | None
    near: list[Place]


@dataclass
class Loose:
    name: str = ""
    tags: dict[str, str] = field(default_factory=dict)


# schemas


@pytest.mark.parametrize(
    "schema",
    [
        OPEN,
        CLOSED,
        {"$schema": "https://json-schema.org/draft/2020-12/schema", **OPEN},
        {"type": "object", "properties": {}, "required": []},
        {"type": "object", "properties": {}},
        {
            "type": "object", "title": "T", "description": "d",
            "properties": {
                "list": {"type": "array", "items": OPEN, "minItems": 1},
                "maybe": {"type": ["string", "null"], "pattern": "^a+$", "format": "date"},
                "either": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/a"}]},
                "one": {"enum": ["a", 1]}, "same": {"const": 3}, "again": {"$ref": "#"},
                "most": {"type": "integer", "maximum": 3}},
            "required": ["list", "maybe", "either", "one", "same", "again", "most"],
            "$defs": {"a": OPEN}},
        schema_of(Place)],
    ids=lambda schema: json.dumps(schema)[:60],
)  # fmt: skip
def test_a_schema_in_the_subset_is_held_to(schema: Any) -> None:
    fitted = fit(schema, strict=True)
    assert fitted.strict
    assert json.dumps(fitted.schema).count("additionalProperties") == json.dumps(schema).count(
        "properties"
    )
    assert not fit(schema, strict=False).strict


@pytest.mark.parametrize("schema", [
    {}, {"type": "object"}, {"type": "array", "items": TEXT}, {"anyOf": [OPEN, OPEN]},
    {**OPEN, "anyOf": [OPEN]}, {**OPEN, "required": []},
    {"type": "object", "properties": {"a": TEXT}}, {**OPEN, "additionalProperties": True},
    {**OPEN, "additionalProperties": TEXT}, {**OPEN, "allOf": [OPEN]},
    {**OPEN, "patternProperties": {"^a": TEXT}}, {**OPEN, "properties": {"a": {}}},
    {**OPEN, "properties": {"a": True}}, {**OPEN, "properties": {"a": {"type": "object"}}},
    {**OPEN, "properties": {"a": {"type": "array"}}},
    {**OPEN, "properties": {"a": {"type": "array", "prefixItems": [TEXT]}}},
    {**OPEN, "properties": {"a": {"type": "string", "minLength": 1}}},
    {**OPEN, "properties": {"a": {"type": "string", "format": "uri"}}},
    {**OPEN, "properties": {"a": {"type": "string", "pattern": "(?=a)"}}},
    {**OPEN, "properties": {"a": {"type": "string", "default": ""}}},
    {**OPEN, "properties": {"a": {"$ref": "#/$defs/a", "description": "d"}}},
    {**OPEN, "properties": {"a": {"oneOf": [TEXT]}}}, {**OPEN, "properties": [TEXT]},
    {**OPEN, "properties": {"a": {"anyOf": TEXT}}}, {**OPEN, "properties": {"a": {"anyOf": 3}}},
    {**OPEN, "required": 3}, schema_of(Loose),
], ids=lambda schema: json.dumps(schema)[:90])  # fmt: skip
def test_another_one_is_sent_as_it_is(schema: Any) -> None:
    assert fit(schema, strict=True) == (schema, False)


def test_a_schema_that_is_nested_too_deeply_is_sent_as_it_is() -> None:
    schema: Any = TEXT
    for _ in range(10_000):
        schema = {"type": "array", "items": schema}
    deep = {**OPEN, "properties": {"a": schema}}
    assert fit(deep, strict=True).schema is deep


def test_what_was_given_is_left_alone() -> None:
    before = json.dumps(OPEN)
    fit(OPEN, strict=True)
    assert json.dumps(OPEN) == before


leaves = st.sampled_from([TEXT, {"type": "integer"}, {"type": "null"}, {"enum": ["a", None]}])


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def closed(properties: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any]:
        return {"type": "object", "properties": properties, "required": [*properties], **extra}

    names = st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    return st.builds(closed, names, st.sampled_from([{}, {"additionalProperties": False}]))


schemas = objects(
    st.recursive(
        leaves,
        lambda inner: st.one_of(
            objects(inner),
            st.builds(lambda items: {"type": "array", "items": items}, inner),
            st.builds(lambda each: {"anyOf": each}, st.lists(inner, min_size=1, max_size=2)),
        ),
        max_leaves=6,
    )
)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers() | st.sampled_from("ab"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=6,
)


@given(schema=schemas, value=values)
def test_what_satisfies_the_strict_form_satisfies_what_was_given(schema: Any, value: Any) -> None:
    strict = strict_form(schema)
    assert strict is not None
    try:
        SchemaValidator(strict).check(value)
    except ValidationError:
        return
    SchemaValidator(schema).check(value)


# values that are asked for inside of an object


@pytest.mark.parametrize("schema", [
    {}, TEXT, {"type": "array", "items": TEXT}, {"anyOf": [OPEN, {"type": "null"}]},
    schema_of(list[Place]), schema_of(Place | None),
], ids=lambda schema: json.dumps(schema)[:60])  # fmt: skip
def test_a_value_is_asked_for_inside_of_an_object(schema: Any) -> None:
    fitted = fit(schema, strict=False, object_root=True)
    assert fitted.schema["required"] == ["whole_answer"]
    checker = SchemaValidator(fitted.schema)
    place: dict[str, Any] = {"name": "x", "kind": None, "near": []}
    samples: list[Any] = ["a", ["b"], [], None, {"a": "c"}, place, [place]]
    for value in samples:
        assert fits(SchemaValidator(schema), value) == fits(checker, {"whole_answer": value})
    assert not fits(checker, {})


def fits(checker: SchemaValidator, value: Any) -> bool:
    try:
        checker.check(value)
    except ValidationError:
        return False
    return True


def test_an_object_is_asked_for_as_it_is() -> None:
    assert fit(OPEN, strict=True, object_root=True).schema == strict_form(OPEN)


def test_a_schema_that_refers_to_itself_stays_as_it_is() -> None:
    schema = {"type": "array", "items": {"$ref": "#"}}
    fitted = fit(schema, strict=True, object_root=True)
    assert fitted == (schema, False)


def test_only_the_text_is_replaced() -> None:
    completion = Completion(Message("assistant", [Reasoning("hm"), '{"whole_answer"', ": 1}"]))
    assert unwrapped(completion).message == Message("assistant", [Reasoning("hm"), "1"])


def chat_events(text: str) -> list[Any]:
    pieces = [{"reasoning": "hm"}, *({"content": each} for each in text)]
    return [*({"choices": [{"delta": piece}]} for piece in pieces), "[DONE]"]


def chat_reply(text: str) -> Any:
    return {"choices": [{"message": {"content": text, "reasoning": "hm"}}]}


def responses_events(text: str) -> list[Any]:
    pieces = [{"type": "response.output_text.delta", "delta": each} for each in text]
    thought = {"type": "response.reasoning_text.delta", "delta": "hm"}
    end = {"type": "response.completed", "response": responses_reply(text)}
    return [thought, *pieces, end]


def responses_reply(text: str) -> Any:
    content = [{"type": "output_text", "text": text}]
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}
    return {"status": "completed", "output": [thought, {"type": "message", "content": content}]}


each_dialect = pytest.mark.parametrize(("dialect", "reply", "events"), [
    (OpenAIChat(), chat_reply, chat_events),
    (OpenAIResponses(), responses_reply, responses_events),
], ids=["chat", "responses"])  # fmt: skip
NUMBERS = ChatCall(
    model_id="m", messages=[], schema={"type": "array", "items": {"type": "integer"}},
    variant={"object_root": True},
)  # fmt: skip


def event(data: Any) -> StreamEvent:
    return StreamEvent(data.encode() if isinstance(data, str) else json.dumps(data).encode())


@each_dialect
@pytest.mark.parametrize(("text", "value"), [
    ('{"whole_answer": [1, 2]}', "[1,2]"),
    ('{"whole_answer": "é"}', '"é"'),
    ('{"whole_answer": 1, "more": 2}', '{"whole_answer": 1, "more": 2}'),
    ("[1, 2]", "[1, 2]"), ('{"whole_answer": [1', '{"whole_answer": [1'), ("", ""),
])  # fmt: skip
def test_a_value_is_taken_out_of_its_object(
    dialect: Dialect[ChatCall, Completion], reply: Any, events: Any, text: str, value: str
) -> None:
    provider_reply = ProviderReply(json.dumps(reply(text)).encode())
    completion = dialect.extract_result(NUMBERS, provider_reply)
    assert completion.text == value
    assert Reasoning("hm") in completion.message.content
    decoder = dialect.decoder(NUMBERS)
    assert decoder is not None
    pieces = [piece for each in events(text) for piece in decoder.feed(event(each))]
    assert decoder.finish().text == value
    assert (pieces[0], "".join(piece.text for piece in pieces)) == (Delta(reasoning="hm"), value)
    assert len(pieces) <= 2
    assert not [piece for each in events(text) for piece in decoder.feed(event(each)) if piece.text]


@each_dialect
def test_cut_value(dialect: Dialect[ChatCall, Completion], reply: Any, events: Any) -> None:
    decoder = dialect.decoder(NUMBERS)
    assert decoder is not None
    for each in events('{"whole_answer')[:-1]:
        decoder.feed(event(each))
    with pytest.raises(IncompleteReply) as caught:
        decoder.finish()
    assert (decoder.done, caught.value.text) == (False, '{"whole_answer')


@each_dialect
def test_any_value_comes_as_is(
    dialect: Dialect[ChatCall, Completion], reply: Any, events: Any
) -> None:
    call = evolve(NUMBERS, variant={"object_root": False})
    provider_reply = ProviderReply(json.dumps(reply('{"whole_answer": 1}')).encode())
    assert dialect.extract_result(call, provider_reply).text == '{"whole_answer": 1}'
    decoder = dialect.decoder(call)
    assert decoder is not None
    pieces = [piece for each in events("[1]") for piece in decoder.feed(event(each))]
    assert [piece.text for piece in pieces if piece.text] == ["[", "1", "]"]
