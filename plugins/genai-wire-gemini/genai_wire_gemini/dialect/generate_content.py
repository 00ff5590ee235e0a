"""The dialect `gemini`: `generateContent` and `countTokens`, of the Gemini API and of Vertex AI.

Source: Gemini API reference, "Generating content", "Counting tokens", and the guides to function
calling, structured outputs, thinking and safety settings; google-genai 3.4 and "CountTokens" for
Vertex AI; all as of November 2026.
`contents` writes messages, `replies` reads the replies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    VendorTool,
    standard_parameters,
    with_extra,
)
from genai_host.errors import GenaiError
from genai_wire_gemini.dialect.contents import ServiceVariant, wire_contents, wire_system
from genai_wire_gemini.dialect.failures import explain_error
from genai_wire_gemini.dialect.replies import NAME, ReplyDecoder, read_completion

_CONFIGURED: Mapping[str, str] = {
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "max_tokens": "maxOutputTokens",
    "stop": "stopSequences",
    "seed": "seed",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
}
_MODES: Mapping[str, str] = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
_MOST_STOPS = 5


class GenerateContent(Dialect[ChatCall, Completion]):
    """Dialect for `generateContent`. Variant:
    - `unsigned_calls`: signature for tool calls from other models, which have none; newer models
      reject unsigned calls
    """

    name = NAME
    endpoint = DialectEndpoint(
        path="/models/{model}:generateContent",
        stream_path="/models/{model}:streamGenerateContent?alt=sse",
    )
    capabilities = frozenset({"stream", "tools", "schema", "images", "files", "reasoning"})
    parameters = {
        **standard_parameters(*_CONFIGURED),
        "stop": {**standard_parameters("stop")["stop"], "maxItems": _MOST_STOPS},
        "reasoning_effort": {
            "type": "string",
            "enum": ["minimal", "low", "medium", "high", "xhigh"],
            "description": "reasoning effort",
        },
        "thinking_budget": {
            "type": "integer",
            "minimum": -1,
            "description": "maximum number of reasoning tokens of an older model; -1 for automatic",
        },
        "include_thoughts": {
            "type": "boolean",
            "description": "include summaries of the reasoning",
        },
        "safety_settings": {
            "type": "object",
            "additionalProperties": {
                "enum": [
                    "BLOCK_LOW_AND_ABOVE", "BLOCK_MEDIUM_AND_ABOVE", "BLOCK_ONLY_HIGH",
                    "BLOCK_NONE", "OFF",
                ],
            },
            "description": "blocked content: threshold by HARM_CATEGORY_...",
        },
    }  # fmt: skip
    reserved = frozenset({"contents", "systemInstruction", "toolConfig", "tools"})
    variant = {"unsigned_calls": ""}

    def prepare_request(self, call: ChatCall) -> ProviderRequest:
        variant = {**self.variant, **call.variant}
        body: dict[str, Any] = {
            "contents": wire_contents(call, ServiceVariant(variant["unsigned_calls"]))
        }
        system = wire_system(call.messages)
        if system is not None:
            body["systemInstruction"] = system
        config = _wire_config(call)
        if config:
            body["generationConfig"] = config
        if call.tools:
            body["tools"] = _wire_tools(call.tools)
            if call.tool_choice is not None:
                choice = _wire_choice(call.tool_choice)
                body["toolConfig"] = {"functionCallingConfig": choice}
        safety = call.parameters.get("safety_settings")
        if safety is not None:
            body["safetySettings"] = [
                {"category": category, "threshold": threshold}
                for category, threshold in safety.items()
            ]
        return ProviderRequest("chat", self.name, call.model_id, body, call.stream)

    def extract_result(self, call: ChatCall, reply: ProviderReply) -> Completion:
        return read_completion(call, reply.body)

    def decoder(self, call: ChatCall) -> StreamDecoder[Completion]:
        return ReplyDecoder(call)

    def map_error(self, reply: ProviderReply) -> GenaiError | None:
        return explain_error(reply)


def _wire_config(call: ChatCall) -> dict[str, Any]:
    given = call.parameters
    config = {_CONFIGURED[name]: given[name] for name in given if name in _CONFIGURED}
    thinking: dict[str, Any] = {}
    if "include_thoughts" in given:
        thinking["includeThoughts"] = given["include_thoughts"]
    if "thinking_budget" in given:
        thinking["thinkingBudget"] = given["thinking_budget"]
    if "reasoning_effort" in given:
        thinking["thinkingLevel"] = given["reasoning_effort"].upper()
    if thinking:
        config["thinkingConfig"] = thinking
    if call.schema is not None:
        config["responseMimeType"] = "application/json"
        config["responseJsonSchema"] = call.schema
    return config


def _wire_tools(tools: Sequence[ToolSchema]) -> list[dict[str, Any]]:
    functions = [_wire_tool(tool) for tool in tools if not isinstance(tool, VendorTool)]
    wire: dict[str, Any] = {"functionDeclarations": functions} if functions else {}
    for tool in tools:
        if isinstance(tool, VendorTool):
            wire = with_extra(wire, tool, NAME)
    return [wire]


def _wire_tool(tool: ToolSchema) -> dict[str, Any]:
    schema = {"type": "object", "properties": {}, **tool.parameters}
    wire = {"name": tool.name, "description": tool.description, "parametersJsonSchema": schema}
    return with_extra(wire, tool, NAME)


def _wire_choice(choice: str) -> dict[str, Any]:
    if choice in _MODES:
        return {"mode": _MODES[choice]}
    return {"mode": "ANY", "allowedFunctionNames": [choice]}


class GeminiCountTokens(CountDialect):
    """Dialect for `countTokens`. Variant:
    - `wrapped`: whether the request contains a whole request for an answer, as in the Gemini API,
      or its fields, as in Vertex AI
    """

    name = "gemini-count"
    of = GenerateContent
    endpoint = DialectEndpoint(path="/models/{model}:countTokens")
    variant = {**GenerateContent.variant, "wrapped": True}
    fields = frozenset({"contents", "generationConfig", "systemInstruction", "tools"})
    tokens = "totalTokens"

    def prepare_request(self, call: ChatCall) -> ProviderRequest:
        request = super().prepare_request(call)
        if not {**self.variant, **call.variant}["wrapped"]:
            return request
        model = {"model": f"models/{call.model_id}"}
        whole = evolve(request, body={**model, **request.body})
        return evolve(request, body={"generateContentRequest": EncodedJson(whole.data())})
