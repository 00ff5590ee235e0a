"""Item 1: penalties that a model does not take."""

from __future__ import annotations

import pytest

from genai_host.api import Model
from genai_host.errors import InvalidParameter
from genai_host_testing import InlinePlugin
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.research_engine import Scene

LACKING = InlinePlugin(
    models=[
        Model(
            "lacking",
            dialects=["plain"],
            parameters={"presence_penalty": False, "max_tokens": False, "temperature": False},
            at={"fake": "fake"},
        )
    ]
)


@pytest.fixture
def scene(make_host: MakeHost) -> Scene:
    return Scene(make_host, lacking=LACKING)


def test_item_1_a_penalty_on_a_model_without_it_warns(scene: Scene) -> None:
    reply = scene.ask(
        model="lacking", presence_penalty=0.5, frequency_penalty=0.25, style_pass=True
    )
    assert reply["answer"] == "The answer."
    assert [each for each in reply["warnings"] if "presence_penalty" in each] == reply["warnings"]
    assert len(reply["warnings"]) == 1
    expected = [{}, {"frequency_penalty": 0.25}, {"frequency_penalty": 0.25}]
    assert [dict(prompt.parameters) for prompt in scene.model.prompts] == expected


def test_item_1_a_penalty_of_zero_on_a_model_without_it_does_not_warn(scene: Scene) -> None:
    assert scene.ask(model="lacking", presence_penalty=0)["warnings"] == []


def test_item_1_another_parameter_on_a_model_without_it_is_an_error(scene: Scene) -> None:
    with pytest.raises(InvalidParameter, match="temperature"):
        scene.ask(model="lacking", temperature=0.5)
