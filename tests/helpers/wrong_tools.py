"""Tools that are wrong, each in one way, with the suites that must find it.

`fails` are the tests that must fail, and no others. test_suites.py runs them.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from genai_host.api import Image, ReactionType, Tool, ToolContext, ToolOutput, tool
from genai_host.errors import ValidationError
from genai_host.testing import InlinePlugin
from genai_host.testing.suites import ToolSuite

_WORD = {"properties": {"word": {"type": "string"}}, "required": ["word"]}
_NEVER = threading.Event()


class _Wrong(ToolSuite):
    fails: ClassVar[set[str]]
    tool = "wrong"
    samples = [({"word": "a"},)]
    patience = 2.0  # nothing right takes long


def _plugin(run: Any, parameters: Any = _WORD, **fields: Any) -> Any:
    description = fields.pop("description", "is wrong")
    return InlinePlugin(tools=[Tool("wrong", description, run, parameters, **fields)])


def _right(arguments: Mapping[str, Any], run: ToolContext) -> str:
    return arguments["word"].upper()  # type: ignore[no-any-return]  # its schema says so


class TestAToolThatIsRight(_Wrong):
    plugin = _plugin(_right, repeatable=True)
    samples = [({"word": "a"}, "A"), ({"word": ""},)]
    fails = set()


class TestAToolThatIsRightOnce(_Wrong):
    plugin = _plugin(_right, approval="ask", applies=lambda context: context.get("page") == 1)
    context = {"page": 1}
    fails = set()


class TestAFunctionThatIsRight(_Wrong):
    @tool(repeatable=True)
    @staticmethod
    def wrong(
        word: Annotated[str, "what to say"],
        how: Literal["up", "down"] = "up",
        *,
        times: list[int] | None = None,
    ) -> ToolOutput:
        """Say it, up or down."""
        if len(word) > 100:
            raise ValidationError("it is too long")
        said = word.upper() if how == "up" else word.lower()
        return ToolOutput([said, Image(url="https://a.example")])

    plugin = InlinePlugin(tools=[wrong])
    samples = [({"word": "a"}, "A"), ({"word": "A", "how": "down", "times": [1, 2]}, "a")]
    fails = set()


class TestAToolWithALongDescription(_Wrong):
    plugin = _plugin(_right, description="x" * 1025)
    fails = {"test_it_is_declared"}


class TestAToolThatRequiresWhatItDoesNotTellOf(_Wrong):
    plugin = _plugin(_right, {**_WORD, "required": ["word", "letter"]})
    samples = [({"word": "a", "letter": "b"},)]
    fails = {"test_its_parameters_are_described"}


class TestAToolWithAWrongSchema(_Wrong):
    plugin = _plugin(_right, {"properties": {"word": {"type": "text"}}})
    fails = {
        "test_its_parameters_are_described",
        "test_it_says_whether_it_applies",
        "test_it_gives_what_the_samples_say",
        "test_what_its_schema_refuses_does_not_reach_it",
        "test_what_its_schema_takes_it_can_handle",
        "test_a_feature_that_calls_it_goes_on_from_wherever_it_was_cut",
    }


class TestAToolWhoseSchemaIsNoJson(_Wrong):
    plugin = _plugin(_right, {"properties": {"word": {"default": math.nan}}})
    fails = {
        "test_its_parameters_are_described",
        "test_services_take_it",
        "test_it_says_whether_it_applies",
        "test_it_gives_what_the_samples_say",
        "test_what_its_schema_takes_it_can_handle",
        "test_what_its_schema_refuses_does_not_reach_it",
        "test_a_feature_that_calls_it_goes_on_from_wherever_it_was_cut",
    }


class TestAToolWhoseSchemaRefusesItsSample(_Wrong):
    plugin = _plugin(_right)
    samples = [({"word": "a"},), ({"word": 7},)]
    fails = {
        "test_it_gives_what_the_samples_say",
        "test_what_it_gives_is_not_cut",
        "test_a_feature_that_calls_it_goes_on_from_wherever_it_was_cut",
    }


class TestAToolWithoutSamples(_Wrong):
    plugin = _plugin(_right)
    samples = []
    fails = {
        "test_it_gives_what_the_samples_say",
        "test_a_feature_that_calls_it_goes_on_from_wherever_it_was_cut",
    }


class TestAToolWhoseSchemaIsTooLax(_Wrong):
    plugin = _plugin(_right, {})
    fails = {"test_what_its_schema_takes_it_can_handle"}


class TestAToolThatGivesSomethingElse(_Wrong):
    plugin = _plugin(_right)
    samples = [({"word": "a"}, "a")]
    fails = {"test_it_gives_what_the_samples_say"}


class TestAToolThatNeedsItsContext(_Wrong):
    plugin = _plugin(_right, applies=lambda context: context["page"] is not None)
    context = {"page": 1}
    fails = {"test_it_says_whether_it_applies"}


class TestAToolThatAppliesNowhere(_Wrong):
    plugin = _plugin(_right, applies=lambda context: False)
    fails = {
        "test_it_says_whether_it_applies",
        "test_it_gives_what_the_samples_say",
        "test_a_feature_that_calls_it_goes_on_from_wherever_it_was_cut",
    }


def _number(arguments: Mapping[str, Any], run: ToolContext) -> Any:
    return 7


class TestAToolThatGivesNoOutput(_Wrong):
    plugin = _plugin(_number)
    fails = {
        "test_it_gives_what_the_samples_say",
        "test_what_it_gives_is_not_cut",
        "test_what_its_schema_takes_it_can_handle",
        "test_a_feature_that_calls_it_goes_on_from_wherever_it_was_cut",
    }


def _flood(arguments: Mapping[str, Any], run: ToolContext) -> str:
    return "x" * 200_000


class TestAToolThatFloods(_Wrong):
    plugin = _plugin(_flood)
    fails = {"test_what_it_gives_is_not_cut"}


def _drawing(arguments: Mapping[str, Any], run: ToolContext) -> ToolOutput:
    return ToolOutput(reactions=[{"type": "drawing"}])


class TestAToolWhoseReactionCannotBeShown(_Wrong):
    plugin = InlinePlugin(
        tools=[Tool("wrong", "is wrong", _drawing, _WORD)],
        reactions=[ReactionType("drawing", text_view="wrong_tools:missing")],
    )
    fails = {"test_what_it_gives_can_be_shown"}


_numbers = itertools.count()


def _counting(arguments: Mapping[str, Any], run: ToolContext) -> str:
    return str(next(_numbers))


class TestAToolThatIsNotRepeatable(_Wrong):
    plugin = _plugin(_counting, repeatable=True)
    fails = {
        "test_it_may_be_called_again_if_it_says_so",
        "test_a_feature_that_calls_it_goes_on_from_wherever_it_was_cut",
    }


def _deaf(arguments: Mapping[str, Any], run: ToolContext) -> str:
    _NEVER.wait()
    return ""


class TestAToolThatDoesNotListen(_Wrong):
    plugin = _plugin(_deaf)
    patience = 0.2
    fails = {
        "test_it_gives_what_the_samples_say",
        "test_what_its_schema_takes_it_can_handle",
        "test_it_ends_when_its_call_does",
        "test_a_feature_that_calls_it_goes_on_from_wherever_it_was_cut",
    }
    departures = {"test_what_it_gives_is_not_cut": "it would wait for ever here"}
