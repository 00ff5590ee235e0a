"""The reactions of the agent as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import genai_feature_agent
import pytest
from genai_feature_agent.reactions import BUILT_IN
from genai_feature_agent.text_views import message
from hypothesis import given, strategies as st

from genai_host.api import SchemaValidator
from genai_host.tools.reactions import ReactionViews
from genai_host.util.clock import SystemClock
from genai_host_testing.internal.fixtures import MakeHost

SHOWN: Mapping[str, tuple[dict[str, Any], list[str]]] = {
    "message": ({"message": "one\n\ntwo"}, ["one", "", "two"]),
    "redirect": ({"url": "https://a.example/x"}, ["go to: https://a.example/x"]),
    "confirmation": (
        {"description": "Go on?", "options": ["yes", {"id": 1}]},
        ["Go on?", "- yes", '- {"id":1}'],
    ),
    "goto-question": ({"question_id": 12}, ["go to the question: 12"]),
    "change-display-type": ({"display-type": "bar"}, ["show it as: bar"]),
    "change-table-visualization-settings": (
        {"visible-columns": ["a", "b c"]},
        ["show the columns: a, b c"],
    ),
    "api-call": (
        {"method": "PUT", "url": "/api/x", "body": {"a": [1]}},
        ['call: PUT /api/x {"a":[1]}'],
    ),
    "writeback": ({"message": "saved\nas x"}, ["write back: saved", "as x"]),
}


@pytest.mark.parametrize("kind", [each.name for each in BUILT_IN])
def test_each_is_shown(make_host: MakeHost, kind: str) -> None:
    fields, lines = SHOWN[kind]
    host = make_host(agent=genai_feature_agent)
    SchemaValidator(host.registry.reactions[kind].schema).check(fields)
    views = ReactionViews(host.registry.reactions, host.clock)
    assert views.lines({"type": kind, **fields}, 80) == lines


def test_options_may_have_names_and_a_body_may_be_missing() -> None:
    views = ReactionViews({each.name: each for each in BUILT_IN}, SystemClock())
    asked = {"type": "confirmation", "description": "Go on?", "options": {"y": "yes", "n": 0}}
    assert views.lines(asked, 80) == ["Go on?", "- y: yes", "- n: 0"]
    assert views.lines({"type": "api-call", "method": "GET", "url": "/x"}, 80) == ["call: GET /x"]


@given(text=st.text(), width=st.integers(20, 60))
def test_long_ones_are_folded_and_lose_nothing(text: str, width: int) -> None:
    lines = message({"message": text}, width)
    assert all(len(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())
