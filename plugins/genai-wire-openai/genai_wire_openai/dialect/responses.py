"""OpenAI's Responses: requests and token counting.

The format is the successor of chat completions. `response_replies` reads the replies.

Source: OpenAI API reference, "Create a model response", OpenAPI document 2.3.0; "Get input token
counts", as of November 2026.

Nothing is stored at the service: reasoning comes back encrypted, is stored as a `VendorPart`, and
is sent again with the items that followed it. Unencrypted reasoning, and vendor parts of other
dialects, are not sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from genai_host.api import (
    ChatCall,
    Completion,
    CountDialect,
    Dialect,
    DialectEndpoint,
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
    merged_extra,
    parameter,
    standard_parameters,
    unsupported,
    with_extra,
    write_long_json,
)
from genai_wire_openai.dialect.common import (
    PARAMETERS,
    TOOL_NAMES,
    UnwrappingDecoder,
    WithErrors,
    add_tools,
    answer_format,
    data_url,
    fit_tool,
    inline_file,
    may_be_wrapped,
    read_object,
    unwrapped,
    with_json_instruction,
)
from genai_wire_openai.dialect.response_replies import (
    NAME,
    OF_SERVICE,
    ResponseDecoder,
    read_response,
)
from genai_wire_openai.shared import arguments_text, detail_of, is_refusal

_PLACES: Mapping[str, tuple[str, ...]] = {
    "max_tokens": ("max_output_tokens",),
    "reasoning_effort": ("reasoning", "effort"),
    "reasoning_summary": ("reasoning", "summary"),
    "verbosity": ("text", "verbosity"),
}
"""Fields of parameters that are not top-level fields of the same name."""
_ENCRYPTED = "reasoning.encrypted_content"


class OpenAIResponses(WithErrors, Dialect[ChatCall, Completion]):
    """OpenAI's Responses.

    `variant` has these options:

    - `system_role`: role of system messages; some models require `developer`
    - `encrypted_reasoning`: whether to request encrypted reasoning; models without reasoning refuse
      it
    - `strict`, `object_root`, `json_object`: as in `openai-chat`
    - `image_detail`: resolution of images
    """

    name = NAME
    endpoint = DialectEndpoint(path="/responses")
    capabilities = frozenset({"stream", "tools", "schema", "images", "files", "reasoning"})
    parameters = {
        **standard_parameters("temperature", "top_p", "max_tokens"),
        **PARAMETERS,
        "reasoning_summary": parameter(
            "string",
            "return a summary of the model's reasoning",
            enum=["auto", "concise", "detailed"],
        ),
        "include": parameter(
            "array", "further data in the reply, for example web_search_call.action.sources"
        ),
        "max_tool_calls": parameter(
            "integer", "maximum number of calls of the service's tools", minimum=0
        ),
    }
    price_parameters = frozenset({"service_tier"})
    tool_names = TOOL_NAMES
    reserved = frozenset(
        {
            "background", "conversation", "input", "instructions", "model", "previous_response_id",
            "stream", "tools",
        }
    )  # fmt: skip
    extensible = frozenset({"tool_choice"})
    service_tools = {"web_search": {"type": "web_search"}}
    variant = {
        "system_role": "system",
        "encrypted_reasoning": False,
        "strict": False,
        "object_root": False,
        "json_object": True,
        "image_detail": "auto",
    }

    def prepare_request(self, call: ChatCall) -> ProviderRequest:
        variant = {**self.variant, **call.variant}
        form = _Form(variant["system_role"], variant["image_detail"])
        call = with_json_instruction(call, variant)
        body: dict[str, Any] = {
            "model": call.model_id,
            "input": call.written((self.name, form), form.write),
            "store": False,
        }
        for name, value in call.parameters.items():
            _put(body, _PLACES.get(name, (name,)), value)
        if variant["encrypted_reasoning"]:
            others = (each for each in body.get("include", ()) if each != _ENCRYPTED)
            body["include"] = [_ENCRYPTED, *others]
        own = {tool.name: tool for tool in call.tools if isinstance(tool, VendorTool)}
        choice = partial(_wire_choice, own=own)
        add_tools(body, call, partial(_wire_tool, strict=variant["strict"]), choice)
        if call.schema is not None:
            _put(body, ("text", "format"), answer_format(call, variant))
        if call.stream:
            body["stream"] = True
        return ProviderRequest("chat", self.name, call.model_id, body, call.stream)

    def extract_result(self, call: ChatCall, reply: ProviderReply) -> Completion:
        completion = read_response(read_object(reply.body, "output"))
        return unwrapped(completion) if may_be_wrapped(call, self.variant) else completion

    def decoder(self, call: ChatCall) -> StreamDecoder[Completion]:
        decoder = ResponseDecoder()
        return UnwrappingDecoder(decoder) if may_be_wrapped(call, self.variant) else decoder


def _put(body: dict[str, Any], place: tuple[str, ...], value: Any) -> None:
    for name in place[:-1]:
        body = body.setdefault(name, {})
    body[place[-1]] = value


class _Form(NamedTuple):
    """How items are written, where services differ."""

    system_role: str
    image_detail: str

    def write(self, message: Message) -> bytes:
        return b",".join(write_long_json(each) for each in self._items(message))

    def _items(self, message: Message) -> Iterator[Mapping[str, Any]]:
        if message.role == "tool":
            for part in message.content:
                if not isinstance(part, ToolResult):
                    raise unsupported(part, "in a tool message", NAME)
                yield self._tool_output(part)
        elif message.role == "assistant":
            yield from _assistant_items(message)
        else:
            role = self.system_role if message.role == "system" else message.role
            parts = [
                part for part in message.content if not isinstance(part, (Reasoning, VendorPart))
            ]
            wire = {"role": role, "content": self._content(parts, message.role)}
            yield with_extra(wire, message, NAME)

    def _content(self, parts: list[Part], role: str) -> Any:
        if len(parts) == 1 and isinstance(parts[0], Text) and parts[0].extra is None:
            return parts[0].text
        return [with_extra(self._part(part, role), part, NAME) for part in parts]

    def _part(self, part: Part, role: str) -> dict[str, Any]:
        if isinstance(part, Text):
            return {"type": "input_text", "text": part.text}
        if isinstance(part, Image) and role != "system":
            return {
                "type": "input_image",
                "image_url": part.url or data_url(part, "image/png"),
                "detail": detail_of(part, NAME, self.image_detail),
            }
        if isinstance(part, File) and role == "user":
            if part.url:
                return {"type": "input_file", "file_url": part.url}
            return {"type": "input_file", **inline_file(part, NAME)}
        raise unsupported(part, f"in a message of role {role}", NAME)

    def _tool_output(self, result: ToolResult) -> dict[str, Any]:
        texts = [part for part in result.content if isinstance(part, Text)]
        if all(part.extra is None for part in texts):
            texts = [Text("\n".join(part.text for part in texts))]
        if result.error:
            texts = [Text(f"error: {texts[0].text}", extra=texts[0].extra), *texts[1:]]
        pictures = [part for part in result.content if not isinstance(part, Text)]
        shown = [part for part in texts if part.text]
        output: Any = self._content([*shown, *pictures], "tool") or ""
        wire = {"type": "function_call_output", "call_id": result.id, "output": output}
        return with_extra(wire, result, NAME)


def _assistant_items(message: Message) -> Iterator[Mapping[str, Any]]:
    """The model's message, as the items of the reply. Reasoning is sent with the items that
    followed it, and omitted if they are missing, since the service refuses it alone. llama.cpp
    requires the type of a message."""
    thoughts: list[Mapping[str, Any]] = []
    texts: list[Text] = []
    fields: Mapping[str, Any] = {}
    for part in (*message.content, None):
        if isinstance(part, Reasoning) or (isinstance(part, VendorPart) and part.dialect != NAME):
            continue
        if isinstance(part, Text):
            texts.append(part)
            continue
        if texts:
            yield from thoughts
            yield _message_item(texts, fields)
            thoughts, texts, fields = [], [], {}
        if isinstance(part, ToolCall):
            yield from thoughts
            yield _wire_tool_call(part)
            thoughts = []
        elif isinstance(part, VendorPart) and isinstance(part.data, Mapping):
            if "type" not in part.data:
                fields = part.data
                continue
            thoughts.append(part.data)
            if part.data["type"] in OF_SERVICE:
                yield from thoughts
                thoughts = []
        elif part is not None:
            raise unsupported(part, "in a message of role assistant", NAME)


def _message_item(texts: list[Text], fields: Mapping[str, Any]) -> Mapping[str, Any]:
    content: Any = "".join(text.text for text in texts)
    if any(text.extra is not None for text in texts):
        content = [with_extra(_text_part(text), text, NAME) for text in texts]
    return merged_extra({"type": "message", "role": "assistant", "content": content}, fields)


def _text_part(text: Text) -> dict[str, Any]:
    if is_refusal(text):
        return {"type": "refusal", "refusal": text.text}
    return {"type": "output_text", "text": text.text}


def _wire_tool(tool: ToolSchema, strict: bool) -> Mapping[str, Any]:
    if isinstance(tool, VendorTool):
        return _definition(tool)
    fitted = fit_tool(tool, strict)
    wire = {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": fitted.schema,
        "strict": fitted.strict,  # always sent, since the default is true
    }
    return with_extra(wire, tool, NAME)


def _wire_tool_call(call: ToolCall) -> dict[str, Any]:
    wire = {
        "type": "function_call",
        "call_id": call.id,
        "name": call.name,
        "arguments": arguments_text(call),
    }
    return with_extra(wire, call, NAME)


def _wire_choice(name: str, own: Mapping[str, VendorTool]) -> dict[str, Any]:
    if name in own:
        return {"type": _definition(own[name])["type"]}
    return {"type": "function", "name": name}


def _definition(tool: VendorTool) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (tool.extra or {})[NAME]
    return found


_COUNTED = ("parallel_tool_calls", "reasoning_effort", "reasoning_summary")


class OpenAICount(CountDialect):
    name = "openai-count"
    of = OpenAIResponses
    endpoint = DialectEndpoint(path="/responses/input_tokens")
    parameters = {name: OpenAIResponses.parameters[name] for name in _COUNTED}
    variant = OpenAIResponses.variant
    fields = frozenset(
        {"input", "model", "parallel_tool_calls", "reasoning", "text", "tool_choice", "tools"}
    )
    tokens = "input_tokens"
