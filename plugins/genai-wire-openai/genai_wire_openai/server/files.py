"""Files, and their upload.

`read_upload` reads a multipart form. `Files` has the files that clients uploaded, and those that
plugins create, for example the output of a batch. Their bytes are blobs of the store.

Source: OpenAI API reference, "Files", "Upload file".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from attrs import frozen

from genai_host.api import RouteRequest, RouteResponse, json_response
from genai_host.errors import NotFound, ValidationError
from genai_wire_openai.server.forms import Form
from genai_wire_openai.server.objects import Object, ObjectStore, new_id, shown

if TYPE_CHECKING:
    from genai_host.api import DocumentCollection, HostServices


@frozen
class Upload:
    """An uploaded file.

    Attributes:
        fields: The texts of the form by name; the last one of each name.
        lists: All texts of each name.
        name: Name of the file, without directories.
        data: Content of the file.
    """

    lists: dict[str, list[str]]
    name: str
    data: bytes

    @property
    def fields(self) -> dict[str, str]:
        return {name: values[-1] for name, values in self.lists.items()}


def read_upload(request: RouteRequest) -> Upload:
    """Return the file of a multipart form.

    Raises:
        ValidationError: The body is not such a form, or has no file.
    """
    kind = request.headers.get("content-type", "")
    if not kind.lower().startswith("multipart/form-data"):
        raise ValidationError("send the file as multipart/form-data", path="$.file")
    form = Form(kind, request.body)
    if form.file is None:
        raise ValidationError("file is missing", path="$.file")
    name, data = form.file
    return Upload(form.lists, _plain(name), data)


def _plain(name: str) -> str:
    return name.replace("\\", "/").rpartition("/")[2] or "file"


MOST_BYTES = 128 * 2**20
_PURPOSES = ("assistants", "batch", "fine-tune", "vision", "user_data", "evals")
_SHOWN_AS = {"evals": "user_data"}
_MOST_LISTED = 10_000
_DELETIONS = "assistants/file deletions"


class Files:
    """The files of all users."""

    def __init__(self, host: HostServices) -> None:
        self._host = host

    def create(self, request: RouteRequest) -> RouteResponse:
        upload = read_upload(request)
        purpose = upload.fields.get("purpose", "")
        if purpose not in _PURPOSES:
            raise ValidationError(
                f"purpose must be one of {', '.join(_PURPOSES)}", path="$.purpose"
            )
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
        headers = {
            "content-type": "application/octet-stream",
            "content-disposition": "attachment",
            "x-content-type-options": "nosniff",
        }
        data = self.chunks(request.user, request.parameters["file"])
        return RouteResponse(data, headers=headers)

    def delete(self, request: RouteRequest) -> RouteResponse:
        file = self.get(request.user, request.parameters["file"])
        shelf = self._shelf(request.user)
        deletions = self._deletions(request.user)
        deletions.put(_DELETIONS, {})  # if this process is killed before the second time
        shelf.delete(file["id"], keep_place=True)
        deletions.put(_DELETIONS, {})
        blobs = self._host.store_for(request.user).blobs()
        blobs.remove(file["_blob"], holder=file["id"])
        if next(shelf.all({"_blob": file["_blob"]}), None) is None:
            blobs.remove(file["_blob"])  # of a file of an earlier version, without a holder
        return json_response({"id": file["id"], "object": "file", "deleted": True})

    def keep(
        self, user: str, name: str, data: bytes | Iterable[bytes], purpose: str, *, id: str = ""
    ) -> Object:
        """Add a file, and return its object.

        Args:
            user: The user of the server.
            name: Name of the file.
            data: Its bytes, or chunks of them.
            purpose: Its purpose.
            id: Its id, if this may be repeated: an existing file is returned. Empty for a new id.
        """
        shelf = self._shelf(user)
        id = id or new_id("file")
        size = 0

        def counted() -> Iterator[bytes]:
            nonlocal size
            for chunk in [data] if isinstance(data, bytes) else data:
                size += len(chunk)
                yield chunk

        blob = self._host.store_for(user).blobs().put(counted(), holder=id)
        file: dict[str, Any] = {
            "id": id,
            "object": "file",
            "bytes": size,
            "created_at": shelf.now(),
            "filename": name,
            "purpose": purpose,
            "status": "processed",
            "_blob": blob,
        }
        return shelf.add_once(file)

    def get(self, user: str, id: str) -> Object:
        """Return a file. Raises `Missing`."""
        return self._shelf(user).get(id)

    def deletions(self, user: str) -> int:
        """Return a number that increases when files of a user are deleted."""
        found = self._deletions(user).list(limit=1)
        return found[0].version if found else 0

    def name(self, user: str, id: str, usual: str = "") -> str:
        """Return the name of a file; `usual` if it was deleted."""
        found = self._shelf(user).find(id)
        return usual if found is None else str(found["filename"])

    def must_be(self, user: str, ids: Mapping[str, str]) -> None:
        """Check that files exist.

        Args:
            user: The user of the server.
            ids: Ids of files, with their paths in the request.

        Raises:
            ValidationError: A file does not exist.
        """
        for id, path in ids.items():
            try:
                self.get(user, id)
            except NotFound as error:
                raise ValidationError(error.message, path=path) from error

    def data(self, user: str, id: str) -> bytes:
        """Return the bytes of a file. Raises `Missing`."""
        return b"".join(self.chunks(user, id))

    def chunks(self, user: str, id: str) -> Iterator[bytes]:
        """Return the bytes of a file in chunks. Raises `Missing`."""
        return self._host.store_for(user).blobs().get(self.get(user, id)["_blob"])

    def _shelf(self, user: str) -> ObjectStore:
        return ObjectStore(self._host, user, "file")

    def _deletions(self, user: str) -> DocumentCollection:
        """One document, whose version counts them."""
        return self._host.store_for(user).documents(_DELETIONS)
