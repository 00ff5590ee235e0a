"""Errors of servers that speak a dialect, in forms that are not the dialect's own."""

from __future__ import annotations

import json
from typing import Any

import pytest
from genai_vendor_bedrock.converse import BedrockConverse
from genai_wire_anthropic.dialect.messages import AnthropicCount, AnthropicMessages
from genai_wire_gemini.dialect.generate_content import EmbedContent, GenerateContent
from genai_wire_ollama.dialect.operations import OllamaChat, OllamaEmbed
from genai_wire_openai.dialect.chat import OpenAIChat
from genai_wire_openai.dialect.operations import OpenAIEmbed, OpenAIModerate
from genai_wire_openai.dialect.responses import OpenAIResponses

from genai_host.api import (
    ChatCall,
    Dialect,
    EmbedCall,
    Message,
    ModerateCall,
    ProviderReply,
    StreamEvent,
)
from genai_host.errors import ContextOverflow, ProviderError

ALL: list[Dialect[Any, Any]] = [
    OpenAIChat(), OpenAIResponses(), OpenAIEmbed(), OpenAIModerate(),
    AnthropicMessages(), AnthropicCount(),
    GenerateContent(), EmbedContent(), OllamaChat(), OllamaEmbed(),
    BedrockConverse(),
]  # fmt: skip
each_dialect = pytest.mark.parametrize("dialect", ALL, ids=lambda dialect: dialect.name)


@each_dialect
@pytest.mark.parametrize("body", [
    b'[{"error": {"message": "told you so", "details": []}}]',
    b'{"error": {"message": "told you so"}}', b'{"error": "told you so"}',
    b'{"detail": "told you so"}',
    b'{"detail": [{"loc": ["body"], "msg": "told you so", "type": "value_error"}]}',
    b'{"errors": [{"message": "told you so"}]}', b'{"message": "told you so"}',
    b'{"msg": "told you so"}',
    b'data: {"error": {"message": "told you so"}}\n\n',
    b"told you so", b"<html><title>told you so</title></html>",
])  # fmt: skip
def test_what_the_service_said_is_in_the_error(dialect: Dialect[Any, Any], body: bytes) -> None:
    for status in (400, 401, 404, 429, 500, 503):
        error = dialect.map_error(ProviderReply(body, status))
        assert error is not None
        assert "told you so" in error.message
        assert error.status == status


TOLD = [
    {"error": "told you so"}, {"error": {"message": ["told you so"]}},
    {"error": True, "message": "told you so"}, [{"error": {"message": "told you so"}}],
    {"detail": "told you so"}, {"detail": [{"loc": ["body"], "msg": "told you so"}]},
    {"errors": [{"message": "told you so"}]}, {"message": "told you so", "code": 500},
    {"object": "error", "message": "told you so"}, {"type": "error", "message": "told you so"},
    {"error_code": 3, "error_msg": "told you so"},
    {"base_resp": {"status_code": 1004, "status_msg": "told you so"}},
]  # fmt: skip
"""Errors that servers send with status 200."""

CALLS: dict[str, Any] = {
    "chat": ChatCall(model_id="m", messages=[Message("user", "hi")], stream=True),
    "count": ChatCall(model_id="m", messages=[Message("user", "hi")]),
    "embed": EmbedCall(model_id="m", texts=["a"]),
    "moderate": ModerateCall(model_id="m", text="a"),
}


@pytest.mark.parametrize(
    "dialect", [each for each in ALL if each.operation != "count"], ids=lambda dialect: dialect.name
)
@pytest.mark.parametrize("body", TOLD, ids=str)
def test_an_error_with_status_200_is_no_answer(dialect: Dialect[Any, Any], body: Any) -> None:
    """But for counts: a reply without a number is malformed."""
    call = CALLS[dialect.operation]
    with pytest.raises(ProviderError, match="told you so"):
        dialect.extract_result(call, ProviderReply(json.dumps(body).encode()))
    decoder = dialect.decoder(call)
    if decoder is not None and dialect.name != "bedrock-converse":
        with pytest.raises(ProviderError, match="told you so"):
            decoder.feed(StreamEvent(json.dumps(body).encode()))


@each_dialect
def test_an_error_without_a_message_is_one(dialect: Dialect[Any, Any]) -> None:
    decoder = dialect.decoder(CALLS[dialect.operation])
    for event in (StreamEvent(b'{"type": "error", "code": 7}'), StreamEvent(b"{}", "error")):
        if decoder is not None and dialect.name != "bedrock-converse":
            with pytest.raises(ProviderError):
                decoder.feed(event)


@each_dialect
def test_a_page_of_another_server_says_where_to_look(dialect: Dialect[Any, Any]) -> None:
    for body in (b"404 page not found", b"<html><title>Not Found</title></html>"):
        error = dialect.map_error(ProviderReply(body, 404))
        assert error is not None
        assert "base_url" in error.hint


@each_dialect
@pytest.mark.parametrize("form", ['[{"error": {"message": "%s"}}]', '{"detail": "%s"}', "%s"])
def test_an_overflow_in_words_alone_is_one(dialect: Dialect[Any, Any], form: str) -> None:
    text = "This model's maximum context length is 4096 tokens. However, you requested 5000"
    error = dialect.map_error(ProviderReply((form % text).encode(), 400))
    assert isinstance(error, ContextOverflow)
    assert error.hint


@pytest.mark.parametrize("dialect", [OpenAIChat(), AnthropicMessages()])
@pytest.mark.parametrize(("text", "option"), [
    ("This model's maximum context length is 4096 tokens.", "--max-model-len"),
    ("request (9 tokens) exceeds the available context size (8 tokens)", "--ctx-size"),
    ("Context size has been exceeded.", "--ctx-size"),
])  # fmt: skip
def test_an_overflow_names_the_option_of_the_server(dialect: Any, text: str, option: str) -> None:
    body = b'{"error": {"message": "%s"}}' % text.encode()
    error = dialect.map_error(ProviderReply(body, 400))
    assert error is not None
    assert option in error.hint
