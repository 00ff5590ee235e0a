"""Multipart forms.

Source: RFC 7578; RFC 8187. Forms must not have the parameter `filename*` of the latter, and
python-multipart ignores it, but some clients send nothing else for a name that is not ASCII.
"""

from __future__ import annotations

import logging
import re
from typing import Any
from urllib.parse import unquote_to_bytes

from genai_host.errors import ValidationError

_MOST_FIELDS = 100
_LONGEST_FIELD = 64 * 1024
_FILE_NAME = re.compile(
    rb"\"(?:[^\"\\]|\\.?)*\"?"  # may have what resembles the parameter; the end of the text ends it
    rb"|;\s*filename\*\s*=\s*(?P<charset>[\w-]*)'[^';]*'(?P<name>[^;\s]*)",
    re.IGNORECASE | re.DOTALL,
)
_LATIN = b"iso-8859-1"


class Form:
    """A multipart form with one file, called `file`.

    Args:
        kind: The header `content-type`.
        body: The form.

    Attributes:
        lists: The texts of each field.
        file: Name and content of the file; None if there is none.

    Raises:
        ValidationError: The body is not a valid form, or it exceeds a limit.
    """

    def __init__(self, kind: str, body: bytes) -> None:
        from python_multipart.exceptions import FormParserError
        from python_multipart.multipart import MultipartParser, parse_options_header

        logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # it logs each fault
        self.lists: dict[str, list[str]] = {}
        self.file: tuple[str, bytes] | None = None
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
            if self._name != "file" or self.file is not None:
                raise ValidationError(
                    "the form must have exactly one file, called file", path=f"$.{self._name:.40}"
                )
            self.file = self._file_name, content
            return
        count = sum(map(len, self.lists.values()))
        if count == _MOST_FIELDS or len(content) > _LONGEST_FIELD:
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
