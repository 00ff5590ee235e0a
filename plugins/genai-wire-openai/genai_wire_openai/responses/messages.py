"""Items to messages, and messages to items.

Consecutive items of the model (text, reasoning, tool calls) become one message, and so do the
results of its tools. Each result must answer an earlier call, and each call must have a result.

    groups_of → the parts that become one item each
    joined    → the items in order: those already streamed, and the others
"""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeGuard

from attrs import define, evolve, field

from genai_host.api import (
    Citation,
    File,
    Image,
    Message,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
    VendorPart,
    bytes_of,
    extra_of,
    merged_extra,
)
from genai_host.errors import ValidationError
from genai_host.serving import CallReader, result_and_files
from genai_wire_openai.dialect.response_replies import OF_SERVICE, add_fields
from genai_wire_openai.responses.items import PREFIXES, inline, is_inline, summary_text
from genai_wire_openai.responses.tools import (
    EXTRA,
    ClientTool,
    Item,
    MakeItemId,
    call_of,
    names_in,
    unknown_of,
)
from genai_wire_openai.shared import MARKED, detail_extra, for_responses, is_refusal

DIALECT = "openai-responses"
"""Name of the dialect of this format. Its vendor parts have the phase of a message."""

REFUSAL = "refusal"
_INPUT = "$.input"


def messages_of(items: Iterable[Item], instructions: str | None = None) -> list[Message]:
    """Return the messages of items. Raises `ValidationError` if a result has no call, or a call has
    no result."""
    found: list[tuple[Role, list[Part], Mapping[str, Any] | None]] = []
    continues = False  # the last of them
    pending: dict[str, str] = {}
    files: list[File] = []
    calls = CallReader()
    for item in items:
        if files and item["type"] not in _OUTPUTS:
            found.append(("user", [*files], None))
            continues = False
            files.clear()
        is_of_model = item.get("role", "user") == "assistant"
        for role, part in _parts(item, files, calls):
            if isinstance(part, ToolCall):
                pending[part.id] = part.name
            elif isinstance(part, ToolResult):
                part = _named(part, pending)
            if not continues or found[-1][0] != role:
                is_whole = item["type"] == "message" and not is_of_model
                found.append((role, [], _extra(item) if is_whole else None))
                continues = True
            found[-1][1].append(part)
        if not is_of_model and item["type"] in ("message", "compaction"):
            continues = False
    if files:
        found.append(("user", [*files], None))
    for id in pending:
        raise ValidationError(f"function call {id!r} has no output", path=_INPUT)
    messages = [Message(role, parts, extra=extra) for role, parts, extra in found]
    return messages if instructions is None else [Message("system", instructions), *messages]


def _named(result: ToolResult, pending: dict[str, str]) -> ToolResult:
    """The result with the name of the called tool."""
    if result.id not in pending:
        raise ValidationError(f"no function call with id {result.id!r} for the output", path=_INPUT)
    return evolve(result, name=pending.pop(result.id))


def _parts(item: Item, files: list[File], calls: CallReader) -> Iterator[tuple[Role, Part]]:
    """The parts of an item, with their roles. Documents of results are added to `files`: they
    follow after all consecutive results."""
    kind = item["type"]
    call = call_of(item, calls.read)
    if call is not None:
        yield "assistant", call
    elif kind in _OUTPUTS:
        result, found = result_and_files(item["call_id"], "", _output(item), extra=_extra(item))
        files += found
        yield "tool", result
    elif kind == "additional_tools":
        return
    elif kind == "compaction":
        yield "user", Text(summary_text(item))
    elif kind == "reasoning":
        for part in (*item["summary"], *item.get("content", ())):
            if part["text"]:
                yield "assistant", Reasoning(part["text"])
        for kept in item.get("opaque", ()):
            yield "assistant", VendorPart(kept["dialect"], kept["data"])
    elif kind in OF_SERVICE:
        if EXTRA in item:  # otherwise the service had another format
            own = {name: each for name, each in item.items() if name != EXTRA}
            yield "assistant", VendorPart(DIALECT, {**item[EXTRA], **own})
        elif "result" in item:
            yield "assistant", Image(bytes_of(item["result"], _INPUT))
    elif item["role"] == "assistant":
        phase = {"phase": item["phase"]} if item.get("phase") else {}
        fields = {**item.get(EXTRA, {}), **phase}
        if fields:
            yield "assistant", VendorPart(DIALECT, fields)
        for part in item["content"]:
            mark = MARKED if part["type"] == REFUSAL else {}
            extra = {**(_extra(part) or {}), **mark}
            yield "assistant", Text(part[text_field(part)], extra=extra)
    else:
        role: Role = "user" if item["role"] == "user" else "system"
        for part in item["content"]:
            yield role, _part(part)


