"""A request, read.

    read_request → input, tools, text, reasoning, parameters

Unsupported parameters that would change the answer are refused by name. Other unsupported or
unknown parameters are ignored and reported.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from attrs import frozen

from genai_host.api import EXTRA_BODY, DroppedFields
from genai_host.errors import ValidationError
from genai_host.serving import check_schema
from genai_wire_openai.dialect.common import DEFAULT_TIERS, named_schema
from genai_wire_openai.dialect.response_replies import NAME
from genai_wire_openai.responses.fields import (
    Fields,
    MissingParameter,
    PreviousNotFound,
    UnsupportedParameter,
)
from genai_wire_openai.responses.items import Unseal, is_id, read_items
from genai_wire_openai.responses.tools import Item, Tools, read_tools
from genai_wire_openai.shared import drop_unsent

_REFUSED: Mapping[str, tuple[Any, str]] = {
    "background": (False, "background responses are not available: stream them"),
    "background_options": (None, "background responses are not available: stream them"),
    "prompt": (None, "prompt templates are not available: send instructions and input"),
    "top_logprobs": (0, "log probabilities are not available"),
    "moderation": (None, "responses are not moderated"),
}
"""Unsupported fields: the only accepted value besides null, and the reason."""

_NOTHING_WISHED: Sequence[Any] = (None, [], "disabled")  # of `truncation` and similar fields

_NEUTRAL = frozenset({
    "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "safety_identifier",
    "service_tier", "user",
})  # fmt: skip
"""Fields that mean nothing to services of other formats."""
OF_FORMAT: Mapping[str, Any] = {
    "max_tool_calls": None,
    "service_tier": "default",
    "truncation": "disabled",
}
"""Fields that only services of this format have, with the value in a response without them."""
_READ = frozenset({
    "conversation", "frequency_penalty", "include", "input", "instructions", "max_output_tokens",
    "max_tool_calls", "metadata", "model", "parallel_tool_calls", "presence_penalty",
    "previous_response_id", "reasoning", "store", "stream", "stream_options", "temperature",
    "text", "tool_choice", "tools", "top_p",
})  # fmt: skip
_PENALTIES = ("presence_penalty", "frequency_penalty")
_PLACES = {"schema": ("text", "format"), "stream": ("stream_options",)}
"""Objects that are only sent for models with a capability."""
_OF_SCHEMA = ("description", "name", "schema", "strict")
"""Fields of a format with a schema."""
_LOGPROBS = "message.output_text.logprobs"
_ENCRYPTED = "reasoning.encrypted_content"
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_SUMMARIES = ("auto", "concise", "detailed")
_VERBOSITIES = ("low", "medium", "high")
_TIERS = ("auto", "default", "flex", "scale", "priority", "fast", "ultrafast")


@frozen(kw_only=True)
class ResponsesRequest:
    """A request.

    Attributes:
        model: Name of the model; None for the default.
        input: Items; references are not resolved.
        previous_items: Items of previous requests.
        conversation: Id of the conversation.
        schema: JSON Schema of the answer; None for text.
        parameters: Model parameters, by the host's names.
        store: Whether to store the response; None if not given.
        encrypted: Whether to include sealed reasoning.
        repeated: Fields of the request that the response repeats.
        dropped: Paths of fields that are ignored.
    """

    model: str | None
    input: Sequence[Item]
    previous_items: Sequence[Item]
    instructions: str | None
    conversation: str | None
    tools: Tools
    schema: Mapping[str, Any] | None
    parameters: Mapping[str, Any]
    store: bool | None
    stream: bool
    encrypted: bool
    repeated: Mapping[str, Any]
    dropped: DroppedFields


FindPrevious = Callable[[str | None, str | None], Sequence[Item]]
"""Returns the previous items, for the id of the previous response and that of the conversation."""


def _nothing_before(previous: str | None, conversation: str | None) -> Sequence[Item]:
    return ()


def read_request(
    given: Fields,
    unseal: Unseal,
    find_previous: FindPrevious = _nothing_before,
    capabilities_of: Callable[[], Collection[str]] = frozenset,
) -> ResponsesRequest:
    """Read a request. The tools of previous items are offered as well. `capabilities_of` returns
    the capabilities of the model; it is called for unknown fields. Raises `ValidationError`, and
    `PreviousNotFound` if the id of the previous response is malformed."""
    _refuse(given)
    items = read_items(given, "input", unseal)
    previous, conversation = _read_ids(given)
    previous_items = find_previous(previous, conversation)
    tools = read_tools(given, items, previous_items)
    schema, text = _read_text(given)
    effort, summary = _read_reasoning(given)
    parallel = given.flag("parallel_tool_calls")
    included = _read_include(given)
    penalties = {name: given.number(name, -2, 2) for name in _PENALTIES}
    parameters: dict[str, Any] = {
        "temperature": given.number("temperature", 0, 2),
        "top_p": given.number("top_p", 0, 1),
        "max_tokens": given.whole("max_output_tokens", 1),
        "reasoning_effort": effort,
        "reasoning_summary": summary,
        # the default is not sent, because some models do not support it
        "verbosity": None if text["verbosity"] == "medium" else text["verbosity"],
        "parallel_tool_calls": False if parallel is False and tools.offered else None,
        "include": [each for each in included if each != _ENCRYPTED] or None,
        "max_tool_calls": given.whole("max_tool_calls", 0),
        **{name: value or None for name, value in penalties.items()},
    }
    given.read.update(given.value.keys() - _NEUTRAL - {*_left_out(given)})
    if given.value.get("service_tier") in DEFAULT_TIERS:
        given.raw("service_tier")
    stream = bool(given.flag("stream"))
    options = given.object("stream_options")
    if options is not None and not stream:
        options.drop_others()  # services refuse them
    unknown = given.extra_fields(*_NEUTRAL)
    extra: dict[str, Any] = {}
    if unknown:
        extra = dict(unknown[NAME])
        drop_unsent(given, extra, _PLACES, capabilities_of())
        parameters[EXTRA_BODY] = extra
    instructions = given.text_or_none("instructions")
    repeated = {
        "instructions": instructions,
        "max_output_tokens": parameters["max_tokens"],
        "metadata": read_metadata(given),
        "parallel_tool_calls": parallel is not False,
        "previous_response_id": previous,
        "conversation": {"id": conversation} if conversation else None,
        "reasoning": {"effort": effort, "summary": summary},
        "temperature": _or_default(parameters["temperature"], 1.0),
        "text": {name: value for name, value in text.items() if value is not None},
        "tool_choice": tools.chosen,
        "tools": tools.repeated,
        "top_p": _or_default(parameters["top_p"], 1.0),
        **{name: _or_default(value, 0.0) for name, value in penalties.items()},
        **_read_neutral(given),
        **{name: {**parameters, **extra}.get(name, usual) for name, usual in OF_FORMAT.items()},
    }
    return ResponsesRequest(
        model=given.text_or_none("model"),
        input=items,
        previous_items=previous_items,
        instructions=instructions,
        conversation=conversation,
        tools=tools,
        schema=schema,
        parameters={name: value for name, value in parameters.items() if value is not None},
        store=given.flag("store"),
        stream=stream,
        encrypted=_ENCRYPTED in included,
        repeated=repeated,
        dropped=given.dropped,
    )


def _refuse(given: Fields) -> None:
    for name, value in given.value.items():
        path = given.at(name)
        if name in _REFUSED:
            neutral, why = _REFUSED[name]
            if value is not None and (type(value) is not type(neutral) or value != neutral):
                raise UnsupportedParameter(f"{name} is not supported: {why}", path=path)


def _left_out(given: Fields) -> list[str]:
    """Names of unsupported and unknown fields that are ignored."""
    known = _READ | _NEUTRAL | _REFUSED.keys()
    return [
        name
        for name, value in given.value.items()
        if name not in known and value not in _NOTHING_WISHED
    ]


def _or_default(value: float | None, default: float) -> float:
    """The value that the response repeats; clients may require a number."""
    return default if value is None else value


def _read_neutral(given: Fields) -> dict[str, str | None]:
    """Fields that do not change the answer, for the response."""
    given.mapping("prompt_cache_options")
    given.choice("service_tier", _TIERS)
    given.choice("prompt_cache_retention", ("in_memory", "in-memory", "24h"))
    user = {"user": given.text("user")} if "user" in given else {}
    names = ("prompt_cache_key", "safety_identifier")
    return {**{name: given.text_or_none(name) for name in names}, **user}


def read_metadata(given: Fields) -> dict[str, str]:
    """Read metadata: at most 16 strings of up to 512 characters, with names of up to 64."""
    values = dict(given.mapping("metadata") or {})
    if len(values) > 16:
        raise given.must_be("metadata", "of at most 16 entries")
    for name, value in values.items():
        if len(name) > 64 or not isinstance(value, str) or len(value) > 512:
            raise given.must_be(
                "metadata", "of strings: names of up to 64 characters, values of up to 512"
            )
    return values


def reads_encrypted(given: Fields) -> bool:
    """Whether `include` has sealed reasoning."""
    return _ENCRYPTED in _read_include(given)


def _read_include(given: Fields) -> Sequence[str]:
    included = given.texts("include")
    if _LOGPROBS in included:
        path = f"{given.at('include')}[{included.index(_LOGPROBS)}]"
        raise UnsupportedParameter("log probabilities are not available", path=path)
    return included


def _read_ids(given: Fields) -> tuple[str | None, str | None]:
    """The ids of the previous response and of the conversation."""
    previous = given.text_or_none("previous_response_id")
    if isinstance(given.raw("conversation"), dict):
        inner = given.object("conversation")
        conversation = None if inner is None else inner.needed("id")
        if inner is not None:
            inner.drop_others()
    else:
        conversation = given.text_or_none("conversation")
    if previous is not None and conversation is not None:
        raise ValidationError(
            "give either previous_response_id or conversation", path=given.at("conversation")
        )
    if previous is not None and not is_id(previous):
        raise PreviousNotFound("unknown response")
    return previous, conversation


def _read_reasoning(given: Fields) -> tuple[str | None, str | None]:
    """The reasoning effort and the type of summary."""
    reasoning = given.object("reasoning")
    if reasoning is None:
        return None, None
    summary = reasoning.choice("summary", _SUMMARIES)
    older = reasoning.choice("generate_summary", _SUMMARIES)
    effort = reasoning.choice("effort", _EFFORTS)
    return effort or None, summary or older or None


def _read_text(given: Fields) -> tuple[Mapping[str, Any] | None, dict[str, Any]]:
    """The schema of the answer, and `text` for the response."""
    text = given.object("text") or Fields({}, given.at("text"))
    repeated: dict[str, Any] = {
        "format": {"type": "text"},
        "verbosity": text.choice("verbosity", _VERBOSITIES) or None,
    }
    form = text.object("format")
    if form is None:
        return None, repeated
    kind = form.choice("type", ("text", "json_object", "json_schema"))
    if not kind:
        raise MissingParameter("type is missing", path=form.at("type"))
    repeated["format"] = {"type": kind}
    if kind == "text":
        form.drop_others()  # the object is not sent
        return None, repeated
    if kind == "json_object":
        form.drop(*_OF_SCHEMA)  # it may be sent as `json_schema`
        return {"type": "object"}, repeated
    schema = form.mapping("schema")
    if schema is None:
        raise MissingParameter("schema is missing", path=form.at("schema"))
    check_schema(schema, form.at("schema"))
    more = {"description": form.text_or_none("description"), "strict": form.flag("strict")}
    repeated["format"].update(
        {"name": form.needed("name"), "schema": schema},
        **{name: value for name, value in more.items() if value is not None},
    )
    schema = named_schema(form.needed("name"), schema)
    if schema == {"type": "object"}:
        form.drop_others()  # it may be sent as `json_object`
    return schema, repeated
