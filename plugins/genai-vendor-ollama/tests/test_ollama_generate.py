"""What is written for Ollama's generate: a conversation in one prompt."""

from __future__ import annotations

import json
from typing import Any

import pytest
from genai_vendor_ollama import OllamaGenerate

from genai_host.api import (
    ChatCall,
    File,
    Image,
    Message,
    Reasoning,
    ToolCall,
    ToolResult,
    VendorPart,
)
from genai_host.errors import UnsupportedPart

GENERATE = OllamaGenerate()


def body_of(*messages: Message, **call: Any) -> Any:
    request = GENERATE.prepare_request(ChatCall(model_id="m", messages=messages, **call))
    return json.loads(request.data())


def test_a_single_message_is_the_prompt() -> None:
    assert body_of(Message("user", 'é "\u2028')) == {
        "model": "m", "prompt": 'é "\u2028', "truncate": False, "stream": False,
    }  # fmt: skip


def test_a_conversation_is_put_into_it_turn_by_turn() -> None:
    body = body_of(
        Message("system", "Be brief."),
        Message("user", ["what is ", Image(b"\x89PNG"), "this?"]),
        Message("assistant", [Reasoning("hm"), VendorPart("another", 1), "a cat"]),
        Message("system", "Be kind."),
        Message("user", ["and ", "this?", Image(b"\xff")]),
    )
    assert body["system"] == "Be brief.\n\nBe kind."
    assert body["prompt"] == (
        "User: what is this?\n\nAssistant: a cat\n\nUser: and this?\n\nAssistant:"
    )
    assert body["images"] == ["iVBORw==", "/w=="]


def test_what_an_assistant_said_alone_is_no_prompt_of_a_user() -> None:
    assert body_of(Message("assistant", "hi"))["prompt"] == "Assistant: hi\n\nAssistant:"


@pytest.mark.parametrize(
    "message",
    [
        Message("user", Image(url="https://x.invalid/a.png")),
        Message("user", File(b"%PDF", "application/pdf")),
        Message("system", Image(b"\x89PNG")),
        Message("assistant", ToolCall("1", "look")),
        Message("tool", ToolResult("1", "look")),
    ],
)
def test_what_has_no_place_is_refused(message: Message) -> None:
    with pytest.raises(UnsupportedPart) as caught:
        body_of(Message("user", "hi"), message)
    assert caught.value.dialect == "ollama-generate"


def test_parameters_and_a_schema_have_their_places() -> None:
    body = body_of(
        Message("user", "hi"),
        parameters={"max_tokens": 7, "think": "low", "keep_alive": "1h"},
        variant={"options": {"num_gpu": 1}, "truncate": True},
        schema={"type": "object"},
        stream=True,
    )
    assert body == {
        "model": "m", "prompt": "hi", "format": {"type": "object"}, "think": "low",
        "options": {"num_gpu": 1, "num_predict": 7}, "keep_alive": "1h", "truncate": True,
        "stream": True,
    }  # fmt: skip
