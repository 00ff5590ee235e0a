"""JSON Schema: made from classes, built back, and checked against, whatever comes."""

from __future__ import annotations

import dataclasses
import enum
import socket
from decimal import Decimal
from types import GenericAlias
from typing import Any, Literal, NamedTuple, NoReturn, TypedDict

import pytest
from attrs import field, frozen
from hypothesis import given, strategies as st
from message_schema import message_schema
from pydantic import BaseModel, Field

from genai_host.api import SchemaValidator, Secret, patterns, schema_of
from genai_host.api.codec import default_codec
from genai_host.api.schema import build, schemas_of
from genai_host.errors import ValidationError

DEEP = 30000
DRAFT = "http://json-schema.org/draft-0{}/schema#"
CATASTROPHE = r"^(a|a)*$"  # its time doubles with each letter
LONG = "a" * 60 + "b"

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


@frozen
class Point:
    x: int
    label: str = "p"


@frozen
class Shape:
    first: Point
    inner: list[Shape] = field(factory=list)


@frozen
class Lost:
    other: Nowhere  # type: ignore[name-defined]  # noqa: F821  # on purpose


@dataclasses.dataclass
class Line:
    start: Point
    end: Point | None = None


class Named(NamedTuple):
    x: int
    y: str


class Options(TypedDict, total=False):
    depth: int


class Colour(enum.Enum):
    RED = "red"


class Pydantic:
    """What a pydantic model has, as far as it is used."""

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]:
        return {"type": "string"}

    @classmethod
    def model_validate(cls, value: Any) -> tuple[str, Any]:
        if value == "bad":
            raise ValueError("no good")
        return ("model", value)


@frozen
class Described:
    """A class with fields that describes and reads itself in another form."""

    text: str

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]:
        return {"type": "string"}

    @classmethod
    def model_validate(cls, value: Any) -> Described:
        return cls(value)


class Inner(BaseModel):  # type: ignore[misc]  # pydantic has no types here
    y: int


class Model(BaseModel):  # type: ignore[misc]  # see above
    inner: Inner


class Tree(BaseModel):  # type: ignore[misc]  # see above
    trees: list[Tree] = []


class Renamed(BaseModel):  # type: ignore[misc]  # see above
    a: int = Field(alias="b")


_COMMENTS = GenericAlias(list, ("Comment",))  # as `list["Comment"]`
Comment: Any = dataclasses.make_dataclass(
    "Comment", [("replies", _COMMENTS, dataclasses.field(default_factory=list))]
)
Comment.__module__ = __name__


