"""Answers of services of all formats that cite a web page: a passage of the text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from genai_host.api import Citation
from genai_host_testing.fake_service import Reply, json_reply, sse_reply

BEFORE, CITED, AFTER = "Été: ", "cold", "."
TEXT = BEFORE + CITED + AFTER
START, END = len(BEFORE), len(BEFORE + CITED)
PAGE = {"url": "https://example.org/é", "title": "Oslo"}
PLACED = {**PAGE, "start_index": START, "end_index": END}
FLAT = {"type": "url_citation", **PLACED}
NESTED = {"type": "url_citation", "url_citation": PLACED}
UNPLACED = {"type": "url_citation", "url_citation": PAGE}
LOCATION = {
    "type": "web_search_result_location", **PAGE, "cited_text": "It is cold.",
    "encrypted_index": "eA==",
}  # fmt: skip
GROUNDED = {
    "groundingChunks": [{"web": {"uri": PAGE["url"], "title": PAGE["title"]}}],
    "groundingSupports": [
        {
            "segment": {
                "startIndex": len(BEFORE.encode()), "endIndex": len((BEFORE + CITED).encode()),
                "text": CITED},
            "groundingChunkIndices": [0]}],
}  # fmt: skip


def events_of(*values: Any) -> Reply:
    data = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in values]
    return sse_reply(data)


def said(text: str, annotations: list[Any]) -> Reply:
    message = {"role": "assistant", "content": text, "annotations": annotations}
    return json_reply({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})


def unplaced(streamed: bool) -> Reply:
    return said(TEXT, [UNPLACED])


def chat(streamed: bool) -> Reply:
    if not streamed:
        return said(TEXT, [NESTED])
    deltas: list[Any] = [{"content": BEFORE}, {"content": CITED + AFTER}, {"annotations": [NESTED]}]
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    return events_of(*chunks, end, b"[DONE]")


def response(streamed: bool) -> Reply:
    text = {"type": "output_text", "text": TEXT, "annotations": [FLAT]}
    said = {"id": "msg_1", "type": "message", "role": "assistant", "content": [text]}
    whole = {"id": "resp_1", "status": "completed", "output": [said]}
    place = {"output_index": 0, "content_index": 0}
    return (
        events_of(
            {"type": "response.output_text.delta", **place, "delta": TEXT},
            {
                "type": "response.output_text.annotation.added", **place, "annotation_index": 0,
                "annotation": FLAT},
            {"type": "response.completed", "response": whole},
        )
        if streamed
        else json_reply(whole)
    )  # fmt: skip


def message(streamed: bool) -> Reply:
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m"}
    texts: list[Any] = [(BEFORE, []), (CITED, [LOCATION]), (AFTER, [])]
    if not streamed:
        content = [{"type": "text", "text": t, "citations": cited or None} for t, cited in texts]
        return json_reply({**head, "content": content, "stop_reason": "end_turn", "usage": {}})
    events: list[Any] = [{"type": "message_start", "message": {**head, "content": []}}]
    for index, (text, cited) in enumerate(texts):
        begun = {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": text}]
        deltas += [{"type": "citations_delta", "citation": each} for each in cited]
        events += [
            {"type": "content_block_start", "index": index, "content_block": begun},
            *({"type": "content_block_delta", "index": index, "delta": each} for each in deltas),
            {"type": "content_block_stop", "index": index},
        ]
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    return events_of(*events, end, {"type": "message_stop"})


def content(streamed: bool) -> Reply:
    def candidate(text: str, **more: Any) -> dict[str, Any]:
        return {"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, **more}]}

    end = {"finishReason": "STOP", "groundingMetadata": GROUNDED}
    if not streamed:
        return json_reply(candidate(TEXT, **end))
    return events_of(candidate(BEFORE), candidate(CITED + AFTER), candidate("", **end))


SERVICES: dict[str, tuple[Callable[[bool], Reply], str, Mapping[str, Any]]] = {
    "chat": (chat, "openai-compatible", {"serves": ["openai-chat"]}),
    "responses": (response, "openai-compatible", {"serves": ["openai-responses"]}),
    "anthropic": (message, "anthropic", {}),
    "gemini": (content, "gemini", {}),
}


def pages(citations: Iterable[Citation]) -> list[tuple[str, str, int, int]]:
    return [(each.url, each.title, each.start, each.end) for each in citations]


FOUND = [(PAGE["url"], PAGE["title"], START, END)]
"""The pages that the answers of all services cite."""
