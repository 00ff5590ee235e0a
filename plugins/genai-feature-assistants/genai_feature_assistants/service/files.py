"""Files that clients sent, and those that code has made: their bytes are blobs of the store.

Source: OpenAI API reference, "Files".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from genai_feature_assistants.service.shelf import Object, Shelf, new_id, shown
from genai_feature_assistants.service.uploads import read_upload
from genai_host.api import RouteRequest, RouteResponse, json_response
from genai_host.errors import NotFound, ValidationError

if TYPE_CHECKING:
    from genai_host.host import Host

MOST_BYTES = 128 * 2**20
_PURPOSES = ("assistants", "batch", "fine-tune", "vision", "user_data", "evals")
_SHOWN_AS = {"evals": "user_data"}
_MOST_LISTED = 10_000


class Files:
    """Of all users of one host."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def create(self, request: RouteRequest) -> RouteResponse:
        upload = read_upload(request)
        purpose = upload.fields.get("purpose", "")
        if purpose not in _PURPOSES:
            raise ValidationError(f"purpose is one of {', '.join(_PURPOSES)}", path="$.purpose")
        purpose = _SHOWN_AS.get(purpose, purpose)
        return json_response(shown(self.keep(request.user, upload.name, upload.data, purpose)))

    def show(self, request: RouteRequest) -> RouteResponse:
        return json_response(shown(self.get(request.user, request.parameters["file"])))

    def page(self, request: RouteRequest) -> RouteResponse:
        purpose = request.query.get("purpose")
        where = {"purpose": purpose} if purpose else None
        shelf = self._shelf(request.user)
        return json_response(
            shelf.page(request.query, where=where, most=_MOST_LISTED, usual=_MOST_LISTED)
        )

    def content(self, request: RouteRequest) -> RouteResponse:
        file = self.get(request.user, request.parameters["file"])
        headers = {
            "content-type": "application/octet-stream",
            "content-disposition": "attachment",
            "x-content-type-options": "nosniff",
        }
        return RouteResponse(
            self._host.kept(request.user).blobs().get(file["_blob"]), headers=headers
        )

    def delete(self, request: RouteRequest) -> RouteResponse:
        file = self.get(request.user, request.parameters["file"])
        shelf = self._shelf(request.user)
        shelf.delete(file["id"])
        if next(shelf.all({"_blob": file["_blob"]}), None) is None:
            self._host.kept(request.user).blobs().remove(file["_blob"])
        return json_response({"id": file["id"], "object": "file", "deleted": True})

    def keep(self, user: str, name: str, data: bytes, purpose: str) -> Object:
        """A new file."""
        shelf = self._shelf(user)
        file: dict[str, Any] = {
            "id": new_id("file"),
            "object": "file",
            "bytes": len(data),
            "created_at": shelf.now(),
            "filename": name,
            "purpose": purpose,
            "status": "processed",
            "_blob": self._host.kept(user).blobs().put([data]),
        }
        return shelf.add(file)

    def get(self, user: str, id: str) -> Object:
        """Raises `Missing`."""
        return self._shelf(user).get(id)

    def must_be(self, user: str, ids: Mapping[str, str]) -> None:
        """Raises `ValidationError` if there is a file of these that is not there.

        ids   to where they stand in the request
        """
        for id, path in ids.items():
            try:
                self.get(user, id)
            except NotFound as error:
                raise ValidationError(error.message, path=path) from error

    def data(self, user: str, id: str) -> bytes:
        """The bytes of a file. Raises `NotFound`."""
        return b"".join(self._host.kept(user).blobs().get(self.get(user, id)["_blob"]))

    def _shelf(self, user: str) -> Shelf:
        return Shelf(self._host, user, "file")
