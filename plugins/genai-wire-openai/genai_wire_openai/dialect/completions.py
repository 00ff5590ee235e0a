"""OpenAI's completions, in which the prompt is a text or token IDs instead of messages.

The answers are not interpreted, apart from the text and the reason of the first one: `extra` has
all of them as the service sent them, with their log probabilities.

Source: OpenAI API reference, "Create completion" (legacy), OpenAPI document 2.3.0; the
documentation of vLLM's and llama.cpp's servers, which serve it for models of chats, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from genai_host.api import (
    NO_USAGE,
    CompleteCall,
    Completion,
    Delta,
    Dialect,
    DialectEndpoint,
    Message,
    ProviderReply,
    ProviderRequest,
    StreamEvent,
    error_of_reply,
    finish_word,
    index_in,
    malformed,
    objects_in,
    parameter,
    read_finish,
    standard_parameters,
    text_in,
    weightier,
)
from genai_host.errors import GenaiError, IncompleteReply
from genai_wire_openai.dialect.chat import OpenAIChat
from genai_wire_openai.dialect.chat_replies import read_usage
from genai_wire_openai.dialect.common import (
    error_in,
    explain_error,
    read_event_object,
    read_object,
)

_NO_PATH = (404, 405)
_WITHOUT = "if the service has no text completions, set completions = false for its provider"


class OpenAICompletions(Dialect[CompleteCall, Completion]):
    """OpenAI's completions.

    `variant` has this option:

    - `stream_usage`: whether to request the usage of a streamed reply
    """

    name = "openai-completions"
    operation = "complete"
    endpoint = DialectEndpoint(path="/completions")
    capabilities = frozenset({"stream"})
    accepts_tokens = True
    parameters = {
        **standard_parameters(
            "temperature",
            "top_p",
            "stop",
            "seed",
            "presence_penalty",
            "frequency_penalty",
        ),
        "max_tokens": parameter(
            "integer", "maximum number of tokens of an answer; 0 to score a text", minimum=0
        ),
        "n": parameter("integer", "number of answers to each text", minimum=1),
        "best_of": parameter(
            "integer", "number of answers of which the service returns the best", minimum=1
        ),
        "echo": parameter("boolean", "return the text before its answer"),
        "logprobs": parameter(
            "integer", "number of most likely tokens with their log probabilities", minimum=0
        ),
    }
    reserved = frozenset({"best_of", "model", "n", "prompt", "stream", "suffix"})
    variant = {"stream_usage": True}

    @property
    def models_of(self) -> str:
        return OpenAIChat.name

    def prepare_request(self, call: CompleteCall) -> ProviderRequest:
        prompts = [each if isinstance(each, str) else [*each] for each in call.prompts]
        body: dict[str, Any] = {
            "model": call.model_id,
            "prompt": prompts[0] if len(prompts) == 1 else prompts,
            **({"suffix": call.suffix} if call.suffix else {}),
            **call.parameters,
        }
        if call.stream:
            body["stream"] = True
            if {**self.variant, **call.variant}["stream_usage"]:
                body["stream_options"] = {"include_usage": True}
        return ProviderRequest("complete", self.name, call.model_id, body, call.stream)

    def extract_result(self, call: CompleteCall, reply: ProviderReply) -> Completion:
        data = read_object(reply.body, "choices")
        choices = _choices_in(data)
        if not choices:
            raise malformed("it has no choices")
        first = _first_in(choices)
        return _completion(
            "".join(text_in(each, "text") for each in first),
            finish_word(first[0].get("finish_reason")) if first else "",
            usage=read_usage(data.get("usage")),
            extra={"choices": choices},
        )

    def decoder(self, call: CompleteCall) -> CompletionsDecoder:
        return CompletionsDecoder()

    def map_error(self, reply: ProviderReply) -> GenaiError | None:
        error = explain_error(reply)
        if reply.status in _NO_PATH:
            error = error or error_of_reply(reply)
            error.hint = error.hint or _WITHOUT
        return error


class CompletionsDecoder:
    """Assembles a streamed reply."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._finish = ""
        self._usage = NO_USAGE
        self._has_begun = False
        self._open: set[int] = set()
        self.done = False

    def feed(self, event: StreamEvent) -> Sequence[Delta]:
        if event.is_done:
            self.done = True
            return ()
        data = read_event_object(event, "choices", "usage")
        if data.get("usage"):
            self._usage = read_usage(data["usage"])
        choices = _choices_in(data)
        if not choices:
            return ()
        self._has_begun = True
        for choice in choices:
            if choice.get("finish_reason") is None:
                self._open.add(_index_of(choice))
            else:
                self._open.discard(_index_of(choice))
        first = _first_in(choices)
        text = "".join(text_in(each, "text") for each in first)
        self._text.append(text)
        for choice in first:
            finish = choice.get("finish_reason")
            if finish is not None:
                self._finish = weightier(self._finish, finish_word(finish))
        return (Delta(text, extra={"choices": choices}),)

    def finish(self) -> Completion:
        text = "".join(self._text)
        # some services send no end marker
        if not self.done and (self._open or not self._has_begun):
            raise IncompleteReply("the reply was interrupted before its end", text=text)
        if not self._has_begun:
            raise malformed("it has no choices")
        return _completion(text, self._finish, usage=self._usage)


def _completion(text: str, finish: str, **more: Any) -> Completion:
    normal = read_finish(finish, calls=False, text=text)
    return Completion(Message("assistant", text), normal, vendor_finish=finish, **more)


def _choices_in(data: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    choices = objects_in(data, "choices")
    for choice in choices:
        error = error_in(choice)
        if error is not None:
            raise error
    return choices


def _first_in(choices: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The choices, or chunks, of the first answer."""
    return [each for each in choices if _index_of(each) == 0]


def _index_of(choice: Mapping[str, Any]) -> int:
    return index_in(choice, "index") or 0
