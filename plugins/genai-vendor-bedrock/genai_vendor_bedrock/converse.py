"""The dialect `bedrock-converse`: one format for every model on Amazon Bedrock.

Source: Amazon Bedrock API reference, "Converse", "ConverseStream" and "CountTokens", and the guide,
"Prompt caching" and "Get validated JSON results from models", as of November 2026.

Signed reasoning is stored as an opaque part and sent back unchanged. Unsigned reasoning and opaque
parts of other dialects are not sent. `replies` reads the replies.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from attrs import evolve

from genai_host.api import (
    ChatCall,
    Completion,
    CountDialect,
    Dialect,
    DialectEndpoint,
    EncodedJson,
    ProviderReply,
    ProviderRequest,
    StreamDecoder,
    ToolSchema,
    asked_in_words,
    held_form,
    parameter,
    read_reply,
    standard_parameters,
    system_as_user,
    write_json,
)
from genai_host.errors import GenaiError, InvalidParameter
from genai_vendor_bedrock.failures import error_in, explain_error
from genai_vendor_bedrock.form import (
    NAME,
    tools_before,
    wire_choice,
    wire_messages,
    wire_system,
    wire_tool,
)

_ANSWER = "answer"
_INFERENCE: Mapping[str, str] = {
    "max_tokens": "maxTokens",
    "temperature": "temperature",
    "top_p": "topP",
    "stop": "stopSequences",
}
_NO_TOOLS = "No tools can be used now: answer without them."


class BedrockConverse(Dialect[ChatCall, Completion]):
    """Dialect for `Converse`. Variant:
    - `schema`: how a schema is enforced: `format`, by the service; `tool`, as the arguments of a
      required tool
    - `effort`: field of the reasoning effort: `output_config`, or one of the model's own fields,
      `reasoning_effort` or `reasoning_config`
    - `streamed_tools`: whether a model supports tool calls in a stream; otherwise the answer is not
      streamed
    - `cached_tools`: whether the cache includes tools
    """

    name = NAME
    endpoint = DialectEndpoint(
        path="/model/{model}/converse", stream_path="/model/{model}/converse-stream"
    )
    capabilities = frozenset({"stream", "tools", "schema", "images", "files", "reasoning"})
    parameters = {
        **standard_parameters(
            "temperature", "top_p", "max_tokens", "stop", temperature={"maximum": 1}
        ),
        "reasoning_effort": parameter(
            "string", "reasoning effort", enum=["low", "medium", "high", "xhigh", "max"]
        ),
        "prompt_cache": parameter(
            "string", "cache the prompt, and for how long", enum=["5m", "1h"]
        ),
        "guardrail": parameter(
            "object",
            "guardrail to apply",
            properties={
                "guardrailIdentifier": {"type": "string"},
                "guardrailVersion": {"type": "string"},
                "trace": {"type": "string"},
            },
            required=["guardrailIdentifier", "guardrailVersion"],
        ),
        "service_tier": parameter(
            "string",
            "service tier, which determines latency and price",
            enum=["default", "priority", "flex", "reserved"],
        ),
        "additional_fields": parameter(
            "object", "model-specific fields, by the names of its vendor"
        ),
    }
    price_parameters = frozenset({"service_tier"})
    reserved = frozenset({"messages", "system", "toolConfig"})
    tool_names = re.compile(r"[a-zA-Z0-9_-]{1,64}")
    variant = {
        "schema": "format",
        "effort": "output_config",
        "streamed_tools": True,
        "cached_tools": True,
    }

    def prepare_request(self, call: ChatCall) -> ProviderRequest:
        call = system_as_user(call, self.name)
        variant = {**self.variant, **call.variant}
        given = call.parameters
        system = wire_system(call.messages)
        output: dict[str, Any] = {}
        tools, choice = [*call.tools], call.tool_choice
        schema = None if call.schema is None else held_form(call.schema)
        if _answers_by_tool(call, variant):
            tools = [ToolSchema(_ANSWER, "gives the answer", call.schema or {})]
            choice = _ANSWER
        elif schema is not None and variant["schema"] == "format":
            form = {"name": _ANSWER, "schema": write_json(schema).decode()}
            output["textFormat"] = {"type": "json_schema", "structure": {"jsonSchema": form}}
        elif call.schema is not None:
            system.append({"text": asked_in_words(call.schema)})
        if not tools or choice == "none":
            if before := tools_before(call):
                system.append({"text": _NO_TOOLS})
                names = {tool.name for tool in call.tools}
                before = [*call.tools, *(tool for tool in before if tool.name not in names)]
            tools = before
        own_fields = dict(given.get("additional_fields", {}))
        _put_effort(given.get("reasoning_effort"), variant["effort"], output, own_fields)
        mark = _cache_point(given.get("prompt_cache"))
        body: dict[str, Any] = {"messages": wire_messages(call.messages, mark)}
        if system:
            body["system"] = system if mark is None else [*system, mark]
        if tools:
            body["toolConfig"] = _tool_config(
                tools, choice, mark if variant["cached_tools"] else None
            )
        inference = {wire: given[name] for name, wire in _INFERENCE.items() if name in given}
        further = {
            "inferenceConfig": inference,
            "outputConfig": output,
            "additionalModelRequestFields": own_fields,
            "guardrailConfig": given.get("guardrail"),
        }
        body.update({name: value for name, value in further.items() if value})
        if "service_tier" in given:
            body["serviceTier"] = {"type": given["service_tier"]}
        streamed = call.stream and (variant["streamed_tools"] or not tools)
        return ProviderRequest("chat", self.name, call.model_id, body, streamed)

    def extract_result(self, call: ChatCall, reply: ProviderReply) -> Completion:
        data = read_reply(reply.body, error_in, ("output",))
        from genai_vendor_bedrock.replies import read_completion

        return read_completion(data, self._answer_tool(call))

    def decoder(self, call: ChatCall) -> StreamDecoder[Completion]:
        from genai_vendor_bedrock.replies import ConverseDecoder

        return ConverseDecoder(self._answer_tool(call))

    def map_error(self, reply: ProviderReply) -> GenaiError | None:
        return explain_error(reply)

    def _answer_tool(self, call: ChatCall) -> str:
        """Return the name of the tool whose arguments are the answer; empty if there is none."""
        return _ANSWER if _answers_by_tool(call, {**self.variant, **call.variant}) else ""


def _answers_by_tool(call: ChatCall, variant: Mapping[str, Any]) -> bool:
    """Whether the answer is a tool call; impossible together with other tools."""
    is_object = call.schema is not None and call.schema.get("type") == "object"
    return is_object and not call.tools and variant["schema"] == "tool"


def _put_effort(
    effort: str | None, place: str, output: dict[str, Any], own_fields: dict[str, Any]
) -> None:
    """Add the reasoning effort to its field; raises `InvalidParameter` for an unsupported one."""
    if effort is None:
        return
    if effort == "none":
        raise InvalidParameter(
            f"reasoning_effort: {NAME} does not support none",
            parameter="reasoning_effort",
            hint="use additional_fields for parameters of this model",
        )
    if place == "output_config":
        output["effort"] = effort
    elif place == "reasoning_config":
        own_fields["reasoningConfig"] = {"type": "enabled", "maxReasoningEffort": effort}
    else:
        own_fields["reasoning_effort"] = effort


def _cache_point(ttl: str | None) -> dict[str, Any] | None:
    """Return a cache point, without the default of five minutes, which some models reject."""
    if ttl is None:
        return None
    return {"cachePoint": {"type": "default", **({} if ttl == "5m" else {"ttl": ttl})}}


def _tool_config(
    tools: list[ToolSchema], choice: str | None, mark: Mapping[str, Any] | None
) -> dict[str, Any]:
    wire = [wire_tool(tool) for tool in tools]
    chosen = wire_choice(choice)
    return {
        "tools": wire if mark is None else [*wire, mark],
        **({} if chosen is None else {"toolChoice": chosen}),
    }


_PROFILE = re.compile(r"(global|us-gov|us|eu|apac|jp|au|ca|in)\.(?=[^.]+\.)", re.ASCII)


class BedrockCount(CountDialect):
    """Dialect for `CountTokens`. Counts are per model and do not support inference profiles, so the
    prefix of a profile is removed from the id.
    """

    name = "bedrock-count"
    of = BedrockConverse
    endpoint = DialectEndpoint(path="/model/{model}/count-tokens")
    parameters = {
        name: BedrockConverse.parameters[name] for name in ("additional_fields", "prompt_cache")
    }
    variant = BedrockConverse.variant
    fields = frozenset({"additionalModelRequestFields", "messages", "system", "toolConfig"})
    tokens = "inputTokens"

    def prepare_request(self, call: ChatCall) -> ProviderRequest:
        request = super().prepare_request(call)
        asked = EncodedJson(b'{"converse":' + request.data() + b"}")
        return evolve(request, model_id=_PROFILE.sub("", call.model_id), body={"input": asked})
