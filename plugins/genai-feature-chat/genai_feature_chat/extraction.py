"""What takes data from a text: a prompt to the support model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from genai_host.api import Message, Prompt

_EXTRACT = (
    "Take the data that is asked for from the text of the user. Use only what it says, "
    "and do not answer it."
)


def extraction(text: str, schema: Mapping[str, Any]) -> Prompt:
    """The model is to see the text, and nothing of what was said before."""
    messages = [Message("system", _EXTRACT), Message("user", text)]
    return Prompt(messages, role="support", schema=schema, stream=False)
