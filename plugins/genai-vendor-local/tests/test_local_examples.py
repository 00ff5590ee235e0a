"""What a model is shown of the arguments of tools."""

from __future__ import annotations

import json
from typing import Any

import pytest
from genai_vendor_local.tool_choice import Examples, ToolChoice
from hypothesis import given
from hypothesis import strategies as st

STRING, INTEGER = {"type": "string"}, {"type": "integer"}


def shown(*tools: dict[str, Any]) -> list[tuple[str, Any]]:
    """The questions, and the arguments that answer each."""
    functions = [{"type": "function", "function": tool} for tool in tools]
    body = {"messages": [{"role": "user", "content": "hi"}], "tools": functions}
    said = [each["content"] for each in ToolChoice(body).request()["messages"]][:-3]
    answers = [json.loads(each)["arguments"] for each in said[1::2]]
    return list(zip(said[::2], answers, strict=True))


def test_a_question_says_what_its_arguments_are() -> None:
    place = {"type": "object", "properties": {"city": STRING}}
    properties = {"place": place, "days": INTEGER, "names": {"type": "array", "items": STRING}}
    tools: list[dict[str, Any]] = [
        {"name": "a", "description": "Plan it.", "parameters": {"properties": properties}},
        {"name": "b", "parameters": {"properties": {"name": STRING}}},
        {"name": "c", "description": "Stop."},
    ]
    assert shown(*tools) == [
        (
            'Plan it. (place {"city": "Alba"}, days 5, names ["Bruno", "Cedar"])',
            {"place": {"city": "Alba"}, "days": 5, "names": ["Bruno", "Cedar"]},
        ),
        ("b (name Delta)", {"name": "Delta"}),
        ("Stop.", {}),
    ]


def test_the_same_tools_are_shown_alike() -> None:
    """Else no prompt would begin as the one before it, and each would be read anew."""
    tool = {"name": "a", "parameters": {"properties": {"x": STRING, "y": INTEGER}}}
    assert shown(tool) == shown(tool)


@pytest.mark.parametrize(
    ("required", "names"), [(["y"], ["y"]), (["y", "z"], ["y"]), ([], ["x", "y"])]
)
def test_what_is_required_is_shown_or_else_everything(
    required: list[str], names: list[str]
) -> None:
    schema = {"type": "object", "properties": {"x": STRING, "y": STRING}, "required": required}
    assert list(Examples().of(schema)) == names


@given(kinds=st.lists(st.sampled_from(["string", "integer", "number"]), max_size=16))
def test_no_two_values_are_the_same(kinds: list[str]) -> None:
    examples = Examples()
    values = [examples.of({"type": kind}) for kind in kinds]
    assert len(set(values)) == len(values)


def test_a_schema_that_leads_back_to_itself_has_an_end() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#"}, "x": INTEGER}}
    tree = {"type": "array", "items": {"$ref": "#"}}
    for schema in (node, tree):
        assert len(json.dumps(Examples().of(schema))) < 10_000
