"""Moderation in this process with a list of words, without network or key.

- provider `wordlist`: searches for the words of a list with glin-profanity: whole words, also with
  similar, masked, repeated or separated letters
- model `word-list`: for moderation, in the dialect `word-list`

Its detection of further leetspeak is disabled, because it takes quadratic time: an hour for a
megabyte of digits.

Request of the dialect: `{"text": "..."}`. Reply:
`{"flagged": true, "categories": {"profanity": 1.0}}`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from attrs import frozen, validators as must

from genai_host.api import (
    FREE,
    CancelToken,
    Dialect,
    DialectEndpoint,
    Model,
    ModerateCall,
    ModerationResult,
    Provider,
    ProviderReply,
    ProviderRequest,
    ProviderType,
    Services,
    hookimpl,
    read_json,
    setting,
)
from genai_host.errors import MalformedReply

if TYPE_CHECKING:
    from glin_profanity import Filter

__all__ = ["Language", "Settings"]

Language = Literal[
    "arabic", "chinese", "czech", "danish", "dutch", "english", "esperanto", "finnish",
    "french", "german", "hindi", "hungarian", "italian", "japanese", "korean", "norwegian",
    "persian", "polish", "portuguese", "russian", "spanish", "swedish", "thai", "turkish",
]  # fmt: skip
"""Languages for which glin-profanity has a word list."""


@frozen
class Settings:
    languages: Sequence[Language] = setting(
        ("english",), "languages of the word lists", validator=must.min_len(1)
    )
    words: Sequence[str] = setting((), "additional words to flag")
    ignore: Sequence[str] = setting((), "words that are not flagged")
    strict: bool = setting(
        False, "also flag words that have an ordinary meaning, for example `sex`"
    )


ORDINARY = (
    # medicine and the body
    "anal", "anus", "butt", "clitoris", "ejaculation", "fecal", "genitals", "intercourse",
    "nipple", "nipples", "nymphomania", "orgasm", "penis", "rectum", "semen", "sex", "vagina",
    "vulva",
    # crime, history and people
    "bestiality", "date rape", "domination", "eunuch", "how to kill", "how to murder", "incest",
    "neonazi", "paedophile", "pedophile", "pornography", "rape", "raping", "rapist", "sadism",
    "santorum", "sodomy", "swastika", "white power", "zoophilia",
    # everyday life
    "alaskan pipeline", "bareback", "barely legal", "barenaked", "bastinado", "big black",
    "bondage", "bs", "camel toe", "coon", "coons", "cornhole", "deep throat", "dingleberry",
    "dingleberries", "ecchi", "erotic", "escort", "fingering", "girl on", "grope", "hard core",
    "hardcore", "hoe", "hooker", "hot chick", "huge fat", "jelly donut", "kinky", "lolita",
    "mf", "missionary position", "mr hands", "nude", "nudity", "octopussy", "panties", "panty",
    "pegging", "playboy", "poof", "rimming", "scat", "sexy", "shrimping", "simp", "skeet",
    "snatch", "snowballing", "spunk", "strap on", "strip club", "suck", "sucks", "swinger",
    "tainted love", "taste my", "tied up", "tight white", "tongue in a", "topless", "twinkie",
    "undressing", "vibrator", "violet wand", "voyeur", "wet dream", "wrapping men", "xx",
)  # fmt: skip
"""English words of the list with ordinary meanings in medicine, law or everyday life. They do not
indicate an offensive text, and count only if configured."""


PIECE = 4000
"""Characters per check, which takes tens of milliseconds."""

OVERLAP = 200
"""Overlap of consecutive pieces in characters: longer than the longest words."""


class Judge:
    """Word filter. Thread-safe."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._filter: Filter | None = None

    def flags(self, text: str, limits: CancelToken) -> bool:
        """Whether a text contains a listed word. Raises the error of `limits`."""
        found = self._opened()
        for piece in pieces(text):
            limits.check()
            if found.is_profane(piece):
                return True
        return False

    def _opened(self) -> Filter:
        """Return the filter, loaded with the first text."""
        with self._lock:
            if self._filter is None:
                from glin_profanity import Filter

                ordinary = () if self._settings.strict else ORDINARY
                self._filter = Filter(
                    {
                        "languages": list(self._settings.languages),
                        "custom_words": list(self._settings.words),
                        "ignore_words": [*ordinary, *self._settings.ignore],
                    }
                )
            return self._filter


def pieces(text: str) -> Iterator[str]:
    """Split a text into overlapping pieces, between words if possible, so that no word is missed
    and no part of a word is matched.
    """
    start = 0
    while len(text) - start > PIECE:
        end = _word_from(text, start + PIECE - OVERLAP)
        yield text[start:end]
        start = _word_from(text, end - OVERLAP)
    yield text[start:]


def _word_from(text: str, place: int) -> int:
    """Return the start of the next word, within half an overlap; otherwise the position."""
    for at in range(place, place + OVERLAP // 2):
        if text[at].isspace():
            return at + 1
    return place


CATEGORY = "profanity"


class WordListProvider(Provider):
    serves = {"word-list": DialectEndpoint(model_ids="word-list")}
    default_models = {"moderate": "word-list"}

    def __init__(self, settings: Settings, services: Services) -> None:
        self._judge = Judge(settings)

    def price_provider(self, model_id: str) -> str:
        return FREE

    def send(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
        flagged = self._judge.flags(json.loads(request.data())["text"], limits)
        categories = {CATEGORY: 1.0 if flagged else 0.0}
        return ProviderReply(json.dumps({"flagged": flagged, "categories": categories}).encode())

    def stream(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
        return self.send(request, limits)


class WordList(Dialect[ModerateCall, ModerationResult]):
    name = "word-list"
    operation = "moderate"

    def prepare_request(self, call: ModerateCall) -> ProviderRequest:
        return ProviderRequest("moderate", self.name, call.model_id, {"text": call.text})

    def extract_result(self, call: ModerateCall, reply: ProviderReply) -> ModerationResult:
        try:
            data = read_json(reply.body)
            flagged = data["flagged"]
            categories = {str(name): _share(score) for name, score in data["categories"].items()}
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise MalformedReply(f"invalid moderation reply: {error!r}") from error
        if not isinstance(flagged, bool):
            raise MalformedReply("invalid moderation reply: flagged must be a boolean")
        return ModerationResult(flagged, categories, call.model_id)


def _share(score: Any) -> float:
    if isinstance(score, bool) or not isinstance(score, (int, float)) or not 0 <= score <= 1:
        raise ValueError(f"{score!r} is not a number from 0 to 1")
    return float(score)


@hookimpl
def genai_providers() -> Iterable[ProviderType[Any]]:
    yield ProviderType("wordlist", Settings, WordListProvider)


@hookimpl
def genai_dialects() -> Iterable[Dialect[Any, Any]]:
    yield WordList()


@hookimpl
def genai_models() -> Iterable[Model]:
    yield Model(
        "word-list", dialects=["word-list"], operation="moderate", at={"wordlist": "word-list"}
    )
