"""Requests of Ollama's API: messages, options and names.

Source: Ollama's `docs/api.md`, "Generate a chat completion"; `docs/modelfile.mdx`, "Valid
Parameters and Values"; `api/types.go`, which has further options, and the ids of tool calls that
newer clients send. The client `ollama` 0.6 sends no ids: its results are matched to calls by the
names of the tools and their order.

A model name without a tag is the same as with the tag `latest`. Ollama ignores unknown options and
fields, and so does this module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from genai_host.api import (
    EXTRA_BODY,
    Image,
    JsonReader,
    Message,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    ToolSchema,
    bytes_of,
)
from genai_host.errors import ValidationError
from genai_host.serving import (
    Capabilities,
    Pairing,
    check_schema,
    each_once,
    merge_consecutive,
    offered_tool,
    part_of,
)
from genai_wire_ollama.dialect.operations import NAME

_DEFAULT_TAG = ":latest"


def model_in(body: JsonReader) -> tuple[str, str]:
    """Return the name as sent and the model name without tag. Raises `ValidationError`."""
    sent = body.text("model") or body.text("name")
    name = sent.removesuffix(_DEFAULT_TAG)
    if not name:
        raise ValidationError("model is required", path=body.at("model"))
    return sent, name


_ROLES = ("system", "user", "assistant", "tool")


def messages_in(body: JsonReader) -> list[Message]:
    """Read the messages, oldest first; consecutive results are merged. Raises `ValidationError`."""
    pairing = Pairing()
    messages = [_message(given, pairing) for given in body.objects("messages")]
    return merge_consecutive((message for message in messages if message.content), "tool")


def images_in(given: JsonReader) -> list[Image]:
    """Read images in base64. Raises `ValidationError`."""
    found = []
    for number, text in enumerate(given.texts("images")):
        path = f"{given.at('images')}[{number}]"
        part = part_of(bytes_of(text, path))
        if not isinstance(part, Image):
            raise ValidationError("not an image of a supported format", path=path)
        found.append(part)
    return found


def tools_in(body: JsonReader) -> list[ToolSchema]:
    """Read the tools. Raises `ValidationError`."""
    return each_once(map(_tool, body.objects("tools")), body.at("tools"))


def _message(given: JsonReader, pairing: Pairing) -> Message:
    role = given.choice("role", _ROLES)
    text = given.text("content")
    images = images_in(given)
    calls = list(_calls(given, pairing))
    thinking = given.text("thinking")
    if calls and role != "assistant":
        raise ValidationError(
            "only assistant messages can contain tool_calls", path=given.at("tool_calls")
        )
    if role == "tool":
        name = next(filter(None, map(given.text, ("tool_name", "name"))), "")
        id, name = pairing.result(given.text("tool_call_id"), name, given.path)
        extra = given.extra_fields("name")
        return Message("tool", [ToolResult(id, name, [Text(text), *images], extra=extra)])
    extra = given.extra_fields()
    if role == "assistant":
        if images:
            given.drop_elsewhere("images", Image)
        thoughts = [Reasoning(thinking)] if thinking else []
        content = [*thoughts, *_texts(text), *images, *calls]
        return Message("assistant", content, extra=extra)
    if role == "system" and images:
        raise ValidationError("system messages cannot contain images", path=given.at("images"))
    if role == "user":
        return Message("user", [*_texts(text), *images] or [Text("")], extra=extra)
    if role == "system":
        return Message("system", _texts(text), extra=extra)
    raise ValidationError("invalid or missing role", path=given.at("role"))


def _texts(text: str) -> list[Part]:
    return [Text(text)] if text else []


def _calls(given: JsonReader, pairing: Pairing) -> Iterator[ToolCall]:
    for call in given.objects("tool_calls"):
        function = call.object("function")
        name = "" if function is None else function.text("name")
        if function is None or not name:
            raise ValidationError("a tool call must have a function with a name", path=call.path)
        arguments = function.mapping("arguments") or {}
        function.raw("index")
        call.raw("type")
        id = pairing.call(call.text("id"), name)
        yield ToolCall(id, name, arguments, extra=call.extra_fields())


def _tool(given: JsonReader) -> ToolSchema:
    given.choice("type", ("function",))
    function = given.object("function")
    if function is None:
        raise ValidationError("function is missing", path=given.path)
    name, description = function.text("name"), function.text("description")
    parameters, path = function.mapping("parameters"), function.at("parameters")
    return offered_tool(name, description, parameters, path, extra=given.extra_fields())


_NUMBERS: Mapping[str, Any] = {
    "temperature": None,
    "top_p": 1,
    "min_p": 0,
    "typical_p": 1,
    "repeat_penalty": 1,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "tfs_z": 1,
}
"""Sampling options, with the value at which each has no effect."""
_WHOLE_NUMBERS: Mapping[str, Any] = {"top_k": 0, "seed": None, "repeat_last_n": 0, "mirostat": 0}
OF_THE_MACHINE = frozenset(
    {
        "num_ctx", "num_keep", "num_batch", "num_gpu", "main_gpu", "num_thread", "use_mmap",
        "draft_num_predict",
    }
)  # fmt: skip
"""Options for running a model locally; ignored for models without them."""
_LEVELS = ("low", "medium", "high", "max")
_EFFORTS = {True: "medium", False: "none"}
"""The efforts for switching thinking on and off, of models that have no switch."""


def parameters_in(body: JsonReader, taken: Mapping[str, Any]) -> dict[str, Any]:
    """Read the model parameters, by the host's names. Raises `ValidationError`."""
    options = body.object("options")
    if options is None:
        return {}
    found: dict[str, Any] = {name: options.number(name) for name in _NUMBERS}
    found.update({name: options.whole(name) for name in _WHOLE_NUMBERS})
    usual = {**_NUMBERS, **_WHOLE_NUMBERS}
    given = {
        name: value
        for name, value in found.items()
        if value is not None and (name in taken or value != usual[name])
    }
    if given.get("top_k") == 0:  # 0 means no limit
        del given["top_k"]
    most = options.whole("num_predict")
    if most is not None and most >= 0:  # a negative number means no limit
        given["max_tokens"] = most
    stop = options.texts("stop")
    if stop:
        given["stop"] = list(stop)
    machine = [name for name in OF_THE_MACHINE if name in options and name in taken]
    no_effect = [name for name, value in usual.items() if given.get(name) == value]
    given.update((name, options.raw(name)) for name in machine)
    paths = {name: options.at(name) for name in machine}
    body.dropped.parameters(paths | dict.fromkeys(no_effect, ""))
    return given


