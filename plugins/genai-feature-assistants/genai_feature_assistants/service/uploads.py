"""A file as clients send it: a form of several parts.

Source: RFC 7578; OpenAI API reference, "Upload file".
"""

from __future__ import annotations

import logging
from typing import Any

from attrs import frozen

from genai_host.api import RouteRequest
from genai_host.errors import ValidationError

_MOST_FIELDS = 100
_LONGEST_FIELD = 64 * 1024


@frozen
class Upload:
    """
    fields   the texts of the form, by name
    name     of the file, as the client has it, without folders
    """

    fields: dict[str, str]
    name: str
    data: bytes


def read_upload(request: RouteRequest) -> Upload:
    """Raises `ValidationError` for what is no form, or has no file."""
    kind = request.headers.get("content-type", "")
    if not kind.lower().startswith("multipart/form-data"):
        raise ValidationError("send the file as multipart/form-data", path="$.file")
    parts = _Parts()
    _parse(kind, request.body, parts)
    if parts.file is None:
        raise ValidationError("there is no file", path="$.file")
    name, data = parts.file
    return Upload(parts.fields, _plain(name), data)


class _Parts:
    def __init__(self) -> None:
        self.fields: dict[str, str] = {}
        self.file: tuple[str, bytes] | None = None

    def add_field(self, field: Any) -> None:
        value = field.value or b""
        if len(self.fields) == _MOST_FIELDS or len(value) > _LONGEST_FIELD:
            raise ValidationError("the form has too many fields, or one that is too long", path="$")
        self.fields[_text(field.field_name)] = _text(value)

    def add_file(self, file: Any) -> None:
        name = _text(file.field_name)
        if name != "file" or self.file is not None:
            raise ValidationError("a form has one file, which is called file", path=f"$.{name:.40}")
        file.file_object.seek(0)
        self.file = _text(file.file_name or b""), file.file_object.read()


def _parse(kind: str, body: bytes, parts: _Parts) -> None:
    from python_multipart import create_form_parser
    from python_multipart.exceptions import FormParserError

    logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # it tells of each fault
    try:
        form = create_form_parser(
            {"Content-Type": kind.encode("latin-1", "replace")},
            parts.add_field,
            parts.add_file,
            config={"MAX_MEMORY_FILE_SIZE": len(body) + 1},  # and no file of the system
        )
        form.write(body)
        form.finalize()
    except FormParserError as error:
        raise ValidationError(f"this is no form: {error}", path="$") from error


def _text(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "replace")


def _plain(name: str) -> str:
    return name.replace("\\", "/").rpartition("/")[2] or "file"