def nested(depth: int, key: str = "") -> Any:
    value: Any = {} if key else []
    for _ in range(depth):
        value = {key: value} if key else [value]
    return value


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> NoReturn:
        raise AssertionError("there was network access")

    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.mark.parametrize(("form", "good", "built", "bad"), [
    (int, 5, 5, "5"),
    (int, 5.0, 5, 5.5),
    (float, 5, 5.0, "5"),
    (str, "x", "x", 5),
    (list[int], [1], [1], ["x"]),
    (set[int], [1, 2], {1, 2}, [1, 1]),
    (tuple[int, str], [1, "x"], (1, "x"), [1]),
    (dict[str, int], {"a": 1}, {"a": 1}, {"a": "x"}),
    (int | None, None, None, "x"),
    (int | str, "x", "x", []),
    (str | list[str], ["x"], ["x"], 5),
    (Literal["a", "b"], "a", "a", "c"),
    (Colour, "red", Colour.RED, "blue"),
    (Point, {"x": 1}, Point(1), {"label": "p"}),
    (list[Point], [{"x": 1}], [Point(1)], [{}]),
    (Point | None, None, None, 5),
    (Shape, {"first": {"x": 1}, "inner": [{"first": {"x": 2}}]},
     Shape(Point(1), [Shape(Point(2))]), {"first": {"x": 1}, "inner": [{}]}),
    (Line, {"start": {"x": 1}}, Line(Point(1)), {"start": {}}),
    (Named, [1, "x"], Named(1, "x"), [1, 2]),
    (Options, {"depth": 1}, {"depth": 1}, {"depth": "x"}),
    (Pydantic, "x", ("model", "x"), 5),
    (list[Pydantic], ["x"], [("model", "x")], [5]),
    (Pydantic | None, None, None, 5),
    (Comment, {"replies": [{}]}, Comment([Comment()]), {"replies": [5]}),
    (Described, "x", Described("x"), {"text": "x"}),
    (Renamed, {"b": 1}, Renamed(b=1), {"a": 1}),
    (list[Model], [{"inner": {"y": 1}}], [Model(inner=Inner(y=1))], [{"inner": {}}]),
    (dict[str, Tree], {"a": {"trees": [{}]}}, {"a": Tree(trees=[Tree()])}, {"a": {"trees": 5}}),
    ({"type": "integer"}, 5, 5, "x"),
    ({"multipleOf": 0.01}, 19.99, 19.99, 19.995),
    ({"multipleOf": 0.01}, Decimal("19.99"), Decimal("19.99"), Decimal("19.995")),
])  # fmt: skip
def test_a_class_is_built_from_what_fits(form: Any, good: Any, built: Any, bad: Any) -> None:
    checker = SchemaValidator(schema_of(form))
    checker.check(good)
    result = build(good, form)
    assert (result, type(result)) == (built, type(built))
    with pytest.raises(ValidationError):
        checker.check(bad)


def test_objects_are_written_in_the_form_of_their_schema() -> None:
    for value, data in (
        (Comment([Comment()]), {"replies": [{}]}),
        ([Model(inner=Inner(y=1))], [{"inner": {"y": 1}}]),
        (Renamed(b=1), {"b": 1}),
    ):
        assert default_codec().to_json(value) == data


def test_a_class_that_does_not_write_itself_is_written_by_its_fields() -> None:
    assert default_codec().to_json([Described("x")]) == [{"text": "x"}]


def test_two_classes_of_one_name_have_no_schema() -> None:
    other = dataclasses.make_dataclass("Inner", [("z", int)])
    outer = dataclasses.make_dataclass("Outer", [("inner", other)])
    with pytest.raises(ValidationError, match="two classes have the name Inner"):
        schemas_of({"a": Model, "b": outer})


def test_the_class_itself_is_outermost() -> None:
    """Services want an object there, and no reference."""
    point = schema_of(Point)
    assert point["type"] == "object"
    assert "$defs" not in point
    assert point["required"] == ["x"]
    shape = schema_of(Shape)
    assert shape["type"] == "object"
    assert set(shape["$defs"]) == {"Point", "Shape"}


def test_a_mapping_is_a_schema_already() -> None:
    schema = {"type": "integer"}
    assert schema_of(schema) == schema
    assert schema_of(schema) is not schema


@pytest.mark.parametrize(
    "form",
    [5, "x", object, complex, Secret, [int], Point | Line, Lost, nested],
    ids=lambda form: getattr(form, "__name__", str(form)),
)
def test_what_has_no_json_form_has_no_schema(form: Any) -> None:
    with pytest.raises(ValidationError, match="no JSON Schema can be made from"):
        schema_of(form)


