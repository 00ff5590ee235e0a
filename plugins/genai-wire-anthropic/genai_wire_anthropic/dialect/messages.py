"""Anthropic's messages: requests and token counting.

Anthropic's own service, clouds, gateways and servers use this format. `replies` reads
the replies.

Source: Claude API reference, "Create a Message" and "Count tokens in a Message", and the guides to
thinking, effort, tool use, prompt caching and structured outputs, as of November 2026.

System texts are sent separately, wherever they are in the conversation. Consecutive messages of
one role become one message, as the service requires; tool results are sent in the role of the
user. The service refuses texts without a visible character, so they are left out.

Signed reasoning is stored as a `VendorPart` and sent back unchanged. Unsigned reasoning, and
vendor parts of other dialects, are not sent.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby, takewhile
from operator import ne
from typing import Any, Literal

from attrs import evolve

from genai_host.api import (
    ChatCall,
    Completion,
    CountDialect,
    Dialect,
    DialectEndpoint,
    EncodedJson,
    File,
    Image,
    Message,
    Part,
    ProviderReply,
    ProviderRequest,
    Reasoning,
    StreamDecoder,
    Text,
    ToolCall,
    ToolResult,
    VendorPart,
    VendorTool,
    asked_in_words,
    fitting_id,
    held_form,
    joined_extra,
    parameter,
    remember_each,
    standard_parameters,
    system_as_user,
    system_parts,
    unsupported,
    with_extra,
    write_json,
    write_long_json,
)
from genai_host.errors import GenaiError, InvalidParameter, UnsupportedPart
from genai_wire_anthropic.dialect.replies import (
    NAME,
    MessageDecoder,
    explain_error,
    read_message,
    read_object,
)
from genai_wire_anthropic.dialect.tools import (
    MARK,
    tool_of,
    wire_call,
    wire_choice,
    wire_tool,
    without_unknown,
)

ContentBlock = Mapping[str, Any]
_Encoded = tuple[Literal[b"", b"user", b"assistant"], bytes]

BETA = "anthropic-beta"
"""Header with the beta features that a request uses."""

_MIN_BUDGET = 1024
_MAX_MARKS = 4
_ID = re.compile(r"[a-zA-Z0-9_-]+", re.ASCII)
_TEXT_TYPES = ("text/", "application/json", "application/xml")


def wire_messages(call: ChatCall, mark: bytes = b"") -> list[EncodedJson]:
    """The messages of the user and the model. `mark` is a field to add to the last block, as
    `"name":value`."""
    encoded = remember_each(call.messages, NAME, _encoded)
    roles = [role for role, _ in encoded if role]
    if not mark and all(map(ne, roles, roles[1:])):  # the usual case
        return call.written(_WRITTEN, _write)
    nonempty = [
        (message, *each) for message, each in zip(call.messages, encoded, strict=True) if each[0]
    ]
    turns = [list(turn) for _, turn in groupby(nonempty, key=lambda each: each[1])]
    wires = [_turn([message for message, *_ in turn]) for turn in turns]
    if mark and turns:
        role = turns[-1][0][1]
        blocks = b",".join(blocks for *_, blocks in turns[-1])
        marked = blocks[:-1] + b"," + mark + b"}"  # ends with an object
        wires[-1] = _message(role, marked, [message for message, *_ in turns[-1]])
    return [EncodedJson(wire) for wire in wires]


def _turn(messages: list[Message]) -> bytes:
    """Consecutive messages of one role as one; a single message is encoded once and cached."""
    if len(messages) == 1:
        return messages[0].remember(_WRITTEN, _write)
    encoded = [message.remember(NAME, _encoded) for message in messages]
    return _message(encoded[0][0], b",".join(blocks for _, blocks in encoded), messages)


def _message(role: bytes, blocks: bytes, messages: Sequence[Message]) -> bytes:
    """A message, with the further fields of those it is made of."""
    wire = _MESSAGE % (role, blocks)
    extra = joined_extra(*messages)
    if extra is None or NAME not in extra:
        return wire
    further = {name: value for name, value in extra[NAME].items() if name not in _IN_MESSAGE}
    return wire[:-1] + b"," + write_json(further)[1:] if further else wire


_WRITTEN = (NAME, "message")
_IN_MESSAGE = ("role", "content")
_MESSAGE = b'{"role":"%b","content":[%b]}'
_TEXT_MESSAGE = b'{"role":"%b","content":%b}'


def _write(message: Message) -> bytes:
    role, blocks = message.remember(NAME, _encoded)
    text = message.plain_text
    if role and text is not None:  # in most cases
        return _TEXT_MESSAGE % (role, write_long_json(text))
    return _message(role, blocks, [message]) if role else b""


def _encoded(message: Message) -> _Encoded:
    """Role and blocks of a message; empty if it has no content in this format."""
    if message.role == "system":
        return b"", b""
    blocks = b",".join(write_long_json(block) for block in _blocks(message))
    if not blocks:
        return b"", b""
    return b"assistant" if message.role == "assistant" else b"user", blocks


def _blocks(message: Message) -> Iterator[ContentBlock]:
    citations: ContentBlock = {}
    for part in message.content:
        if isinstance(part, Reasoning) or (isinstance(part, VendorPart) and part.dialect != NAME):
            continue
        data = part.data if isinstance(part, VendorPart) else None
        # without a type, it belongs to the text that follows
        if isinstance(data, Mapping) and "citations" in data and "type" not in data:
            citations = {"citations": data["citations"]}
        elif isinstance(part, Text) and message.role != "tool":
            if _shows(part):
                yield with_extra({"type": "text", "text": part.text, **citations}, part, NAME)
            citations = {}
        else:
            yield with_extra(_block(part, message), part, NAME)


def _block(part: Part, message: Message) -> dict[str, Any]:
    role = message.role
    if role == "user" and isinstance(part, Image):
        return {"type": "image", "source": _source(part, "image/png")}
    if role == "user" and isinstance(part, File):
        return _document(part)
    if role == "assistant" and isinstance(part, ToolCall):
        return wire_call(part, wire_id(part.id))
    if role != "tool" and isinstance(part, VendorPart) and isinstance(part.data, Mapping):
        return dict(part.data)
    if role == "tool" and isinstance(part, ToolResult):
        return _tool_result(part)
    raise unsupported(part, f"in a message of role {role}", NAME)


def _document(file: File) -> dict[str, Any]:
    kind = file.media_type
    title = {"title": file.name} if file.name else {}
    if kind in ("", "application/pdf"):
        return {"type": "document", "source": _source(file, "application/pdf"), **title}
    if kind.startswith(_TEXT_TYPES) and not file.url:
        try:
            source = {"type": "text", "media_type": "text/plain", "data": file.data.decode()}
        except UnicodeDecodeError as error:
            raise UnsupportedPart(
                f"a document of type {kind} is not in UTF-8", part=file.type, dialect=NAME
            ) from error
        return {"type": "document", "source": source, **title}
    raise UnsupportedPart(
        f"{NAME} does not support a document of type {kind}{' with a URL' * bool(file.url)}",
        hint="supported: PDF and text",
        part=file.type,
        dialect=NAME,
    )


def _source(part: Image | File, usual_type: str) -> ContentBlock:
    if part.url:
        return {"type": "url", "url": part.url}
    data = base64.b64encode(part.data).decode()
    return {"type": "base64", "media_type": part.media_type or usual_type, "data": data}


def _tool_result(result: ToolResult) -> dict[str, Any]:
    parts = [part for part in result.content if not isinstance(part, Text) or _shows(part)]
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": wire_id(result.id)}
    if len(parts) == 1 and isinstance(parts[0], Text) and parts[0].extra is None:
        block["content"] = parts[0].text
    elif parts:
        block["content"] = [with_extra(_block_of_result(part), part, NAME) for part in parts]
    if result.error:
        block["is_error"] = True
    return block


def _block_of_result(part: Text | Image) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    return {"type": "image", "source": _source(part, "image/png")}


def _shows(text: Text) -> bool:
    return bool(text.text.strip())


def wire_id(id: str) -> str:
    return fitting_id(id, _ID)


def wire_system(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """The system messages as blocks."""
    return [
        with_extra({"type": "text", "text": part.text}, part, NAME)
        for part in system_parts(messages, NAME)
        if _shows(part)
    ]


_PLACED = frozenset(
    {
        "betas", "max_tokens", "parallel_tool_calls", "prompt_cache", "reasoning_effort", "stop",
        "thinking_budget", "thinking_display",
    }
)  # fmt: skip
"""Parameters that are not top-level fields of the same name."""


class AnthropicMessages(Dialect[ChatCall, Completion]):
    """Anthropic's messages.

    `variant` has these options:

    - `max_tokens`: default maximum of output tokens, which the format requires
    - `thinking`: how reasoning is requested: `adaptive`, controlled by the effort, or `budget`,
      controlled by `thinking_budget`
    - `no_thinking`: how reasoning is disabled: `disabled` or `between_tools`
    - `bound_thinking`: whether reasoning is valid only as long as the messages before it are
      unchanged
    - `stale_thinking`: what to do with invalid reasoning: `drop_block`; empty to leave it to the
      service, which may refuse it
    - `cache`: where caching is requested: in the `request`, or in `blocks` for services without
      such a field
    - `unknown_fields`: whether the service receives fields that the host does not know
    - `vendor_tools`: beginnings of the types of Anthropic's tools that the service has; others are
      not sent, nor are their blocks
    """

    name = NAME
    endpoint = DialectEndpoint(path="/v1/messages")
    price_parameters = frozenset({"service_tier", "speed"})
    reserved = frozenset({"messages", "model", "stream", "system", "tools"})
    extensible = frozenset({"tool_choice"})
    tool_names = re.compile(r"[a-zA-Z0-9_-]{1,128}")
    service_tools = {"web_search": {"type": "web_search_20250305", "name": "web_search"}}
    capabilities = frozenset({"stream", "tools", "schema", "images", "files", "reasoning"})
    parameters = {
        **standard_parameters(
            "temperature", "top_p", "top_k", "max_tokens", "stop", temperature={"maximum": 1}
        ),
        "parallel_tool_calls": parameter(
            "boolean", "whether the model may request several tool calls at once"
        ),
        "reasoning_effort": parameter(
            "string",
            "effort of the model in reasoning and answers",
            enum=["none", "low", "medium", "high", "xhigh", "max"],
        ),
        "thinking_budget": parameter(
            "integer",
            "maximum reasoning tokens, unless the model decides itself",
            minimum=_MIN_BUDGET,
        ),
        "thinking_display": parameter(
            "string", "whether to return the model's reasoning", enum=["summarized", "omitted"]
        ),
        "prompt_cache": parameter(
            "string", "how long the service caches the prompt", enum=["5m", "1h"]
        ),
        "betas": parameter(
            "array", "beta features of the service to use", items={"type": "string"}
        ),
    }
    variant = {
        "max_tokens": 16_000,
        "thinking": "adaptive",
        "no_thinking": "disabled",
        "bound_thinking": False,
        "stale_thinking": "",
        "cache": "request",
        "unknown_fields": True,
        "vendor_tools": [""],
    }

    def prepare_request(self, call: ChatCall) -> ProviderRequest:
        call = system_as_user(call, self.name)
        variant = {**self.variant, **call.variant}
        is_lesser, types = not variant["unknown_fields"], variant["vendor_tools"]
        if is_lesser or types != self.variant["vendor_tools"]:
            key, fit = (NAME, is_lesser, *types), partial(self._fitting, variant=variant)
            tools = [without_unknown(tool) for tool in call.tools] if is_lesser else call.tools
            call = evolve(call, messages=remember_each(call.messages, key, fit), tools=tools)
        given = call.parameters
        thinking = _thinking(call, variant)
        schema = None if call.schema is None else held_form(call.schema)
        most = variant["max_tokens"] + thinking.get("budget_tokens", 0)
        body: dict[str, Any] = {
            "model": call.model_id,
            "max_tokens": given.get("max_tokens", most),
            **_cacheable_fields(call, schema is not None, variant["cache"]),
        }
        choice = wire_choice(call.tool_choice, given.get("parallel_tool_calls"))
        if call.tools and choice is not None:
            body["tool_choice"] = choice
        if "stop" in given:
            body["stop_sequences"] = given["stop"]
        body.update({name: value for name, value in given.items() if name not in _PLACED})
        if thinking:
            body["thinking"] = thinking
        output: dict[str, Any] = {}
        if given.get("reasoning_effort", "none") != "none":
            output["effort"] = given["reasoning_effort"]
        if schema is not None:
            output["format"] = {"type": "json_schema", "schema": schema}
        if output:
            body["output_config"] = output
        if call.stream:
            body["stream"] = True
        headers = {BETA: ",".join(given["betas"])} if given.get("betas") else {}
        return ProviderRequest("chat", self.name, call.model_id, body, call.stream, headers)

    def extract_result(self, call: ChatCall, reply: ProviderReply) -> Completion:
        return read_message(read_object(reply.body, "content"))

    def decoder(self, call: ChatCall) -> StreamDecoder[Completion]:
        return MessageDecoder()

    def map_error(self, reply: ProviderReply) -> GenaiError | None:
        return explain_error(reply)

    def sends(self, given: VendorTool | VendorPart | None, variant: Mapping[str, Any]) -> bool:
        variant = {**self.variant, **variant}
        if given is None:
            return bool(variant["unknown_fields"])
        tool, types = tool_of(given), variant["vendor_tools"]
        return super().sends(given, variant) and (not tool or tool.startswith(tuple(types)))

    def _fitting(self, message: Message, variant: Mapping[str, Any]) -> Message:
        """The message without what the service does not have: blocks of tools, unknown fields."""
        content = [
            part
            for part in message.content
            if not isinstance(part, VendorPart) or self.sends(part, variant)
        ]
        if not variant["unknown_fields"]:
            return evolve(message, content=[*map(without_unknown, content)], extra=None)
        same = len(content) == len(message.content)
        return message if same else evolve(message, content=content)


def _thinking(call: ChatCall, variant: Mapping[str, Any]) -> dict[str, Any]:
    """The field `thinking`. Raises `InvalidParameter` for parameters that it cannot express."""
    given = call.parameters
    effort = given.get("reasoning_effort")
    budget, display = _budget(call), given.get("thinking_display")
    thinking: dict[str, Any] = {}
    if effort == "none":
        thinking = {"type": variant["no_thinking"]}
    elif budget:
        thinking = {"type": "enabled", "budget_tokens": budget}
    elif variant["thinking"] == "adaptive" and (effort or display):
        thinking = {"type": "adaptive"}
    elif budget is not None:
        return {}
    if effort == "none" or not thinking:
        for name in ("thinking_budget", "thinking_display"):
            if name in given:
                other = "reasoning_effort" if effort == "none" else "thinking_budget"
                raise InvalidParameter(
                    f"{name} has no effect without reasoning",
                    parameter=name,
                    hint=f"enable it with {other}",
                )
    if display is not None:
        thinking["display"] = display
    stale = variant["stale_thinking"] if variant["bound_thinking"] else ""
    if stale and thinking.get("type", "adaptive") == "adaptive":
        bound = {"prefix_mismatch_behavior": stale}
        return {"type": "adaptive", **thinking, "block_binding": bound}
    return thinking


def _budget(call: ChatCall) -> int | None:
    """The reasoning budget that the service accepts; 0 if it accepts none, None if none is wanted.

    It must be below `max_tokens`, except with interleaved thinking, and a turn that began without
    signed reasoning cannot continue with it: clients of other formats do not return it."""
    given = call.parameters
    budget: int | None = given.get("thinking_budget")
    if budget is None:
        return None
    if not any(name.startswith("interleaved-thinking") for name in given.get("betas", ())):
        budget = min(budget, given.get("max_tokens", budget + 1) - 1)
    return 0 if budget < _MIN_BUDGET or _began_without_thoughts(call.messages) else budget


def _began_without_thoughts(messages: Sequence[Message]) -> bool:
    """Whether the last messages are results of tools, in a turn of the model that does not begin
    with signed reasoning."""
    before = [message for message in messages if message.role != "system"]
    while before and before[-1].role == "user":
        before.pop()
    if not before or before[-1].role == "assistant":
        return False
    turn = [*takewhile(lambda message: message.role != "user", reversed(before))]
    blocks = (block for message in reversed(turn) for block in _blocks(message))
    return next(blocks, {}).get("type") not in ("thinking", "redacted_thinking")


def _cacheable_fields(call: ChatCall, is_held: bool, cache: str) -> dict[str, Any]:
    """System, messages and tools: the part of the request that the service can cache, as the
    variant `cache`. `is_held` is whether the service enforces the schema."""
    system = wire_system(call.messages)
    if call.schema is not None and not is_held:
        system.append({"type": "text", "text": asked_in_words(call.schema)})
    tools = [wire_tool(tool) for tool in call.tools]
    fields: dict[str, Any] = {}
    mark = b""
    lifetime = call.parameters.get("prompt_cache")
    if lifetime is not None and _has_room_for_mark(call, lifetime, cache):
        control = {"type": "ephemeral", "ttl": lifetime}
        if cache == "request":
            fields[MARK] = control
        else:
            mark = b'"cache_control":' + write_json(control)
            for last in (*system[-1:], *tools[-1:]):
                last[MARK] = control
    if system:
        is_plain = len(system) == 1 and len(system[0]) == len(("type", "text"))
        fields["system"] = system[0]["text"] if is_plain else system
    fields["messages"] = wire_messages(call, mark)
    if tools:
        fields["tools"] = tools
    return fields


def _has_room_for_mark(call: ChatCall, lifetime: str, cache: str) -> bool:
    """Whether the cache of a parameter fits beside the blocks and tools that a client has marked: a
    service accepts at most four marks, and no longer lifetime after a shorter one."""
    extras = [tool.extra for tool in call.tools]
    extras += [part.extra for message in call.messages for part in message.content]
    marks = sum(MARK in extra.get(NAME, {}) for extra in extras if extra is not None)
    return not marks or (cache == "request" and marks < _MAX_MARKS and lifetime == "5m")


_COUNTED = (
    "betas", "parallel_tool_calls", "prompt_cache", "reasoning_effort", "thinking_budget",
    "thinking_display",
)  # fmt: skip


class AnthropicCount(CountDialect):
    name = "anthropic-count"
    of = AnthropicMessages
    endpoint = DialectEndpoint(path="/v1/messages/count_tokens")
    parameters = {name: AnthropicMessages.parameters[name] for name in _COUNTED}
    variant = AnthropicMessages.variant
    fields = frozenset(
        {
            "cache_control", "messages", "model", "output_config", "system", "thinking",
            "tool_choice", "tools",
        }
    )  # fmt: skip
    tokens = "input_tokens"
