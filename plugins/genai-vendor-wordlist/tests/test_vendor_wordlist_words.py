"""Which texts have words of the list, and how long it takes to see that."""

from __future__ import annotations

import functools
from typing import Any, get_args

import genai_vendor_wordlist
import pytest
from genai_vendor_wordlist import ORDINARY, OVERLAP, PIECE, Judge, Language, Settings, pieces
from hypothesis import given, strategies as st

from genai_host.api import Cancellation
from genai_host.errors import Cancelled
from genai_host_testing.internal.fixtures import MakeHost


@functools.cache  # to read the list takes 20 ms
def usual() -> Judge:
    return Judge(Settings())


def flags(text: str, **settings: Any) -> bool:
    judge = Judge(Settings(**settings)) if settings else usual()
    return judge.flags(text, Cancellation())


@pytest.mark.parametrize("text", [
    "you fucking idiot", "ASSHOLE", "what a piece of shit", "f.u.c.k you", "f u c k you",
    "fu\u200bck", "f*ck", "sh1t", "shiiiiiit", "\uff46\uff55\uff43\uff4b",
    "\U0001d4ef\U0001d4fe\U0001d4ec\U0001d4f4", "fúck",
    "&#102;uck",
])  # fmt: skip
def test_bad_words_are_found_disguised_or_not(text: str) -> None:
    assert flags(text)


@pytest.mark.parametrize("text", [
    "", " ", "good morning", "the people of Scunthorpe and Penistone",
    "an assassin with a bass in the classical class of Essex", "shiitake and cocktails",
    "sex education and breast cancer", "How to kill a process that hangs?",
    "the girl on the train", "\x00\ufffe\U0010ffff\u202e\u0301", "🙂" * 10,
])  # fmt: skip
def test_ordinary_texts_are_let_pass(text: str) -> None:
    assert not flags(text)


@pytest.mark.parametrize(("language", "bad", "good"), [
    ("german", "du Arschloch", "Die Katze sitzt auf dem Dach"),
    ("french", "espèce de salope", "le chat est sur le toit"),
    ("spanish", "eres un gilipollas", "el gato está en el tejado"),
    ("russian", "пошёл на хуй", "кошка сидит на крыше"),
    ("chinese", "你这个傻逼", "猫在屋顶上"),
])  # fmt: skip
def test_other_languages_have_their_lists(language: Language, bad: str, good: str) -> None:
    assert flags(bad, languages=[language])
    assert not flags(good, languages=[language])
    assert not flags(bad), "it is not looked for unless it is asked for"


def test_the_languages_are_those_that_there_are_lists_of() -> None:
    from glin_profanity.data.dictionary import dictionary

    assert sorted(get_args(Language)) == sorted(dictionary.available_languages)
    assert all(dictionary.get_words(language) for language in get_args(Language))


def test_ordinary_words_are_on_the_list() -> None:
    """One that is there no more would be none to leave out."""
    from glin_profanity.data.dictionary import dictionary

    assert set(ORDINARY) <= set(dictionary.get_words("english"))
    assert len(set(ORDINARY)) == len(ORDINARY)


def test_words_that_are_ordinary_as_well_count_where_it_is_strict() -> None:
    assert flags("sex education", strict=True)


def test_words_can_be_added_and_left_out() -> None:
    assert flags("the frobnicator is here", words=["frobnicator"])
    assert not flags("holy shit", ignore=["Shit"])


@pytest.mark.parametrize("before", [0, 1, PIECE - 4, PIECE - 3, PIECE - OVERLAP, 3 * PIECE - 2])
@pytest.mark.parametrize("filler", ["word ", "q"])
def test_a_word_is_found_wherever_it_stands(before: int, filler: str) -> None:
    text = (filler * before)[:before] + " piece of shit " + filler * 200
    assert flags(text)


@pytest.mark.parametrize("shift", range(12))
def test_a_part_of_a_word_is_no_word_of_its_own(shift: int) -> None:
    assert not flags("q" * shift + " assassin" * (PIECE // 3))  # three pieces


@given(st.text(st.sampled_from("ab \n"), max_size=3 * PIECE))
def test_pieces_are_the_whole_text(text: str) -> None:
    at = end = 0
    for piece in pieces(text):
        assert len(piece) <= PIECE
        at = text.index(piece, max(at, end - OVERLAP)) if piece else at
        assert at <= end, "something is left out between two pieces"
        assert text.startswith(piece, at)
        end = at + len(piece)
    assert end == len(text)


@pytest.mark.parametrize("length", [100_000, 1_000_000])
def test_work_grows_with_the_length_of_a_text(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a text is, it is looked at in pieces that are bounded, and they are as
    many as it is long."""
    judge = Judge(Settings())
    looked_at: list[int] = []

    def look(piece: str) -> bool:
        looked_at.append(len(piece))
        return False

    monkeypatch.setattr(judge._opened(), "is_profane", look)
    for text in ("q" * length, ("word " * length)[:length], " " * length):
        looked_at.clear()
        judge.flags(text, Cancellation())
        assert max(looked_at) <= PIECE
        assert len(looked_at) <= length / (PIECE - 2 * OVERLAP) + 1


@pytest.mark.parametrize(
    "part", ["q", "k.", "*q ", "<", "&amp;", "*", "1", "1 3 ", "\u200b", "e\u0301", "k_", "assa "]
)
def test_hostile_pieces_are_judged(part: str) -> None:
    assert not flags((part * PIECE)[:PIECE])


@pytest.mark.smoke
@pytest.mark.process
def test_it_ends_when_the_call_does() -> None:
    limits = Cancellation()
    limits.cancel()
    with pytest.raises(Cancelled):
        Judge(Settings()).flags("word " * 1000, limits)


@pytest.mark.process
def test_a_host_judges_by_it(make_host: MakeHost) -> None:
    host = make_host(wordlist=genai_vendor_wordlist)
    verdict = host.moderate("you fucking idiot")
    assert (verdict.flagged, dict(verdict.categories)) == (True, {"profanity": 1.0})
    assert verdict.cost == 0
    assert verdict.route is not None
    assert (verdict.route.model, verdict.route.provider) == ("word-list", "wordlist")
    assert not host.moderate("good morning \ud800").flagged