@pytest.mark.parametrize(("value", "form", "why"), [
    ("bad", Pydantic, "no good"),
    ({"x": 1.5}, Point, "expected an integer"),
    ({"x": 1, "z": 2}, Point, "extra fields"),
    ({"start": {"x": 1}, "z": 2}, Line, "extra fields"),
])  # fmt: skip
def test_what_a_class_refuses_is_not_built(value: Any, form: Any, why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        build(value, form)


@pytest.mark.parametrize(("schema", "path"), [
    ({"type": "strin"}, "$.type"),
    ({"properties": []}, "$.properties"),
    ({"properties": {"a": {"minimum": "x"}}}, "$.properties.a.minimum"),
    ({"required": "a"}, "$.required"),
    ({"pattern": 5}, "$.pattern"),
    ({"$ref": 5}, "$['$ref']"),
    ({"minimum": 1, "exclusiveMinimum": True}, "$.exclusiveMinimum"),
    ("x", "$"),
    ([], "$"),
    (5, ""),
    (None, ""),
    ({"$schema": 5}, ""),
    ({"$schema": []}, ""),
    ({"$schema": "http://["}, ""),
    ({"const": nested(DEEP)}, ""),
    (nested(DEEP, "items"), ""),
    (nested(DEEP, "not"), ""),
], ids=lambda value: type(value).__name__)  # fmt: skip
def test_a_schema_that_is_wrong_is_refused_when_it_is_made(schema: Any, path: str) -> None:
    with pytest.raises(ValidationError) as caught:
        SchemaValidator(schema)
    if path:  # where more than the place is wrong, any will do
        assert caught.value.message.startswith("invalid JSON Schema")
        assert caught.value.path == path


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("schema", [
    {"$ref": "http://127.0.0.1:9/schema"},
    {"$ref": "https://example.com/schema#/$defs/a"},
    {"$ref": "file:///etc/passwd"},
    {"$id": "http://127.0.0.1:9/a", "$ref": "schema"},
    {"$dynamicRef": "http://127.0.0.1:9/schema"},
    {"$schema": DRAFT.format(7), "$ref": "http://127.0.0.1:9/schema"},
    {"$schema": DRAFT.format(4), "id": "http://127.0.0.1:9/", "$ref": "schema"},
    {"$schema": "http://127.0.0.1:9/dialect", "$ref": "#/schema"},
    {"$ref": "#/$defs/schema"},
    {"$ref": "#schema"},
], ids=repr)  # fmt: skip
def test_a_reference_to_elsewhere_is_an_error_and_loads_nothing(schema: dict[str, Any]) -> None:
    checker = SchemaValidator({"type": "object", "properties": {"a": schema}})
    checker.check({"b": 1})
    with pytest.raises(
        ValidationError, match=r"unresolved reference in the schema: .*(schema|passwd)"
    ):
        checker.check({"a": 1})
    with pytest.raises(
        ValidationError, match=r"unresolved reference in the schema: .*(schema|passwd)"
    ):
        checker.check_references()


@pytest.mark.parametrize("schema", [
    {"$ref": "#"},
    {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#b"}, "b": {"$anchor": "b"}}},
    {"$id": "http://127.0.0.1:9/", "$ref": "a", "$defs": {"a": {"$id": "a"}}},
    {"$schema": DRAFT.format(7), "$ref": "#/definitions/a", "definitions": {"a": {}}},
    {"$dynamicRef": "#a", "$dynamicAnchor": "a"},
    {"const": {"$ref": "elsewhere"}, "properties": {"$ref": {"type": "string"}}},
    {"default": {"$ref": "elsewhere"}, "enum": [{"$ref": "elsewhere"}]},
    True,
], ids=repr)  # fmt: skip
def test_references_to_what_is_there_are_in_order(schema: Any) -> None:
    SchemaValidator(schema).check_references()


@pytest.mark.parametrize("schema", [
    {"$ref": "#/minimum", "minimum": 5},
    {"$ref": "#/type", "type": "string"},
    {"$ref": "#/required/0", "required": ["a"]},
    {"$ref": "#"},
    {"$ref": "http://["},
    {"$schema": DRAFT.format(3), "extends": "x"},
], ids=repr)  # fmt: skip
def test_a_reference_to_what_is_no_schema_is_an_error(schema: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        SchemaValidator(schema).check({"b": 1})


@pytest.mark.parametrize(("schema", "good", "bad"), [
    ({"$schema": DRAFT.format(3), "properties": {"a": {"required": True}}}, {"a": 1}, {}),
    ({"$schema": DRAFT.format(4), "minimum": 1, "exclusiveMinimum": True}, 2, 1),
    ({"$schema": DRAFT.format(6), "const": 1}, 1, 2),
    ({"$schema": DRAFT.format(7), "items": [{"type": "string"}]}, ["x"], [1]),
    ({"$schema": "https://json-schema.org/draft/2019-09/schema", "dependentRequired": {"a": ["b"]}},
     {"a": 1, "b": 2}, {"a": 1}),
    ({"prefixItems": [{"type": "string"}]}, ["x"], [1]),
    ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}}, "x", 1),
    (False, None, 5),
])  # fmt: skip
def test_a_schema_names_its_draft(schema: Any, good: Any, bad: Any) -> None:
    checker = SchemaValidator(schema)
    if good is not None:
        checker.check(good)
    with pytest.raises(ValidationError):
        checker.check(bad)


