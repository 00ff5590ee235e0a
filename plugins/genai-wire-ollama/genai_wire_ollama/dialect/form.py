"""Shared parts of Ollama's formats: objects, errors, options, images.

Source: Ollama's documentation of its API (`docs/api.md`, `docs/openapi.yaml`), and the
types of its own client (`api/types.go`), of August 2026.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any

from genai_host.api import (
    Call,
    Image,
    ProviderReply,
    StreamEvent,
    explain_reply,
    message_in,
    parameter,
    read_event,
    read_reply,
    service_error,
    standard_parameters,
    unsupported,
)
from genai_host.errors import AuthenticationFailed, ContextOverflow, GenaiError

OPTIONS: Mapping[str, Any] = {
    **standard_parameters("temperature", "top_p", "top_k", "max_tokens", "stop", "seed"),
    **standard_parameters("presence_penalty", "frequency_penalty"),
    "min_p": parameter(
        "number",
        "minimum probability of a token, relative to the likeliest one",
        minimum=0,
        maximum=1,
    ),
    "typical_p": parameter(
        "number", "locally typical sampling threshold", minimum=0, maximum=1
    ),
    "repeat_penalty": parameter(
        "number", "repetition penalty; above 1 reduces repetition", exclusiveMinimum=0, default=1.1
    ),
    "repeat_last_n": parameter(
        "integer", "number of tokens the penalty applies to; -1 for the context window", minimum=-1
    ),
    "num_ctx": parameter(
        "integer", "context window in tokens; another value reloads the model",
        minimum=1,
    ),
    "num_keep": parameter(
        "integer", "number of initial tokens kept when the context window overflows", minimum=-1
    ),
    "num_batch": parameter("integer", "prompt batch size, in tokens", minimum=1),
    "num_gpu": parameter("integer", "number of layers on the GPUs; -1 for automatic", minimum=-1),
    "main_gpu": parameter("integer", "index of the main GPU", minimum=0),
    "num_thread": parameter("integer", "number of threads; 0 for automatic", minimum=0),
    "use_mmap": parameter("boolean", "map the weights into memory"),
    "draft_num_predict": parameter(
        "integer", "number of tokens drafted by a draft model, if the model has one", minimum=0
    ),
}  # fmt: skip
"""The parameters sent in `options`."""

BESIDE: Mapping[str, Any] = {
    "keep_alive": {
        "type": ["string", "number"],
        "description": "how long the model stays loaded: 10m, seconds, 0, or -1 for no limit",
    },
    "truncate": parameter("boolean", "let Ollama truncate prompts that exceed the context window"),
}
"""Parameters beside `options`, of all dialects."""
_EFFORTS: Mapping[str, bool | str] = {
    "none": False,
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
    "max": "max",
}
"""Values of `think` by reasoning effort, as in Ollama's own API for clients of OpenAI."""
PARAMETERS: Mapping[str, Any] = {
    **OPTIONS,
    "think": {
        "anyOf": [
            {"type": "boolean"},
            {"type": "string", "enum": ["low", "medium", "high", "max"]},
        ],
        "description": "enable reasoning, or set its effort",
    },
    "reasoning_effort": parameter(
        "string", "reasoning effort; `think` takes precedence", enum=[*_EFFORTS]
    ),
    **BESIDE,
}
"""The parameters of chat."""

VARIANT: Mapping[str, Any] = {"options": {}, "keep_alive": "", "truncate": False}
"""Defaults of an instance for all calls; parameters of a call take precedence.

- `options`: further options, by Ollama's names
- `keep_alive`: like the parameter; empty for the default of the service
- `truncate`: like the parameter
"""

_WIRE_NAMES: Mapping[str, str] = {"max_tokens": "num_predict"}
_NO_STATUS = 500
_QUOTED_MODEL = re.compile(r"""["']([\w.:/-]{1,200})["']""", re.ASCII)
_LARGER_WINDOW = (
    "shorten the prompt, or raise num_ctx: --param num_ctx=N, or num_ctx of the provider"
)


def add_parameters(body: dict[str, Any], call: Call, variant: Mapping[str, Any]) -> None:
    """Add the parameters of a call to a request."""
    options = dict(variant["options"])
    beside = {"keep_alive": variant["keep_alive"], "truncate": variant["truncate"]}
    for name, value in call.parameters.items():
        if name in OPTIONS:
            options[_WIRE_NAMES.get(name, name)] = value
        elif name == "reasoning_effort":
            beside.setdefault("think", _EFFORTS[value])
        else:
            beside[name] = value
    if options:
        body["options"] = options
    body.update({name: value for name, value in beside.items() if value != ""})


def wire_image(image: Image, dialect: str) -> str:
    """Encode an image; raises `UnsupportedPart` for an address, which Ollama does not fetch."""
    if not image.data:
        raise unsupported(image, "by its address", dialect)
    return base64.b64encode(image.data).decode()


def read_object(data: bytes, *answer: str) -> dict[str, Any]:
    """Parse an object; raises an error contained in it, also with status 200 or in a stream.
    `answer` names the fields of an answer; see `raise_error_in`."""
    return read_reply(data, error_in, answer)


def read_event_object(event: StreamEvent) -> dict[str, Any]:
    """Parse an event of a stream like `read_object`."""
    return read_event(event, error_in, ("done",))


class WithErrors:
    """Base class of the dialects, whose errors have one form."""

    def map_error(self, reply: ProviderReply) -> GenaiError | None:
        return explain_reply(reply, error_in)


def error_in(data: Mapping[str, Any], status: int | None = None) -> GenaiError | None:
    """The error in an object; None if there is none."""
    error = data.get("error")
    if not error:
        return None
    message = message_in(error)
    status = status or _status_in(data)
    found = service_error(status, message)
    if isinstance(found, ContextOverflow):
        found.hint = _LARGER_WINDOW
    if status == 404:
        found.hint = _how_to_pull(message)
    if isinstance(found, AuthenticationFailed) and "signin_url" in data:
        found.hint = "this model requires an account at ollama.com: ollama signin"
    return found


def _status_in(data: Mapping[str, Any]) -> int:
    status = data.get("status")
    return status if type(status) is int and 400 <= status < 600 else _NO_STATUS


def _how_to_pull(message: str) -> str:
    named = _QUOTED_MODEL.search(message)
    return f"ollama pull {named[1]}" if named else "list the models: ollama list"
