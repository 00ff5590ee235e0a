"""Whatever is sent is a request, or is refused with its place."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest
from genai_feature_research.assistant import read_request
from hypothesis import given, strategies as st

from genai_host.api import Model, read_json
from genai_host.errors import GenaiError, InvalidParameter, NotFound, ValidationError
from genai_host_testing import InlinePlugin
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.research_engine import Scene

KEYS = (
    *("input_text", "conversation_history", "search_history", "region", "additional_searches"),
    *("settings", "keep_entries", "model", "other"),
)
COLUMNS = ("text", "text_length", "ada_search", "title", "link", "query")

SIMPLE = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 10**20),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5), st.just([]), st.lists(st.floats(-1, 1), max_size=3),
)  # fmt: skip
ROWS = st.dictionaries(st.sampled_from(COLUMNS), SIMPLE, max_size=6)
TABLES = st.one_of(
    SIMPLE,
    st.lists(st.one_of(ROWS, SIMPLE), max_size=3),
    st.dictionaries(
        st.sampled_from(COLUMNS),
        st.one_of(
            st.lists(SIMPLE, max_size=3),
            st.dictionaries(st.text(max_size=2), SIMPLE, max_size=3),
            SIMPLE,
        ),
        max_size=6,
    ),
)
SETTINGS = st.dictionaries(
    st.sampled_from(("moderate", "top_p", "archetype", "num_of_excerpts", "search", "mood")),
    st.one_of(SIMPLE, ROWS),
    max_size=3,
)
REQUESTS = st.one_of(
    SIMPLE,
    st.fixed_dictionaries(
        {"input_text": st.just("hi")},
        optional={
            "conversation_history": TABLES,
            "search_history": TABLES,
            "settings": st.one_of(SIMPLE, SETTINGS),
            "additional_searches": st.one_of(SIMPLE, st.lists(SIMPLE, max_size=2)),
            "region": SIMPLE, "keep_entries": SIMPLE, "model": SIMPLE,
        },
    ),
    st.dictionaries(st.sampled_from(KEYS), SIMPLE, max_size=5),
)  # fmt: skip


def load(ids: Any, path: str) -> list[Any]:
    raise NotFound(f"there is none of {ids}: {path}")


@given(REQUESTS)
def test_no_request_is_anything_but_taken_or_refused(request: Any) -> None:
    sent = read_json(json.dumps(request))
    try:
        parsed = read_request(sent, load, {}, {})
    except ValidationError as error:
        assert error.path.startswith("$")
    except GenaiError as error:
        assert isinstance(error, NotFound)
    else:
        assert len(parsed.memory.entries) == parsed.entries.rows == len(parsed.memory.entry_vectors)
        assert len(parsed.memory.facts) == parsed.facts.rows == len(parsed.memory.fact_vectors)


def read(history: Any) -> Any:
    return read_request({"input_text": "hi", "conversation_history": history}, load, {}, {})


ROW = {"text": "héllo", "text_length": 5, "ada_search": [1.0, 0.5]}


@pytest.mark.parametrize("frame", [
    pd.DataFrame([ROW, ROW]),
    pd.DataFrame([ROW, ROW], index=[7, 7]),
    pd.DataFrame([ROW, ROW], index=["a", "b"]),
    pd.DataFrame([ROW, ROW]).astype({"text_length": "float64"}),
    pd.DataFrame([ROW, ROW]).astype({"text_length": "Int64", "text": "string"}),
    pd.DataFrame([ROW, ROW])[["ada_search", "text_length", "text"]],
    pd.DataFrame([{**ROW, "ada_search": (1, 2)}, {**ROW, "ada_search": None}]),
    pd.DataFrame([{**ROW, "ada_search": [1, 2]}, {**ROW, "ada_search": float("nan")}]),
])  # fmt: skip
def test_frames_of_all_kinds_are_read(frame: pd.DataFrame) -> None:
    memory = read(frame).memory
    assert memory.entries == ("héllo", "héllo")
    assert memory.entry_vectors.size == 2


@pytest.mark.parametrize("frame", [
    pd.DataFrame([{**ROW, "text": None}]),
    pd.DataFrame([{**ROW, "text_length": None}]),
    pd.DataFrame([{**ROW, "ada_search": [None, 1.0]}]),
    pd.DataFrame([{**ROW, "ada_search": [[1.0], [2.0]]}]),
    pd.DataFrame([{**ROW, "ada_search": 5.0}]),
    pd.DataFrame([ROW]).drop(columns="text_length"),
    pd.DataFrame({"text": []}),
])  # fmt: skip
def test_frames_that_are_no_table_are_refused(frame: pd.DataFrame) -> None:
    with pytest.raises(ValidationError) as caught:
        read(frame)
    assert caught.value.path.startswith("$.conversation_history")


def test_a_frame_without_rows_is_an_empty_table() -> None:
    assert read(pd.DataFrame(columns=[*ROW])).memory.entries == ()
    assert read(pd.DataFrame()).memory.entries == ()


def test_numbers_as_keys_are_taken_as_pandas_writes_them() -> None:
    assert read(pd.DataFrame([ROW, ROW]).to_dict()).memory.entries == ("héllo", "héllo")
    assert read(json.loads(pd.DataFrame([ROW, ROW]).to_json())).memory.entries == ("héllo", "héllo")


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
