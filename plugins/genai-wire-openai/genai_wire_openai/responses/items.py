"""Items of input and output.

    read_items → _read_item → one function for each type

Items are read from a request and brought to the one form in which they are stored and listed.

Reasoning is stored with the data that only its own dialect can read, under `opaque`, and is shown
with that data sealed (`Seals` in `api.py`). Data from a client is accepted only if it was sealed
by this host.

Compaction: a model summarizes a conversation, and the summary takes its place. The messages of the
user, the system and the developer are kept. Clients send the summary back as an item of type
`compaction`, which only this host can have written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve

from genai_host.api import Completion, Image, Message, bytes_of
from genai_host.errors import UnexpectedFinish, ValidationError
from genai_host.serving import FEATURE, ChatRequest
from genai_wire_openai.dialect.response_replies import NAME, OF_SERVICE
from genai_wire_openai.responses.fields import Fields, MissingParameter, UnsupportedParameter
from genai_wire_openai.responses.tools import EXTRA, Item, read_tool_list
from genai_wire_openai.shared import report_detail

Unseal = Callable[[str], list[Any] | None]
"""Returns the data of a sealed text; None if it was not sealed by this host."""

_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_ADDRESS = re.compile(r"https?://\S+", re.IGNORECASE)
_INLINE = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w.+-]+=[^;,]*)*;base64,", re.IGNORECASE)
_PHASES = ("commentary", "final_answer")
_DETAILS = ("auto", "low", "high", "original")
PREFIXES = {
    "additional_tools": "at",
    "code_interpreter_call": "ci",
    "compaction": "cmp",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "file_search_call": "fs",
    "function_call": "fc",
    "function_call_output": "fco",
    "image_generation_call": "ig",
    "mcp_call": "mcp",
    "mcp_list_tools": "mcpl",
    "reasoning": "rs",
    "tool_search_call": "tsc",
    "tool_search_output": "tso",
    "web_search_call": "ws",
}
"""Beginnings of ids, by the type of the item."""


def is_id(value: object) -> bool:
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def with_id(item: Item, tail: str) -> Item:
    """Give an item an id, unless it has one; it ends with the tail, after the prefix of its
    type."""
    item["id"] = item["id"] or f"{PREFIXES.get(item['type'], 'msg')}_{tail}"
    return item


def read_items(given: Fields, name: str, unseal: Unseal) -> list[Item]:
    """Read the items of a field; the id is empty unless it is given. A string is a user message;
    references are not resolved. Raises `ValidationError`."""
    if isinstance(given.raw(name), str):
        return [{"id": "", **_message("user", [_text_part("input_text", given.text(name))])}]
    return [_read_item(each, unseal) for each in given.objects(name)]


def _read_item(item: Fields, unseal: Unseal) -> Item:
    kind = item.text("type")
    if not kind:  # messages and references may omit the type
        kind = "item_reference" if "role" not in item and "id" in item else "message"
    if kind == "item_reference":
        return {"type": kind, "id": item.needed("id")}
    readers: Mapping[str, Callable[[Fields], Item]] = {
        "message": _read_message,
        "function_call": lambda given: _read_call(given, "arguments"),
        "function_call_output": _read_output,
        "custom_tool_call": lambda given: _read_call(given, "input"),
        "custom_tool_call_output": _read_output,
        "tool_search_call": _read_search,
        "tool_search_output": _read_found,
        "additional_tools": _read_tools,
        **dict.fromkeys(OF_SERVICE, _read_of_service),
        "reasoning": lambda given: _read_reasoning(given, unseal),
        "compaction": lambda given: read_compaction(
            given, unseal(given.needed("encrypted_content"))
        ),
    }
    if kind not in readers:
        raise UnsupportedParameter(
            f"unsupported item type {kind!r}: choose from {', '.join(readers)}, item_reference",
            path=item.at("type"),
        )
    read = readers[kind](item)
    id = item.value["id"] if is_id(item.text("id")) else ""
    if kind not in _CARRYING:
        item.drop_others()  # they are not sent as they are
    return with_unknown(item, {"id": id, **read})


def _read_of_service(given: Fields) -> Item:
    """Read what the service ran. Services of other formats receive only images, if at all."""
    kind = given.text("type")
    item = {"type": kind, "status": given.text("status", "completed")}
    if kind == "image_generation_call":
        item["result"] = given.needed("result")
        _not_empty(bytes_of(item["result"], given.at("result")), given.at("result"))
    if given.fields_for_service("type") is not None:
        given.drop_elsewhere(kind)
        return {**item, EXTRA: {}}  # it is sent even without further fields
    if "result" in item:
        given.drop_elsewhere(kind, Image)
    else:
        given.drop_this(kind)
    return item


_CARRYING = frozenset(
    {
        "custom_tool_call", "custom_tool_call_output", "function_call", "function_call_output",
        "message", *OF_SERVICE,
    }
)  # fmt: skip
"""Types of items that are sent as they are to services of this format."""


def with_unknown(given: Fields, item: Item) -> Item:
    """Add unknown fields to an item or a part, for a service of this format."""
    extra = given.extra_fields(*_NEUTRAL)
    return {**item, EXTRA: extra[NAME]} if extra else item


_NEUTRAL = ("annotations", "id", "logprobs", "status")
"""Fields that mean nothing to services of other formats."""


def _message(role: str, content: Sequence[Item], status: str = "completed") -> Item:
    return {"type": "message", "role": role, "status": status, "content": [*content]}


def _read_message(item: Fields) -> Item:
    role = item.choice("role", ("user", "assistant", "system", "developer"))
    if not role:
        raise MissingParameter("role is missing", path=item.at("role"))
    read_part = _read_answer_part if role == "assistant" else _read_part
    if isinstance(item.raw("content"), str):
        kind = "output_text" if role == "assistant" else "input_text"
        parts = [_text_part(kind, item.text("content"))]
    elif "content" in item:
        parts = [with_unknown(part, read_part(part)) for part in item.objects("content")]
    else:
        raise item.must_be("content", "a string or a list of parts")
    if not parts and role != "assistant":
        raise item.must_be("content", "at least one part")
    read = _message(role, parts, _status(item))
    phase = item.choice("phase", _PHASES) if role == "assistant" else None
    return {**read, "phase": phase} if phase else read


_STATUSES = ("in_progress", "completed", "incomplete")


def _text_part(kind: str, text: str) -> Item:
    if kind == "output_text":
        return {"type": kind, "text": text, "annotations": [], "logprobs": []}
    return {"type": kind, "text": text}


def _read_answer_part(part: Fields) -> Item:
    """Read a part of an assistant message."""
    kind = part.choice("type", ("output_text", "refusal"))
    if kind == "refusal":
        return {"type": kind, "refusal": part.needed("refusal")}
    return _text_part("output_text", part.needed("text"))


def _read_part(part: Fields) -> Item:
    kind = part.choice("type", ("input_text", "input_image", "input_file"))
    if not kind:
        raise MissingParameter("type is missing", path=part.at("type"))
    if kind == "input_text":
        return _text_part(kind, part.needed("text"))
    if "file_id" in part:
        raise UnsupportedParameter(
            "the Files API is not supported: send the content or its URL", path=part.at("file_id")
        )
    return _read_image(part) if kind == "input_image" else _read_file(part)


def _read_image(part: Fields) -> Item:
    url = part.needed("image_url")
    if not _ADDRESS.fullmatch(url):
        inline(url, part.at("image_url"))
    detail = part.choice("detail", _DETAILS) or "auto"
    report_detail(part, detail)
    return {"type": "input_image", "image_url": url, "detail": detail}


def _read_file(part: Fields) -> Item:
    names = ("filename", "file_data", "file_url")
    read = {name: part.text(name) for name in names if name in part}
    if ("file_data" in read) == ("file_url" in read):
        raise MissingParameter("give either file_data or file_url", path=part.path)
    if "file_data" in read:
        inline(read["file_data"], part.at("file_data"), bare=True)
    elif not _ADDRESS.fullmatch(read["file_url"]):
        raise part.must_be("file_url", "an http or https address")
    return {"type": "input_file", **read}


def inline(url: str, path: str, *, bare: bool = False) -> tuple[bytes, str]:
    """The data of a data URL and its media type. If `bare`, plain base64 is accepted, whose media
    type is empty. Raises `ValidationError`."""
    head = _INLINE.match(url)
    if head is None and (not bare or url.startswith("data:")):
        raise ValidationError("must be an http(s) URL or base64 data", path=path)
    data = bytes_of(url[head.end() if head else 0 :], path)
    return _not_empty(data, path), (head.group(1) or "") if head else ""


def _not_empty(data: bytes, path: str) -> bytes:
    if not data:
        raise ValidationError("must not be empty", path=path)
    return data


def is_inline(url: str) -> bool:
    return not _ADDRESS.fullmatch(url)


def _read_call(item: Fields, content: str) -> Item:
    names = ("type", "call_id", "name", content)
    read = {name: item.needed(name) for name in names}
    if "namespace" in item:
        read["namespace"] = item.text("namespace")
    return {**read, "status": _status(item)}


def _status(item: Fields) -> str:
    return item.choice("status", _STATUSES) or "completed"


def _read_output(item: Fields) -> Item:
    call = item.needed("call_id")
    output = item.raw("output")
    if isinstance(output, list):
        output = [with_unknown(part, _read_part(part)) for part in item.objects("output")]
    elif not isinstance(output, str):
        raise item.must_be("output", "a string or a list of parts")
    return {"type": item.text("type"), "call_id": call, "output": output, "status": _status(item)}


def _read_search(item: Fields) -> Item:
    return {
        "type": "tool_search_call",
        "call_id": item.needed("call_id"),
        "execution": "client",
        "arguments": item.mapping("arguments") or {},
        "status": _status(item),
    }


def _read_found(item: Fields) -> Item:
    """Read the result of a search for tools."""
    head = {"type": "tool_search_output", "call_id": item.needed("call_id"), "execution": "client"}
    return {**head, "status": _status(item), "tools": _tools(item)}


def _read_tools(item: Fields) -> Item:
    role = item.text("role", "developer")
    return {"type": "additional_tools", "role": role, "tools": _tools(item)}


def _tools(item: Fields) -> list[Mapping[str, Any]]:
    return [tool for tool, _ in read_tool_list(item, "tools")]


def _read_reasoning(item: Fields, unseal: Unseal) -> Item:
    """Data that was not sealed by this host is ignored."""
    read: Item = {"type": "reasoning", "summary": _texts(item, "summary", "summary_text")}
    if item.values("content"):
        read["content"] = _texts(item, "content", "reasoning_text")
    sealed = item.text("encrypted_content")
    opaque = unseal(sealed) if sealed else None
    return {**read, "opaque": opaque} if opaque else read


def _texts(item: Fields, name: str, kind: str) -> list[Item]:
    return [{"type": kind, "text": part.needed("text")} for part in item.objects(name)]


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
    """The items that replace a conversation. Raises `UnexpectedFinish` if the summary is not
    complete; the client keeps the conversation."""
    if summary.finish != "stop" or not summary.text.strip():
        raise UnexpectedFinish(
            f"the summary is not complete: {summary.reason}", reason=summary.reason, **summary.place
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
