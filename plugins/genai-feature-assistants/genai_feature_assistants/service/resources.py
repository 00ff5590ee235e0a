"""What tools are given: files for code, vector stores for the search.

Source: OpenAPI document 2.3.0, "CreateAssistantRequest", "CreateThreadRequest".
"""

from __future__ import annotations

from typing import Any

from genai_feature_assistants.service.fields import MOST_CODE_FILES, metadata_in
from genai_feature_assistants.service.files import Files
from genai_feature_assistants.service.store_files import chunking_in
from genai_feature_assistants.service.vector_stores import VectorStores
from genai_host.api.http_routes import JsonReader
from genai_host.errors import NotFound, ValidationError


class Resources:
    """Of all users of one host."""

    def __init__(self, files: Files, stores: VectorStores) -> None:
        self._files = files
        self._stores = stores

    def read(self, user: str, given: JsonReader) -> dict[str, Any]:
        """The field `tool_resources`; vector stores that are described in it are made. Raises
        `ValidationError`, also for what is not there."""
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
        if len(ids) > MOST_CODE_FILES:
            raise ValidationError(f"at most {MOST_CODE_FILES} files", path=path)
        self._files.must_be(user, {id: f"{path}[{number}]" for number, id in enumerate(ids)})
        code.nothing_else()
        return ids

    def _stores_of(self, user: str, search: JsonReader) -> list[str]:
        ids = list(search.texts("vector_store_ids"))
        made = search.objects("vector_stores")
        search.nothing_else()
        if len(ids) + len(made) > 1:
            raise ValidationError("there is at most one vector store", path=search.path)
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
