"""Answers that must be JSON: asked for in words where a service has no mode for it,
and read and checked in any case."""

from __future__ import annotations

import re

from attrs import evolve

from genai_host.api import ChatCall, Checker, Completion, Message
from genai_host.api.json_text import read_json, write_json
from genai_host.errors import DeserializationError, InvalidData

_FENCED = re.compile(r"```(?:json)?[^\S\n]*\n(.*)```", re.DOTALL)


def asked_in_words(call: ChatCall) -> ChatCall:
    """The call without its schema, and with an instruction in its place."""
    instruction = (
        "Answer with JSON only, without any other text. It must satisfy this JSON Schema:\n"
        + write_json(call.schema).decode()
    )
    return evolve(call, messages=[*call.messages, Message("system", instruction)], schema=None)


def with_value(completion: Completion, checker: Checker) -> Completion:
    """The completion with the JSON value of its text.

    Raises `DeserializationError` if the text is not JSON, or not what the schema
    asks for.
    """
    text = completion.text
    fenced = _FENCED.fullmatch(text.strip())
    try:
        value = read_json(fenced.group(1) if fenced else text)
        checker.check(value)
    except (ValueError, InvalidData) as error:
        cut = completion.finish == "length"
        raise DeserializationError(
            f"the answer is not the JSON that was asked for: {error}",
            reason=completion.reason,
            detail=text,
            hint="it was cut: allow it more tokens with max_tokens" if cut else "",
            **completion.place,
        ) from error
    return evolve(completion, value=value)
