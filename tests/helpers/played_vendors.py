"""Simulated services of all vendors at one local address, which send the same answer."""

from __future__ import annotations

import json

from genai_host_testing.fake_service import FakeService, Received, Reply, json_reply, stream_reply
from genai_host_testing.services import anthropic as anthropic_service
from genai_host_testing.services import bedrock as bedrock_service
from genai_host_testing.services import gemini as gemini_service
from genai_host_testing.services import ollama as ollama_service
from genai_host_testing.services import openai as openai_service

SAID = "Because air scatters blue light more than red."


def played_vendors() -> FakeService:
    """Return a service that answers requests in the format of any vendor."""
    return FakeService(answer=_answer)


def _answer(asked: Received) -> Reply:
    path = asked.path.partition("?")[0]
    if asked.method == "GET":
        return json_reply({"data": [], "models": []})
    body = asked.json()
    streamed = bool(body.get("stream", path.startswith("/api/"))) or "tream" in path
    if path.endswith("/count_tokens"):
        return json_reply({"input_tokens": 14})
    for end, form in _FORMS.items():
        if end in path:
            return form(SAID, streamed=streamed)
    return json_reply({"error": {"message": f"there is no {path}"}}, 404)


def _invoked(text: str, *, streamed: bool) -> Reply:
    """Return a reply of Claude in Anthropic's format, in the frames of Bedrock."""
    if not streamed:
        return anthropic_service.claude(text)
    events = [json.dumps(event).encode() for event in anthropic_service.events(text)]
    frames = [bedrock_service.chunk(event) for event in events]
    return stream_reply(frames, content_type=bedrock_service.STREAM_TYPE)


_FORMS = {
    "/invoke": _invoked,
    "/chat/completions": openai_service.chat,
    "/responses": openai_service.responses,
    "/messages": anthropic_service.claude,
    "/converse": bedrock_service.converse,
    "enerateContent": gemini_service.gemini,
    "/api/chat": ollama_service.chat,
}
"""A part of the path, and the format of the answer for it."""
