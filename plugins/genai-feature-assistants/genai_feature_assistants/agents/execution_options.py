"""How an assistant's runs are to go, unless a run is asked for otherwise."""

from __future__ import annotations

from attrs import field, frozen

from genai_feature_assistants.agents.fields import BOOLEAN_OR_NONE, COUNT_OR_NONE, one_or_none
from genai_feature_assistants.agents.tool_call_behavior import OpenAIAssistantToolCallBehavior
from genai_host.api.validators import TEXT_OR_NONE


@frozen
class OpenAIAssistantExecutionOptions:
    """Options of runs that are kept with the assistant; None leaves one to the service.

    The service has no place for them: they stand in the assistant's metadata, as JSON, which
    may have 512 characters.

    max_completion_tokens         that all completions of a run may have together
    max_prompt_tokens             that all prompts of a run may have together
    parallel_tool_calls_enabled   whether the model may ask for several calls at once
    truncation_message_count      how many messages the model is shown, the newest
    tool_call_behavior            which tools are to be used
    additional_instructions       what is added to the instructions

    Source: document 002; `CreateRunRequest` of OpenAI's OpenAPI document 2.3.0.
    """

    max_completion_tokens: int | None = field(default=None, validator=COUNT_OR_NONE)
    max_prompt_tokens: int | None = field(default=None, validator=COUNT_OR_NONE)
    parallel_tool_calls_enabled: bool | None = field(default=None, validator=BOOLEAN_OR_NONE)
    truncation_message_count: int | None = field(default=None, validator=COUNT_OR_NONE)
    tool_call_behavior: OpenAIAssistantToolCallBehavior | None = field(
        default=None, validator=one_or_none(OpenAIAssistantToolCallBehavior)
    )
    additional_instructions: str | None = field(default=None, validator=TEXT_OR_NONE)
