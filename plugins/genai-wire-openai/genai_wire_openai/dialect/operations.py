"""OpenAI's formats for operations other than chat: text completions, embeddings, moderations and
transcriptions.

In completions, the prompt is a text or token IDs instead of messages. The answers are not
interpreted, apart from the text and the reason of the first one: `extra` has all of them as the
service sent them, with their log probabilities.

The request of a transcription is a form with the recording. The reply is JSON, or a text for the
formats `text`, `srt` and `vtt`.

Source: OpenAI API reference, "Create completion" (legacy), "Create embeddings", "Create
moderation", "Create transcription", OpenAPI document 2.3.0; the documentation of vLLM's and
llama.cpp's servers, which serve completions for models of chats, too.
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
    EmbedCall,
    Embeddings,
    Message,
    ModerateCall,
    ModerationResult,
    ProviderReply,
    ProviderRequest,
    StreamEvent,
    TranscribeCall,
    Transcription,
    decode_vector,
    details_in,
    error_of_reply,
    finish_word,
    index_in,
    interrupted,
    malformed,
    must_be_vectors,
    objects_in,
    parameter,
    read_finish,
    read_json,
    read_vector,
    standard_parameters,
    string_in,
    text_in,
    weightier,
)
from genai_host.errors import GenaiError, MalformedReply, UnsupportedPart
from genai_wire_openai.dialect.chat import OpenAIChat
from genai_wire_openai.dialect.common import WithErrors, error_in, read_event_object, read_object
from genai_wire_openai.shared import read_usage

_NO_PATH = (404, 405)
_WITHOUT = "if the service has no text completions, set completions = false for its provider"


class OpenAICompletions(WithErrors, Dialect[CompleteCall, Completion]):
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
            "temperature", "top_p", "stop", "seed", "presence_penalty", "frequency_penalty",
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
    }  # fmt: skip
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
        error = super().map_error(reply)
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
            raise interrupted(text)
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


class OpenAIEmbed(WithErrors, Dialect[EmbedCall, Embeddings]):
    """OpenAI's embeddings. Vectors are lists of numbers, or base64 of 4-byte floats, which is
    shorter.

    `variant` has these options:

    - `purpose`: field for the purpose of the texts; empty if the service makes no difference
    - `encoding`: form of the vectors to request, `float` or `base64`; empty for the default of the
      service
    """

    name = "openai-embed"
    operation = "embed"
    endpoint = DialectEndpoint(path="/embeddings")
    parameters = {
        "dimensions": parameter(
            "integer", "size of the vectors, if the model can shorten them", minimum=1
        )
    }
    variant = {"purpose": "", "encoding": "float"}
    accepts_tokens = True

    def prepare_request(self, call: EmbedCall) -> ProviderRequest:
        variant = {**self.variant, **call.variant}
        body: dict[str, Any] = {
            "model": call.model_id,
            "input": list(call.texts),
            **call.parameters,
        }
        if variant["encoding"]:
            body["encoding_format"] = variant["encoding"]
        if variant["purpose"] and call.purpose:
            body[variant["purpose"]] = call.purpose
        return ProviderRequest("embed", self.name, call.model_id, body)

    def extract_result(self, call: EmbedCall, reply: ProviderReply) -> Embeddings:
        data = read_object(reply.body, "data")
        try:
            vectors = [_vector(item["embedding"]) for item in _in_order(data["data"])]
        except (LookupError, TypeError, AttributeError) as error:
            raise MalformedReply(f"the reply has no embeddings: {error!r}") from error
        must_be_vectors(vectors, len(call.texts))
        model = data.get("model")
        return Embeddings(vectors, str(model or ""), read_usage(data.get("usage")))


def _in_order(items: list[Any]) -> list[Any]:
    """Items in the order of their indexes, which some servers omit."""
    indexes = [index_in(item, "index") for item in items]
    if all(index is None for index in indexes):
        return items
    places = sorted(range(len(items)), key=indexes.__getitem__)  # type: ignore[arg-type]  # raises
    return [items[place] for place in places]


def _vector(embedding: Any) -> list[float]:
    """Read a vector in either form, whatever was requested."""
    return decode_vector(embedding) if isinstance(embedding, str) else read_vector(embedding)


class OpenAIModerate(WithErrors, Dialect[ModerateCall, ModerationResult]):
    name = "openai-moderate"
    operation = "moderate"
    endpoint = DialectEndpoint(path="/moderations")

    def prepare_request(self, call: ModerateCall) -> ProviderRequest:
        body = {"model": call.model_id, "input": call.text}
        return ProviderRequest("moderate", self.name, call.model_id, body)

    def extract_result(self, call: ModerateCall, reply: ProviderReply) -> ModerationResult:
        data = read_object(reply.body, "results")
        try:
            (result,) = data["results"]
            flagged = result["flagged"]
            scores = result.get("category_scores") or {}
            categories = {str(name): _share(score) for name, score in scores.items()}
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
            raise MalformedReply(f"the reply has no moderation result: {error!r}") from error
        if not isinstance(flagged, bool):
            raise MalformedReply("the reply has no moderation result: flagged is not a boolean")
        return ModerationResult(flagged, categories, str(data.get("model") or ""))


def _share(score: object) -> float:
    if isinstance(score, bool) or not isinstance(score, (int, float)) or not 0 <= score <= 1:
        raise ValueError(f"{score!r} is not a number from 0 to 1")
    return float(score)


TEXT_FORMATS = ("text", "srt", "vtt")
"""Formats of a reply that is not JSON."""


class OpenAITranscribe(WithErrors, Dialect[TranscribeCall, Transcription]):
    name = "openai-transcribe"
    operation = "transcribe"
    endpoint = DialectEndpoint(path="/audio/transcriptions")
    parameters = {
        "language": parameter("string", "language of the speech, for example en (ISO 639-1)"),
        "prompt": parameter("string", "text before the speech, for its spelling and style"),
        "temperature": parameter("number", "randomness of the text", minimum=0, maximum=1),
        "response_format": parameter(
            "string",
            "format of the reply; not every service has all of them",
            enum=["json", "verbose_json", "diarized_json", *TEXT_FORMATS],
        ),
        "timestamp_granularities": parameter(
            "array",
            "what has times, in the format verbose_json",
            items={"type": "string", "enum": ["word", "segment"]},
        ),
    }
    reserved = frozenset({"file", "model", "stream"})

    @property
    def models_of(self) -> str:
        return OpenAIChat.name

    def prepare_request(self, call: TranscribeCall) -> ProviderRequest:
        if not call.audio.data:
            raise UnsupportedPart(
                "the recording must have data, not a URL", part="file", dialect=self.name
            )
        body: dict[str, Any] = {"model": call.model_id, **call.parameters}
        return ProviderRequest("transcribe", self.name, call.model_id, body, file=call.audio)

    def extract_result(self, call: TranscribeCall, reply: ProviderReply) -> Transcription:
        form = call.parameters.get("response_format", "json")
        if form in TEXT_FORMATS and not _is_answer(reply.body):
            try:
                return Transcription(reply.body.decode())
            except UnicodeDecodeError as error:
                raise malformed("it is not UTF-8") from error
        data = read_object(reply.body, "text")
        if form in ("srt", "vtt"):
            raise malformed(f"it is JSON, not {form}")
        if "text" not in data:
            raise malformed("it has no text")
        usage = read_usage(data.get("usage"), ("input_tokens", "output_tokens"))
        is_counted = details_in(data, "usage").get("type") != "duration"
        return Transcription(string_in(data, "text"), data, usage if is_counted else NO_USAGE)


def _is_answer(body: bytes) -> bool:
    """Whether a reply is JSON with a text or an error, also if a text was requested; a text may
    begin with a brace."""
    if not body.lstrip().startswith(b"{"):
        return False
    try:
        data = read_json(body)
    except ValueError:
        return False
    return isinstance(data, dict) and not {"text", "error"}.isdisjoint(data)
