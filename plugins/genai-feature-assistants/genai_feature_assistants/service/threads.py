"""Threads: the messages of a conversation, and its active run.

Source: OpenAI API reference, "Threads"; OpenAPI document 2.3.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from genai_wire_openai.server.objects import Missing, Object, ObjectStore, new_id, shown

from genai_feature_assistants.service.assistants import Resources
from genai_feature_assistants.service.fields import MOST_CODE_FILES, metadata_in
from genai_feature_assistants.service.messages import Messages, MessageText
from genai_feature_assistants.service.run_states import RunStates
from genai_feature_assistants.service.vector_store_files import StoreFiles
from genai_feature_assistants.service.vector_stores import VectorStores
from genai_host.api import JsonReader, RouteRequest, RouteResponse, body_of, json_response
from genai_host.errors import ValidationError

if TYPE_CHECKING:
    from genai_host.api import HostServices

_ATTACHED_LIVE = {"anchor": "last_active_at", "days": 7}


class Threads:
    """The threads of all users."""

    def __init__(
        self,
        host: HostServices,
        messages: Messages,
        resources: Resources,
        stores: VectorStores,
        store_files: StoreFiles,
        states: RunStates,
    ) -> None:
        self._host = host
        self._messages = messages
        self._resources = resources
        self._stores = stores
        self._store_files = store_files
        self._states = states

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
        thread = shelf.add(
            {
                "id": new_id("thread"),
                "object": "thread",
                "created_at": shelf.now(),
                "metadata": metadata,
                "tool_resources": resources,
                "_run": "",
            }
        )
        self.append_messages(user, thread["id"], messages)
        return self.get(user, thread["id"])

    def append_messages(
        self, user: str, thread: str, messages: Sequence[MessageText]
    ) -> list[Object]:
        """Add messages, and give their attachments to the tools.

        Raises:
            Missing: The thread was deleted meanwhile.
        """
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
        """Make a run the active run of a thread.

        Raises:
            ValidationError: Another run is active.
        """

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
            if len(ids) > MOST_CODE_FILES:
                raise ValidationError(f"code must have at most {MOST_CODE_FILES} files")
            return {
                **found,
                "tool_resources": {**resources, "code_interpreter": {"file_ids": ids}},
            }, None

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
