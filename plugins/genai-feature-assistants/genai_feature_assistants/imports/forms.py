"""Exported objects and messages, converted to the form in which the service stores them.

They are checked by the functions that read requests of the API. Each function raises
`ValidationError` for an invalid object. Unknown fields are left out, because an export may have
fields that the API does not have.

Source: OpenAPI document 2.3.0, "AssistantObject", "ThreadObject", "MessageObject",
"VectorStoreObject", "VectorStoreFileObject", "OpenAIFile".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from genai_feature_assistants.service.fields import (
    MOST_CODE_FILES,
    attributes_in,
    format_in,
    metadata_in,
    number_within,
    text_in,
    tools_in,
)
from genai_feature_assistants.service.messages import text_content
from genai_feature_assistants.service.vector_store_files import chunking_in
from genai_host.api.http_routes import JsonReader, bytes_of
from genai_host.errors import ValidationError

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_LATEST = 253_402_300_799  # the end of the year 9999
_NAME, _DESCRIPTION, _INSTRUCTIONS = 256, 512, 256_000
_FILE_NAME, _PURPOSE = 255, 64
_MODEL = 256
_DAYS = 365


def id_in(given: JsonReader, name: str = "id") -> str:
    """An id that may stand in a path."""
    id = given.text(name)
    if not _ID.fullmatch(id):
        raise ValidationError(
            f"{name}: {id!r:.80} is not an id: letters, digits, _ and -, at most 64",
            path=given.at(name),
        )
    return id


def optional_id_in(given: JsonReader, name: str) -> str | None:
    return id_in(given, name) if given.raw(name) else None


def ids_in(given: JsonReader, name: str, most: int) -> list[str]:
    ids = list(dict.fromkeys(given.texts(name)))
    if len(ids) > most:
        raise ValidationError(f"{name} has at most {most}", path=given.at(name))
    for id in ids:
        if not _ID.fullmatch(id):
            raise ValidationError(f"{id!r:.80} is not an id", path=given.at(name))
    return ids


def time_in(given: JsonReader, name: str, now: int) -> int:
    """Seconds since 1970; now if it is not there."""
    value = given.whole(name)
    if value is not None and not 0 <= value <= _LATEST:
        raise ValidationError(f"{name} is no time", path=given.at(name))
    return now if value is None else value


def assistant_of(given: JsonReader, now: int, models: Mapping[str, str]) -> dict[str, Any]:
    """
    models   by the names that exported assistants have for them
    """
    model = text_in(given, "model", _MODEL)
    if not model:
        raise ValidationError("model is missing", path=given.at("model"))
    read: dict[str, Any] = {
        "id": id_in(given),
        "object": "assistant",
        "created_at": time_in(given, "created_at", now),
        "name": text_in(given, "name", _NAME),
        "description": text_in(given, "description", _DESCRIPTION),
        "model": models.get(model, model),
        "instructions": text_in(given, "instructions", _INSTRUCTIONS),
        "tools": tools_in(given),
        "tool_resources": resources_in(given),
        "metadata": metadata_in(given),
        "temperature": number_within(given, "temperature", 0, 2),
        "top_p": number_within(given, "top_p", 0, 1),
        "response_format": format_in(given),
    }
    if "reasoning_effort" in given:
        read["reasoning_effort"] = text_in(given, "reasoning_effort", 20)
    return read


def thread_of(given: JsonReader, now: int) -> dict[str, Any]:
    return {
        "id": id_in(given),
        "object": "thread",
        "created_at": time_in(given, "created_at", now),
        "metadata": metadata_in(given),
        "tool_resources": resources_in(given),
        "_run": "",
    }


def resources_in(given: JsonReader) -> dict[str, Any]:
    """What tools are given, whether it is there or not."""
    found: dict[str, Any] = {}
    resources = given.object("tool_resources")
    if resources is None:
        return found
    code, search = resources.object("code_interpreter"), resources.object("file_search")
    if code is not None:
        found["code_interpreter"] = {"file_ids": ids_in(code, "file_ids", MOST_CODE_FILES)}
    if search is not None:
        found["file_search"] = {"vector_store_ids": ids_in(search, "vector_store_ids", 1)}
    return found


def needed_by(value: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    """The kind and the id of what the tools of an assistant or a thread are given."""
    resources = value["tool_resources"]
    files = resources.get("code_interpreter", {}).get("file_ids", ())
    stores = resources.get("file_search", {}).get("vector_store_ids", ())
    return [*(("file", id) for id in files), *(("vector store", id) for id in stores)]


def store_of(given: JsonReader, now: int) -> tuple[dict[str, Any], list[str]]:
    """A vector store, and the ids of files, where the export has put them into it.

    One that expires so long after it was used last was used now: it would have expired
    before it was imported.
    """
    expires = given.object("expires_after")
    days = None if expires is None else expires.whole("days")
    if expires is not None and (days is None or not 1 <= days <= _DAYS):
        raise ValidationError(f"days is from 1 to {_DAYS}", path=expires.at("days"))
    store = {
        "id": id_in(given),
        "object": "vector_store",
        "created_at": time_in(given, "created_at", now),
        "name": text_in(given, "name", _NAME) or "",
        "metadata": metadata_in(given),
        "expires_after": None if days is None else {"anchor": "last_active_at", "days": days},
        "last_active_at": time_in(given, "last_active_at", now) if days is None else now,
    }
    return store, ids_in(given, "file_ids", 10_000)


def store_file_of(given: JsonReader, now: int) -> dict[str, Any]:
    """What `StoreFiles.add` takes, by name, and `created_at`."""
    strategy = given.raw("chunking_strategy")
    is_known = isinstance(strategy, dict) and strategy.get("type") == "static"
    return {
        "store": id_in(given, "vector_store_id"),
        "file": id_in(given),
        "chunking": chunking_in(given) if is_known else None,
        "attributes": attributes_in(given),
        "created_at": time_in(given, "created_at", now),
    }


def file_of(given: JsonReader, now: int) -> dict[str, Any]:
    """A file without its bytes; `bytes` is how many it should have, or None."""
    name = (text_in(given, "filename", 4096) or "").replace("\\", "/").rpartition("/")[2]
    id = id_in(given)
    return {
        "id": id,
        "object": "file",
        "bytes": given.whole("bytes"),
        "created_at": time_in(given, "created_at", now),
        "filename": name.replace("\0", "")[:_FILE_NAME] or id,
        "purpose": text_in(given, "purpose", _PURPOSE) or "assistants",
        "status": "processed",
    }


_MOST_TEXT = 1_000_000  # characters
_MOST_MARK = 1000
_MOST_BLOCKS = 1000
_BLOCKS = ("text", "refusal", "image_url", "image_file")
_TOOLS = ("code_interpreter", "file_search")
_CITED = ("file_citation", "file_path")
_URLS = ("https://", "http://", "data:image/")


def message_of(given: JsonReader, now: int) -> dict[str, Any]:
    """Raises `ValidationError` for what is no message. Annotations of kinds that the API of
    Assistants has not are left out."""
    created = time_in(given, "created_at", now)
    status = given.choice("status", ("in_progress", "incomplete", "completed"), "completed")
    reason = given.object("incomplete_details")
    role = given.choice("role", ("user", "assistant"))
    if not role:
        raise ValidationError("role is missing", path=given.at("role"))
    is_whole = status == "completed"
    why = "run_cancelled" if reason is None else reason.text("reason", "run_cancelled")
    return {
        "id": id_in(given),
        "object": "thread.message",
        "created_at": created,
        "assistant_id": optional_id_in(given, "assistant_id"),
        "thread_id": id_in(given, "thread_id"),
        "run_id": optional_id_in(given, "run_id"),
        "status": "completed" if is_whole else "incomplete",
        "incomplete_details": None if is_whole else {"reason": why[:64]},
        "completed_at": time_in(given, "completed_at", created) if is_whole else None,
        "incomplete_at": None if is_whole else time_in(given, "incomplete_at", created),
        "role": role,
        "content": _content_in(given),
        "attachments": [_attachment(each) for each in _few(given, "attachments")],
        "metadata": metadata_in(given),
    }


def files_of(message: dict[str, Any]) -> list[str]:
    """The ids of the files that a message shows, or that are attached to it."""
    pictures = [
        block["image_file"]["file_id"]
        for block in message["content"]
        if block["type"] == "image_file"
    ]
    return [*pictures, *(each["file_id"] for each in message["attachments"])]


def _content_in(given: JsonReader) -> list[dict[str, Any]]:
    content = given.raw("content")
    if isinstance(content, str):
        found = [text_content(_text_in(given, "content"))]
    else:
        found = [_block(each) for each in _few(given, "content")]
    if not any(block["type"] != "text" or block["text"]["value"] for block in found):
        raise ValidationError("there is nothing in it", path=given.at("content"))
    return found


def _block(given: JsonReader) -> dict[str, Any]:
    kind = given.choice("type", _BLOCKS)
    if kind == "refusal":
        return text_content(_text_in(given, "refusal"))
    if kind == "text" and isinstance(given.raw("text"), str):
        return text_content(_text_in(given, "text"))
    inner = given.object(kind or "type")
    if inner is None:
        raise ValidationError(f"there is no {kind or 'type'}", path=given.path)
    if kind == "text":
        cited = [_annotation(each) for each in _few(inner, "annotations")]
        return text_content(_text_in(inner, "value"), [each for each in cited if each])
    told = {"detail": inner.choice("detail", ("auto", "low", "high"), "auto")}
    if kind == "image_file":
        return {"type": kind, kind: {"file_id": id_in(inner, "file_id"), **told}}
    url = inner.text("url")
    if not url.startswith(_URLS):
        raise ValidationError("this is not an address of a picture", path=inner.at("url"))
    if url.startswith("data:"):
        bytes_of(url.partition(",")[2], inner.at("url"))
    return {"type": kind, kind: {"url": url, **told}}


def _annotation(given: JsonReader) -> dict[str, Any] | None:
    kind = given.text("type")
    if kind not in _CITED:
        return None
    cited = given.object(kind)
    if cited is None:
        return None
    mark = given.text("text")
    if len(mark) > _MOST_MARK:
        raise ValidationError(f"text has at most {_MOST_MARK} characters", path=given.at("text"))
    return {
        "type": kind,
        "text": mark,
        "start_index": max(0, given.whole("start_index") or 0),
        "end_index": max(0, given.whole("end_index") or 0),
        kind: {"file_id": id_in(cited, "file_id")},
    }


def _attachment(given: JsonReader) -> dict[str, Any]:
    tools = [{"type": tool.choice("type", _TOOLS)} for tool in _few(given, "tools")]
    return {"file_id": id_in(given, "file_id"), "tools": tools}


def _few(given: JsonReader, name: str) -> Sequence[JsonReader]:
    found = given.objects(name)
    if len(found) > _MOST_BLOCKS:
        raise ValidationError(f"{name} has at most {_MOST_BLOCKS}", path=given.at(name))
    return found


def _text_in(given: JsonReader, name: str) -> str:
    text = given.text(name)
    if len(text) > _MOST_TEXT:
        raise ValidationError(f"a text has at most {_MOST_TEXT} characters", path=given.at(name))
    return text
