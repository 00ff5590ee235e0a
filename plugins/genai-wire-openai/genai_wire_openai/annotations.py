"""Annotations of texts, such as citations, of chat completions and of responses.

Source: OpenAI API reference, "ChatCompletionResponseMessage", "OutputTextContent", and
`response.output_text.annotation.added`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from genai_host.api import Completion, Text

CHAT, RESPONSES = "openai-chat", "openai-responses"
_CITATION = "url_citation"


def chunk_of(annotation: Any, begin: int) -> Mapping[str, Any]:
    """`extra` of a chunk with an annotation of a response. `begin` is where its text begins."""
    return {RESPONSES: {"annotation": annotation, "begin": begin}}


def for_responses(extra: Mapping[str, Any] | None) -> list[Any]:
    """The annotations in `extra` of a chunk or an answer, for a response."""
    own = (extra or {}).get(RESPONSES, {})
    if "annotation" in own:
        return [own["annotation"]]
    given = (extra or {}).get(CHAT, {}).get("message", {}).get("annotations", ())
    return [*map(_flat, given)] if isinstance(given, list) else []


def _flat(annotation: Any) -> Any:
    kind = annotation.get("type") if isinstance(annotation, dict) else None
    inner = annotation.get(kind) if isinstance(kind, str) else None
    return {"type": kind, **inner} if isinstance(inner, dict) else annotation


def for_chunk(extra: Mapping[str, Any]) -> list[Any]:
    """The annotations in `extra` of a chunk of a response, for a chat completion."""
    own = extra.get(RESPONSES, {})
    return _for_chat([own["annotation"]], own["begin"]) if "annotation" in own else []


def for_message(completion: Completion) -> list[Any]:
    """The annotations of the answer of a response, for a chat completion."""
    return [*_in_texts(part for part in completion.message.content if isinstance(part, Text))]


def _in_texts(texts: Iterable[Text]) -> Iterator[Any]:
    begin = 0
    for text in texts:
        given = (text.extra or {}).get(RESPONSES, {}).get("annotations", ())
        yield from _for_chat(given, begin) if isinstance(given, list) else ()
        begin += len(text.text)


def _for_chat(annotations: Iterable[Any], begin: int) -> list[Any]:
    """Chat completions have citations only."""
    return [
        {"type": _CITATION, _CITATION: {n: v for n, v in each.items() if n != "type"}}
        for each in (moved(each, begin) for each in annotations)
        if isinstance(each, dict) and each.get("type") == _CITATION
    ]


def moved(annotation: Any, by: int) -> Any:
    """An annotation of a text that follows another one."""
    if not isinstance(annotation, dict):
        return annotation
    places = {name: annotation.get(name) for name in ("start_index", "end_index")}
    return {**annotation, **{n: at + by for n, at in places.items() if type(at) is int}}
