"""Citations of web pages, in the grounding metadata of a candidate.

Source: Gemini API reference, "GroundingMetadata", "GroundingSupport", "Segment". Positions are in
bytes of UTF-8, in one of the parts; those of a stream are in all of its text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve

from genai_host.api import Citation, Message, Part, Text, citation_of, details_in

METADATA = "groundingMetadata"


def citations_in(candidate: Mapping[str, Any], texts: Sequence[str]) -> list[Citation]:
    """The citations of a candidate, with positions in all of its text. Those of pages that support
    no passage are of the whole text. `texts` has the texts of its parts so far, empty for other
    parts."""
    metadata = details_in(candidate, METADATA)
    pages = [details_in(each, "web") for each in _objects(metadata.get("groundingChunks"))]
    whole = "".join(texts)
    found: list[Citation] = []
    for support in _objects(metadata.get("groundingSupports")):
        place = _place_of(details_in(support, "segment"), texts)
        numbers = support.get("groundingChunkIndices")
        for number in numbers if isinstance(numbers, list) else ():
            if type(number) is int and 0 <= number < len(pages):
                page = pages[number]
                found += citation_of(page.get("uri"), page.get("title"), *place)
    if found:
        return found
    size = len(whole)
    return [c for page in pages for c in citation_of(page.get("uri"), page.get("title"), 0, size)]


def _objects(value: object) -> Iterator[Mapping[str, Any]]:
    return (
        (each for each in value if isinstance(each, dict)) if isinstance(value, list) else iter(())
    )


def _place_of(segment: Mapping[str, Any], texts: Sequence[str]) -> tuple[int, int]:
    """Where a segment begins and ends in all texts, in characters."""
    index, start, end = (
        value if type(value := segment.get(name)) is int and value >= 0 else 0
        for name in ("partIndex", "startIndex", "endIndex")
    )
    whole = "".join(texts).encode()
    begin = len("".join(texts[:index]).encode())
    first = len(whole[: begin + start].decode(errors="ignore"))
    return first, len(whole[: begin + end].decode(errors="ignore"))


def with_citations(parts: Sequence[Part], citations: Sequence[Citation]) -> list[Part]:
    """The parts of an answer, with each citation at the text in which its passage begins."""
    placed: list[Part] = []
    begin = 0
    for part in parts:
        if isinstance(part, Text):
            end = begin + len(part.text)
            own = [
                evolve(each, end=min(each.end, end)).moved(-begin)
                for each in citations
                if begin <= each.start < end
            ]
            part, begin = evolve(part, citations=own), end
        placed.append(part)
    return placed


def metadata_of(message: Message, parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The grounding metadata of an answer; empty without citations. `parts` are those that the
    client gets with it, without texts if these were streamed."""
    pages: dict[tuple[str, str], int] = {}
    supports: dict[tuple[int, int, int], dict[str, Any]] = {}
    texts = [part for part in message.content if isinstance(part, Text) and part.text]
    places = [n for n, part in enumerate(parts) if part.get("text") and not part.get("thought")]
    begin = 0
    for number, text in enumerate(texts):
        index = places[number] if len(places) == len(texts) else 0
        for each in (citation.within(text.text) for citation in text.citations):
            page = pages.setdefault((each.url, each.title), len(pages))
            start, end = (
                begin + len(text.text[:place].encode()) for place in (each.start, each.end)
            )
            segment: dict[str, Any] = {"partIndex": index} if index else {}
            segment |= {"startIndex": start, "endIndex": end}
            passage = {**segment, "text": text.text[each.start : each.end]}
            new = {"segment": passage, "groundingChunkIndices": []}
            supports.setdefault((index, start, end), new)["groundingChunkIndices"].append(page)
        begin += 0 if places else len(text.text.encode())
    if not pages:
        return {}
    chunks = [{"web": {"uri": uri, "title": title}} for uri, title in pages]
    return {METADATA: {"groundingChunks": chunks, "groundingSupports": [*supports.values()]}}