def _extra(item: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return extra_of(DIALECT, item.get(EXTRA, {}))


_OUTPUTS = ("function_call_output", "custom_tool_call_output", "tool_search_output")


def _output(item: Item) -> list[Part]:
    if "tools" in item:
        names = ", ".join(names_in(item))
        return [Text(f"tools found: {names or 'none'}")]
    output = item["output"]
    return [Text(output)] if isinstance(output, str) else [_part(part) for part in output]


def _part(part: Mapping[str, Any]) -> Part:
    extra = _extra(part)
    if part["type"] == "input_text":
        return Text(part["text"], extra=extra)
    if part["type"] == "input_image":
        extra = merged_extra(extra or {}, detail_extra(part["detail"]))
        return evolve(_image(part["image_url"]), extra=extra)
    name = part.get("filename", "")
    if "file_url" in part:
        return File(url=part["file_url"], name=name, extra=extra)
    data, media_type = inline(part["file_data"], _INPUT, bare=True)
    return File(data, media_type or mimetypes.guess_type(name)[0] or "", name, extra=extra)


def _image(url: str) -> Image:
    if not is_inline(url):
        return Image(url=url)
    data, media_type = inline(url, _INPUT)
    return Image(data, media_type)


@define
class Group:
    """Parts that become one item.

    Attributes:
        kind: Type of the item, or `refusal`; see `kind_of`.
        texts: Texts of a message, or paragraphs of reasoning.
        size: Length of the texts.
        citations: Citations in the texts.
        extra: Unknown fields of the text.
        opaque: Data that only its own dialect can read.
        apart: Whether the text is not part of the streamed text.
        fields: Further fields of a message: its phase, which is commentary or final answer, and
            unknown fields; or those of an item of the service.
    """

    kind: str
    texts: list[str] = field(factory=list)
    size: int = 0
    citations: list[Citation] = field(factory=list)
    extra: dict[str, Any] = field(factory=dict)
    opaque: list[Item] = field(factory=list)
    apart: bool = False
    fields: Mapping[str, Any] = field(factory=dict)
    call: ToolCall | None = None
    picture: Image | None = None


def groups_of(message: Message) -> list[Group]:
    """Group the parts of an answer by item. An image with a URL becomes a message with the URL;
    other parts, for example documents, are omitted."""
    groups: list[Group] = []
    fields: Mapping[str, Any] = {}
    for part in message.content:
        last = groups[-1] if groups else Group("")
        if isinstance(part, Image) and part.data:
            groups.append(Group("image_generation_call", picture=part))
        elif isinstance(part, Image):
            groups.append(Group("message", [part.url], apart=True))
        elif isinstance(part, Text):
            kind = REFUSAL if is_refusal(part) else "message"
            if last.kind != kind or last.apart or fields:
                last = Group(kind, fields=fields)
                groups.append(last)
                fields = {}
            add_fields(last.extra, last.size, (part.extra or {}).get(DIALECT, {}))
            placed = (each.within(part.text) for each in part.citations)
            last.citations += (each.moved(last.size) for each in placed)
            last.texts.append(part.text)
            last.size += len(part.text)
        elif isinstance(part, ToolCall):
            groups.append(Group("function_call", call=part))
        elif is_of_service(part):
            groups.append(Group(part.data["type"], fields=part.data))
        elif isinstance(part, VendorPart) and _fields_of(part):
            fields = _fields_of(part)
        elif isinstance(part, (Reasoning, VendorPart)):
            if last.kind != "reasoning":
                last = Group("reasoning")
                groups.append(last)
            if isinstance(part, Reasoning):
                last.texts.append(part.text)
            else:
                last.opaque.append({"dialect": part.dialect, "data": part.data})
    return groups


def is_of_service(part: Part | None) -> TypeGuard[VendorPart]:
    """Whether a part is an item of a tool that the service ran."""
    return (
        isinstance(part, VendorPart)
        and part.dialect == DIALECT
        and isinstance(part.data, Mapping)
        and part.data.get("type") in OF_SERVICE
    )


def service_item(data: Mapping[str, Any], new_id: MakeItemId) -> Item:
    kind = data["type"]
    return {"id": new_id(PREFIXES[kind]), "type": kind, **_fields_of_service(data)}


def _fields_of_service(data: Mapping[str, Any]) -> Item:
    further = {name: data[name] for name in data.keys() - {"id", "status", "type"}}
    status = data.get("status")
    return {"status": status if status and isinstance(status, str) else "completed", EXTRA: further}


def _fields_of(part: VendorPart) -> Mapping[str, Any]:
    """The fields of the message that follows; empty for an item."""
    data = part.data
    is_of_message = part.dialect == DIALECT and isinstance(data, Mapping) and "type" not in data
    return data if is_of_message else {}


def item_of(group: Group, new_id: MakeItemId, client_tools: Mapping[str, ClientTool]) -> Item:
    if group.call is not None:
        return call_item(group.call, new_id, client_tools)
    if group.picture is not None:
        return picture_item(group.picture, new_id)
    if group.kind in OF_SERVICE:
        return service_item(group.fields, new_id)
    if group.kind in ("message", REFUSAL):
        return _with_fields(message_item(group.kind, "".join(group.texts), new_id), group)
    item = reasoning_item(group.texts, new_id)
    return {**item, "opaque": group.opaque} if group.opaque else item


def kind_of(item: Item) -> str:
    """The type of an item; `refusal` for a message with one."""
    kind: str = item["type"]
    return REFUSAL if kind == "message" and item["content"][0]["type"] == REFUSAL else kind


def text_field(part: Item) -> str:
    """Name of the field with the text of a part."""
    return REFUSAL if part["type"] == REFUSAL else "text"


def message_item(kind: str, text: str, new_id: MakeItemId) -> Item:
    return {
        "id": new_id("msg"),
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [text_part(kind, text)],
    }


def _with_fields(item: Item, group: Group) -> Item:
    """Add the further fields of a message and of its text to its item."""
    fields = dict(group.fields)
    if "phase" in fields:
        item["phase"] = fields.pop("phase")
    if fields:
        item[EXTRA] = fields
    [part] = item["content"]
    if group.extra:
        part[EXTRA] = group.extra
    if isinstance(group.extra.get("annotations"), list):
        part["annotations"] = group.extra["annotations"]  # all of them
    elif part.get("annotations") == []:
        part["annotations"] = [*map(for_responses, group.citations)]
    return item


def text_part(kind: str, text: str) -> Item:
    if kind == REFUSAL:
        return {"type": kind, "refusal": text}
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def reasoning_item(texts: Iterable[str], new_id: MakeItemId) -> Item:
    return {"id": new_id("rs"), "type": "reasoning", "summary": [summary_part(t) for t in texts]}


def summary_part(text: str) -> Item:
    return {"type": "summary_text", "text": text}


def call_item(call: ToolCall, new_id: MakeItemId, client_tools: Mapping[str, ClientTool]) -> Item:
    client = client_tools.get(call.name) or ClientTool("function", call.name)
    return client.item(call, new_id)


def picture_item(picture: Image, new_id: MakeItemId) -> Item:
    return {
        "id": new_id("ig"),
        "type": "image_generation_call",
        "status": "completed",
        "result": base64.b64encode(picture.data).decode(),
    }


def joined(
    message: Message,
    streamed: Sequence[Item],
    new_id: MakeItemId,
    client_tools: Mapping[str, ClientTool],
) -> tuple[list[Item], list[Item]]:
    """The items of an answer in order, and those not yet streamed. The text of streamed items is
    final; data known only at the end, for example opaque data, is added. `client_tools` are by
    their names for the model."""
    left = list(streamed)
    ordered: list[Item] = []
    late: list[Item] = []
    kinds = {kind_of(item) for item in streamed}
    for group in groups_of(message):
        found = next((item for item in left if _is_of(item, group)), None)
        if found is not None:
            left.remove(found)
            if found["type"] == "message":
                _with_fields(found, group)
            elif group.call is not None:
                found.update(unknown_of(group.call))
            elif group.kind in OF_SERVICE and group.picture is None:
                found.update(_fields_of_service(group.fields))
            if group.opaque:
                found["opaque"] = group.opaque
            ordered.append(found)
        elif group.apart or group.kind in _WHOLE or group.kind not in kinds:
            late.append(item_of(group, new_id, client_tools))
            ordered.append(late[-1])
        elif group.opaque:  # its text was streamed with that of another group
            late.append(item_of(Group("reasoning", opaque=group.opaque), new_id, client_tools))
            ordered.append(late[-1])
    return ordered + left, late


_WHOLE = ("function_call", *OF_SERVICE)
"""Kinds of items that are streamed whole."""


def _is_of(item: Item, group: Group) -> bool:
    if group.call is not None:
        return bool(item.get("call_id") == group.call.id)
    return kind_of(item) == group.kind and not group.apart


def shown(item: Item, seal: Callable[[Any], str] | None) -> Item:
    """Return an item as shown to clients: opaque data is sealed, or omitted without `seal`."""
    seen = with_extra_fields(item)
    for name in ("content", "output"):
        if isinstance(seen.get(name), list):
            seen = {**seen, name: [with_extra_fields(part) for part in seen[name]]}
    if "opaque" not in item:
        return seen
    seen = {name: value for name, value in seen.items() if name != "opaque"}
    return seen if seal is None else {**seen, "encrypted_content": seal(item["opaque"])}


def with_extra_fields(item: Mapping[str, Any]) -> Item:
    """Return an item, a part or a tool with its unknown fields where they were. They replace empty
    lists, such as that of annotations."""
    extra = item.get(EXTRA, {})
    own = {
        name: value
        for name, value in item.items()
        if name != EXTRA and (value != [] or name not in extra)
    }
    return merged_extra(own, extra)
