"""Files, and their upload.

`read_upload` reads a multipart form. `Files` has the files that clients uploaded, and those that
plugins create, for example the output of a batch. Their bytes are blobs of the store.

Source: OpenAI API reference, "Files", "Upload file".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from attrs import frozen

from genai_host.api import JsonReader, RouteRequest, RouteResponse, json_response
from genai_host.errors import NotFound, ValidationError
from genai_wire_openai.server.forms import Form
from genai_wire_openai.server.objects import Missing, Object, ObjectStore, new_id, shown

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
    """The file of a multipart form. Raises `ValidationError` if there is none."""
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


_SHORTEST_LIFE, _LONGEST_LIFE = 3600, 30 * 24 * 3600  # seconds
_EXPIRY = "expires_after"


def expiry_in(given: JsonReader | None) -> int | None:
    """Return the seconds after which a file expires; None for never. Raises `ValidationError`."""
    if given is None:
        return None
    if given.choice("anchor", ("created_at",)) == "":
        raise ValidationError("anchor is missing", path=given.at("anchor"))
    seconds = given.whole("seconds", _SHORTEST_LIFE, _LONGEST_LIFE)
    if seconds is None:
        raise ValidationError("seconds is missing", path=given.at("seconds"))
    return seconds


def _expiry_of(fields: Mapping[str, str]) -> int | None:
    """As `expiry_in`, for the fields of a form."""
    given = {name: fields.get(f"{_EXPIRY}[{name}]") for name in ("anchor", "seconds")}
    is_given = _EXPIRY in fields or any(given.values())
    return expiry_in(JsonReader(given, f"$.{_EXPIRY}") if is_given else None)


MOST_BYTES = 128 * 2**20
_PURPOSES = ("assistants", "batch", "fine-tune", "vision", "user_data", "evals")
_SHOWN_AS = {"evals": "user_data"}
_MOST_LISTED = 10_000
_PAGE_SIZE = 1000
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
        life = _expiry_of(upload.fields)
        self._remove_expired(request.user)
        file = self.keep(request.user, upload.name, upload.data, purpose, life=life)
        return json_response(shown(file))

    def show(self, request: RouteRequest) -> RouteResponse:
        return json_response(shown(self.get(request.user, request.parameters["file"])))

    def page(self, request: RouteRequest) -> RouteResponse:
        self._remove_expired(request.user)
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
        self._remove(request.user, file)
        return json_response({"id": file["id"], "object": "file", "deleted": True})

    def _remove(self, user: str, file: Object) -> None:
        shelf = self._shelf(user)
        deletions = self._deletions(user)
        deletions.put(_DELETIONS, {})  # if this process is killed before the second time
        shelf.delete(file["id"], keep_place=True)
        deletions.put(_DELETIONS, {})
        self._host.store_for(user).blobs().remove(file["_blob"], holder=file["id"])

    def _remove_expired(self, user: str) -> None:
        for file in [*self._shelf(user).all({"_expires": True})]:
            if self._is_expired(user, file):
                with suppress(NotFound):  # another request has removed it
                    self._remove(user, file)

    def _is_expired(self, user: str, file: Object) -> bool:
        return "expires_at" in file and bool(file["expires_at"] <= self._shelf(user).now())

    def keep(
        self,
        user: str,
        name: str,
        data: bytes | Iterable[bytes],
        purpose: str,
        *,
        id: str = "",
        life: int | None = None,
    ) -> Object:
        """Add a file, and return its object.

        Args:
            user: The user of the server.
            name: Name of the file.
            data: Its bytes, or chunks of them.
            purpose: Its purpose.
            id: Its id, if this may be repeated: an existing file is returned. Empty for a new id.
            life: Seconds after which it expires; None for never.
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
        if life is not None:
            file |= {"expires_at": file["created_at"] + life, "_expires": True}
        return shelf.add_once(file)

    def get(self, user: str, id: str) -> Object:
        """Return a file. Raises `Missing`."""
        shelf = self._shelf(user)
        file = shelf.get(id)
        if self._is_expired(user, file):
            raise shelf.missing(id)
        return file

    def deletions(self, user: str) -> int:
        """Return a number that increases when files of a user are deleted."""
        found = self._deletions(user).list(limit=1)
        return found[0].version if found else 0

    def ids(self, user: str) -> set[str]:
        """Return the ids of all files of a user."""
        files = self._shelf(user).all(page_size=_PAGE_SIZE)
        return {file["id"] for file in files if not self._is_expired(user, file)}

    def name(self, user: str, id: str, usual: str = "") -> str:
        """Return the name of a file; `usual` if it was deleted."""
        try:
            return str(self.get(user, id)["filename"])
        except Missing:
            return usual

    def must_be(self, user: str, ids: Mapping[str, str]) -> None:
        """Check that files exist. `ids` has their ids with their paths in the request. Raises
        `ValidationError`."""
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
