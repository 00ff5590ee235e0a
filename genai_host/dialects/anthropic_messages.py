"""Anthropic's messages, which its own service, clouds, gateways and servers speak.

Source: Claude API reference, "Create a Message", and the guides to thinking, effort, tool
use, prompt caching and structured outputs, as of November 2026.

What the model thought, signed, is kept as an opaque part and sent back as it came;
reasoning in words, and opaque parts of other dialects, are left out of what is sent.
`anthropic_replies` reads what comes back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from genai_host.api import (
    ChatCall,
    Completion,
    Decoder,
    Dialect,
    ProviderReply,
    ProviderRequest,
    Serve,
    standard,
)
from genai_host.api.closed_schema import asked_in_words, held_form
from genai_host.api.json_text import write_json
from genai_host.dialects.anthropic_form import (
    wire_choice,
    wire_messages,
    wire_system,
    wire_tool,
)
from genai_host.dialects.anthropic_replies import (
    NAME,
    MessageDecoder,
    explain_error,
    read_message,
    read_object,
)
from genai_host.errors import GenaiError, InvalidParameter

_PLACED = frozenset(
    {
        "max_tokens", "parallel_tool_calls", "prompt_cache", "reasoning_effort", "stop",
        "thinking_budget", "thinking_display",
    }
)  # fmt: skip
"""The parameters that have another place than their own name."""


class AnthropicMessages(Dialect[ChatCall, Completion]):
    """variant:

    max_tokens       the most tokens of an answer where nobody says: the format asks for it
    thinking         how a model is told to think: `adaptive`, as much as its effort asks
                     for, or `budget`, which `thinking_budget` alone does
    no_thinking      how one is told not to think, `disabled` or `between_tools`
    bound_thinking   whether a model's thoughts are of use only as long as what came before
                     them is what it was
    stale_thinking   what becomes of such thoughts then: `drop_block`; empty to leave it to
                     the service, which may refuse them
    cache            where the cache is asked for: `request`, or `blocks` for services that
                     know no field of the request for it
    """

    name = NAME
    endpoint = Serve(path="/v1/messages")
    capabilities = frozenset({"stream", "tools", "schema", "images", "files", "reasoning"})
    parameters = {
        **standard("temperature", "top_p", "top_k", "max_tokens", "stop"),
        "temperature": {**standard("temperature")["temperature"], "maximum": 1},
        "parallel_tool_calls": {
            "type": "boolean",
            "description": "whether the model may ask for several tools at once",
        },
        "reasoning_effort": {
            "type": "string",
            "enum": ["none", "low", "medium", "high", "xhigh", "max"],
            "description": "how much the model thinks, and says",
        },
        "thinking_budget": {
            "type": "integer",
            "minimum": 1024,
            "description": "tokens that the model may think for, where it does not decide itself",
        },
        "thinking_display": {
            "type": "string",
            "enum": ["summarized", "omitted"],
            "description": "whether to show what the model thinks",
        },
        "prompt_cache": {
            "type": "string",
            "enum": ["5m", "1h"],
            "description": "keep the prompt in the service's cache, and for how long",
        },
    }
    variant = {
        "max_tokens": 16_000,
        "thinking": "adaptive",
        "no_thinking": "disabled",
        "bound_thinking": False,
        "stale_thinking": "",
        "cache": "request",
    }

    def prepare_request(self, call: ChatCall) -> ProviderRequest:
        variant = {**self.variant, **call.variant}
        given = call.parameters
        thinking = _thinking(given, variant)
        schema = None if call.schema is None else held_form(call.schema)
        most = variant["max_tokens"] + thinking.get("budget_tokens", 0)
        body: dict[str, Any] = {
            "model": call.model_id,
            "max_tokens": given.get("max_tokens", most),
            **_said(call, schema is not None, variant["cache"]),
        }
        choice = wire_choice(call.tool_choice, given.get("parallel_tool_calls"))
        if call.tools and choice is not None:
            body["tool_choice"] = choice
        if "stop" in given:
            body["stop_sequences"] = given["stop"]
        body.update({name: value for name, value in given.items() if name not in _PLACED})
        if thinking:
            body["thinking"] = thinking
        output = _output(call, schema)
        if output:
            body["output_config"] = output
        if call.stream:
            body["stream"] = True
        return ProviderRequest("chat", self.name, call.model_id, body, call.stream)

    def extract_result(self, call: ChatCall, reply: ProviderReply) -> Completion:
        return read_message(read_object(reply.body))

    def decoder(self, call: ChatCall) -> Decoder[Completion]:
        return MessageDecoder()

    def explain_error(self, reply: ProviderReply) -> GenaiError | None:
        return explain_error(reply)


def _thinking(given: Mapping[str, Any], variant: Mapping[str, Any]) -> dict[str, Any]:
    """Whether the model is to think, and how. Raises `InvalidParameter` for what has no
    place there."""
    effort = given.get("reasoning_effort")
    budget, display = given.get("thinking_budget"), given.get("thinking_display")
    thinking: dict[str, Any] = {}
    if effort == "none":
        thinking = {"type": variant["no_thinking"]}
    elif budget is not None:
        thinking = {"type": "enabled", "budget_tokens": budget}
    elif variant["thinking"] == "adaptive" and (effort or display):
        thinking = {"type": "adaptive"}
    if effort == "none" or not thinking:
        for name in ("thinking_budget", "thinking_display"):
            if name in given:
                other = "reasoning_effort" if effort == "none" else "thinking_budget"
                raise InvalidParameter(
                    f"{name} says nothing where the model does not think",
                    parameter=name,
                    hint=f"{other} lets it",
                )
    if display is not None:
        thinking["display"] = display
    stale = variant["stale_thinking"] if variant["bound_thinking"] else ""
    if stale and thinking.get("type", "adaptive") == "adaptive":
        bound = {"prefix_mismatch_behavior": stale}
        return {"type": "adaptive", **thinking, "block_binding": bound}
    return thinking


def _said(call: ChatCall, is_held: bool, cache: str) -> dict[str, Any]:
    """What the system, the user and the model said, and the tools: what the service's cache
    can hold.

    is_held   whether the service itself holds the answer to a schema
    """
    system = wire_system(call.messages)
    if call.schema is not None and not is_held:
        system.append({"type": "text", "text": asked_in_words(call.schema)})
    tools = [wire_tool(tool) for tool in call.tools]
    said: dict[str, Any] = {}
    mark = b""
    if "prompt_cache" in call.parameters:
        control = {"type": "ephemeral", "ttl": call.parameters["prompt_cache"]}
        if cache == "request":
            said["cache_control"] = control
        else:
            mark = b'"cache_control":' + write_json(control)
            for last in (*system[-1:], *tools[-1:]):
                last["cache_control"] = control
    if system:
        is_plain = len(system) == 1 and not mark
        said["system"] = system[0]["text"] if is_plain else system
    said["messages"] = wire_messages(call, mark)
    if tools:
        said["tools"] = tools
    return said


def _output(call: ChatCall, schema: Mapping[str, Any] | None) -> dict[str, Any]:
    output: dict[str, Any] = {}
    effort = call.parameters.get("reasoning_effort")
    if effort not in (None, "none"):
        output["effort"] = effort
    if schema is not None:
        output["format"] = {"type": "json_schema", "schema": schema}
    return output