def test_the_place_of_the_fault_is_told() -> None:
    checker = SchemaValidator({"items": {"properties": {"a b": {"type": "integer"}}}})
    with pytest.raises(ValidationError, match="expected an integer, not 'x'") as caught:
        checker.check([{}, {"a b": "x"}])
    assert caught.value.path == "$[1]['a b']"
    assert "(at $[1]['a b'])" in caught.value.message


def test_a_long_value_is_not_told_in_full() -> None:
    with pytest.raises(ValidationError) as caught:
        SchemaValidator({"type": "integer"}).check("x" * 10_000)
    assert len(caught.value.message) < 400


@pytest.mark.timeout(10, method="signal")
@pytest.mark.parametrize(("schema", "value"), [
    ({"pattern": CATASTROPHE}, LONG),
    ({"$schema": DRAFT.format(4), "pattern": CATASTROPHE}, LONG),
    ({"properties": {"a": {"allOf": [{"not": {"pattern": CATASTROPHE}}]}}}, {"a": LONG}),
    ({"propertyNames": {"pattern": CATASTROPHE}}, {LONG: 1}),
    ({"patternProperties": {CATASTROPHE: {}}}, {LONG: 1}),
    ({"patternProperties": {CATASTROPHE: {}}, "additionalProperties": False}, {LONG: 1}),
    ({"additionalProperties": False, "patternProperties": {CATASTROPHE: {}}}, {LONG: 1}),
    ({"patternProperties": {CATASTROPHE: {}}, "unevaluatedProperties": False}, {LONG: 1}),
    ({"$ref": "#/$defs/a", "$defs": {"a": {"pattern": CATASTROPHE}}}, LONG),
    ({"items": {"pattern": CATASTROPHE}}, [LONG] * 1000),
], ids=lambda value: "" if isinstance(value, str) else repr(value)[:60])  # fmt: skip
def test_a_slow_pattern_is_ended(schema: Any, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "_SECONDS", 0.01)
    with pytest.raises(ValidationError):
        SchemaValidator(schema).check(value)


def test_patterns_with_a_bound_mean_what_they_did() -> None:
    checker = SchemaValidator(
        {
            "properties": {"p": {"pattern": "^[ab]+$"}, "q": {}},
            "patternProperties": {"^x": {"type": "integer"}},
            "additionalProperties": {"type": "string"},
        }
    )
    checker.check({"p": "ab", "q": None, "x1": 1, "other": "s"})
    checker.check("no object")
    for value, path in (({"p": "c"}, "$.p"), ({"x1": "s"}, "$.x1"), ({"other": 1}, "$.other")):
        with pytest.raises(ValidationError) as caught:
            checker.check(value)
        assert caught.value.path == path
    closed = SchemaValidator({"patternProperties": {"^x": {}}, "additionalProperties": False})
    closed.check({"x1": 1})
    with pytest.raises(ValidationError, match="y"):
        closed.check({"y": 1})


