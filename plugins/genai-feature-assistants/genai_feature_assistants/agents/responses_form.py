"""Threads and runs as the Responses and the Conversations API write them.

Source: OpenAI's OpenAPI document 2.3.0: `CreateConversationBody`, `CreateResponse`,
`OutputItem`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from genai_feature_assistants.agents.content import (
    AgentMessage,
    Code,
    FileImage,
    Wire,
    check_role,
    read_text,
)
from genai_feature_assistants.agents.definitions import from_json, to_json
from genai_feature_assistants.agents.functions import function_json, output_text
from genai_feature_assistants.agents.options import (
    OpenAIThreadCreationOptions,
    checked_files,
    checked_metadata,
)
from genai_feature_assistants.agents.runs import RunOrder, RunSettings, ThreadSettings
from genai_host.api import (
    Image,
    Message,
    Part,
    Reasoning,
    Text,
    ToolResult,
    list_in,
    malformed,
    object_in,
    objects_in,
    read_json,
    string_in,
    write_json,
)
from genai_host.errors import InvalidParameter, UnsupportedPart, ValidationError

THREAD_OPTIONS = "__thread_options"
"""Prefix of the keys of thread settings, as JSON, in the metadata of a conversation."""

_LONGEST = 512
_ROLES = ("user", "assistant")
_NUMBERED = re.compile(rf"{THREAD_OPTIONS}_\d+")


def thread_metadata(options: OpenAIThreadCreationOptions) -> dict[str, str]:
    """The metadata of the conversation that a thread is. Raises `ValidationError`."""
    for key in options.metadata:
        if _NUMBERED.fullmatch(key):
            raise ValidationError(
                f"{key} is reserved for {THREAD_OPTIONS}", path=f"$.metadata.{key}"
            )
    kept = OpenAIThreadCreationOptions(
        code_interpreter_file_ids=checked_files(options.code_interpreter_file_ids, "the thread"),
        vector_store_id=options.vector_store_id,
    )
    data = to_json(kept)
    text = write_json(data).decode() if data else ""
    pieces = [text[at : at + _LONGEST] for at in range(0, len(text), _LONGEST)]
    ours = {f"{THREAD_OPTIONS}_{number:02}": piece for number, piece in enumerate(pieces)}
    return checked_metadata({**options.metadata, **ours}, "the thread")


def read_thread(conversation: Mapping[str, Any]) -> ThreadSettings:
    """Return the settings of a conversation. Raises `MalformedReply`: the stored options are
    invalid."""
    metadata = object_in(conversation, "metadata")
    ours = sorted(key for key in metadata if _NUMBERED.fullmatch(key))
    kept = OpenAIThreadCreationOptions()
    if ours:
        try:
            data = read_json("".join(string_in(metadata, key) for key in ours))
            kept = from_json(data, OpenAIThreadCreationOptions)
        except (ValueError, ValidationError) as error:
            raise malformed(f"{THREAD_OPTIONS}: {error}") from error
    return ThreadSettings(
        kept.code_interpreter_file_ids,
        kept.vector_store_id,
        {key: string_in(metadata, key) for key in metadata if key not in ours},
    )


def written_item(message: Message) -> Wire:
    """Return a message as an item of a conversation.

    Raises:
        ValidationError: The role is neither user nor assistant, or the message is empty.
        UnsupportedPart: A conversation cannot have a part of the message.
    """
    check_role(message)
    parts = [each for part in message.content for each in _written_part(part, message.role)]
    if not parts:
        raise ValidationError("a message of a thread must have content", path="$.content")
    content: Any = parts
    if message.role == "assistant":  # its parts are the service's own, with ids
        content = "".join(each["text"] for each in parts)
    return {"type": "message", "role": message.role, "content": content}


def _written_part(part: Part, role: str) -> list[Wire]:
    text = part.text if isinstance(part, Text) else part.code if isinstance(part, Code) else None
    if text is not None:
        return [{"type": "input_text", "text": text}] if text else []
    if isinstance(part, Reasoning):
        return []  # of another model; no service accepts it
    if role == "user" and isinstance(part, Image):
        return [{"type": "input_image", "image_url": _address(part), "detail": "auto"}]
    if role == "user" and isinstance(part, FileImage):
        return [{"type": "input_image", "file_id": part.file_id, "detail": part.detail}]
    raise UnsupportedPart(
        f"a message of role {role} in a conversation cannot contain parts of type {part.type}",
        part=part.type,
    )


def _address(image: Image) -> str:
    if image.url:
        return image.url
    data = base64.b64encode(image.data).decode()
    return f"data:{image.media_type or 'image/png'};base64,{data}"


def read_item(item: Mapping[str, Any], thread_id: str) -> AgentMessage | None:
    """Return the message of an item; None for another kind of item."""
    role = item.get("role")
    if item.get("type") != "message" or role not in _ROLES:
        return None
    return AgentMessage(
        "user" if role == "user" else "assistant",
        tuple(read_parts(item)),
        id=string_in(item, "id"),
        thread_id=thread_id,
    )


def read_parts(item: Mapping[str, Any]) -> Iterator[Part]:
    """Yield the parts of a message. Unknown kinds are left out."""
    for each in objects_in(item, "content"):
        kind = each.get("type")
        if kind in ("input_text", "output_text", "text"):
            yield read_text(string_in(each, "text"), list_in(each, "annotations"))
        elif kind == "refusal":
            yield Text(string_in(each, "refusal"))
        elif kind == "input_image" and string_in(each, "image_url"):
            yield Image(url=string_in(each, "image_url"))
        elif kind == "input_image":
            yield FileImage(string_in(each, "file_id"), string_in(each, "detail") or "auto")


def response_request(order: RunOrder) -> Wire:
    """Return the body of the first response of a run.

    It contains the whole definition, since the service stores none. Raises `InvalidParameter`: the
    Responses API has no counterpart of an option."""
    settings = order.settings
    _check(settings)
    instructions = "\n\n".join(
        filter(None, (settings.instructions, settings.additional_instructions))
    )
    body: Wire = {
        "model": settings.model_name,
        "conversation": order.thread_id,
        "instructions": instructions or None,
        "input": [written_item(each) for each in settings.additional_messages] or None,
        "tools": _tools(order) or None,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "max_output_tokens": settings.max_completion_tokens,
        "parallel_tool_calls": settings.parallel_tool_calls_enabled,
        "metadata": dict(settings.metadata) or None,
        "text": {"format": {"type": "json_object"}} if settings.enable_json_response else None,
        "include": ["code_interpreter_call.outputs"] if settings.enable_code_interpreter else None,
    }
    return {name: value for name, value in body.items() if value is not None}


def output_items(results: Sequence[ToolResult]) -> list[Wire]:
    """Return the results of functions as items."""
    return [
        {"type": "function_call_output", "call_id": each.id, "output": output_text(each)}
        for each in results
    ]


def _check(settings: RunSettings) -> None:
    for name in ("max_prompt_tokens", "truncation_message_count"):
        if getattr(settings, name) is not None:
            raise InvalidParameter(
                f"the Responses API does not support {name}",
                parameter=name,
                hint="omit it, or use the Assistants API",
            )
    if settings.enable_file_search and not settings.vector_store_id:
        raise InvalidParameter(
            "file search requires a vector store",
            parameter="vector_store_id",
            hint="set vector_store_id of the definition or the thread",
        )


def _tools(order: RunOrder) -> list[Wire]:
    settings = order.settings
    tools: list[Wire] = []
    if settings.enable_code_interpreter:
        container: Wire = {"type": "auto"}
        if settings.code_interpreter_file_ids:
            container["file_ids"] = list(settings.code_interpreter_file_ids)
        tools.append({"type": "code_interpreter", "container": container})
    if settings.enable_file_search:
        tools.append({"type": "file_search", "vector_store_ids": [settings.vector_store_id]})
    for each in order.functions.offered:
        tools.append({"type": "function", **function_json(each.schema), "strict": False})
    return tools
