"""Assistants, threads and runs as the Assistants API writes them.

Source: OpenAI's OpenAPI document 2.3.0: `CreateAssistantRequest`, `AssistantObject`,
`CreateThreadRequest`, `ThreadObject`, `CreateRunRequest`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from genai_feature_assistants.agents.content import Wire, written_message
from genai_feature_assistants.agents.definitions import (
    OpenAIAssistantDefinition,
    from_json,
    to_json,
)
from genai_feature_assistants.agents.errors import BrokenDefinition
from genai_feature_assistants.agents.functions import Functions, function_json
from genai_feature_assistants.agents.options import (
    OpenAIAssistantExecutionOptions,
    OpenAIThreadCreationOptions,
    checked_files,
    checked_metadata,
)
from genai_feature_assistants.agents.runs import RunOrder, ThreadSettings
from genai_host.api import list_in, malformed, object_in, read_json, string_in, write_json
from genai_host.errors import GenaiError, ValidationError

RUN_OPTIONS = "__run_options"
"""Key of the execution options, as JSON, in the metadata of an assistant."""


def assistant_request(definition: OpenAIAssistantDefinition) -> Wire:
    """Return the body that makes an assistant. Raises `ValidationError`: the definition exceeds a
    limit."""
    metadata = dict(definition.metadata)
    if RUN_OPTIONS in metadata:
        raise ValidationError(
            f"{RUN_OPTIONS} is reserved for the execution options",
            path=f"$.metadata.{RUN_OPTIONS}",
        )
    if definition.execution_options is not None:
        metadata[RUN_OPTIONS] = write_json(to_json(definition.execution_options)).decode()
    files = checked_files(definition.code_interpreter_file_ids, "the definition")
    body: Wire = {
        "model": definition.model_id,
        "tools": tools_of(
            definition.enable_code_interpreter or bool(files),
            definition.enable_file_search or bool(definition.vector_store_id),
        ),
        "metadata": checked_metadata(metadata, "the definition"),
        **_given(
            name=definition.name,
            description=definition.description,
            instructions=definition.instructions,
            temperature=definition.temperature,
            top_p=definition.top_p,
            tool_resources=_resources(files, definition.vector_store_id),
        ),
    }
    if definition.enable_json_response:
        body["response_format"] = {"type": "json_object"}
    return body


def read_definition(data: Mapping[str, Any]) -> OpenAIAssistantDefinition:
    """Return the definition of an assistant of the service. Raises `BrokenDefinition`: the
    assistant cannot be read."""
    id = data.get("id") if isinstance(data.get("id"), str) else ""
    try:
        return _read_definition(data)
    except (GenaiError, TypeError, ValueError) as error:
        raise BrokenDefinition(
            f"cannot read the assistant {id or 'without an id'}: {error}",
            assistant_id=str(id),
            path=getattr(error, "path", ""),
        ) from error


def _read_definition(data: Mapping[str, Any]) -> OpenAIAssistantDefinition:
    if not string_in(data, "id"):
        raise malformed("it has no id")
    metadata = dict(object_in(data, "metadata"))
    kept = metadata.pop(RUN_OPTIONS, None)
    tools = {each.get("type") for each in list_in(data, "tools") if isinstance(each, Mapping)}
    format = data.get("response_format")
    files, store = _read_resources(data)
    return OpenAIAssistantDefinition(
        model_id=string_in(data, "model"),
        id=string_in(data, "id"),
        name=data.get("name"),
        description=data.get("description"),
        instructions=data.get("instructions"),
        code_interpreter_file_ids=files,
        enable_code_interpreter="code_interpreter" in tools,
        enable_file_search="file_search" in tools,
        enable_json_response=isinstance(format, Mapping) and format.get("type") == "json_object",
        metadata=metadata,
        temperature=data.get("temperature"),
        top_p=data.get("top_p"),
        vector_store_id=store,
        execution_options=None if kept is None else _read_options(kept),
    )


def _read_options(kept: Any) -> OpenAIAssistantExecutionOptions:
    if not isinstance(kept, str):
        raise ValidationError(f"{RUN_OPTIONS} must be a string", path=f"$.metadata.{RUN_OPTIONS}")
    try:
        return from_json(read_json(kept), OpenAIAssistantExecutionOptions)
    except (ValueError, ValidationError) as error:
        raise ValidationError(
            f"{RUN_OPTIONS}: {error}", path=f"$.metadata.{RUN_OPTIONS}"
        ) from error


def thread_request(options: OpenAIThreadCreationOptions) -> Wire:
    """What a thread is made from. Raises `ValidationError` and `UnsupportedPart`."""
    files = checked_files(options.code_interpreter_file_ids, "the thread")
    return _given(
        messages=list(map(written_message, options.messages)) or None,
        metadata=checked_metadata(options.metadata, "the thread") or None,
        tool_resources=_resources(files, options.vector_store_id),
    )


def read_thread(data: Mapping[str, Any]) -> ThreadSettings:
    """The settings stored with a thread. Raises `MalformedReply`."""
    files, store = _read_resources(data)
    metadata = object_in(data, "metadata")
    return ThreadSettings(files, store, {key: string_in(metadata, key) for key in metadata})


def run_request(order: RunOrder) -> Wire:
    """Return the request of a run. Fields of the definition are omitted, except the tools, because
    functions are not stored with the assistant."""
    settings, options = order.settings, order.options
    count = settings.truncation_message_count
    last_messages = {"type": "last_messages", "last_messages": count}
    return {
        "assistant_id": order.assistant_id,
        "tools": tools_of(
            settings.enable_code_interpreter, settings.enable_file_search, order.functions
        ),
        **_given(
            model=options.model_name,
            additional_instructions=settings.additional_instructions,
            additional_messages=list(map(written_message, settings.additional_messages)) or None,
            temperature=options.temperature,
            top_p=options.top_p,
            response_format=_format(options.enable_json_response),
            max_completion_tokens=settings.max_completion_tokens,
            max_prompt_tokens=settings.max_prompt_tokens,
            parallel_tool_calls=settings.parallel_tool_calls_enabled,
            truncation_strategy=last_messages if count is not None else None,
            metadata=dict(settings.metadata) or None,
        ),
    }


def tools_of(
    code_interpreter: bool | None, file_search: bool | None, functions: Functions | None = None
) -> list[Wire]:
    enabled = {"code_interpreter": code_interpreter, "file_search": file_search}
    offered = functions.offered if functions else ()
    return [{"type": name} for name, is_enabled in enabled.items() if is_enabled] + [
        {"type": "function", "function": function_json(each.schema)} for each in offered
    ]


def _format(json: bool | None) -> Wire | None:
    return None if json is None else {"type": "json_object" if json else "text"}


def _resources(files: Sequence[str], store: str | None) -> Wire | None:
    resources: Wire = {}
    if files:
        resources["code_interpreter"] = {"file_ids": list(files)}
    if store:
        resources["file_search"] = {"vector_store_ids": [store]}
    return resources or None


def _read_resources(data: Mapping[str, Any]) -> tuple[list[str], str | None]:
    """The files of the code interpreter, and the first of the vector stores: a thread or an
    assistant has at most one."""
    resources = object_in(data, "tool_resources")
    files = list_in(object_in(resources, "code_interpreter"), "file_ids")
    stores = list_in(object_in(resources, "file_search"), "vector_store_ids")
    return files, stores[0] if stores else None


def _given(**fields: Any) -> Wire:
    return {name: value for name, value in fields.items() if value is not None}
