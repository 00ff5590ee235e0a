"""Images and documents in Converse: certain formats only, as bytes or from S3. Names of documents
allow few characters.

Source: Amazon Bedrock API reference, "ImageBlock", "DocumentBlock", "S3Location".
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from genai_host.api import File, Image
from genai_host.errors import UnsupportedPart

NAME = "bedrock-converse"

_IMAGES: Mapping[str, str] = {
    "image/png": "png", "image/jpeg": "jpeg", "image/jpg": "jpeg", "image/gif": "gif",
    "image/webp": "webp",
}  # fmt: skip
_MARKS: Sequence[tuple[bytes, int, str]] = (
    (b"\x89PNG", 0, "png"), (b"\xff\xd8\xff", 0, "jpeg"), (b"GIF8", 0, "gif"),
    (b"WEBP", 8, "webp"), (b"%PDF", 0, "pdf"),
)  # fmt: skip
"""Signatures of files without a type: bytes, offset and format."""

_OFFICE = "application/vnd.openxmlformats-officedocument."
_DOCUMENTS: Mapping[str, str] = {
    "application/pdf": "pdf",
    "text/csv": "csv",
    "application/msword": "doc",
    f"{_OFFICE}wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    f"{_OFFICE}spreadsheetml.sheet": "xlsx",
    "text/html": "html",
    "text/markdown": "md",
    "application/json": "txt",
    "application/xml": "txt",
}
_BY_ENDING = frozenset({"pdf", "csv", "doc", "docx", "xls", "xlsx", "html", "txt", "md"})
_NO_NAME = re.compile(r"[^A-Za-z0-9()\[\]-]+")
_LONGEST_NAME = 190  # the limit is 200; the rest is for a number


def wire_image(image: Image) -> dict[str, Any]:
    format = _IMAGES.get(image.media_type.lower())
    if format is None and not image.media_type:
        format = _by_mark(image.data) or PurePosixPath(image.url).suffix[1:].lower()
    if format == "jpg":
        format = "jpeg"
    if format not in _IMAGES.values():
        raise _unsupported(image, f"an image of type {image.media_type or 'unknown'}")
    return {"image": {"format": format, "source": _source(image)}}


def wire_document(file: File, name: str) -> dict[str, Any]:
    """A file as a block of Converse.

    Args:
        file: The file.
        name: Name that is unique in the conversation; see `document_names`.
    """
    kind = file.media_type.partition(";")[0].strip().lower()
    format = _DOCUMENTS.get(kind) or ("txt" if kind.startswith("text/") else None)
    if format is None and not kind:
        ending = PurePosixPath(file.name or file.url).suffix[1:].lower()
        format = _by_mark(file.data) or (ending if ending in _BY_ENDING else None)
    if format is None or format in _IMAGES.values():
        raise _unsupported(file, f"a document of type {kind or 'unknown'}")
    return {"document": {"format": format, "name": name, "source": _source(file)}}


def document_names(files: Sequence[File]) -> list[str]:
    """Return a valid and unique name for each file."""
    names: list[str] = []
    taken: dict[str, int] = {}
    for file in files:
        stem = PurePosixPath(file.name).stem if file.name else ""
        name = _NO_NAME.sub(" ", stem)[:_LONGEST_NAME].strip() or "document"
        while True:
            number = taken[name] = taken.get(name, 0) + 1
            if number == 1:
                break
            name = f"{name} ({number})"
        names.append(name)
    return names


def _by_mark(data: bytes) -> str | None:
    found = (format for mark, at, format in _MARKS if data[at : at + len(mark)] == mark)
    return next(found, None)


def _source(part: Image | File) -> dict[str, Any]:
    if not part.url:
        return {"bytes": base64.b64encode(part.data).decode()}
    if part.url.startswith("s3://"):
        return {"s3Location": {"uri": part.url}}
    raise _unsupported(part, f"a part of type {part.type} by URL")


def _unsupported(part: Image | File, what: str) -> UnsupportedPart:
    return UnsupportedPart(
        f"{NAME} does not support {what}",
        hint="use the bytes, or an s3:// URL" if part.url else "",
        part=part.type,
        dialect=NAME,
    )
