"""Schemas as Anthropic's service takes them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from hypothesis import given, strategies as st

from genai_host.api import SchemaValidator, schema_of
from genai_host.api.closed_schema import held_form
from genai_host.errors import ValidationError
from genai_host_testing.internal.garbage import WEIRD
from genai_host_testing.purity import places_in, with_other

TEXT = {"type": "string"}
OPEN = {"type": "object", "properties": {"a": TEXT}, "required": ["a"]}
CLOSED = {**OPEN, "additionalProperties": False}


@dataclass
class Near:
    name: str


@dataclass
class Place:
    name: str
    kind: Literal["city", "river"] | None
    near: list[Near] = field(default_factory=list)


@dataclass
class Tree:
    name: str
    under: list[Tree]


@pytest.mark.parametrize(("schema", "held"), [
    (OPEN, CLOSED),
    (CLOSED, CLOSED),
    ({**OPEN, "additionalProperties": True}, CLOSED),
    ({"$schema": "https://json-schema.org/draft/2020-12/schema", **OPEN}, CLOSED),
    ({"type": "object", "properties": {}},
     {"type": "object", "properties": {}, "additionalProperties": False}),
    ({"type": "array", "items": OPEN, "minItems": 1},
     {"type": "array", "items": CLOSED, "minItems": 1}),
    ({"type": "array", "items": TEXT, "minItems": 2, "maxItems": 3},
     {"type": "array", "items": TEXT, "description": '{"minItems":2,"maxItems":3}'}),
    ({"type": "integer", "minimum": 1, "title": "A", "description": "a number"},
     {"type": "integer", "title": "A", "description": 'a number\n\n{"minimum":1}'}),
    ({**TEXT, "format": "date"}, {**TEXT, "format": "date"}),
    ({**TEXT, "format": "iban"}, {**TEXT, "description": '{"format":"iban"}'}),
    ({"enum": ["a", 1, None]}, {"enum": ["a", 1, None]}),
    ({"type": "string", "enum": ["a"]}, {"enum": ["a"]}),
    ({"const": 1, "description": "one"}, {"const": 1, "description": "one"}),
    ({"anyOf": [TEXT, {"type": "null"}]}, {"anyOf": [TEXT, {"type": "null"}]}),
    ({"oneOf": [TEXT, OPEN]}, {"anyOf": [TEXT, CLOSED]}),
    ({"type": ["string", "null"], "description": "d"},
     {"description": "d", "anyOf": [TEXT, {"type": "null"}]}),
    ({"$ref": "#/$defs/A", "$defs": {"A": OPEN}}, {"$ref": "#/$defs/A", "$defs": {"A": CLOSED}}),
], ids=str)  # fmt: skip
def test_what_it_is_held_to(schema: Any, held: Any) -> None:
    assert held_form(schema) == held


def test_a_class_is_held_to() -> None:
    held = held_form(schema_of(Place))
    assert held is not None
    value = {"name": "a", "kind": "city", "near": [{"name": "b"}]}
    SchemaValidator(held).check(value)
    with pytest.raises(ValidationError):
        SchemaValidator(held).check({**value, "other": 1})


@pytest.mark.parametrize("schema", [
    {},
    {"type": "object"},
    {"type": "object", "additionalProperties": TEXT},
    {**OPEN, "additionalProperties": TEXT},
    {**OPEN, "patternProperties": {"^x": TEXT}},
    {"type": "array"},
    {"type": "array", "items": True},
    {"type": "array", "prefixItems": [TEXT]},
    {"enum": [["a"]]},
    {"allOf": [OPEN]},
    {"not": TEXT},
    {"type": "of tomorrow"},
    {"$ref": "https://x/schema"},
    {"$ref": "#"},
    {"$ref": "#/$defs/A"},
    {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}},
    schema_of(Tree),
], ids=str)  # fmt: skip
def test_what_it_cannot_be_held_to(schema: Any) -> None:
    assert held_form(schema) is None


def test_definitions_that_meet_again_and_again_are_looked_at_once() -> None:
    last = {"D60": OPEN}
    steps = {f"D{each}": {"anyOf": [{"$ref": f"#/$defs/D{each + 1}"}] * 2} for each in range(60)}
    assert held_form({"$ref": "#/$defs/D0", "$defs": {**steps, **last}}) is not None


DAMAGED = {**OPEN, "$defs": {"A": OPEN}}


@pytest.mark.parametrize("place", [place for place in places_in(DAMAGED) if place], ids=str)
def test_what_is_no_schema_is_asked_for_in_words(place: Any) -> None:
    for weird in WEIRD:
        held = held_form(with_other(DAMAGED, place, weird))
        assert held is None or json.dumps(held)


scalars = st.sampled_from(
    [
        TEXT,
        {"type": "integer", "minimum": 0, "maximum": 9},
        {"type": ["boolean", "null"]},
        {"enum": ["a", "b", 1]},
        {"type": "string", "maxLength": 3},
    ]
)
schemas: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.builds(lambda items: {"type": "array", "items": items, "maxItems": 2}, inner),
        st.builds(
            lambda properties, count: {
                "type": "object",
                "properties": properties,
                "required": sorted(properties)[:count],
            },
            st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            st.integers(0, 3),
        ),
    ),
    max_leaves=5,
)


@given(schema=schemas, data=st.data())
def test_what_fits_the_schema_fits_what_it_is_held_to(schema: Any, data: st.DataObject) -> None:
    held = held_form(schema)
    assert held is not None
    value = data.draw(values_of(schema))
    SchemaValidator(schema).check(value)
    SchemaValidator(held).check(value)


def values_of(schema: Any) -> st.SearchStrategy[Any]:
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kind = schema["type"]
    if kind == "string":
        return st.text(max_size=3)
    if kind == "integer":
        return st.integers(0, 9)
    if kind == "array":
        return st.lists(values_of(schema["items"]), max_size=2)
    if kind == "object":
        properties = {name: values_of(each) for name, each in schema["properties"].items()}
        needed = {name: properties.pop(name) for name in schema["required"]}
        return st.fixed_dictionaries(needed, optional=properties)
    return st.none() | st.booleans()
