"""Replies of each service that are not plain answers: how they end in its format."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ways import Says, invoked

from genai_host_testing.fake_service import Reply, json_reply, reply
from genai_host_testing.services import (
    anthropic as anthropic_service,
    bedrock as bedrock_service,
    gemini as gemini_service,
    ollama as ollama_service,
    openai as openai_service,
)


def _claude(reason: str, *content: Any) -> Reply:
    body = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude"}
    ended = {"stop_reason": reason, "stop_sequence": None, "usage": anthropic_service.USAGE}
    return json_reply({**body, "content": list(content), **ended})


_CLAUDES = {
    "length": _claude("max_tokens", {"type": "text", "text": "half"}),
    "content_filter": _claude("refusal", {"type": "text", "text": "half"}),
    "empty": _claude("end_turn"),
}


def _converse(reason: str, *content: Any) -> Reply:
    return json_reply(bedrock_service.body(content, reason, usage=bedrock_service.USAGE))


def _chat(choices: list[Any]) -> Reply:
    return json_reply({"choices": choices, "usage": openai_service.USAGE})


def _choice(reason: str, text: str) -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": text}, "finish_reason": reason}


def _responses(reason: str, *texts: str) -> Reply:
    content = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    message = {"type": "message", "role": "assistant", "content": content}
    why = {"status": "incomplete", "incomplete_details": {"reason": reason}}
    return json_reply(
        {
            **(why if reason else {"status": "completed"}),
            "output": [message] * bool(texts),
            "usage": openai_service.USAGE_OF_RESPONSES,
            "error": None,
        }
    )


def _gemini(reason: str, *texts: str) -> Reply:
    parts = [{"text": text} for text in texts]
    usage = gemini_service.USAGE
    return json_reply(gemini_service.response(*parts, finish=reason, usageMetadata=usage))


def _ollama(reason: str, text: str) -> Reply:
    ended = {**ollama_service.END, "done_reason": reason}
    return json_reply(json.loads(ollama_service.chat_event(text, ended)))


ENDINGS: Mapping[Says, Mapping[str, Reply]] = {
    anthropic_service.claude: _CLAUDES,
    invoked: _CLAUDES,
    bedrock_service.converse: {
        "length": _converse("max_tokens", {"text": "half"}),
        "content_filter": _converse("guardrail_intervened", {"text": "half"}),
        "empty": _converse("end_turn"),
    },
    openai_service.chat: {
        "length": _chat([_choice("length", "half")]),
        "content_filter": _chat([_choice("content_filter", "half")]),
        "empty": _chat([]),
    },
    openai_service.responses: {
        "length": _responses("max_output_tokens", "half"),
        "content_filter": _responses("content_filter", "half"),
        "empty": _responses(""),
    },
    gemini_service.gemini: {
        "length": _gemini("MAX_TOKENS", "half"),
        "content_filter": _gemini("SAFETY", "half"),
        "empty": json_reply({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}),
    },
    ollama_service.chat: {"length": _ollama("length", "half"), "empty": _ollama("stop", "")},
}
"""By format: a reply for each `FinishReason` that the service has, and an empty one, `empty`."""

_TOO_LONG = openai_service.failure(
    400, code="context_length_exceeded", type="invalid_request_error"
)
OVERFLOWS: Mapping[Says, Reply] = {
    anthropic_service.claude: anthropic_service.failure(
        400, kind="invalid_request_error", message="prompt is too long: 9 tokens > 8 maximum"
    ),
    invoked: bedrock_service.refusal(
        400, "ValidationException", "Input is too long for requested model."
    ),
    bedrock_service.converse: bedrock_service.refusal(
        400, "ValidationException", "prompt is too long: 9 tokens > 8 maximum"
    ),
    openai_service.chat: _TOO_LONG,
    openai_service.responses: _TOO_LONG,
    gemini_service.gemini: reply(gemini_service.OVERFLOW, 400),
    ollama_service.chat: ollama_service.failure(400, "the input length exceeds the context length"),
}
"""The reply of each service to a prompt that is too long."""
