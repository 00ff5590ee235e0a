"""Incorrect tools, each with one defect, with the tests that must fail."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from genai_host.api import Image, ReactionType, Tool, ToolContext, ToolOutput, tool
from genai_host.errors import ValidationError
from genai_host_testing import InlinePlugin
from genai_host_testing.suites import ToolSuite

from .wrong import add, fail

_WORD = {"properties": {"word": {"type": "string"}}, "required": ["word"]}
_NEVER = threading.Event()
_SAMPLES = "samples_return_expected_output "
_CUT = "feature_calling_it_resumes_after_every_entry "
_TAKEN = "arguments_accepted_by_schema_are_handled "
_WHOLE = "output_is_within_limits "
_APPLIES = "available_when_accepts_any_context "
_REFUSED = "arguments_refused_by_schema_are_not_passed "
_DESCRIBED = "its_parameters_are_described "


def _plugin(run: Any, parameters: Any = _WORD, **fields: Any) -> Any:
    description = fields.pop("description", "is wrong")
    return InlinePlugin(tools=[Tool("wrong", description, run, parameters, **fields)])


class Wrong(ToolSuite):
    made = staticmethod(_plugin)
    tool = "wrong"
    samples = [({"word": "a"},)]
    patience = 2.0  # correct tools take little time


@fail(Wrong)
def correct_tool(arguments: Mapping[str, Any], run: ToolContext) -> str:
    return arguments["word"].upper()  # type: ignore[no-any-return]  # its schema says so


def _add(name: str, tests: str = "", samples: Any = Wrong.samples, **fields: Any) -> None:
    """Add the correct tool with another declaration."""
    more = {"context": fields.pop("context")} if "context" in fields else {}
    add(Wrong, name, tests, plugin=_plugin(correct_tool, **fields), samples=samples, **more)


_add(
    "one_that_may_be_called_again", samples=[({"word": "a"}, "A"), ({"word": ""},)], idempotent=True
)
_add(
    "one_that_asks", approval="ask", available_when=lambda context: context.get("page") == 1,
    context={"page": 1},
)  # fmt: skip
_add("a_long_description", "it_is_declared", description="x" * 1025)
_add(
    "one_that_requires_what_it_does_not_tell_of", _DESCRIBED,
    samples=[({"word": "a", "letter": "b"},)], parameters={**_WORD, "required": ["word", "letter"]},
)  # fmt: skip
_add(
    "a_wrong_schema",
    _DESCRIBED + _APPLIES + _SAMPLES + _REFUSED + _TAKEN + _CUT,
    parameters={"properties": {"word": {"type": "text"}}},
)
_add(
    "a_schema_that_is_no_json",
    _DESCRIBED + "services_take_it " + _APPLIES + _SAMPLES + _TAKEN + _REFUSED + _CUT,
    parameters={"properties": {"word": {"default": math.nan}}},
)
_add(
    "a_schema_that_refuses_its_sample",
    _SAMPLES + _WHOLE + _CUT,
    samples=[({"word": "a"},), ({"word": 7},)],
)
_add("one_without_samples", _SAMPLES + _CUT, samples=[])
_add("a_schema_that_is_too_lax", _TAKEN, parameters={})
_add("one_that_gives_something_else", _SAMPLES, samples=[({"word": "a"}, "a")])
_add(
    "one_that_needs_its_context", _APPLIES, context={"page": 1},
    available_when=lambda context: context["page"] is not None,
)  # fmt: skip
_add("one_that_applies_nowhere", _APPLIES + _SAMPLES + _CUT, available_when=lambda context: False)


@tool(idempotent=True)
def wrong(
    word: Annotated[str, "what to say"], how: Literal["up", "down"] = "up", *,
    times: list[int] | None = None,
) -> ToolOutput:  # fmt: skip
    """Say it, up or down."""
    if len(word) > 100:
        raise ValidationError("it is too long")
    text = word.upper() if how == "up" else word.lower()
    return ToolOutput([text, Image(url="https://a.example")])


add(
    Wrong, "a_function_that_is_right", plugin=InlinePlugin(tools=[wrong]),
    samples=[({"word": "a"}, "A"), ({"word": "A", "how": "down", "times": [1, 2]}, "a")],
)  # fmt: skip


@fail(Wrong, _SAMPLES + _WHOLE + _TAKEN + _CUT)
def tool_without_output(arguments: Mapping[str, Any], run: ToolContext) -> Any:
    return 7


@fail(Wrong, _WHOLE)
def tool_with_huge_output(arguments: Mapping[str, Any], run: ToolContext) -> str:
    return "x" * 200_000


def _drawing(arguments: Mapping[str, Any], run: ToolContext) -> ToolOutput:
    return ToolOutput(reactions=[{"type": "drawing"}])


add(
    Wrong, "a_reaction_that_cannot_be_shown", "reactions_have_text_view",
    plugin=InlinePlugin(
        tools=[Tool("wrong", "is wrong", _drawing, _WORD)],
        reactions=[ReactionType("drawing", text_view="wrong_tools:missing")],
    ),
)  # fmt: skip
_numbers = itertools.count()


def _counting(arguments: Mapping[str, Any], run: ToolContext) -> str:
    return str(next(_numbers))


add(
    Wrong, "one_that_is_not_repeatable", "idempotent_tool_returns_the_same_output " + _CUT,
    plugin=_plugin(_counting, idempotent=True),
)  # fmt: skip


@fail(
    Wrong, _SAMPLES + _TAKEN + "it_ends_when_its_call_does " + _CUT, patience=0.2,
    deviations={"test_output_is_within_limits": "it would wait for ever here"},
)  # fmt: skip
def tool_ignoring_cancellation(arguments: Mapping[str, Any], run: ToolContext) -> str:
    _NEVER.wait()
    return ""
