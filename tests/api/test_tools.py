"""Tools as plugins declare them, and those made from typed functions."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Annotated, Any, Literal

import pytest
from attrs import field, frozen, validators

from genai_host import Image, Text
from genai_host.api import (
    Codec,
    Message,
    SchemaValidator,
    Tool,
    ToolCall,
    ToolContext,
    ToolOutput,
    ToolResult,
    tool,
    tool_message,
)
from genai_host.api.tools import output_of
from genai_host.errors import ValidationError

RUN: Any = None
PICTURE = Image(data=b"x", media_type="image/png")


def nothing(arguments: Mapping[str, Any], run: ToolContext) -> None:
    return None


class TestTool:
    @pytest.mark.parametrize(("fields", "wrong"), [
        ({"name": ""}, "Tool: name must be a string that matches"),
        ({"name": "1st"}, "name must be a string that matches"),
        ({"name": "a b"}, "name must be a string that matches"),
        ({"name": "a\n"}, "name must be a string that matches"),
        ({"name": "x" * 65}, "name must be a string that matches"),
        ({"name": None}, "name must be a string that matches"),
        ({"description": " "}, "Tool 't': description must be a non-blank string"),
        ({"description": None}, "description must be"),
        ({"run": "run"}, "run must be a callable"),
        ({"parameters": []}, "parameters must be a JSON Schema, or a function"),
        ({"parameters": {1: {}}}, "parameters must be"),
        ({"approval": "maybe"}, "approval must be one of allow, ask, deny"),
        ({"approval": ["ask"]}, "approval must be"),
        ({"idempotent": 1}, "idempotent must be True or False"),
        ({"timeout": 0}, "timeout must be a number of seconds above 0"),
        ({"timeout": float("inf")}, "timeout must be"),
        ({"timeout": True}, "timeout must be"),
        ({"available_when": None}, "available_when must be a callable"),
    ])  # fmt: skip
    def test_a_wrong_field_is_told_at_once(self, fields: dict[str, Any], wrong: str) -> None:
        with pytest.raises(TypeError) as caught:
            Tool(**{"name": "t", "description": "d", "run": nothing, **fields})
        assert wrong in str(caught.value)

    @pytest.mark.parametrize("name", ["t", "_t", "get-Weather_2", "x" * 64])
    def test_a_name_is_as_services_want_it(self, name: str) -> None:
        assert Tool(name, "d", nothing).schema.name == name

    def test_its_schema_is_of_an_object(self) -> None:
        assert Tool("t", "d", nothing).schema.parameters == {"type": "object", "properties": {}}
        schema = {"properties": {"a": {}}, "required": ["a"]}
        assert Tool("t", "d", nothing, schema).schema.parameters == {"type": "object", **schema}
        assert Tool("t", "d", nothing, lambda: schema).schema.parameters["required"] == ["a"]


class TestOutput:
    @pytest.mark.parametrize(("value", "content"), [
        (None, ()),
        ("", (Text(""),)),
        ("a", (Text("a"),)),
        (PICTURE, (PICTURE,)),
        (["a", PICTURE], (Text("a"), PICTURE)),
        ((), ()),
    ])  # fmt: skip
    def test_its_content_is_what_is_handy_to_write(self, value: Any, content: Any) -> None:
        assert output_of(value) == ToolOutput(value) == ToolOutput(content)
        assert ToolOutput(value).content == content

    @pytest.mark.parametrize(
        "value", [1, {"a": 1}, object(), iter(["a"]), [1], ToolResult("x"), Message("user", "x")]
    )
    def test_what_is_no_output_is_refused(self, value: Any) -> None:
        with pytest.raises((ValidationError, TypeError)):
            output_of(value)

    @pytest.mark.parametrize("fields", [
        {"error": "yes"}, {"ends": 1}, {"reactions": [1]}, {"reactions": [{"no": "type"}]},
        {"reactions": {"type": "message"}}, {"context": [1]}, {"context": {1: 2}},
    ])  # fmt: skip
    def test_a_wrong_field_is_refused(self, fields: Any) -> None:
        with pytest.raises(TypeError):
            ToolOutput("x", **fields)

    def test_it_survives_the_record(self) -> None:
        output = ToolOutput(
            ["a", PICTURE, "b"],
            error=True,
            reactions=[{"type": "message", "message": "hi"}],
            context={"page": 1},
            ends=True,
        )
        form = json.loads(json.dumps(Codec().to_json(output)))
        assert Codec().from_json(form, ToolOutput) == output
        assert output.text == "a\nb"
        assert output_of(output) is output

    def test_a_message_answers_each_call_in_order(self) -> None:
        calls = [ToolCall("1", "a"), ToolCall("2", "b")]
        message = tool_message(calls, [ToolOutput("x"), ToolOutput(error=True)])
        assert message == Message(
            "tool", [ToolResult("1", "a", [Text("x")]), ToolResult("2", "b", (), True)]
        )
        with pytest.raises(ValueError, match="shorter"):
            tool_message(calls, [ToolOutput()])


@frozen
class Place:
    latitude: float = field(validator=validators.le(90))
    name: str = "somewhere"


@tool
def visit(
    place: Annotated[Place, "where to go"], days: Annotated[int, "how long"] = 3, *,
    how: Literal["train", "boat"] = "train", others: list[Place] | None = None,
) -> str:  # fmt: skip
    """Go somewhere.

    Not for the weather.

    Args:
        place: it is told above
    """
    return f"{place.name} at {place.latitude}, {days}, {how}, {others}"


class TestTypedFunctions:
    def test_the_signature_is_the_schema(self) -> None:
        schema = visit.schema
        assert schema.name == "visit"
        assert schema.description == "Go somewhere.\n\nNot for the weather."
        parameters = schema.parameters
        assert parameters["required"] == ["place"]
        assert parameters["additionalProperties"] is False
        properties = parameters["properties"]
        assert properties["place"] == {"$ref": "#/$defs/Place", "description": "where to go"}
        assert properties["days"] == {"type": "integer", "description": "how long", "default": 3}
        assert properties["how"]["enum"] == ["boat", "train"]
        SchemaValidator(parameters).check({"place": {"latitude": 1}, "others": [{"latitude": 2}]})
        with pytest.raises(ValidationError):
            SchemaValidator(parameters).check({"place": {"latitude": 1}, "hwo": "boat"})

    def test_arguments_become_their_types(self) -> None:
        arguments = {"place": {"latitude": 1}, "how": "boat", "others": [{"latitude": 2.5}]}
        assert visit.run(arguments, RUN) == (
            "somewhere at 1.0, 3, boat, [Place(latitude=2.5, name='somewhere')]"
        )

    def test_an_argument_that_its_type_refuses_is_named(self) -> None:
        with pytest.raises(ValidationError, match="argument 'place':"):
            visit.run({"place": {"latitude": 91}}, RUN)

    @pytest.mark.parametrize("arguments", [{"no": 1}, {"run": 1, "a": 1}])
    def test_the_run_is_no_argument(self, arguments: dict[str, Any]) -> None:
        def see(a: int, run: ToolContext) -> str:
            """See."""
            return f"{a} {run}"

        built = tool(see)
        assert list(built.schema.parameters["properties"]) == ["a"]
        context: Any = "the run"
        assert built.run({"a": 1}, context) == "1 the run"
        with pytest.raises(ValidationError, match="unknown argument"):
            built.run(arguments, context)

    @pytest.mark.parametrize(("result", "output"), [
        (None, None),
        ("text", "text"),
        (["a", "b"], ["a", "b"]),
        (3, "3"),
        ([], "[]"),
        ({"a": 1}, '{"a":1}'),
        (Place(1.5), '{"latitude":1.5}'),
        (ToolOutput("x", ends=True), ToolOutput("x", ends=True)),
    ])  # fmt: skip
    def test_what_it_returns_is_its_output_or_json(self, result: Any, output: Any) -> None:
        def give() -> Any:
            """Give."""
            return result

        assert tool(give).run({}, RUN) == output

    def test_the_fields_of_the_tool_can_be_given(self) -> None:
        def some(a: int) -> str:
            return str(a)

        fields: Any = {
            "name": "other", "description": "d", "approval": "ask", "idempotent": True,
            "timeout": 1, "available_when": lambda context: False,
        }  # fmt: skip
        built = tool(**fields)(some)
        assert {name: getattr(built, name) for name in fields} == fields

    def test_what_can_be_called_by_no_name_is_refused(self) -> None:
        def several(*all: int) -> None:
            """X."""

        def named(**all: int) -> None:
            """X."""

        def by_place(a: int, /) -> None:
            """X."""

        def untyped(a) -> None:  # type: ignore[no-untyped-def]  # that is what is wrong
            """X."""

        for wrong in (several, named, by_place, untyped):
            with pytest.raises(TypeError, match=wrong.__name__):
                tool(wrong)

    def test_what_is_no_plain_function_is_refused(self) -> None:
        async def later() -> str:
            """X."""
            return ""

        async def stream() -> AsyncIterator[str]:
            """X."""
            yield ""

        def generate() -> Iterator[str]:
            """X."""
            yield ""

        def undescribed() -> str:
            return ""

        with pytest.raises(TypeError, match="partial is not a function"):
            tool(functools.partial(undescribed), description="X")
        reasons: dict[Any, str] = {
            print: "print is not a function", later: "async", stream: "async generator",
            generate: "generator", undescribed: "no description",
        }  # fmt: skip
        for wrong, why in reasons.items():
            with pytest.raises(TypeError, match=why):
                tool(wrong)

    def test_methods_and_decorated_functions_are_functions(self) -> None:
        class Shop:
            def find(self, what: Annotated[str | None, "the thing"] = None) -> str:
                """Find it."""
                return f"found {what}"

        def loudly(function: Any) -> Any:
            @functools.wraps(function)
            def wrapper(*arguments: Any, **named: Any) -> Any:
                return function(*arguments, **named).upper()

            return wrapper

        for built in (tool(Shop().find), tool(loudly(Shop().find))):
            assert built.name == "find"
            [described] = built.schema.parameters["properties"].values()
            assert described["description"] == "the thing"
            assert described["anyOf"] == [{"type": "string"}, {"type": "null"}]
            assert str(built.run({"what": "a"}, RUN)).lower() == "found a"
            assert str(built.run({}, RUN)).lower() == "found none"

    def test_a_type_without_a_json_form_is_found_when_it_is_described(self) -> None:
        def odd(a: object, b: complex) -> None:
            """X."""

        def missing(a: NotThere) -> None:  # type: ignore[name-defined]  # noqa: F821 - as it says
            """X."""

        for wrong in (odd, missing):
            built = tool(wrong)
            with pytest.raises(ValidationError):
                _ = built.schema

    def test_a_class_that_describes_itself_is_taken_at_its_word(self) -> None:
        class Model:
            def __init__(self, value: Any) -> None:
                self.value = value

            @classmethod
            def model_json_schema(cls) -> dict[str, Any]:
                return {"type": "object", "$defs": {"D": {}}, "properties": {"d": {"$ref": "x"}}}

            @classmethod
            def model_validate(cls, value: Any) -> Model:
                return cls(value)

        def take(a: Model, b: int) -> str:
            """X."""
            return str(a.value)

        take.__annotations__ = {"a": Model, "b": int, "return": str}
        built = tool(take)
        assert built.schema.parameters["$defs"] == {"D": {}}
        assert list(built.schema.parameters["properties"]) == ["a", "b"]
        assert built.run({"a": {"d": 1}, "b": 2}, RUN) == "{'d': 1}"

    @pytest.mark.smoke
    @pytest.mark.process
    def test_making_one_imports_nothing(self) -> None:
        code = (
            "import sys\nfrom genai_host.api import tool\nbefore = set(sys.modules)\n"
            "def f(a: int = 1) -> str:\n    'x'\n    return ''\n"
            "tool(f)\nprint(*set(sys.modules) - before, 'msgspec' in sys.modules)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        assert done.stdout == "False\n"