@pytest.mark.parametrize("pattern", [
    "(", "[z-a]", r"\p{Nonsense}", r"\k<n>", "(?<a b>x)", "(" * 5000 + ")" * 5000,
    r"\u{110000}",
], ids=lambda pattern: pattern[:20])  # fmt: skip
def test_a_wrong_pattern_is_not_enforced(pattern: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "genai_host")
    checker = SchemaValidator(
        {
            "properties": {"a": {"type": "string", "pattern": pattern}},
            "patternProperties": {pattern: {"type": "integer"}},
            "additionalProperties": False,
        }
    )
    checker.check({"a": "x", "b": "it may match"})
    checker.check({"a": "y"})
    (message,) = checker.unenforced()
    assert message.startswith("the pattern ")
    assert " is not enforced: " in message
    assert [record.message for record in caplog.records] == [message]  # once
    with pytest.raises(ValidationError, match="expected a string"):
        checker.check({"a": 1})


def test_no_more_than_a_few_patterns_are_told_of() -> None:
    checker = SchemaValidator({"allOf": [{"pattern": f"({n}"} for n in range(1000)]})
    assert len(checker.unenforced()) == 10
    assert SchemaValidator({"pattern": "^a"}).unenforced() == []


def test_a_pattern_that_repeats_too_much_is_an_error_where_it_is_matched() -> None:
    for pattern in ("a{99999999999}", "(a{1000}){1000}", "a{" + "9" * 5000 + "}"):
        with pytest.raises(ValidationError, match="repeats too much"):
            SchemaValidator({"pattern": pattern}).check("a")


@pytest.mark.parametrize("properties", [
    pytest.param({"a": {"type": "string", "pattern": r"^\p{L}+$"}}, id="beside a pattern"),
    pytest.param({"a": {}, "pattern": {}}, id="of a property called pattern"),
])  # fmt: skip
def test_unevaluated_properties_are_enforced(properties: dict[str, Any]) -> None:
    checker = SchemaValidator({"properties": properties, "unevaluatedProperties": False})
    checker.check(dict.fromkeys(properties, "é"))
    with pytest.raises(ValidationError, match="Unevaluated"):
        checker.check({"b": 1})


@pytest.mark.parametrize(("schema", "value"), [
    ({"type": "string"}, nested(DEEP)),
    ({"maxItems": 0}, nested(DEEP)),
    ({"type": "array", "items": {"$ref": "#"}}, nested(DEEP)),
    ({"uniqueItems": True}, [nested(DEEP), nested(DEEP)]),
    ({"enum": [1]}, nested(DEEP)),
    ({"multipleOf": 0.03}, 10**400 + 1),
    ({"multipleOf": 0.01}, float("nan")),
    ({"multipleOf": 2}, float("inf")),
    ({"type": "integer"}, float("inf")),
    ({"type": "integer"}, True),
    ({"enum": [1]}, True),
], ids=lambda value: repr(value)[:40] if isinstance(value, dict) else "")  # fmt: skip
def test_no_value_breaks_a_checker(schema: Any, value: Any) -> None:
    with pytest.raises(ValidationError):
        SchemaValidator(schema).check(value)


KEYWORDS = ["$ref", "$schema", "$id", "$defs", "$dynamicRef", "type", "properties", "pattern",
            "items", "enum", "multipleOf", "allOf", "required"]  # fmt: skip
SCHEMAS: list[Any] = [
    {"type": ["object", "array"], "properties": {"a": {"pattern": "^x"}}, "required": ["a"]},
    {"anyOf": [{"multipleOf": 0.1}, {"uniqueItems": True, "contains": {"type": "null"}}]},
    {"not": {"minimum": 1}, "maxLength": 2, "patternProperties": {"a": {"const": 1}}},
    message_schema(),
]
schemas = st.sampled_from(SCHEMAS) | st.dictionaries(
    st.sampled_from(KEYWORDS), json_values, max_size=3
)


@given(schema=schemas, value=json_values)
def test_neither_schemas_nor_values_raise_anything_else(schema: Any, value: Any) -> None:
    try:
        SchemaValidator(schema).check(value)
    except ValidationError as error:
        assert error.message
