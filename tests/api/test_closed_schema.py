"""Schemas as the service of Anthropic takes them; regular expressions within a bound."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from hypothesis import given, strategies as st

from genai_host.api import SchemaValidator, schema_of
from genai_host.api.closed_schema import held_form
from genai_host.api.patterns import Pattern
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


@pytest.mark.parametrize(("pattern", "matching", "others"), [
    (r"^[\p{L}\p{N}_-]+$", ["é1_-"], ["a b", ""]),
    (r"^\p{Script=Greek}+$", ["λ"], ["l"]),
    (r"^\P{L}$", ["1"], ["é"]),
    (r"^(?<year>\d{4})-\k<year>$", ["1999-1999"], ["1999-2000"]),
    (r"^\d+$", ["12"], ["٣", "x"]),
    (r"^\D$", ["x", "٣"], ["1"]),
    (r"^\w+$", ["aZ_9"], ["é", "-"]),
    (r"^\W$", ["é", "-"], ["a", "_"]),
    (r"^\s$", [" ", "\u00a0", "\ufeff", "\t", "\n"], ["x", "\x1c", "\x85"]),
    (r"^\S$", ["x", "\x1c"], [" ", "\ufeff"]),
    (r"^a\b.", ["a ", "aé"], ["ab"]),
    (r"^a\B.", ["ab"], ["a ", "aé"]),
    (r"^\cA\cj$", ["\x01\n"], ["cA"]),
    (r"^[\cA-\cC]$", ["\x02"], ["c", "A"]),
    (r"^[^]$", ["a", "\n", "😀"], ["", "ab"]),
    (r"a[]", [], ["a", "a[]"]),
    (r"^[[]$", ["["], ["]"]),
    (r"^[a[^]$", ["a", "[", "^"], ["b"]),
    (r"^[[:alpha:]]$", ["[]", ":]", "h]"], ["x", "b"]),
    (r"^\/a\/$", ["/a/"], ["a"]),
    (r"^[\/\-\]]$", ["/", "-", "]"], ["\\"]),
    (r"^\u{1F600}$", ["😀"], ["u"]),
    (r"^\u{0041}\u0042\x43$", ["ABC"], ["abc"]),
    (r"^\uD83D\uDE00$", ["😀"], ["x"]),
    (r"^[\uD83D\uDE00-\uD83D\uDE4F]$", ["😅"], ["\ud83d", "x"]),
    (r"^[\u{1F600}-\u{1F64F}]$", ["😅"], ["u", "x"]),
    (r"^[\w-.]+$", ["a-b.c"], ["a/b"]),
    (r"^[+-\d]+$", ["+-1"], [",", "."]),
    (r"^[\d-x]$", ["1", "-", "x"], ["a"]),
    (r"^[-a]$", ["-", "a"], ["b"]),
    (r"^[a-]$", ["-", "a"], ["b"]),
    (r"^[+--]$", ["+", ",", "-"], ["."]),
    (r"^[^\d-]$", ["a"], ["1", "-"]),
    (r"^[^\W\d]$", ["a", "_"], ["1", "é"]),
    (r"^[\b]$", ["\b"], ["b"]),
    (r"^a.$", ["ab"], ["a\n", "a\r", "a\u2028", "ab\n"]),
    (r"^(a|b$)", ["a", "b"], ["b\n"]),
    (r"(?<=\$)\d", ["$1"], ["1"]),
    (r"^x{2,3}?$", ["xx"], ["x"]),
])  # fmt: skip
def test_it_means_what_ecma_262_says(pattern: str, matching: list[str], others: list[str]) -> None:
    read = Pattern(pattern)
    assert not read.fault
    assert [text for text in [*matching, *others] if read.matches(text)] == matching


@pytest.mark.parametrize(("pattern", "matching", "others"), [
    (r"(?i)^abc$", ["ABC", "abc"], ["x"]),
    (r"(?s)^a.$", ["a\n"], ["a"]),
    (r"(?m)^a$", ["a\nb"], ["b"]),
    (r"\A(?P<n>a)(?P=n)\Z", ["aa"], ["a", "aa\n"]),
    (r"\Aa\z", ["a"], ["a\n"]),
])  # fmt: skip
def test_what_only_python_has_is_kept(pattern: str, matching: list[str], others: list[str]) -> None:
    read = Pattern(pattern)
    assert [text for text in [*matching, *others] if read.matches(text)] == matching


@pytest.mark.timeout(10, method="signal")
def test_one_that_takes_too_long_is_an_error() -> None:
    with pytest.raises(ValidationError, match="takes too long"):
        Pattern(r"^(a|a)*$").matches("a" * 60 + "1")


@given(st.text("()[]{}\\^$.*+?|-,<>=!:kpPuUxcdDwWsSbBaAzZ019", max_size=30), st.text(max_size=5))
def test_any_text_is_a_pattern_or_has_a_fault(pattern: str, text: str) -> None:
    read = Pattern(pattern)
    if not read.fault:
        try:
            read.matches(text)
        except ValidationError as error:
            assert "the pattern" in str(error)
