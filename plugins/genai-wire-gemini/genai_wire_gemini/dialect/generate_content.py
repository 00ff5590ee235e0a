"""The dialects `gemini` (`generateContent` and `countTokens`) and `gemini-embed`
(`batchEmbedContents`), of the Gemini API and of Vertex AI.

Source: Gemini API reference, "Generating content", "Counting tokens", "Embeddings", and the guides
to function calling, structured outputs, thinking and safety settings; google-genai 3.4 and
"CountTokens" for Vertex AI; all as of November 2026.
`replies` reads the replies.

Messages are contents with the roles `user` and `model`. Consecutive messages of one role are one
content, which is required for the results of parallel tool calls. The format has no file names.
Reasoning is sent back only as its signatures.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import ne
from typing import Any, NamedTuple

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
    ToolSchema,
    VendorPart,
    VendorTool,
    joined_extra,
    must_be_vectors,
    objects_in,
    parameter,
    read_vector,
    remember_each,
    standard_parameters,
    system_as_user,
    system_texts,
    unsupported,
    with_extra,
    with_tool_names,
    write_json,
    write_long_json,
)
from genai_host.errors import UnsupportedPart
from genai_wire_gemini.dialect.replies import (
    NAME,
    SIGNATURE,
    ReplyDecoder,
    WithErrors,
    has_own_id,
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
_MAX_STOPS = 5
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
        **standard_parameters(*_CONFIGURED, stop={"maxItems": _MAX_STOPS}),
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
    max_texts = 100

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


_CONTENT = b'{"role":"%b","parts":[%b]}'
_MEDIA_TYPES: Mapping[str, str] = {
    **{name: f"image/{name}" for name in ("gif", "heic", "heif", "jpeg", "png", "webp")},
    **{name: f"text/{name}" for name in ("csv", "html")},
    "jpg": "image/jpeg",
    "md": "text/markdown",
    "mov": "video/quicktime",
    "mp3": "audio/mpeg",
    "mp4": "video/mp4",
    "pdf": "application/pdf",
    "txt": "text/plain",
    "wav": "audio/wav",
    "webm": "video/webm",
}
"""MIME types by file extension for content referenced by address: Vertex AI requires one."""


class ServiceVariant(NamedTuple):
    """Differences between services in the format of messages.

    Attributes:
        unsigned_calls: Signature for tool calls without one, from another service; empty to send
            them unsigned.
    """

    unsigned_calls: str

    def write(self, message: Message) -> bytes:
        role, parts = message.remember((NAME, self), self.role_and_parts)
        return _content(role, parts, [message]) if parts else b""

    def role_and_parts(self, message: Message) -> tuple[bytes, bytes]:
        """Return the role and the encoded parts of a message; both empty if there is nothing to
        send.
        """
        if message.role == "system":
            return b"", b""
        parts = list(_joined(_wire_parts(message)))
        calls = [each for each in parts if "functionCall" in each]
        if calls and self.unsigned_calls:  # only the first parallel call is signed
            calls[0].setdefault(SIGNATURE, self.unsigned_calls)
        role = b"model" if message.role == "assistant" else b"user"
        return role, b",".join(map(write_long_json, parts))


def wire_contents(call: ChatCall, form: ServiceVariant) -> list[EncodedJson]:
    """Return the contents of the user and the model. Raises `UnsupportedPart`."""
    call = with_tool_names(call)
    encoded = remember_each(call.messages, (NAME, form), form.role_and_parts)
    pairs = zip(encoded, call.messages, strict=True)
    written = [(*each, message) for each, message in pairs if each[1]]
    roles = [role for role, *_ in written]
    if all(map(ne, roles, roles[1:])):  # the usual case
        return call.written((NAME, "content", form), form.write)
    turns = [(role, [*turn]) for role, turn in groupby(written, key=lambda each: each[0])]
    return [
        EncodedJson(_content(role, b",".join(each[1] for each in turn), [each[2] for each in turn]))
        for role, turn in turns
    ]


def _content(role: bytes, parts: bytes, messages: Iterable[Message]) -> bytes:
    """A content, with the further fields of the messages it is made of."""
    wire = _CONTENT % (role, parts)
    extra = joined_extra(*messages)
    if extra is None or NAME not in extra:
        return wire
    further = {name: each for name, each in extra[NAME].items() if name not in ("role", "parts")}
    return wire[:-1] + b"," + write_json(further)[1:] if further else wire


def wire_system(messages: Iterable[Message]) -> dict[str, Any] | None:
    """Return all system messages as the single system instruction."""
    parts = [{"text": text} for text in system_texts(messages, NAME)]
    return {"parts": parts} if parts else None


def _wire_parts(message: Message) -> Iterator[dict[str, Any]]:
    for part in message.content:
        if isinstance(part, Reasoning) or (isinstance(part, VendorPart) and part.dialect != NAME):
            continue
        yield with_extra(_wire_part(part, message), part, NAME)


def _joined(parts: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Put each signature into the part before it."""
    last: dict[str, Any] | None = None
    for part in parts:
        if part.keys() != {SIGNATURE}:
            if last is not None:
                yield last
            last = dict(part)
        elif last is not None and SIGNATURE not in last:
            last.update(part)
        else:
            if last is not None:
                yield last
            last = {"text": "", **part}
    if last is not None:
        yield last


def _wire_part(part: Part, message: Message) -> dict[str, Any]:
    role = message.role
    if isinstance(part, VendorPart) and isinstance(part.data, Mapping) and part.data:
        return dict(part.data)
    if role == "tool":
        if isinstance(part, ToolResult):
            return {"functionResponse": _wire_result(part)}
    elif isinstance(part, Text):
        return {"text": part.text}
    elif isinstance(part, Image):
        return _wire_data(part, "image/png")
    elif isinstance(part, File):
        return _wire_data(part, "application/pdf")
    elif isinstance(part, ToolCall) and role == "assistant":
        # the format requires an object, so malformed arguments are sent in one
        given = {"malformed": part.malformed} if part.malformed else part.arguments
        return {"functionCall": {**_wire_id(part.id), "name": part.name, "args": given}}
    raise unsupported(part, f"in a message of role {role}", NAME)


def _wire_result(result: ToolResult) -> dict[str, Any]:
    texts = [part.text for part in result.content if isinstance(part, Text)]
    pictures = [part for part in result.content if isinstance(part, Image)]
    if not result.name:
        raise UnsupportedPart(
            f"{NAME} requires the tool name of each result, but no call has the id {result.id!r}",
            part=result.type,
            dialect=NAME,
        )
    wire: dict[str, Any] = {
        **_wire_id(result.id),
        "name": result.name,
        "response": {"error" if result.error else "output": "\n".join(texts)},
    }
    if pictures:
        wire["parts"] = [with_extra(_wire_data(part, "image/png"), part, NAME) for part in pictures]
    return wire


def _wire_id(id: str) -> dict[str, str]:
    return {"id": id} if has_own_id(id) else {}


def _wire_data(part: Image | File, usual_type: str) -> dict[str, Any]:
    if part.data:
        data = base64.b64encode(part.data).decode()
        return {"inlineData": {"mimeType": part.media_type or usual_type, "data": data}}
    suffix = part.url.partition("?")[0].rpartition(".")[2].lower()
    media_type = part.media_type or _MEDIA_TYPES.get(suffix, "")
    return {"fileData": {**({"mimeType": media_type} if media_type else {}), "fileUri": part.url}}
