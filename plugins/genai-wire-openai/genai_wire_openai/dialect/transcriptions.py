"""OpenAI's transcriptions: speech to text.

The request is a form with the recording. The reply is JSON, or a text for the formats `text`, `srt`
and `vtt`.

Source: OpenAI API reference, "Create transcription", OpenAPI document 2.3.0.
"""

from __future__ import annotations

from typing import Any

from genai_host.api import (
    NO_USAGE,
    Dialect,
    DialectEndpoint,
    ProviderReply,
    ProviderRequest,
    TranscribeCall,
    Transcription,
    Usage,
    count_in,
    details_in,
    malformed,
    parameter,
    read_json,
    string_in,
)
from genai_host.errors import GenaiError, UnsupportedPart
from genai_wire_openai.dialect.chat import OpenAIChat
from genai_wire_openai.dialect.common import explain_error, read_object

TEXT_FORMATS = ("text", "srt", "vtt")
"""Formats of a reply that is not JSON."""


class OpenAITranscribe(Dialect[TranscribeCall, Transcription]):
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
        used = details_in(data, "usage")
        is_counted = used.get("type") != "duration"
        usage = Usage(count_in(used, "input_tokens"), count_in(used, "output_tokens"))
        return Transcription(string_in(data, "text"), data, usage if is_counted else NO_USAGE)

    def map_error(self, reply: ProviderReply) -> GenaiError | None:
        return explain_error(reply)


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
