"""How one run is to go."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from genai_feature_assistants.agents.fields import (
    BOOLEAN_OR_NONE,
    COUNT_OR_NONE,
    MESSAGES,
    NUMBER_OR_NONE,
    listed,
    one_or_none,
)
from genai_feature_assistants.agents.tool_call_behavior import OpenAIAssistantToolCallBehavior
from genai_host.api import Message
from genai_host.api.validators import TEXT_BY_NAME, TEXT_OR_NONE


@frozen
class OpenAIAssistantInvocationOptions:
    """Options of one run, which come before the thread's and the definition's; None takes
    theirs, 0 and False do not.

    model_name                which model answers
    enable_code_interpreter   whether the model may run code
    enable_file_search        whether the model may search files
    enable_json_response      whether the answer is JSON
    temperature, top_p        as the model takes them
    metadata                  added to what the thread and the definition have
    additional_messages       added to the thread before the run; of roles user and assistant

    The others are as `OpenAIAssistantExecutionOptions` has them.
    """

    model_name: str | None = field(default=None, validator=TEXT_OR_NONE)
    enable_code_interpreter: bool | None = field(default=None, validator=BOOLEAN_OR_NONE)
    enable_file_search: bool | None = field(default=None, validator=BOOLEAN_OR_NONE)
    enable_json_response: bool | None = field(default=None, validator=BOOLEAN_OR_NONE)
    max_completion_tokens: int | None = field(default=None, validator=COUNT_OR_NONE)
    max_prompt_tokens: int | None = field(default=None, validator=COUNT_OR_NONE)
    parallel_tool_calls_enabled: bool | None = field(default=None, validator=BOOLEAN_OR_NONE)
    truncation_message_count: int | None = field(default=None, validator=COUNT_OR_NONE)
    temperature: float | None = field(default=None, validator=NUMBER_OR_NONE)
    top_p: float | None = field(default=None, validator=NUMBER_OR_NONE)
    metadata: Mapping[str, str] = field(factory=dict, validator=TEXT_BY_NAME)
    tool_call_behavior: OpenAIAssistantToolCallBehavior | None = field(
        default=None, validator=one_or_none(OpenAIAssistantToolCallBehavior)
    )
    additional_instructions: str | None = field(default=None, validator=TEXT_OR_NONE)
    additional_messages: tuple[Message, ...] = field(
        default=(), converter=listed, validator=MESSAGES
    )
