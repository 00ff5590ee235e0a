"""What an assistant is."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from genai_feature_assistants.agents.execution_options import OpenAIAssistantExecutionOptions
from genai_feature_assistants.agents.fields import NUMBER_OR_NONE, TEXTS, listed, one_or_none
from genai_host.api.validators import BOOLEAN, FILLED, TEXT_BY_NAME, TEXT_OR_NONE


@frozen
class OpenAIAssistantDefinition:
    """An assistant: what one is made of, and what the service says of those it has.

    model_id                    the model that answers
    id                          as the service gives it; None for one that is yet to be made
    name, description           for people
    instructions                for the model
    code_interpreter_file_ids   files for the code interpreter, which they switch on; at most 20
    enable_code_interpreter     whether the model may run code
    enable_file_search          whether the model may search files
    enable_json_response        whether answers are JSON
    metadata                    at most 16 pairs, of 64 and 512 characters; the execution
                                options are one of them
    temperature, top_p          as the model takes them; None for the service's
    vector_store_id             of the files to search, which it switches on
    execution_options           how runs are to go

    Source: document 002; `AssistantObject` of OpenAI's OpenAPI document 2.3.0.
    """

    model_id: str = field(validator=FILLED)
    id: str | None = field(default=None, validator=TEXT_OR_NONE)
    name: str | None = field(default=None, validator=TEXT_OR_NONE)
    description: str | None = field(default=None, validator=TEXT_OR_NONE)
    instructions: str | None = field(default=None, validator=TEXT_OR_NONE)
    code_interpreter_file_ids: tuple[str, ...] = field(
        default=(), converter=listed, validator=TEXTS
    )
    enable_code_interpreter: bool = field(default=False, validator=BOOLEAN)
    enable_file_search: bool = field(default=False, validator=BOOLEAN)
    enable_json_response: bool = field(default=False, validator=BOOLEAN)
    metadata: Mapping[str, str] = field(factory=dict, validator=TEXT_BY_NAME)
    temperature: float | None = field(default=None, validator=NUMBER_OR_NONE)
    top_p: float | None = field(default=None, validator=NUMBER_OR_NONE)
    vector_store_id: str | None = field(default=None, validator=TEXT_OR_NONE)
    execution_options: OpenAIAssistantExecutionOptions | None = field(
        default=None, validator=one_or_none(OpenAIAssistantExecutionOptions)
    )
