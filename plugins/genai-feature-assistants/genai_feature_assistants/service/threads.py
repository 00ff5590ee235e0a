"""Threads: the messages of a conversation, and its active run.

Source: OpenAI API reference, "Threads", "Messages"; OpenAPI document 2.3.0.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import frozen
from genai_wire_openai.server.files import Files
from genai_wire_openai.server.objects import Missing, Object, ObjectStore, new_id, shown

from genai_feature_assistants.service.assistants import Resources
from genai_feature_assistants.service.fields import MAX_CODE_FILES, metadata_change, metadata_in
from genai_feature_assistants.service.run_states import RunStates
from genai_feature_assistants.service.vector_store_files import StoreFiles
from genai_feature_assistants.service.vector_stores import VectorStores
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

_MAX_TEXT = 1_000_000  # characters
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
        "thread_id": thread,
        "status": "completed",
        "completed_at": shelf.now(),
        **dict.fromkeys(("assistant_id", "run_id", "incomplete_details", "incomplete_at")),
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
    if len(text) > _MAX_TEXT:
        raise ValidationError(f"a text must have at most {_MAX_TEXT} characters", path=path)


def _attachments_in(given: JsonReader, files: Files, user: str) -> list[dict[str, Any]]:
    found = []
    for each in given.objects("attachments"):
        file = each.text("file_id")
        files.must_be(user, {file: each.at("file_id")})
        tools = [{"type": tool.choice("type", _TOOLS)} for tool in each.objects("tools")]
        each.nothing_else()
        found.append({"file_id": file, "tools": tools})
    return found


@frozen(eq=False, repr=False)
class Messages:
    """The messages of all users."""

    _host: HostServices
    _files: Files

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
        fields = metadata_change(request)
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


_ATTACHED_LIVE = {"anchor": "last_active_at", "days": 7}


@frozen(eq=False, repr=False)
class Threads:
    """The threads of all users."""

    _host: HostServices
    _messages: Messages
    _resources: Resources
    _stores: VectorStores
    _store_files: StoreFiles
    _states: RunStates

    def create(self, request: RouteRequest) -> RouteResponse:
        given = body_of(request) if request.body else JsonReader({}, "$")
        return json_response(shown(self.make(request.user, given)))

    def show(self, request: RouteRequest) -> RouteResponse:
        return json_response(shown(self.get(request.user, _id(request))))

    def update(self, request: RouteRequest) -> RouteResponse:
        given = body_of(request)
        self.get(request.user, _id(request))
        fields: dict[str, Any] = {}
        if "metadata" in given.value:
            fields["metadata"] = metadata_in(given)
        if "tool_resources" in given.value:
            fields["tool_resources"] = self._resources.read(request.user, given)
        given.raw("metadata"), given.raw("tool_resources")
        given.nothing_else()
        return json_response(shown(self.shelf(request.user).update(_id(request), **fields)))

    def delete(self, request: RouteRequest) -> RouteResponse:
        id, user = _id(request), request.user

        def check(thread: Object) -> None:
            run = self._states.active(user, thread)
            if run is not None:
                raise ValidationError(f"the run {run['id']} is active: cancel it first")

        self.shelf(user).withdraw(id, check)
        self.remove(user, id)
        return json_response({"id": id, "object": "thread.deleted", "deleted": True})

    def remove(self, user: str, id: str) -> None:
        """Delete the messages and runs of a thread, and then the thread. Raises `Missing`."""
        runs = self._states.shelf(user, id)
        for each in runs.all():
            self._states.forget(user, each["_conversation"])
            ObjectStore(self._host, user, "step", each["id"]).clear()
        runs.clear()
        self._messages.shelf(user, id).clear()
        self.shelf(user).delete(id)

    def add_message(self, request: RouteRequest) -> RouteResponse:
        id, user = _id(request), request.user
        thread = self.get(user, id)
        messages = self._messages.read(user, [body_of(request)])
        run = self._states.active(user, thread)
        if run is not None:
            raise ValidationError(f"Can't add messages to {id} while a run {run['id']} is active.")
        return json_response(shown(self.append_messages(user, id, messages)[0]))

    def make(self, user: str, given: JsonReader) -> Object:
        """Make a thread from a request. Raises `ValidationError`."""
        metadata = metadata_in(given)
        messages = self._messages.read(user, given.objects("messages"))
        given.raw("tool_resources")
        given.nothing_else()
        resources = self._resources.read(user, given)
        shelf = self.shelf(user)
        thread: dict[str, Any] = {
            "id": new_id("thread"),
            "object": "thread",
            "created_at": shelf.now(),
            "metadata": metadata,
            "tool_resources": resources,
            "_run": "",
        }
        shelf.add(thread)
        self.append_messages(user, thread["id"], messages)
        return self.get(user, thread["id"])

    def append_messages(
        self, user: str, thread: str, messages: Sequence[MessageText]
    ) -> list[Object]:
        """Add messages, and give their attachments to the tools. Raises `Missing`: the thread was
        deleted meanwhile."""
        added = [self._messages.add(user, thread, each) for each in messages]
        try:
            self.get(user, thread)
        except Missing:
            self._messages.shelf(user, thread).clear()
            raise
        for message in added:
            for attached in message["attachments"]:
                for tool in attached["tools"]:
                    self._attach(user, thread, attached["file_id"], tool["type"])
        return added

    def get(self, user: str, id: str) -> Object:
        """Return a thread. Raises `Missing`."""
        return self.shelf(user).get(id)

    def shelf(self, user: str) -> ObjectStore:
        return ObjectStore(self._host, user, "thread")

    def occupy(self, user: str, id: str, run: str) -> None:
        """Make a run the active run of a thread. Raises `ValidationError`: another run is
        active."""

        def make(thread: Object) -> tuple[Object, None]:
            other = self._states.active(user, thread)
            if other is not None:
                raise ValidationError(f"Thread {id} already has an active run {other['id']}.")
            return {**thread, "_run": run}, None

        self.shelf(user).change(id, make)

    def _attach(self, user: str, thread: str, file: str, tool: str) -> None:
        if tool == "file_search":
            self._store_files.add(user, self._store_of(user, thread), file)
            return

        def make(found: Object) -> tuple[Object, None]:
            resources = dict(found["tool_resources"])
            ids = resources.get("code_interpreter", {"file_ids": []})["file_ids"]
            if file not in ids:
                ids = [*ids, file]
            if len(ids) > MAX_CODE_FILES:
                raise ValidationError(f"code must have at most {MAX_CODE_FILES} files")
            resources["code_interpreter"] = {"file_ids": ids}
            return {**found, "tool_resources": resources}, None

        self.shelf(user).change(thread, make)

    def _store_of(self, user: str, id: str) -> str:
        """Return the id of the vector store of a thread. Make one if it has none."""
        resources = self.get(user, id)["tool_resources"]
        has = resources.get("file_search", {}).get("vector_store_ids")
        if has:
            return str(has[0])
        made: str = self._stores.make(user, [], expires=_ATTACHED_LIVE)["id"]
        search = {"file_search": {"vector_store_ids": [made]}}
        self.shelf(user).update(id, tool_resources={**resources, **search})
        return made


def _id(request: RouteRequest) -> str:
    return request.parameters["thread"]
