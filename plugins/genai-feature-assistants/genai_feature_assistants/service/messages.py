"""Messages of threads.

Source: OpenAI API reference, "Messages"; OpenAPI document 2.3.0.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from genai_wire_openai.server.files import Files
from genai_wire_openai.server.objects import Object, ObjectStore, new_id, shown

from genai_feature_assistants.service.fields import metadata_in
from genai_host.api import (
    Image,
    JsonReader,
    Message,
    Part,
    RouteRequest,
    RouteResponse,
    Text,
    body_of,
    bytes_of,
    json_response,
)
from genai_host.errors import NotFound, ValidationError

if TYPE_CHECKING:
    from genai_host.api import HostServices

_MOST_TEXT = 1_000_000  # characters
_DETAILS = ("auto", "low", "high")
_TOOLS = ("code_interpreter", "file_search")

MessageText = Mapping[str, Any]
"""Role, content, attachments and metadata of a message."""


def read_message(given: JsonReader, files: Files, user: str) -> dict[str, Any]:
    """Return the message of a request. Raises `ValidationError`."""
    role = given.choice("role", ("user", "assistant"))
    if not role:
        raise ValidationError("role is missing", path=given.at("role"))
    message = {
        "role": role,
        "content": _content_in(given, files, user),
        "attachments": _attachments_in(given, files, user),
        "metadata": metadata_in(given),
    }
    given.nothing_else()
    return message


def made(shelf: ObjectStore, thread: str, message: MessageText) -> dict[str, Any]:
    """Return a new message with all its fields."""
    return {
        "id": new_id("msg"),
        "object": "thread.message",
        "created_at": shelf.now(),
        "assistant_id": None,
        "thread_id": thread,
        "run_id": None,
        "status": "completed",
        "incomplete_details": None,
        "completed_at": shelf.now(),
        "incomplete_at": None,
        **message,
    }


def text_content(value: str, annotations: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    return {"type": "text", "text": {"value": value, "annotations": list(annotations)}}


def attached_to(messages: Sequence[MessageText], tool: str) -> list[str]:
    """Return the ids of the files that are attached for a tool."""
    return [
        each["file_id"]
        for message in messages
        for each in message["attachments"]
        if {"type": tool} in each["tools"]
    ]


def _content_in(given: JsonReader, files: Files, user: str) -> list[dict[str, Any]]:
    content = given.raw("content")
    if isinstance(content, str):
        if not content:
            raise ValidationError("must not be empty", path=given.at("content"))
        _must_fit(content, given.at("content"))
        return [text_content(content)]
    found = [_block_in(each, files, user) for each in given.objects("content")]
    if not found:
        raise ValidationError("must not be empty", path=given.at("content"))
    return found


def _block_in(given: JsonReader, files: Files, user: str) -> dict[str, Any]:
    kind = given.choice("type", ("text", "image_url", "image_file"))
    if kind == "text":
        text = given.text("text")
        _must_fit(text, given.at("text"))
        return text_content(text)
    inner = given.object(kind or "type")
    if inner is None:
        raise ValidationError(f"{kind} is missing", path=given.path)
    detail = {"detail": inner.choice("detail", _DETAILS, "auto")}
    if kind == "image_url":
        url = inner.text("url")
        if not url.startswith(("https://", "http://", "data:image/")):
            raise ValidationError("must be the URL of an image", path=inner.at("url"))
        return {"type": kind, kind: {"url": url, **detail}}
    files.must_be(user, {inner.text("file_id"): inner.at("file_id")})
    return {"type": kind, kind: {"file_id": inner.text("file_id"), **detail}}


def _must_fit(text: str, path: str) -> None:
    if len(text) > _MOST_TEXT:
        raise ValidationError(f"a text must have at most {_MOST_TEXT} characters", path=path)


def _attachments_in(given: JsonReader, files: Files, user: str) -> list[dict[str, Any]]:
    found = []
    for each in given.objects("attachments"):
        file = each.text("file_id")
        files.must_be(user, {file: each.at("file_id")})
        tools = [{"type": tool.choice("type", _TOOLS)} for tool in each.objects("tools")]
        each.nothing_else()
        found.append({"file_id": file, "tools": tools})
    return found


class Messages:
    """The messages of all users."""

    def __init__(self, host: HostServices, files: Files) -> None:
        self._host = host
        self._files = files

    def shelf(self, user: str, thread: str) -> ObjectStore:
        return ObjectStore(self._host, user, "message", thread)

    def read(self, user: str, given: Iterable[JsonReader]) -> list[dict[str, Any]]:
        """Return the messages of a request. Raises `ValidationError`."""
        return [read_message(each, self._files, user) for each in given]

    def add(self, user: str, thread: str, message: MessageText) -> Object:
        shelf = self.shelf(user, thread)
        return shelf.add(made(shelf, thread, message))

    def show(self, request: RouteRequest) -> RouteResponse:
        return json_response(shown(self._shelf(request).get(request.parameters["message"])))

    def page(self, request: RouteRequest) -> RouteResponse:
        run = request.query.get("run_id")
        where = {"run_id": run} if run else None
        return json_response(self._shelf(request).page(request.query, where=where))

    def update(self, request: RouteRequest) -> RouteResponse:
        given = body_of(request)
        metadata = metadata_in(given)
        given.nothing_else()
        fields = {"metadata": metadata} if "metadata" in given.value else {}
        changed = self._shelf(request).update(request.parameters["message"], **fields)
        return json_response(shown(changed))

    def delete(self, request: RouteRequest) -> RouteResponse:
        id = request.parameters["message"]
        self._shelf(request).delete(id, keep_place=True)
        return json_response({"id": id, "object": "thread.message.deleted", "deleted": True})

    def for_model(self, user: str, thread: str, last: int | None) -> list[Message]:
        """Return the messages of a thread, oldest first, as the model is shown them."""
        shelf = self.shelf(user, thread)
        found = list(shelf.all()) if last is None else shelf.last(last)
        found = [each for each in found if each["content"] or each["attachments"]]
        return [self._message(user, each) for each in found]

    def _message(self, user: str, message: Object) -> Message:
        parts = [self._part(user, block) for block in message["content"]]
        ids = [each["file_id"] for each in message["attachments"] or ()]
        names = [self._files.name(user, id, id) for id in ids]
        if names:
            parts.append(Text(f"\n[attached: {', '.join(names)}]"))
        return Message(message["role"], parts)

    def _part(self, user: str, block: Mapping[str, Any]) -> Part:
        kind = block["type"]
        if kind == "text":
            return Text(block["text"]["value"])
        if kind == "image_file":
            id = block[kind]["file_id"]
            name = self._files.name(user, id)
            try:
                data = self._files.data(user, id)
            except NotFound:
                return Text(f"[a deleted image: {id}]")
            return Image(data, mimetypes.guess_type(name)[0] or "image/png")
        url = block[kind]["url"]
        head, comma, data = url.partition(",")
        if not head.startswith("data:") or not comma:
            return Image(url=url)
        return Image(bytes_of(data, "$.url"), head[len("data:") :].partition(";")[0])

    def _shelf(self, request: RouteRequest) -> ObjectStore:
        thread = request.parameters["thread"]
        ObjectStore(self._host, request.user, "thread").get(thread)
        return self.shelf(request.user, thread)
