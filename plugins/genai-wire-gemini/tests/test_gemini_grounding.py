"""Citations in grounding metadata."""

from __future__ import annotations

from typing import Any

import pytest
from genai_wire_gemini.grounding import METADATA, citations_in, metadata_of, with_citations

from genai_host.api import Citation, Message, Reasoning, Text

PAGES = [{"web": {"uri": "https://a", "title": "A"}}, {"web": {"uri": "https://b"}}]


def metadata(*supports: Any, chunks: Any = PAGES) -> Any:
    return {METADATA: {"groundingChunks": chunks, "groundingSupports": [*supports]}}


def support(*numbers: Any, **segment: Any) -> dict[str, Any]:
    return {"segment": segment, "groundingChunkIndices": [*numbers]}


def test_positions_are_in_bytes_of_a_part() -> None:
    """The first part is a thought."""
    texts = ["", "Été. ", "é cold"]
    given = metadata(support(0, 1, partIndex=2, startIndex=3, endIndex=7))
    assert citations_in(given, texts) == [
        Citation("https://a", "A", start=7, end=11), Citation("https://b", start=7, end=11)
    ]  # fmt: skip
    assert "".join(texts)[7:11] == "cold"


def test_pages_without_passages_are_of_the_whole_text() -> None:
    assert citations_in(metadata(), ["ab", "c"]) == [
        Citation("https://a", "A", start=0, end=3), Citation("https://b", start=0, end=3)
    ]  # fmt: skip


@pytest.mark.parametrize(
    "given",
    [
        {}, {METADATA: 1}, {METADATA: []}, metadata(chunks=1), metadata(chunks=[1, {"web": 2}, {}]),
        metadata(1, support(9, -1, "0", True), support(0), chunks=[{"web": {"uri": 1}}]),
        {METADATA: {"groundingChunks": [], "groundingSupports": 1}},
        metadata({"segment": 1, "groundingChunkIndices": 1}, chunks=[{"maps": {}}]),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_citation_is_ignored(given: Any) -> None:
    assert citations_in(given, ["ab"]) == []


@pytest.mark.parametrize("place", [{"startIndex": -1}, {"startIndex": "1"}, {"endIndex": 99}])
def test_a_position_that_is_not_in_the_text_is_moved_into_it(place: Any) -> None:
    [found] = citations_in(metadata(support(0, **place)), ["ab"])
    assert 0 <= found.start <= found.end <= 2


def test_metadata_is_read_as_it_was_written() -> None:
    thought, first = (
        Reasoning("hm"),
        Text("Été. ", citations=[Citation("https://a", "A", "", 0, 3)]),
    )
    cited = [Citation("https://a", "A", "", 2, 6), Citation("https://b", "", "", 2, 6)]
    message = Message("assistant", [thought, first, Text("é cold", citations=cited)])
    parts: list[dict[str, Any]] = [
        {"text": "hm", "thought": True},
        {"text": "Été. "},
        {"text": "é cold"},
    ]
    shown = metadata_of(message, parts)
    second = shown[METADATA]["groundingSupports"][1]
    assert second["groundingChunkIndices"] == [0, 1]
    assert second["segment"] == {"partIndex": 2, "startIndex": 3, "endIndex": 7, "text": "cold"}
    found = citations_in(shown, ["", "Été. ", "é cold"])
    plain = [thought, Text("Été. "), Text("é cold")]
    assert with_citations(plain, found) == list(message.content)
    streamed = metadata_of(message, [{"text": ""}])
    assert citations_in(streamed, ["Été. é cold"]) == found
