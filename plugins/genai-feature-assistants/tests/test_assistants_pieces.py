"""What is annotated in a text that comes bit by bit is a piece of its own."""

from __future__ import annotations

import pytest
from genai_feature_assistants.service.run_tools import AnnotatedPieces, annotations_of

FOUND = {0: ["f1", "f2"], 2: ["f3"]}
MADE = {"a.csv": "f9"}
TEXT = (
    "Hi【0:1†b】 and 【x】【【2:0†q】 sands sandbox:/mnt/data/a.csv, sandbox:/mnt/data/ s "
    "[it](sandbox:/mnt/data/a.csv). 【5:0†z】 sandbo 【0:0†a】【0:"
)


@pytest.mark.parametrize("width", [1, 2, 3, 5, 8, 13, 21, 34, 55, len(TEXT)])
def test_pieces(width: int) -> None:
    pieces = AnnotatedPieces(FOUND, MADE)
    told = [
        piece
        for at in range(0, len(TEXT), width)
        for piece in pieces.add(TEXT[at : at + width])
    ]  # fmt: skip
    told += pieces.rest()
    assert "".join(piece["value"] for piece in told) == TEXT
    annotations = annotations_of(TEXT, FOUND, MADE)
    assert pieces.annotations == annotations
    assert len(annotations) == 5
    numbered = [{"index": number, **each} for number, each in enumerate(annotations)]
    assert [each for piece in told for each in piece.get("annotations", ())] == numbered
    for piece in told:
        for each in piece.get("annotations", ()):
            assert each["text"] in piece["value"]


def test_what_is_no_mark_is_not_held_back_for_ever() -> None:
    pieces = AnnotatedPieces(FOUND, MADE)
    for opening in ("【", "sandbox:/mnt/data/"):
        assert list(pieces.add(opening)) == []
        told = list(pieces.add("a" * 300))
        assert "".join(piece["value"] for piece in told) == opening + "a" * 300


def test_a_text_without_marks_comes_as_it_is() -> None:
    pieces = AnnotatedPieces(FOUND, MADE)
    assert [list(pieces.add(text)) for text in ("so ", "it ", "is")] == [
        [{"value": "so "}], [{"value": "it "}], [{"value": "i"}],
    ]  # fmt: skip
    assert list(pieces.rest()) == [{"value": "s"}]  # a path may begin with it
