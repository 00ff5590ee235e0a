"""What a model answered, as items.

groups_of → what belongs into one item each
joined → the items in order: those that were told piece by piece, and the others
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import define, field

from genai_host.api import Image, Message, Opaque, Reasoning, Text, ToolCall
from genai_host.api.json_text import write_json
from genai_host.server.responses.items import Item
from genai_host.server.responses.messages import DIALECT

NewId = Callable[[str], str]
"""Gives the id of a new item by what ids of its type begin with."""


@define
class Group:
    """What becomes one item.

    kind     the type of the item
    texts    of a message, or paragraphs of what was thought
    opaque   what only its own dialect can read
    apart    whether it is no part of the text that comes in pieces
    phase    whether a message is a comment on the way or the answer, if that is known
    """

    kind: str
    texts: list[str] = field(factory=list)
    opaque: list[Item] = field(factory=list)
    apart: bool = False
    phase: str = ""
    call: ToolCall | None = None
    picture: Image | None = None


def groups_of(message: Message) -> list[Group]:
    """Other parts, as documents, have no place in an answer. A picture elsewhere is told by
    its address."""
    groups: list[Group] = []
    phase = ""
    for part in message.content:
        last = groups[-1] if groups else Group("")
        if isinstance(part, Image) and part.data:
            groups.append(Group("image_generation_call", picture=part))
        elif isinstance(part, Image):
            groups.append(Group("message", [part.url], apart=True))
        elif isinstance(part, Text):
            if last.kind != "message" or last.apart or phase:
                last = Group("message", phase=phase)
                groups.append(last)
                phase = ""
            last.texts.append(part.text)
        elif isinstance(part, ToolCall):
            groups.append(Group("function_call", call=part))
        elif isinstance(part, Opaque) and _phase_of(part):
            phase = _phase_of(part)
        elif isinstance(part, (Reasoning, Opaque)):
            if last.kind != "reasoning":
                last = Group("reasoning")
                groups.append(last)
            if isinstance(part, Reasoning):
                last.texts.append(part.text)
            else:
                last.opaque.append({"dialect": part.dialect, "data": part.data})
    return groups


def _phase_of(part: Opaque) -> str:
    if part.dialect != DIALECT or not isinstance(part.data, Mapping) or len(part.data) != 1:
        return ""
    phase = part.data.get("phase")
    return phase if isinstance(phase, str) else ""


def item_of(group: Group, new_id: NewId) -> Item:
    if group.call is not None:
        return call_item(group.call, new_id)
    if group.picture is not None:
        return picture_item(group.picture, new_id)
    if group.kind == "message":
        return message_item("".join(group.texts), new_id, group.phase)
    item = reasoning_item(group.texts, new_id)
    return {**item, "opaque": group.opaque} if group.opaque else item


def message_item(text: str, new_id: NewId, phase: str = "") -> Item:
    item = {
        "id": new_id("msg"),
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [text_part(text)],
    }
    return {**item, "phase": phase} if phase else item


def text_part(text: str) -> Item:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def reasoning_item(texts: Iterable[str], new_id: NewId) -> Item:
    return {"id": new_id("rs"), "type": "reasoning", "summary": [summary_part(t) for t in texts]}


def summary_part(text: str) -> Item:
    return {"type": "summary_text", "text": text}


def call_item(call: ToolCall, new_id: NewId) -> Item:
    return {
        "id": new_id("fc"),
        "type": "function_call",
        "status": "completed",
        "arguments": call.malformed or write_json(call.arguments).decode(),
        "call_id": call.id,
        "name": call.name,
    }


def picture_item(picture: Image, new_id: NewId) -> Item:
    return {
        "id": new_id("ig"),
        "type": "image_generation_call",
        "status": "completed",
        "result": base64.b64encode(picture.data).decode(),
    }


def joined(message: Message, told: Sequence[Item], new_id: NewId) -> tuple[list[Item], list[Item]]:
    """The items of an answer in its order, and those among them that were not told yet.

    told   items that were told piece by piece. What they say holds; what is only known of
           them at the end, as what is opaque, is put into them
    """
    left = list(told)
    ordered: list[Item] = []
    late: list[Item] = []
    kinds = {item["type"] for item in told}
    for group in groups_of(message):
        found = next((item for item in left if _is_of(item, group)), None)
        if found is not None:
            left.remove(found)
            if group.phase:
                found["phase"] = group.phase
            if group.opaque:
                found["opaque"] = group.opaque
            ordered.append(found)
        elif group.apart or group.kind == "function_call" or group.kind not in kinds:
            late.append(item_of(group, new_id))
            ordered.append(late[-1])
        elif group.opaque:  # its text was told with that of another
            late.append(item_of(Group("reasoning", opaque=group.opaque), new_id))
            ordered.append(late[-1])
    return ordered + left, late


def _is_of(item: Item, group: Group) -> bool:
    if item["type"] != group.kind or group.apart:
        return False
    return group.call is None or item["call_id"] == group.call.id


def shown(item: Item, seal: Callable[[Any], str] | None) -> Item:
    """An item as clients see it.

    seal   seals what is opaque; None to leave it out
    """
    if "opaque" not in item:
        return item
    seen = {name: value for name, value in item.items() if name != "opaque"}
    return seen if seal is None else {**seen, "encrypted_content": seal(item["opaque"])}
