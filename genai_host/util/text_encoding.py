"""Text from external bytes: files, standard input, data URLs."""

from __future__ import annotations

import binascii
import codecs

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
_LINE_ENDS = b"\r\n"
_PLAIN_ALPHABET = bytes.maketrans(b"-_", b"+/")


def encoding_of(head: bytes, default: str = "utf-8") -> str:
    """The encoding of a byte order mark, as Windows writes it, or else the default.

    Args:
        head: The first bytes, four if available.
        default: Encoding without a mark.
    """
    return next((name for mark, name in _MARKS if head.startswith(mark)), default)


def is_text(data: bytes) -> bool:
    """Whether bytes look like text.

    They begin with a byte order mark, or are UTF-8 with few control characters and no NUL, or have
    no control characters in another encoding. Only the first 8 KiB are checked.

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


def decode_text(data: bytes, default: str = "utf-8") -> str:
    """Decode text of unknown encoding.

    A byte order mark decides. Otherwise the default is used, and if it fails, Windows-1252, which
    older files of Western Europe use. A text that is mostly UTF-8 is decoded as UTF-8, with U+FFFD
    for invalid bytes.

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
