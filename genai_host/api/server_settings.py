"""Hints for errors of self-hosted servers."""

from __future__ import annotations

from collections.abc import Mapping

from genai_host.errors import ContextOverflow, GenaiError

_OF_WINDOW: Mapping[str, str] = {
    "maximum context length is": "--max-model-len",
    "context length is only": "--max-model-len",
    "maximum model length": "--max-model-len",
    "fit into the model": "--max-model-len",
    "physical batch size": "--ubatch-size",
    "session_len": "--session-len",
    "available context size": "--ctx-size",
    "context size has been exceeded": "--ctx-size",
    "model's context length": "--context-length",
    "max_new_tokens": "--max-total-tokens",
    "max_seq_len": "max_seq_len",
}
"""Messages about an exceeded context window, with the option of the server that sets it."""


def with_server_setting(error: GenaiError) -> GenaiError:
    """The error with the option of the server in its hint, if the message identifies the server."""
    if isinstance(error, ContextOverflow):
        message = error.message.lower()
        option = next((option for phrase, option in _OF_WINDOW.items() if phrase in message), "")
        if option:
            error.hint = f"{error.hint}; on your own server, increase {option}"
    return error
