"""What a thread begins with."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from genai_feature_assistants.agents.fields import MESSAGES, TEXTS, listed
from genai_host.api import Message
from genai_host.api.validators import TEXT_BY_NAME, TEXT_OR_NONE


@frozen
class OpenAIThreadCreationOptions:
    """What a thread begins with; it comes before what the assistant's definition says.

    code_interpreter_file_ids   files for the code interpreter, at most 20
    messages                    of roles user and assistant, oldest first
    vector_store_id             of the files to search
    metadata                    at most 16 pairs, of 64 and 512 characters
    """

    code_interpreter_file_ids: tuple[str, ...] = field(
        default=(), converter=listed, validator=TEXTS
    )
    messages: tuple[Message, ...] = field(default=(), converter=listed, validator=MESSAGES)
    vector_store_id: str | None = field(default=None, validator=TEXT_OR_NONE)
    metadata: Mapping[str, str] = field(factory=dict, validator=TEXT_BY_NAME)
