"""Files, and their upload.

`read_upload` reads a multipart form. `Files` has the files that clients uploaded, and those that
plugins create, for example the output of a batch. Their bytes are blobs of the store.

Forms must not have the parameter `filename*`, and python-multipart ignores it, but some clients
send nothing else for a name that is not ASCII.

Source: OpenAI API reference, "Files", "Upload file"; RFC 7578; RFC 8187.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

from genai_host.api import JsonReader, RouteRequest, RouteResponse, json_response
from genai_host.errors import NotFound, ValidationError
from genai_wire_openai.server.objects import Missing, Object, ObjectStore, new_id, shown

if TYPE_CHECKING:
    from genai_host.api import DocumentCollection, HostServices

_MAX_FIELDS = 100
_MAX_FIELD = 64 * 1024
_FILE_NAME = re.compile(
    rb"\"(?:[^\"\\]|\\.?)*\"?"  # may have what resembles the parameter; the end of the text ends it
    rb"|;\s*filename\*\s*=\s*(?P<charset>[\w-]*)'[^';]*'(?P<name>[^;\s]*)",
    re.IGNORECASE | re.DOTALL,
)
_LATIN = b"iso-8859-1"


class Upload:
    """A multipart form with one file, called `file`.

    Args:
        kind: The header `content-type`.
        body: The form.

    Attributes:
        lists: All texts of each field.
        name: Name of the file, without directories.
        data: Content of the file.

    Raises:
        ValidationError: The body is not a valid form, has no file, or exceeds a limit.
    """

    def __init__(self, kind: str, body: bytes) -> None:
        from python_multipart.exceptions import FormParserError
        from python_multipart.multipart import MultipartParser, parse_options_header

        logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # it logs each fault
        self.lists: dict[str, list[str]] = {}
        self._files: list[tuple[str, bytes]] = []
        self._header, self._value = bytearray(), bytearray()
        self._headers: dict[bytes, bytes] = {}
        self._name = ""
        self._file_name: str | None = None  # None for a text
        self._content = bytearray()
        self._writer: Any = self
        try:
            _, options = parse_options_header(kind.encode("latin-1", "replace"))
            if not options.get(b"boundary"):
                raise FormParserError("it has no boundary")
            parser = MultipartParser(
                options[b"boundary"],
                {
                    "on_header_field": self._add_header,
                    "on_header_value": self._add_value,
                    "on_header_end": self._end_header,
                    "on_headers_finished": self._begin_content,
                    "on_part_data": self._add_content,
                    "on_part_end": self._end_content,
                },
            )
            parser.write(body)
            parser.finalize()
        except FormParserError as error:
            raise ValidationError(f"invalid form: {error}", path="$") from error
        if not self._files:
            raise ValidationError("file is missing", path="$.file")
        name, self.data = self._files[0]
        self.name = name.replace("\\", "/").rpartition("/")[2] or "file"

    @property
    def fields(self) -> dict[str, str]:
        """The last text of each field."""
        return {name: values[-1] for name, values in self.lists.items()}

    def _add_header(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _add_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _end_header(self) -> None:
        self._headers[bytes(self._header).lower()] = bytes(self._value).strip()
        self._header.clear()
        self._value.clear()

    def _begin_content(self) -> None:
        from python_multipart.decoders import Base64Decoder, QuotedPrintableDecoder
        from python_multipart.exceptions import FormParserError

        options = _options_in(self._headers.get(b"content-disposition", b""))
        if b"name" not in options:
            raise FormParserError("a field has no name")
        self._name, self._file_name = options[b"name"], options.get(b"filename")
        encoding = self._headers.get(b"content-transfer-encoding", b"").lower()
        self._writer = self
        if encoding == b"base64":
            self._writer = Base64Decoder(self)
        elif encoding == b"quoted-printable":
            self._writer = QuotedPrintableDecoder(self)
        self._headers.clear()

    def _add_content(self, data: bytes, start: int, end: int) -> None:
        self._writer.write(data[start:end])

    def write(self, data: bytes) -> None:
        """Add decoded content of the field that is being read."""
        self._content += data

    def finalize(self) -> None:
        """Called by decoders at the end of the field."""

    def _end_content(self) -> None:
        self._writer.finalize()
        content = bytes(self._content)
        self._content.clear()
        if self._file_name is not None:
            if self._name != "file" or self._files:
                raise ValidationError(
                    "the form must have exactly one file, called file", path=f"$.{self._name:.40}"
                )
            self._files.append((self._file_name, content))
            return
        count = sum(map(len, self.lists.values()))
        if count == _MAX_FIELDS or len(content) > _MAX_FIELD:
            raise ValidationError("the form has too many fields, or a field is too long", path="$")
        self.lists.setdefault(self._name, []).append(_text(content))


def _options_in(disposition: bytes) -> dict[bytes, str]:
    """The parameters of a header. Of those for the name of the file, `filename` comes first."""
    from python_multipart.multipart import parse_options_header

    names: list[str] = []

    def take(found: re.Match[bytes]) -> bytes:
        if found["name"] is None:
            return found[0]
        name = unquote_to_bytes(found["name"])
        names.append(name.decode("latin-1") if found["charset"].lower() == _LATIN else _text(name))
        return b""  # some versions of python-multipart read it, others do not

    _, options = parse_options_header(_FILE_NAME.sub(take, disposition))
    texts = {name: _text(value) for name, value in options.items()}
    return {b"filename": names[0], **texts} if names else texts


def _text(data: bytes | bytearray) -> str:
    return data.decode("utf-8", "replace")


def read_upload(request: RouteRequest) -> Upload:
    """The file of a multipart form. Raises `ValidationError` if there is none."""
    kind = request.headers.get("content-type", "")
    if not kind.lower().startswith("multipart/form-data"):
        raise ValidationError("send the file as multipart/form-data", path="$.file")
    return Upload(kind, request.body)


_MIN_LIFE, _MAX_LIFE = 3600, 30 * 24 * 3600  # seconds
_EXPIRY = "expires_after"


def expiry_in(given: JsonReader | None) -> int | None:
    """Return the seconds after which a file expires; None for never. Raises `ValidationError`."""
    if given is None:
        return None
    if given.choice("anchor", ("created_at",)) == "":
        raise ValidationError("anchor is missing", path=given.at("anchor"))
    seconds = given.whole("seconds", _MIN_LIFE, _MAX_LIFE)
    if seconds is None:
        raise ValidationError("seconds is missing", path=given.at("seconds"))
    return seconds


def _expiry_of(fields: Mapping[str, str]) -> int | None:
    """As `expiry_in`, for the fields of a form."""
    given = {name: fields.get(f"{_EXPIRY}[{name}]") for name in ("anchor", "seconds")}
    is_given = _EXPIRY in fields or any(given.values())
    return expiry_in(JsonReader(given, f"$.{_EXPIRY}") if is_given else None)


MAX_BYTES = 128 * 2**20
_PURPOSES = ("assistants", "batch", "fine-tune", "vision", "user_data", "evals")
_SHOWN_AS = {"evals": "user_data"}
_MAX_LISTED = 10_000
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
            shelf.page(request.query, where=where, most=_MAX_LISTED, usual=_MAX_LISTED)
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
        blobs = self._host.store_for(user).blobs()
        blobs.remove(file["_blob"], holder=file["id"])
        if next(shelf.all({"_blob": file["_blob"]}), None) is None:
            blobs.remove(file["_blob"])  # of a file of an earlier version, without a holder

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
