"""The suites of the testing kit, for the dialects, for the provider over HTTP and the offerings."""

from __future__ import annotations

from collections.abc import Sequence

import genai_models_open
import genai_vendor_ollama
import pytest
from attrs import evolve
from genai_wire_ollama.dialect.operations import OllamaChat, OllamaEmbed, OllamaGenerate

from genai_host import errors
from genai_host.api import Usage
from genai_host_testing.services.ollama import CALL, END, chat_event
from genai_host_testing.suites import (
    CompleteDialectSuite,
    DialectSuite,
    EmbedDialectSuite,
    HttpProviderSuite,
    ModelSuite,
)

REFUSALS = [
    (404, b'{"error": "model \'llama9\' not found"}', errors.BadRequest),
    (400, b'{"error": "the input length exceeds the context length"}', errors.ContextOverflow),
    (400, b'{"error": "\\"m\\" does not support\\ntools"}', errors.BadRequest),
    (401, b'{"error": "unauthorized", "signin_url": "https://x"}', errors.AuthenticationFailed),
    (429, b'{"error": "slow down"}', errors.RateLimited),
    (500, b'{"error": {"message": "no memory"}}', errors.ServiceUnavailable),
    (503, b'{"error": "server busy, please try again"}', errors.ServiceUnavailable),
]


class TestChat(DialectSuite):
    dialect = OllamaChat()
    reply = chat_event("hello there", END)
    stream = [chat_event("hello"), chat_event(" there"), chat_event(fields=END)]
    usage = Usage(3, 2)
    calls = (
        chat_event(fields=END, tool_calls=[CALL]),
        [chat_event(tool_calls=[CALL]), chat_event(fields=END)],
    )
    refusals = REFUSALS
    deviations = {
        "test_declared_capabilities_are_written": (
            "Ollama has no field by which a model is made to use a tool: that is an error"
        )
    }

    def test_declared_capabilities_are_written(self) -> None:
        call = self.call()
        plain = self.data(evolve(call, tools=()))
        assert self.data(call) != plain
        assert self.data(evolve(call, tool_choice="none")) == plain
        for choice in ("required", "weather"):
            with pytest.raises(errors.InvalidParameter, match="cannot force a tool call"):
                self.dialect.prepare_request(evolve(call, tool_choice=choice))
        schema = {"type": "object"}
        assert self.data(evolve(call, tools=(), schema=schema)) == {**plain, "format": schema}


class TestGenerate(CompleteDialectSuite):
    dialect = OllamaGenerate()
    reply = b'{"response": " there", "done": true, "prompt_eval_count": 3, "eval_count": 2}'
    stream = [
        b'{"response": " the", "done": false}',
        b'{"response": "re", "done": false}',
        b'{"response": "", "done": true, "prompt_eval_count": 3, "eval_count": 2}',
    ]
    usage = Usage(3, 2)
    refusals = [*REFUSALS, (400, b'{"error": "m does not support insert"}', errors.BadRequest)]


class TestEmbed(EmbedDialectSuite):
    dialect = OllamaEmbed()
    reply = b'{"model": "m", "embeddings": [[1, 0], [0, 0.5]], "prompt_eval_count": 4}'
    vectors = [[1, 0], [0, 0.5]]
    usage = Usage(4)
    refusals = REFUSALS


class SpeaksOllamaChat:
    """How Ollama replies in `ollama-chat`."""

    dialect = "ollama-chat"
    model_id = "model-1"
    stream_type = "application/x-ndjson"
    overflow: bytes | None = b'{"error": "the input length exceeds the context length"}'
    late_error: bytes | None = b'{"error": "an error was encountered while running the model"}'

    def body(self, text: str) -> bytes:
        return chat_event(text, END)

    def events(self, pieces: Sequence[str]) -> list[bytes]:
        return [*(chat_event(piece) for piece in pieces), chat_event(fields=END)]

    def frame(self, event: bytes) -> bytes:
        return event + b"\n"


@pytest.mark.part
class TestOllama(SpeaksOllamaChat, HttpProviderSuite):
    plugin = genai_vendor_ollama
    provider = "ollama"
    settings = {"base_url": "{url}"}
    keys = ["OLLAMA_API_KEY"]


class TestOfferings(ModelSuite):
    plugin = genai_vendor_ollama
    beside = {"models": genai_models_open}
