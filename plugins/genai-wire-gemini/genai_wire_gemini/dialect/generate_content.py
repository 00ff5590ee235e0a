"""The dialects `gemini` (`generateContent` and `countTokens`) and `gemini-embed`
(`batchEmbedContents`), of the Gemini API and of Vertex AI.

Source: Gemini API reference, "Generating content", "Counting tokens", "Embeddings", and the guides
to function calling, structured outputs, thinking and safety settings; google-genai 3.4 and
"CountTokens" for Vertex AI; all as of November 2026.
`contents` writes messages, `replies` reads the replies.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve

from genai_host.api import (
    ChatCall,
    Completion,
    CountDialect,
    Dialect,
    DialectEndpoint,
    EmbedCall,
    Embeddings,
    EncodedJson,
    ProviderReply,
    ProviderRequest,
    StreamDecoder,
    ToolSchema,
    VendorTool,
    must_be_vectors,
    objects_in,
    parameter,
    read_vector,
    standard_parameters,
    system_as_user,
    with_extra,
)
from genai_wire_gemini.dialect.contents import ServiceVariant, wire_contents, wire_system
from genai_wire_gemini.dialect.replies import (
    NAME,
    ReplyDecoder,
    WithErrors,
    read_completion,
    read_object,
    read_usage,
)

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
_THRESHOLD: Mapping[str, Any] = {
    "enum": [
        "BLOCK_LOW_AND_ABOVE", "BLOCK_MEDIUM_AND_ABOVE", "BLOCK_ONLY_HIGH", "BLOCK_NONE", "OFF",
    ],
}  # fmt: skip


class GenerateContent(WithErrors, Dialect[ChatCall, Completion]):
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
        **standard_parameters(*_CONFIGURED, stop={"maxItems": _MOST_STOPS}),
        "reasoning_effort": parameter(
            "string", "reasoning effort", enum=["minimal", "low", "medium", "high", "xhigh"]
        ),
        "thinking_budget": parameter(
            "integer",
            "maximum number of reasoning tokens of an older model; -1 for automatic",
            minimum=-1,
        ),
        "include_thoughts": parameter("boolean", "include summaries of the reasoning"),
        "safety_settings": parameter(
            "object",
            "blocked content: threshold by HARM_CATEGORY_..., or an object with the threshold and "
            "further fields",
            additionalProperties={
                "anyOf": [
                    _THRESHOLD,
                    {
                        "type": "object", "properties": {"threshold": _THRESHOLD},
                        "required": ["threshold"],
                    },
                ],
            },
        ),
    }  # fmt: skip
    reserved = frozenset({"contents", "systemInstruction", "tools"})
    tool_names = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
    images_in_answers = True
    service_tools = {"web_search": {"googleSearch": {}}}
    variant = {"unsigned_calls": ""}

    def prepare_request(self, call: ChatCall) -> ProviderRequest:
        call = system_as_user(call, self.name)
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
                {**({"threshold": each} if isinstance(each, str) else each), "category": category}
                for category, each in safety.items()
            ]
        return ProviderRequest("chat", self.name, call.model_id, body, call.stream)

    def extract_result(self, call: ChatCall, reply: ProviderReply) -> Completion:
        return read_completion(call, reply.body)

    def decoder(self, call: ChatCall) -> StreamDecoder[Completion]:
        return ReplyDecoder(call)


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


class EmbedContent(WithErrors, Dialect[EmbedCall, Embeddings]):
    """Dialect for `batchEmbedContents`. Variant:
    - `purpose`: whether the request contains the purpose of the vectors
    - `nested`: whether the options of a text are in a nested object and without the model, as on
      Vertex AI
    """

    name = "gemini-embed"
    operation = "embed"
    endpoint = DialectEndpoint(path="/models/{model}:batchEmbedContents")
    parameters = {
        "dimensions": parameter(
            "integer", "size of the vectors, if the model supports it", minimum=1
        ),
        "task_type": parameter(
            "string",
            "purpose of the vectors",
            enum=[
                "RETRIEVAL_QUERY", "RETRIEVAL_DOCUMENT", "SEMANTIC_SIMILARITY", "CLASSIFICATION",
                "CLUSTERING", "QUESTION_ANSWERING", "FACT_VERIFICATION", "CODE_RETRIEVAL_QUERY",
            ],
        ),
        "title": parameter("string", "title of the document"),
    }  # fmt: skip
    variant = {"purpose": True, "nested": False}
    most_texts = 100

    def prepare_request(self, call: EmbedCall) -> ProviderRequest:
        variant = {**self.variant, **call.variant}
        asked: dict[str, Any] = {}
        if variant["purpose"] and call.purpose:
            asked["taskType"] = f"RETRIEVAL_{call.purpose.upper()}"
        if "task_type" in call.parameters:
            asked["taskType"] = call.parameters["task_type"]
        if "title" in call.parameters:
            asked["title"] = call.parameters["title"]
        if "dimensions" in call.parameters:
            asked["outputDimensionality"] = call.parameters["dimensions"]
        if variant["nested"]:
            more: dict[str, Any] = {"embedContentConfig": asked} if asked else {}
        else:
            more = {"model": f"models/{call.model_id}", **asked}
        requests = [{"content": {"parts": [{"text": text}]}, **more} for text in call.texts]
        return ProviderRequest("embed", self.name, call.model_id, {"requests": requests})

    def extract_result(self, call: EmbedCall, reply: ProviderReply) -> Embeddings:
        data = read_object(reply.body)
        vectors = [read_vector(each.get("values")) for each in objects_in(data, "embeddings")]
        must_be_vectors(vectors, len(call.texts))
        return Embeddings(vectors, usage=read_usage(data.get("usageMetadata")))
