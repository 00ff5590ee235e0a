"""Which tools a run is to use."""

from __future__ import annotations

from attrs import field, frozen

from genai_feature_assistants.agents.fields import BOOLEAN_OR_NONE
from genai_host.api.validators import TEXT_OR_NONE


@frozen
class OpenAIAssistantToolCallBehavior:
    """What an assistant, or one run of it, is to make of its tools.

    It is kept, with the assistant too, and given back; nothing of it is sent as `tool_choice`:
    source document 002 decides that this waits for a model of choosing functions.

    require_code_interpreter   whether the code interpreter is to be used
    require_function           name of the function that is to be called
    require_file_search        whether files are to be searched
    """

    require_code_interpreter: bool | None = field(default=None, validator=BOOLEAN_OR_NONE)
    require_function: str | None = field(default=None, validator=TEXT_OR_NONE)
    require_file_search: bool | None = field(default=None, validator=BOOLEAN_OR_NONE)
