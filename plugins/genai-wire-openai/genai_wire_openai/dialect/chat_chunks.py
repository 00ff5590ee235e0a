"""Chunks of OpenAI's chat completions that have only text, as most have.

They are decoded into structs, in a third of the time of the reader for all chunks, which is used
for any other. A field that must be missing or null is declared as None; fields of type `Any` are
skipped, and unknown ones are left to the other reader.
"""

from __future__ import annotations

from typing import Any

from msgspec import DecodeError, Struct, ValidationError
from msgspec.json import Decoder


class _TextDelta(Struct, gc=False, forbid_unknown_fields=True):
    role: Any = None
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: None = None
    refusal: None = None
    tool_calls: None = None
    function_call: None = None


class _TextChoice(Struct, gc=False, forbid_unknown_fields=True):
    delta: _TextDelta
    index: Any = None
    logprobs: Any = None
    error: None = None
    finish_reason: None = None
    usage: None = None


class _TextChunk(Struct, gc=False, forbid_unknown_fields=True):
    choices: tuple[_TextChoice]
    id: Any = None
    created: Any = None
    model: Any = None
    system_fingerprint: Any = None
    service_tier: Any = None
    obfuscation: Any = None
    error: None = None
    object: Any = None
    type: Any = None
    usage: None = None


_decoder = Decoder(_TextChunk)


def read_text_chunk(data: bytes) -> tuple[str, str] | None:
    """The text and the reasoning of a chunk; None if it is not a chunk with only text."""
    try:
        chunk = _decoder.decode(data)
    except (DecodeError, ValidationError, UnicodeDecodeError, RecursionError):
        return None
    if chunk.object == "error" or chunk.type == "error":
        return None
    delta = chunk.choices[0].delta
    return delta.content or "", delta.reasoning_content or delta.reasoning or ""
