"""The prompt with which the support model extracts data from a text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from genai_host.api import Message, Prompt

_EXTRACT = (
    "Take the data that is asked for from the text of the user. Use only what it says, "
    "and do not answer it."
)


def extraction(text: str, schema: Mapping[str, Any]) -> Prompt:
    """Return a prompt with the text only, without the history."""
    messages = [Message("system", _EXTRACT), Message("user", text)]
    return Prompt(messages, role="support", schema=schema, stream=False)