def thinking_in(body: JsonReader, can: Capabilities) -> tuple[bool, dict[str, Any]]:
    """Return whether to include reasoning, and the parameters that enable it. Raises
    `ValidationError`, also if the model does not support thinking."""
    think = body.raw("think")
    if think is None:
        return True, {}
    if not isinstance(think, bool) and think not in _LEVELS:
        raise body.wrong("think", f"neither true nor false nor one of {', '.join(_LEVELS)}")
    if think and "reasoning" not in can.capabilities:
        raise ValidationError("this model does not support thinking", path=body.at("think"))
    taken = can.parameters
    is_level = isinstance(think, str)
    hints = ("include_thoughts", *(() if is_level else ("reasoning_effort",)))
    body.dropped.parameters(dict.fromkeys(hints, ""))
    if "think" in taken:
        body.dropped.parameters({"think": body.at("think") if is_level else ""})
        return think is not False, {"think": think}
    found: dict[str, Any] = {}
    if think and "include_thoughts" in taken:
        found["include_thoughts"] = True
    effort = think if isinstance(think, str) else _EFFORTS[think]
    efforts = taken.get("reasoning_effort", {}).get("enum", ())
    if isinstance(think, str) or ("reasoning" in can.capabilities and effort in efforts):
        found["reasoning_effort"] = effort
    return think is not False, found


def schema_in(body: JsonReader) -> Mapping[str, Any] | None:
    """Return the JSON Schema of the answer; None for text. Raises `ValidationError`."""
    form = body.raw("format")
    if form in (None, ""):
        return None
    if form == "json":
        return {"type": "object"}
    if not isinstance(form, dict):
        raise ValidationError("format must be json or a JSON Schema", path=body.at("format"))
    check_schema(form, body.at("format"))
    return form


def refuse_what_is_not_done(body: JsonReader, *names: str) -> None:
    """Refuse unsupported fields; see `JsonReader.refuse`. Raises `ValidationError`."""
    body.refuse("logprobs", "top_logprobs", *names)


def drop_others(body: JsonReader) -> dict[str, Any]:
    """Ignore fields that were not read, unless the service has this format: then return the
    parameter with which they are sent. The provider manages memory."""
    for name in ("keep_alive", "truncate", "shift"):
        body.raw(name)
    extra = body.extra_fields()
    return {EXTRA_BODY: extra[NAME]} if extra else {}
