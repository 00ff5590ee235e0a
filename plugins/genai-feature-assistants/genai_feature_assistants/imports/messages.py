"""Exported messages of threads, checked, as the service keeps them.

Source: OpenAPI document 2.3.0, "MessageObject".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from genai_feature_assistants.imports.forms import id_in, optional_id_in, time_in
from genai_feature_assistants.service.fields import metadata_in
from genai_feature_assistants.service.messages import text_content
from genai_host.api.http_routes import JsonReader, bytes_of
from genai_host.errors import ValidationError

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
        raise ValidationError("this is no address of a picture", path=inner.at("url"))
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
