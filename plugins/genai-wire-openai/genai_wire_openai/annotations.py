"""Annotations of texts, such as citations, of chat completions and of responses.

Clients of the format of the service receive them as they are, others the citations of URLs.

Source: OpenAI API reference, "ChatCompletionResponseMessage", "OutputTextContent", and
`response.output_text.annotation.added`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from genai_host.api import Citation, citation_of

CHAT, RESPONSES = "openai-chat", "openai-responses"
_CITATION = "url_citation"


def citations_in(annotations: object) -> tuple[Citation, ...]:
    """The citations of URLs, in either format."""
    found: list[Citation] = []
    for each in annotations if isinstance(annotations, list) else ():
        if isinstance(each, dict) and each.get("type") == _CITATION:
            inner = each.get(_CITATION)
            data = inner if isinstance(inner, dict) else each
            names = ("url", "title", "start_index", "end_index")
            found += citation_of(*(data.get(name) for name in names))
    return tuple(found)


def for_responses(citation: Citation) -> dict[str, Any]:
    return {"type": _CITATION, **_fields_of(citation)}


def for_chat(citations: Iterable[Citation]) -> list[dict[str, Any]]:
    return [{"type": _CITATION, _CITATION: _fields_of(each)} for each in citations]


def _fields_of(citation: Citation) -> dict[str, Any]:
    return {
        "end_index": citation.end,
        "start_index": citation.start,
        "title": citation.title,
        "url": citation.url,
    }


def moved(annotation: Any, by: int) -> Any:
    """An annotation of a text that follows another one."""
    if not isinstance(annotation, dict):
        return annotation
    places = {name: annotation.get(name) for name in ("start_index", "end_index")}
    return {**annotation, **{n: at + by for n, at in places.items() if type(at) is int}}
