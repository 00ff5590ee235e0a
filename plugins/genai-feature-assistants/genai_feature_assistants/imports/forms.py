"""Exported objects, checked by what reads the requests of the API, as the service keeps them.

Each function raises `ValidationError` for what is no such object. Fields that nobody knows are
left out: those who exported may have some of their own.

Source: OpenAPI document 2.3.0, "AssistantObject", "ThreadObject", "VectorStoreObject",
"VectorStoreFileObject", "OpenAIFile".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from genai_feature_assistants.service.attributes import attributes_in
from genai_feature_assistants.service.fields import (
    MOST_CODE_FILES,
    format_in,
    metadata_in,
    number_within,
    text_in,
    tools_in,
)
from genai_feature_assistants.service.store_files import chunking_in
from genai_host.api.http_routes import JsonReader
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
            f"{name}: {id!r:.80} is no id: letters, digits, _ and -, at most 64",
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
            raise ValidationError(f"{id!r:.80} is no id", path=given.at(name))
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
