"""Compaction: a model summarizes a conversation, and the summary takes its place.

The messages of the user, the system and the developer are kept. Clients send the summary back as an
item of type `compaction`, which only this host can have written; see `Seals` in `api.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import evolve

from genai_host.api import Completion, Message
from genai_host.errors import UnexpectedFinish, ValidationError
from genai_host.serving import FEATURE, ChatRequest
from genai_wire_openai.responses.fields import Fields
from genai_wire_openai.responses.tools import Item

_KIND = "compaction"
_INSTRUCTIONS = (
    "Summarize this conversation for an assistant that continues it without having seen it. "
    "Include the goals, decisions, facts, results of tools, names of files, and open tasks. "
    "Answer with the summary alone."
)


def summary_request(asked: ChatRequest) -> ChatRequest:
    """Return the request for the summary of a conversation. Raises `ValidationError` for a
    feature."""
    if asked.model is not None and asked.model.startswith(FEATURE):
        raise ValidationError("only models can compact a conversation", path="$.model")
    messages = [*asked.messages, Message("user", _INSTRUCTIONS)]
    choice = "none" if asked.tools else None
    # a limit for answers could cut off the summary
    parameters = {name: v for name, v in asked.parameters.items() if name != "max_tokens"}
    return evolve(
        asked,
        messages=messages,
        tool_choice=choice,
        schema=None,
        parameters=parameters,
        stream=False,
    )


def compacted(items: Iterable[Item], summary: Completion, id: str) -> list[Item]:
    """Return the items that replace a conversation.

    Raises:
        UnexpectedFinish: The summary is not complete; the client keeps the conversation.
    """
    if summary.finish != "stop" or not summary.text.strip():
        raise UnexpectedFinish(
            f"the summary is not complete: {summary.reason}",
            reason=summary.reason,
            **summary.place,
        )
    kept = [item for item in items if item["type"] == "message" and item["role"] != "assistant"]
    opaque = [{"dialect": _KIND, "data": summary.text}]
    return [*kept, {"id": id, "type": _KIND, "opaque": opaque}]


def read_compaction(item: Fields, opaque: list[Any] | None) -> Item:
    """Read an item. Raises `ValidationError` if it is not of this host: the conversation would be
    lost without it."""
    if not opaque or opaque[0].get("dialect") != _KIND:
        path = item.at("encrypted_content")
        raise ValidationError("only compactions by this server can be read", path=path)
    return {"type": _KIND, "opaque": opaque}


def summary_text(item: Mapping[str, Any]) -> str:
    """Return the text for the model."""
    return f"Summary of the conversation so far:\n\n{item['opaque'][0]['data']}"
