"""Items 5, 6, 9 and 11: pages, searches, and which of what is found the model is shown."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from genai_feature_research.search import MAX, SIZE, passages
from hypothesis import given, strategies as st

from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.research_engine import Scene, facts, result

A, B = "https://example.org/a", "https://example.org/b"
DEAD = "https://example.org/dead"


@pytest.fixture
def scene(make_host: MakeHost) -> Scene:
    scene = Scene(make_host)
    scene.engine.pages[B] = "Page b says that lakes stand still."
    return scene


def test_item_5_both_pages_are_read(scene: Scene) -> None:
    reply = scene.ask(specify_sources=f"{A}, {B}", answer_with_search=False)
    assert sorted(scene.engine.read) == [A, B]
    assert [row["link"] for row in reply["search_history"]] == [A, B]
    assert "Page a says" in reply["prompt"]
    assert "Page b says" in reply["prompt"]
    assert not scene.engine.queries


def test_item_5_a_page_that_was_read_is_not_read_again(scene: Scene) -> None:
    first = scene.ask(specify_sources=A, answer_with_search=False)
    again = scene.ask(
        specify_sources=A, answer_with_search=False, search_history=first["search_history"]
    )
    assert scene.engine.read == [A]
    assert "Page a says" in again["prompt"]
    assert again["search_history"] == first["search_history"]


def test_item_5_a_page_of_the_callers_own_facts_is_not_read(scene: Scene) -> None:
    history = facts("Rivers are wet.")
    link = history[0]["link"]
    reply = scene.ask(specify_sources=link, search_history=history, answer_with_search=False)
    assert scene.engine.read == []
    assert "Rivers are wet." in reply["prompt"]


def test_item_5_a_page_that_a_search_named_is_read_all_the_same(scene: Scene) -> None:
    scene.engine.results = lambda query: [result("A snippet of it.", A)]
    scene.ask(specify_sources=A, search_history=scene.ask()["search_history"])
    assert scene.engine.read == [A]


def test_item_5_a_dead_link_does_not_lose_the_other(scene: Scene) -> None:
    reply = scene.ask(specify_sources=f"{DEAD}, {A}", answer_with_search=False)
    assert "Page a says" in reply["prompt"]
    assert any(DEAD in each for each in reply["warnings"])


def test_item_5_pages_and_searches_are_looked_for_at_once(scene: Scene) -> None:
    together = threading.Barrier(3, timeout=60)
    read = scene.engine.pages

    class Pages(dict[str, str]):
        def __contains__(self, link: object) -> bool:
            together.wait()
            return link in read

        def __getitem__(self, link: str) -> str:
            return read[link]

    def results(query: str) -> list[Any]:
        together.wait()
        return []

    scene.engine.pages = Pages()
    scene.engine.results = results
    reply = scene.ask(
        specify_sources=f"{A}, {B}", additional_searches=["water"], answer_with_search=False
    )
    assert "Page a says" in reply["prompt"]


def test_item_5_a_long_page_becomes_passages(scene: Scene) -> None:
    scene.engine.pages[A] = "\n\n".join(f"Paragraph {n}. " + "word " * 150 for n in range(20))
    reply = scene.ask("Paragraph 7", specify_sources=A, answer_with_search=False, num_of_excerpts=2)
    rows = reply["search_history"]
    assert len(rows) == 20
    assert all(row["link"] == A and row["query"] == A for row in rows)
    assert "Paragraph 7." in reply["prompt"]
    assert reply["prompt"].count("Paragraph ") - 1 <= 3


def test_item_6_repeating_a_search_uses_what_is_stored(scene: Scene) -> None:
    first = scene.ask("Where do rivers run to?", additional_searches=["water"])
    assert [query for query, *_ in scene.engine.queries] == ["water", "a query of the model"]
    history = first["search_history"]
    scene.engine.queries.clear()
    prompts = len(scene.model.prompts)

    again = scene.ask(
        "where do  rivers run to?", additional_searches=["Water"], search_history=history
    )
    assert scene.engine.queries == []
    assert len(scene.model.prompts) == prompts + 1, "nor is a query written"
    assert again["search_history"] == history
    assert "All about water" in again["prompt"]


def test_item_6_what_the_user_said_is_kept_where_the_query_is_known(scene: Scene) -> None:
    history = scene.ask("Whither?", additional_searches=["a query of the model"])["search_history"]
    assert len(scene.engine.queries) == 1
    calls = len(scene.model.prompts)
    scene.ask("Whither?", search_history=history)
    assert len(scene.engine.queries) == 1
    assert len(scene.model.prompts) == calls + 1


def test_item_5_a_link_may_have_commas(scene: Scene) -> None:
    links = "https://example.org/a,b"
    scene.engine.pages[links] = "With a comma."
    scene.ask(specify_sources=f"{links},{A}, {B}", answer_with_search=False)
    assert sorted(scene.engine.read) == [A, links, B]


def test_item_6_the_same_query_is_searched_for_once_in_a_turn(scene: Scene) -> None:
    reply = scene.ask(additional_searches=["A query of the  model", "a query of the model"])
    assert len(scene.engine.queries) == 1
    assert len(reply["search_history"]) == 1


@pytest.mark.parametrize("text", ["Where do rivers run to?", "a query of the model"])
def test_item_6_both_the_original_and_the_generated_query_are_kept(scene: Scene, text: str) -> None:
    history = scene.ask("Where do rivers run to?")["search_history"]
    scene.engine.queries.clear()
    scene.ask(
        "Anything", additional_searches=[text], search_history=history, answer_with_search=False
    )
    assert scene.engine.queries == []


def test_item_9_num_of_excerpts_is_a_maximum(scene: Scene) -> None:
    scene.engine.results = lambda query: [result(f"Fact {n} of rivers.") for n in range(8)]
    for most, shown in ((0, 0), (3, 3), (50, 8)):
        results = scene.ask(num_of_excerpts=most)["similar_search_results"]
        assert results.count("    Fact") == shown


def test_item_9_duplicate_text_appears_once(scene: Scene) -> None:
    scene.engine.results = lambda query: [
        result("Rivers run to the sea.", "https://one.example"),
        result("Rivers  run to the SEA.", "https://two.example"),
        result("Lakes do not."),
    ]
    results = scene.ask(additional_searches=["more"])["similar_search_results"]
    assert results.lower().count("to the sea.") == 1
    assert results.count("[") == 2


def test_item_9_the_most_alike_are_shown_first(scene: Scene) -> None:
    scene.engine.results = lambda query: [
        result("Bread is baked."),
        result("Where do rivers run to? To the sea."),
        result("Cheese is milk."),
    ]
    results = scene.ask("Where do rivers run to?", num_of_excerpts=1)["similar_search_results"]
    assert "To the sea." in results


def test_item_3_with_consult_search_history_all_that_is_known_counts(scene: Scene) -> None:
    history = facts("Where rivers run to: the sea.", "Bread is baked.")
    scene.engine.results = lambda query: [result("Rivers run to lakes, too.")]
    both = scene.ask(search_history=history, num_of_excerpts=2)
    assert "the sea" in both["similar_search_results"]
    assert "lakes, too" in both["similar_search_results"]

    alone = scene.ask(search_history=history, consult_search_history=False)
    assert "the sea" not in alone["similar_search_results"]
    assert "lakes, too" in alone["similar_search_results"]
    assert len(alone["search_history"]) == 3, "it comes back all the same"


def test_item_3_without_searches_nothing_is_searched_for(scene: Scene) -> None:
    reply = scene.ask(answer_with_search=False, search_history=facts("Rivers are wet."))
    assert scene.engine.queries == []
    assert "Rivers are wet." in reply["prompt"]


@pytest.mark.parametrize("others", [[], ["engine__search"]])
def test_item_11_first_search_tool_or_a_warning(scene: Scene, others: list[str]) -> None:
    assistant = scene.assistant(settings={"search": ["nobody__search", *others]})
    reply = assistant.answer({"input_text": "hi"})
    assert reply["answer"] == "The answer."
    assert any("nobody__search" in each for each in reply["warnings"]) is not bool(others)
    assert len(reply["warnings"]) == 1 - len(others)
    assert bool(scene.engine.queries) is bool(others)


def test_item_11_what_does_not_moderate_is_not_taken_for_a_moderator(scene: Scene) -> None:
    reply = scene.assistant(models={"moderate": "fake-moderate"}).answer(
        {"input_text": "hi", "settings": {"moderate": True}}
    )
    assert reply["answer"] == "The answer."


@pytest.mark.parametrize("text", [
    *("no json", "{}", "[7]", "[" * 10_000),
    *('[{"title": 1, "link": "", "text": ""}]', '[{"title": null}]'),
], ids=range(6))  # fmt: skip
def test_what_a_hostile_engine_says_is_a_warning(scene: Scene, text: str) -> None:
    scene.engine.says = text
    reply = scene.ask()
    assert reply["answer"] == "The answer."
    assert len(reply["warnings"]) == 1


@given(st.text(max_size=5000))
def test_passages_are_short_and_lose_no_words(text: str) -> None:
    parts = passages(text)
    assert all(each.strip() and len(each) <= SIZE for each in parts)
    assert len(parts) <= MAX
    if len(text) < SIZE:
        assert "".join("".join(parts).split()) == "".join(text.split())


def test_passages_of_one_endless_word() -> None:
    assert [len(each) for each in passages("a" * 2500)] == [1000, 1000, 500]
    assert len(passages("a" * 10**6)) == MAX
