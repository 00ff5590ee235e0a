"""Item 1: what a request may be, and that nothing of the caller's is changed."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from genai_feature_research import REGIONS

from genai_host.errors import ValidationError
from genai_host_testing.internal.research_engine import Scene, entries, facts, scene

__all__ = ["scene"]

SAID = entries("What is a river?", "Water that flows.")
KNOWN = facts("Rivers run to the sea.", "Lakes stand still.")


def records(rows: list[dict[str, Any]]) -> Any:
    return rows


def columns(rows: list[dict[str, Any]]) -> Any:
    return {name: [row[name] for row in rows] for name in rows[0]}


def indexed(rows: list[dict[str, Any]]) -> Any:
    return {name: {str(at): row[name] for at, row in enumerate(rows)} for name in rows[0]}


def frame(rows: list[dict[str, Any]]) -> Any:
    return pd.DataFrame(rows)


def rows_of(table: Any) -> list[dict[str, Any]]:
    if isinstance(table, pd.DataFrame):
        return [{str(name): each for name, each in row.items()} for row in table.to_dict("records")]
    if isinstance(table, dict):
        lists = [each.values() if isinstance(each, dict) else each for each in table.values()]
        return [dict(zip(table, row, strict=True)) for row in zip(*lists, strict=True)]
    assert isinstance(table, list)
    return table


@pytest.mark.parametrize("form", [records, columns, indexed, frame])
def test_item_1_tables_come_back(scene: Scene, form: Callable[[list[dict[str, Any]]], Any]) -> None:
    history, known = form(SAID), form(KNOWN)
    before = copy.deepcopy((history, known))
    result = scene.ask(conversation_history=history, search_history=known)

    for table, was in zip((history, known), before, strict=True):
        assert rows_of(table) == rows_of(was), "the caller's tables stay as they are"
    assert type(result["conversation_history"]) is type(history)
    rows = rows_of(result["conversation_history"])
    expected = [*(row["text"] for row in SAID), "Where do rivers run to?", "The answer."]
    assert [row["text"] for row in rows] == expected
    facts = rows_of(result["search_history"])
    assert facts[:2] == KNOWN
    assert [row["query"] for row in facts[2:]] == ["Where do rivers run to?\na query of the model"]
    for row in (*rows, *facts):
        assert row["text_length"] == len(row["text"])
        assert len(row["ada_search"]) == 64
    again = scene.ask(
        "And lakes?",
        conversation_history=result["conversation_history"],
        search_history=result["search_history"],
    )
    assert len(rows_of(again["conversation_history"])) == 6


def test_item_1_columns_of_the_callers_own_come_back(scene: Scene) -> None:
    rows = [{**row, "mine": number} for number, row in enumerate(SAID)]
    result = scene.ask(conversation_history=rows)
    assert [row["mine"] for row in result["conversation_history"]] == [0, 1, None, None]


def test_item_1_vectors_of_a_frame_may_be_arrays(scene: Scene) -> None:
    rows = [{**row, "ada_search": np.array(row["ada_search"])} for row in SAID]
    table = pd.DataFrame(rows)
    result = scene.ask(conversation_history=table)
    assert len(result["conversation_history"]) == 4
    assert len(table) == 2
    assert not result["warnings"]


@pytest.mark.parametrize(
    "history", [None, [], {}, {"text": [], "text_length": [], "ada_search": []}]
)
def test_item_9_empty_histories_work(scene: Scene, history: Any) -> None:
    result = scene.ask(conversation_history=history, search_history=history and None)
    assert len(rows_of(result["conversation_history"])) == 2


HISTORY, FACTS = "conversation_history", "search_history"
SHORT = [SAID[0], {**SAID[1], "ada_search": [1.0] * 3}]
WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "$.input_text"), ({"input_text": " "}, "$.input_text"),
    ({"input_text": 7}, "$.input_text"), ({"input_text": "hi", "inputs": 1}, "$.inputs"),
    ({HISTORY: 7}, f"$.{HISTORY}"), ({HISTORY: [7]}, f"$.{HISTORY}[0]"),
    ({HISTORY: [{"text": "a", "ada_search": []}]}, f"$.{HISTORY}.text_length"),
    ({HISTORY: {"text": ["a"], "text_length": [1]}}, f"$.{HISTORY}.ada_search"),
    ({HISTORY: [SAID[0], {"text": "a", "text_length": 1}]}, f"$.{HISTORY}[1].ada_search"),
    ({HISTORY: {"text": ["a", "b"], "text_length": [1], "ada_search": [[1]]}},
     f"$.{HISTORY}.text_length"),
    ({HISTORY: {"text": {"0": "a"}, "text_length": {"1": 1}, "ada_search": {}}},
     f"$.{HISTORY}.text_length"),
    ({HISTORY: [{**SAID[0], "text_length": 3}]}, f"$.{HISTORY}[0].text_length"),
    ({HISTORY: [{"text": "a", "text_length": True, "ada_search": []}]},
     f"$.{HISTORY}[0].text_length"),
    ({HISTORY: [{**SAID[0], "text": 7}]}, f"$.{HISTORY}[0].text"),
    ({HISTORY: SHORT}, f"$.{HISTORY}[1].ada_search"),
    ({HISTORY: columns(SHORT)}, f"$.{HISTORY}.ada_search[1]"),
    ({HISTORY: indexed(SHORT)}, f'$.{HISTORY}.ada_search["1"]'),
    ({FACTS: [{**KNOWN[0], "ada_search": ["a"] * 64}]}, f"$.{FACTS}[0].ada_search"),
    ({FACTS: [{**KNOWN[0], "ada_search": "[1.0]"}]}, f"$.{FACTS}[0].ada_search"),
    ({FACTS: [{**KNOWN[0], "ada_search": [float("nan")] * 64}]}, f"$.{FACTS}[0].ada_search"),
    ({FACTS: [{**KNOWN[0], "link": None}]}, f"$.{FACTS}[0].link"),
    ({FACTS: ["fact_1"]}, f"$.{FACTS}[0]"),
    ({"additional_searches": "rivers"}, "$.additional_searches"),
    ({"additional_searches": [7]}, "$.additional_searches"),
    ({"settings": []}, "$.settings"),
    ({"settings": {"tempature": 1}}, "$.settings.tempature"),
    ({"settings": {"search": ["files__read_file"]}}, "$.settings.search"),
    ({"settings": {"temperature": "warm"}}, "$.settings.temperature"),
    ({"settings": {"temperature": -1}}, "$.settings.temperature"),
    ({"settings": {"top_p": 2}}, "$.settings.top_p"),
    ({"settings": {"max_tokens": 0}}, "$.settings.max_tokens"),
    ({"settings": {"num_of_excerpts": -1}}, "$.settings.num_of_excerpts"),
    ({"settings": {"presence_penalty": 3}}, "$.settings.presence_penalty"),
    ({"settings": {"moderate": "yes"}}, "$.settings.moderate"),
    ({"settings": {"archetype": "pirate"}}, "$.settings.archetype"),
    ({"settings": {"archetype": {"moood": "x"}}}, "$.settings.archetype.moood"),
    ({"settings": {"archetype": {"mood": 7}}}, "$.settings.archetype.mood"),
    ({"keep_entries": 1}, "$.keep_entries"),
    ({"model": "gpt-1"}, "$.model"),
    ({"region": "zz-zz"}, "$.region"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "path"), WRONG)
def test_item_1_what_is_wrong_is_refused(scene: Scene, body: dict[str, Any], path: str) -> None:
    request = body if path.startswith("$.input") else {"input_text": "hi", **body}
    with pytest.raises(ValidationError) as caught:
        scene.assistant().answer(request)
    assert caught.value.path == path
    assert scene.model.calls == 0


def test_item_1_a_request_is_an_object(scene: Scene) -> None:
    with pytest.raises(ValidationError):
        scene.assistant().answer([])  # type: ignore[arg-type]


def test_item_1_a_table_with_vectors_of_another_size_is_embedded_anew(scene: Scene) -> None:
    old = entries("What is a river?", "Water that flows.", size=16)
    known = facts("Rivers run to the sea.", size=16)
    result = scene.ask(conversation_history=old, search_history=known)
    new = entries("What is a river?", "Water that flows.")
    for row, expected in zip(result["conversation_history"], new, strict=False):
        assert row["ada_search"] == expected["ada_search"]
    assert len(result["search_history"][0]["ada_search"]) == 64
    assert len(old[0]["ada_search"]) == 16
    warned = "\n".join(result["warnings"])
    assert "conversation_history had 16 numbers" in warned
    assert "search_history had 16 numbers" in warned


def test_item_1_rows_without_a_vector_get_one(scene: Scene) -> None:
    result = scene.ask(conversation_history=[SAID[0], {**SAID[1], "ada_search": []}])
    assert result["conversation_history"][1]["ada_search"] == SAID[1]["ada_search"]
    assert result["warnings"] == []


def test_item_1_penalties_of_zero_are_unset_and_others_are_sent(scene: Scene) -> None:
    scene.ask(presence_penalty=0, frequency_penalty=0.0, temperature=0.5)
    assert dict(scene.model.prompts[-1].parameters) == {"temperature": 0.5}


def test_item_2_the_result_is_json_with_the_keys_of_the_document(scene: Scene) -> None:
    result = scene.ask(conversation_history=SAID, search_history=KNOWN)
    assert json.loads(json.dumps(result)) == result
    assert {*result} == {
        *("answer", "conversation_history", "search_history", "prompt"),
        *("similar_search_results", "tokens_used", "warnings"),
    }
    assert isinstance(result["similar_search_results"], str)
    assert isinstance(result["prompt"], str)
    assert isinstance(result["tokens_used"], int)


def test_item_8_there_are_68_regions_and_an_unknown_one_lists_them(scene: Scene) -> None:
    assert len(REGIONS) == 68
    with pytest.raises(ValidationError) as caught:
        scene.ask(region="atlantis")
    assert all(code in str(caught.value) for code in REGIONS)


@pytest.mark.parametrize(("options", "sent"), [({}, "wt-wt"), ({"region": "de-de"}, "de-de")])
def test_item_8_the_search_is_told_the_region(scene: Scene, options: Any, sent: str) -> None:
    scene.ask(**options)
    assert [region for _, region, _ in scene.engine.queries] == [sent]


@pytest.mark.parametrize("form", [lambda rows: rows, columns, indexed])
def test_item_2_what_numpy_has_made_comes_back_as_json(scene: Scene, form: Any) -> None:
    rows: list[dict[str, Any]] = [
        {
            **SAID[0],
            "text_length": np.int64(SAID[0]["text_length"]),
            "ada_search": np.array(SAID[0]["ada_search"]),
            "mine": float("nan"),
        },
        {**SAID[1], "ada_search": list(np.array(SAID[1]["ada_search"], "f4")), "mine": 1.5},
    ]
    table = scene.ask(conversation_history=form(rows))["conversation_history"]
    back = json.loads(json.dumps(table, allow_nan=False))
    first = (
        {name: back[name][0 if form is columns else "0"] for name in back}
        if form(rows) is not rows
        else back[0]
    )
    assert first == {**SAID[0], "mine": None}


def test_item_1_a_number_is_no_vector_even_of_numpy(scene: Scene) -> None:
    with pytest.raises(ValidationError) as caught:
        scene.ask(conversation_history=[{**SAID[0], "ada_search": np.array(5.0)}])
    assert caught.value.path == "$.conversation_history[0].ada_search"


def test_vectors_too_large_to_be_compared_are_the_least_alike(scene: Scene) -> None:
    huge = {**facts("Huge.")[0], "ada_search": [3e38] * 64}
    for known in ([huge, *KNOWN], [*KNOWN, huge]):
        result = scene.ask(search_history=known, answer_with_search=False)
        assert result["similar_search_results"].rstrip().endswith("Huge.")
