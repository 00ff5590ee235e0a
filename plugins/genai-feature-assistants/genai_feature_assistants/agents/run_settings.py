"""How a run is to go: what is asked of it, before the thread, before the definition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import field, frozen

from genai_feature_assistants.agents.definition import OpenAIAssistantDefinition
from genai_feature_assistants.agents.execution_options import OpenAIAssistantExecutionOptions
from genai_feature_assistants.agents.functions import Functions
from genai_feature_assistants.agents.invocation_options import OpenAIAssistantInvocationOptions
from genai_feature_assistants.agents.limits import checked_metadata
from genai_host.api import Message


@frozen
class ThreadSettings:
    """What a thread has of its own that comes before the definition."""

    code_interpreter_file_ids: Sequence[str] = ()
    vector_store_id: str | None = None
    metadata: Mapping[str, str] = field(factory=dict)


@frozen
class RunSettings:
    """How a run is to go, each field settled; None leaves one to the service.

    code_interpreter, file_search   whether the model has them
    """

    model: str
    instructions: str
    additional_instructions: str | None
    code_interpreter: bool
    file_search: bool
    enable_json_response: bool
    code_interpreter_file_ids: Sequence[str]
    vector_store_id: str | None
    temperature: float | None
    top_p: float | None
    max_completion_tokens: int | None
    max_prompt_tokens: int | None
    parallel_tool_calls_enabled: bool | None
    truncation_message_count: int | None
    metadata: Mapping[str, str]
    additional_messages: Sequence[Message]


@frozen
class RunOrder:
    """One run that is asked for.

    options     as they were given: what of these is None is not sent where the service
                has the definition itself
    """

    thread_id: str
    definition: OpenAIAssistantDefinition
    options: OpenAIAssistantInvocationOptions
    settings: RunSettings
    functions: Functions

    @property
    def assistant_id(self) -> str:
        return self.definition.id or ""

    @property
    def name(self) -> str:
        """The agent's."""
        return self.definition.name or self.assistant_id


def settled(
    definition: OpenAIAssistantDefinition,
    thread: ThreadSettings,
    options: OpenAIAssistantInvocationOptions,
) -> RunSettings:
    """Raises `ValidationError` for metadata that is too much, once it is all together."""
    execution = definition.execution_options or OpenAIAssistantExecutionOptions()
    files = thread.code_interpreter_file_ids or definition.code_interpreter_file_ids
    store = _first(thread.vector_store_id, definition.vector_store_id)
    metadata = {**definition.metadata, **thread.metadata, **options.metadata}

    def option(name: str) -> Any:
        return _first(getattr(options, name), getattr(execution, name))

    return RunSettings(
        model=_first(options.model_name, definition.model_id),
        instructions=definition.instructions or "",
        additional_instructions=option("additional_instructions"),
        code_interpreter=_first(
            options.enable_code_interpreter, definition.enable_code_interpreter or bool(files)
        ),
        file_search=_first(
            options.enable_file_search, definition.enable_file_search or bool(store)
        ),
        enable_json_response=_first(options.enable_json_response, definition.enable_json_response),
        code_interpreter_file_ids=files,
        vector_store_id=store,
        temperature=_first(options.temperature, definition.temperature),
        top_p=_first(options.top_p, definition.top_p),
        max_completion_tokens=option("max_completion_tokens"),
        max_prompt_tokens=option("max_prompt_tokens"),
        parallel_tool_calls_enabled=option("parallel_tool_calls_enabled"),
        truncation_message_count=option("truncation_message_count"),
        metadata=checked_metadata(metadata, "the run"),
        additional_messages=options.additional_messages,
    )


def _first(*values: Any) -> Any:
    """The first that is not None: 0 and False are something."""
    return next((value for value in values if value is not None), None)
