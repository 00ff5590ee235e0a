"""Text from external bytes: files, standard input, data URLs."""

from __future__ import annotations

import binascii
import codecs
import re

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # first, since it begins like the mark of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_HEAD = 8192
_FEW = 10
_CONTROLS = bytes(each for each in range(32) if each not in b"\t\n\r\f\x1b")
_CONTROL_CHARACTERS = "[\0-\x08\x0b\x0e-\x1a\x1c-\x1f]"
_LEAST_UTF16 = 4
_LINE_ENDS = b"\r\n"
_PLAIN_ALPHABET = bytes.maketrans(b"-_", b"+/")


def encoding_of(head: bytes, default: str = "utf-8") -> str:
    """The encoding of a byte order mark, as Windows writes it, or of UTF-16 without one, or else
    the default.

    Args:
        head: The first bytes, 8 KiB if available. Only these are examined.
        default: Encoding of other bytes.
    """
    marked = next((name for mark, name in _MARKS if head.startswith(mark)), "")
    return marked or _unmarked(head[:_HEAD]) or default


def _unmarked(head: bytes) -> str:
    """The byte order of UTF-16 in which most letters are of Latin alphabets, so that every second
    byte is 0; empty for other bytes."""
    if b"\0" not in head or len(head) % 2 or len(head) < _LEAST_UTF16:
        return ""
    for name, high in (("utf-16-le", head[1::2]), ("utf-16-be", head[::2])):
        if high.count(0) > len(high) // 2:
            text = codecs.getincrementaldecoder(name)("replace").decode(head)
            return "" if re.search(_CONTROL_CHARACTERS, text) or "\ufffd" in text else name
    return ""


def is_text(data: bytes) -> bool:
    """Whether bytes look like text.

    They begin with a byte order mark or are UTF-16, or are UTF-8 with few control characters and no
    NUL, or have no control characters in another encoding. Only the first 8 KiB are checked.

    Args:
        data: The bytes.
    """
    if encoding_of(data, ""):
        return True
    head = data[:_HEAD]
    controls = len(head) - len(head.translate(None, _CONTROLS))
    if b"\0" in head:
        return False
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)  # may end within a character
    except UnicodeDecodeError:
        return not controls
    return controls <= max(_FEW, len(head) // 20)


def decode_unicode(data: bytes) -> str:
    """Decode UTF-8, or another encoding of Unicode by `encoding_of`.

    Args:
        data: The whole text.

    Raises:
        ValueError: It has invalid bytes. The error does not contain it.
    """
    try:
        return data.decode(encoding_of(data))
    except UnicodeDecodeError as error:
        name = error.encoding.upper()
        raise ValueError(f"not {name} at byte {error.start}") from None


def decode_text(data: bytes, default: str = "utf-8") -> str:
    """Decode text of unknown encoding.

    A byte order mark decides, or that it is UTF-16. Otherwise the default is used, and if it fails,
    Windows-1252, which older files of Western Europe use. A text that is mostly UTF-8 is decoded as
    UTF-8, with U+FFFD for invalid bytes.

    Args:
        data: The whole text.
        default: Expected encoding, for example that of the user's locale.
    """
    encoding = encoding_of(data, default)
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        text = data.decode(encoding, "replace")
    if encoding != default:
        return text
    wrong = text.count("\ufffd")
    others = sum(not letter.isascii() for letter in text) - wrong
    return text if others > wrong else data.decode("cp1252", "replace")


def decode_base64(text: str) -> bytes:
    """Decode Base64 (RFC 4648) in either alphabet, with or without padding.

    Line ends are ignored, since MIME and the `base64` command write them. Blanks are not, since
    they may have been `+` before a form was decoded.

    Args:
        text: The Base64 text.

    Raises:
        ValueError: It is not Base64. The error does not contain it.
    """
    try:
        plain = text.strip().encode("ascii").translate(_PLAIN_ALPHABET, _LINE_ENDS).rstrip(b"=")
        return binascii.a2b_base64(plain + b"=" * (-len(plain) % 4), strict_mode=True)
    except (UnicodeEncodeError, binascii.Error):
        raise ValueError("expected Base64") from None
