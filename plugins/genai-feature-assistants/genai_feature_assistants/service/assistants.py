"""Assistants, and the resources of their tools.

An assistant is a model with instructions and tools. Resources are files for the code interpreter
and vector stores for the file search; `Resources` reads them for assistants and threads.

Source: OpenAI API reference, "Assistants"; OpenAPI document 2.3.0, "CreateAssistantRequest",
"CreateThreadRequest".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from genai_wire_openai.server.files import Files
from genai_wire_openai.server.objects import Object, ObjectStore, new_id, shown

from genai_feature_assistants.service.fields import (
    MAX_CODE_FILES,
    format_in,
    metadata_in,
    tools_in,
)
from genai_feature_assistants.service.vector_store_files import chunking_in
from genai_feature_assistants.service.vector_stores import VectorStores
from genai_host.api import JsonReader, RouteRequest, RouteResponse, body_of, json_response
from genai_host.errors import NotFound, ValidationError

if TYPE_CHECKING:
    from genai_host.api import HostServices


class Resources:
    """Reads the resources of tools."""

    def __init__(self, files: Files, stores: VectorStores) -> None:
        self._files = files
        self._stores = stores

    def read(self, user: str, given: JsonReader) -> dict[str, Any]:
        """Return the field `tool_resources`. Vector stores that it describes are made. Raises
        `ValidationError`: the field is invalid, or names an object that does not exist."""
        resources = given.object("tool_resources")
        if resources is None:
            return {}
        found: dict[str, Any] = {}
        code = resources.object("code_interpreter")
        if code is not None:
            found["code_interpreter"] = {"file_ids": self._code_files(user, code)}
        search = resources.object("file_search")
        resources.nothing_else()
        if search is not None:
            found["file_search"] = {"vector_store_ids": self._stores_of(user, search)}
        return found

    def _code_files(self, user: str, code: JsonReader) -> list[str]:
        ids = list(code.texts("file_ids"))
        path = code.at("file_ids")
        if len(ids) > MAX_CODE_FILES:
            raise ValidationError(f"must be at most {MAX_CODE_FILES} files", path=path)
        self._files.must_be(user, {id: f"{path}[{number}]" for number, id in enumerate(ids)})
        code.nothing_else()
        return ids

    def _stores_of(self, user: str, search: JsonReader) -> list[str]:
        ids = list(search.texts("vector_store_ids"))
        made = search.objects("vector_stores")
        search.nothing_else()
        if len(ids) + len(made) > 1:
            raise ValidationError("only one vector store is supported", path=search.path)
        for id in ids:
            try:
                self._stores.get(user, id)
            except NotFound as error:
                path = search.at("vector_store_ids")
                raise ValidationError(error.message, path=path) from error
        for each in made:
            files, metadata = each.texts("file_ids"), metadata_in(each)
            chunking = chunking_in(each)
            each.nothing_else()
            ids.append(self._stores.make(user, files, metadata=metadata, chunking=chunking)["id"])
        return ids


_NAME, _DESCRIPTION, _INSTRUCTIONS = 256, 512, 256_000


class Assistants:
    """The assistants of all users."""

    def __init__(self, host: HostServices, resources: Resources) -> None:
        self._host = host
        self._resources = resources

    def create(self, request: RouteRequest) -> RouteResponse:
        given = body_of(request)
        given.required_text("model")
        shelf = self._shelf(request.user)
        usual: dict[str, Any] = {
            "id": new_id("asst"),
            "object": "assistant",
            "created_at": shelf.now(),
            **dict.fromkeys(("name", "description", "instructions", "temperature", "top_p")),
            "tools": [],
            "tool_resources": {},
            "metadata": {},
            "response_format": "auto",
        }
        return json_response(shown(shelf.add({**usual, **self._read(request.user, given)})))

    def show(self, request: RouteRequest) -> RouteResponse:
        return json_response(shown(self.get(request.user, request.parameters["assistant"])))

    def page(self, request: RouteRequest) -> RouteResponse:
        return json_response(self._shelf(request.user).page(request.query))

    def update(self, request: RouteRequest) -> RouteResponse:
        shelf, id = self._shelf(request.user), request.parameters["assistant"]
        shelf.get(id)
        fields = self._read(request.user, body_of(request))
        return json_response(shown(shelf.update(id, **fields)))

    def delete(self, request: RouteRequest) -> RouteResponse:
        id = request.parameters["assistant"]
        self._shelf(request.user).delete(id, keep_place=True)
        return json_response({"id": id, "object": "assistant.deleted", "deleted": True})

    def get(self, user: str, id: str) -> Object:
        """Return an assistant. Raises `Missing`."""
        return self._shelf(user).get(id)

    def _read(self, user: str, given: JsonReader) -> dict[str, Any]:
        """Return the fields of a request. A field with null gets its default."""
        read: dict[str, Any] = {
            "model": given.text("model"),
            "name": given.text_or_none("name", _NAME),
            "description": given.text_or_none("description", _DESCRIPTION),
            "instructions": given.text_or_none("instructions", _INSTRUCTIONS),
            "tools": tools_in(given),
            "metadata": metadata_in(given),
            "temperature": given.number("temperature", 0, 2),
            "top_p": given.number("top_p", 0, 1),
            "response_format": format_in(given),
            "reasoning_effort": given.text_or_none("reasoning_effort", 20),
        }
        given.raw("tool_resources")
        given.nothing_else()
        if "tool_resources" in given:
            read["tool_resources"] = self._resources.read(user, given)
        kept = {name: value for name, value in read.items() if name in given.value}
        if not kept.get("model", True):
            raise ValidationError("model must be a non-empty string", path="$.model")
        return kept

    def _shelf(self, user: str) -> ObjectStore:
        return ObjectStore(self._host, user, "assistant")
