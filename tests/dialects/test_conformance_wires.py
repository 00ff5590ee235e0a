"""The API formats of this project, by the suite that those of third parties run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import genai_wire_anthropic
import genai_wire_gemini
import genai_wire_ollama
import genai_wire_openai
import pytest
from genai_wire_anthropic.dialect.messages import AnthropicMessages
from genai_wire_gemini.dialect.generate_content import GenerateContent
from genai_wire_ollama.dialect.chat import OllamaChat
from genai_wire_openai.dialect.chat import OpenAIChat
from genai_wire_openai.dialect.responses import OpenAIResponses

from genai_host_testing.suites import WireSuite

pytestmark = pytest.mark.part

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
PNG = "data:image/png;base64,UE5H"
PDF = "data:application/pdf;base64,UERG"


def fields(**fields: Any) -> dict[str, Any]:
    return fields


FUNCTION = {"name": "weather", "arguments": '{"city":"Oslo"}'}
CHAT_CALL = {"id": "call_1", "type": "function", "function": FUNCTION}


def chunk(*, finish: str | None = None, **delta: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "choices": [choice]}


class TestOpenAIChat(WireSuite):
    plugin = genai_wire_openai
    dialect = OpenAIChat()
    path = "/v1/chat/completions"
    request = {
        "model": "tested",
        "messages": [
            {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
            {
                "role": "user",
                "name": "ann",
                "content": [
                    {"type": "text", "text": "What is this?"},
                    {"type": "image_url", "image_url": {"url": PNG}},
                    {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}},
                ],
            },
            {"role": "assistant", "content": "so:", "tool_calls": [CHAT_CALL]},
            {
                "role": "tool",
                "tool_call_id": "call_1",
                "content": [{"type": "text", "text": "3 degrees"}],
            },
            {"role": "user", "content": "and?"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {"name": "weather", "description": "of a city", "parameters": SCHEMA},
            }
        ],
        "tool_choice": {"type": "function", "function": {"name": "weather"}},
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "place", "schema": {**SCHEMA, "title": "place"}},
        },
        "metadata": {"team": "a"},
        "stream_options": {"include_usage": True},
    }
    used = {
        "prompt_tokens": 3,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 1},
    }
    reply = {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m-1",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": '{"city": "Oslo"}',
                    "tool_calls": [CHAT_CALL],
                },
                "finish_reason": "tool_calls",
            }
        ],
        "usage": used,
    }
    stream = [
        chunk(role="assistant", content=""),
        chunk(content='{"city":'),
        chunk(content=' "Oslo"}'),
        chunk(tool_calls=[{"index": 0, **CHAT_CALL}]),
        chunk(finish="tool_calls"),
        {"id": "c", "object": "chat.completion.chunk", "choices": [], "usage": used},
        "[DONE]",
    ]


class TestAnthropicMessages(WireSuite):
    plugin = genai_wire_anthropic
    dialect = AnthropicMessages()
    path = "/v1/messages"
    mark = {"type": "ephemeral", "ttl": "1h"}
    called = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Oslo"}}
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    request = {
        "model": "tested",
        "max_tokens": 100,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": mark}],
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is this?"},
                    {
                        "type": "image",
                        "source": {"type": "base64", "media_type": "image/png", "data": "UE5H"},
                    },
                    {
                        "type": "document",
                        "title": "a.pdf",
                        "source": {
                            "type": "base64",
                            "media_type": "application/pdf",
                            "data": "UERG",
                        },
                    },
                ],
            },
            {"role": "assistant", "content": [thought, {"type": "text", "text": "so:"}, called]},
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_1",
                        "content": [{"type": "text", "text": "3 degrees", "cache_control": mark}],
                    },
                    {"type": "text", "text": "and?"},
                ],
            },
        ],
        "tools": [
            {
                "name": "weather",
                "description": "of a city",
                "input_schema": SCHEMA,
                "cache_control": mark,
            }
        ],
        "tool_choice": {"type": "tool", "name": "weather"},
        "metadata": {"user_id": "a"},
    }
    used = {"input_tokens": 3, "cache_read_input_tokens": 1, "output_tokens": 2}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m-1"}
    reply = {
        **head,
        "content": [thought, {"type": "text", "text": "so"}, called],
        "stop_reason": "tool_use",
        "usage": used,
    }
    stream = [
        {"type": "message_start", "message": {**head, "content": [], "usage": used}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": "so"},
        },
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {**called, "input": {}}},
        {
            "type": "content_block_delta",
            "index": 1,
            "delta": {"type": "input_json_delta", "partial_json": '{"city": "Oslo"}'},
        },
        {"type": "content_block_stop", "index": 1},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use"},
            "usage": {"output_tokens": 2},
        },
        {"type": "message_stop"},
    ]
    place = "the host begins and ends messages and blocks itself"
    lost_in_streams = {
        "content_block_delta: $": "the arguments of a call are read as a whole",
        "content_block_delta: delta": "the arguments of a call are read as a whole",
        "content_block_start: $": place,
        "content_block_start: content_block.input": "it is a placeholder",
        "content_block_stop: $": place,
        "message_start: $": place,
        "message_stop: $": place,
    }


class TestOpenAIResponses(WireSuite):
    plugin = genai_wire_openai
    dialect = OpenAIResponses()
    path = "/v1/responses"
    called = {
        "id": "fc_1",
        "type": "function_call",
        "call_id": "call_1",
        "name": "weather",
        "arguments": '{"city":"Oslo"}',
        "status": "completed",
    }
    request = {
        "model": "tested",
        "store": False,
        "input": [
            {"role": "system", "content": [{"type": "input_text", "text": "Be brief."}]},
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "What is this?"},
                    {"type": "input_image", "image_url": PNG, "detail": "auto"},
                    {"type": "input_file", "filename": "a.pdf", "file_data": PDF},
                ],
            },
            {
                "type": "message",
                "role": "assistant",
                "phase": "commentary",
                "content": [{"type": "output_text", "text": "so:"}],
            },
            called,
            {
                "type": "function_call_output",
                "call_id": "call_1",
                "output": [{"type": "input_text", "text": "3 degrees"}],
            },
            {"role": "user", "content": "and?"},
        ],
        "tools": [
            {
                "type": "function",
                "name": "weather",
                "description": "of a city",
                "parameters": SCHEMA,
                "strict": False,
            }
        ],
        "tool_choice": {"type": "function", "name": "weather"},
        "text": {"format": {"type": "json_schema", "name": "place", "schema": SCHEMA}},
        "reasoning": {"effort": "low"},
    }
    used = {
        "input_tokens": 3,
        "output_tokens": 2,
        "input_tokens_details": {"cached_tokens": 1},
    }
    text = {"type": "output_text", "text": '{"city": "Oslo"}', "annotations": []}
    said = {"id": "msg_1", "type": "message", "role": "assistant", "content": [text]}
    reply = {"id": "resp_1", "status": "completed", "output": [said, called], "usage": used}
    stream = [
        {"type": "response.created", "response": {"id": "resp_1", "output": []}},
        {
            "type": "response.output_text.delta",
            "output_index": 0,
            "content_index": 0,
            "delta": '{"city": "Oslo"}',
        },
        {"type": "response.output_item.done", "output_index": 1, "item": called},
        {"type": "response.completed", "response": reply},
    ]
    place = "the host begins and ends responses and items itself"
    lost_in_streams = {
        "response.completed: $": place,
        "response.created: $": place,
        "response.created: response": place,
        "response.output_item.done: $": place,
        "response.output_text.delta: $": place,
    }


class TestGemini(WireSuite):
    plugin = genai_wire_gemini
    dialect = GenerateContent()
    path = "/v1beta/models/tested:generateContent"
    stream_path = "/v1beta/models/tested:streamGenerateContent?alt=sse"
    streaming: Mapping[str, Any] = {}
    new = ("responseId",)
    data = ("contents.parts.functionResponse.response",)
    called = {"functionCall": {"id": "call_1", "name": "weather", "args": {"city": "Oslo"}}}
    result = {"id": "call_1", "name": "weather", "response": {"output": "3 degrees"}}
    request = {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {
                "role": "user",
                "parts": [
                    {"text": "What is this?"},
                    {"inlineData": {"mimeType": "image/png", "data": "UE5H"}},
                    {"inlineData": {"mimeType": "application/pdf", "data": "UERG"}},
                ],
            },
            {"role": "model", "parts": [{"text": "so:"}, called]},
            {"role": "user", "parts": [{"functionResponse": result}]},
            {"role": "model", "parts": [{"text": "cold"}]},
            {"role": "user", "parts": [{"text": "and?"}]},
        ],
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "weather",
                        "description": "of a city",
                        "parametersJsonSchema": SCHEMA,
                    }
                ]
            }
        ],
        "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
        "generationConfig": {"temperature": 0.5, "thinkingConfig": {"includeThoughts": True}},
        "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}],
        "labels": {"team": "a"},
    }
    used = {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5}
    content = {"role": "model", "parts": [{"text": "so"}, called]}
    reply = {
        "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
        "usageMetadata": used,
    }
    begun = {"role": "model", "parts": [{"text": "so"}]}
    stream = [
        {"candidates": [{"content": begun, "index": 0}]},
        {
            "candidates": [
                {
                    "content": {"role": "model", "parts": [called]},
                    "finishReason": "STOP",
                    "index": 0,
                }
            ],
            "usageMetadata": used,
        },
    ]


class TestOllama(WireSuite):
    plugin = genai_wire_ollama
    dialect = OllamaChat()
    path = "/api/chat"
    stream_type = "application/x-ndjson"
    function = {"name": "weather", "arguments": {"city": "Oslo"}}
    called = {"id": "call_1", "function": function}
    request = {
        "model": "tested",
        "stream": False,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "What is this?", "images": ["iVBORw0KGgo="]},
            {"role": "assistant", "content": "so:", "tool_calls": [called]},
            {
                "role": "tool",
                "content": "3 degrees",
                "tool_name": "weather",
                "tool_call_id": "call_1",
            },
            {"role": "user", "content": "and?"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {"name": "weather", "description": "of a city", "parameters": SCHEMA},
            }
        ],
        "options": {"temperature": 0.5},
    }
    last = {"done": True, "done_reason": "stop", "prompt_eval_count": 3, "eval_count": 2}
    reply = {
        "message": {"role": "assistant", "content": "so", "tool_calls": [called]},
        **last,
    }
    stream = [
        {"message": {"role": "assistant", "content": "s"}, "done": False},
        {"message": {"role": "assistant", "content": "o", "tool_calls": [called]}, "done": False},
        {"message": {"role": "assistant", "content": ""}, **last},
    ]
    new = ("created_at", "id", "total_duration", "eval_duration")
