"""Descriptions of errors and values of plugins, whose `repr` and messages may raise exceptions, and
text from external bytes: files, standard input, data URLs."""

from __future__ import annotations

import binascii
import codecs
import contextlib
import re
import reprlib
import sys
from collections.abc import Iterable
from typing import Any

_MAX = 300

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 100


def describe_exception(error: BaseException) -> str:
    """`ValueError: message`, on one line; only the class if the message fails."""
    return shorten(f"{type(error).__name__}: {message_of(error)}").strip(": ")


def message_of(error: BaseException) -> str:
    """The message of an exception on one line, without its class."""
    try:
        return shorten(str(error))
    except BaseException:  # noqa: BLE001 - may run any code, even raise `SystemExit`
        return "its message cannot be read (str() failed)"


def describe_with_hint(error: BaseException) -> str:
    """The message of an exception with its hint; the class only if it is unexpected."""
    hint = getattr(error, "hint", None)
    if not isinstance(hint, str):
        return describe_exception(error)
    return f"{message_of(error)}; {shorten(hint)}" if hint else message_of(error)


def short_repr(value: object) -> str:
    """A truncated repr for error messages."""
    try:
        return shorten(_short.repr(value))
    except BaseException:  # noqa: BLE001 - may run any code, even raise `SystemExit`
        return f"a {type(value).__name__}"


def docstring(function: Any) -> str:
    """The docstring of a function; from its source if Python runs with `-OO`."""
    import inspect

    text = inspect.getdoc(function)
    if text is None and sys.flags.optimize > 1:
        import ast
        import textwrap

        with contextlib.suppress(OSError, TypeError, SyntaxError):  # no source
            source = inspect.getsource(getattr(function, "__func__", function))
            found = ast.parse(textwrap.dedent(source)).body[0]
            if isinstance(found, (ast.FunctionDef, ast.AsyncFunctionDef)):
                text = ast.get_docstring(found)
    return text or ""


def shorten(text: str) -> str:
    """A text in one line, cut after some words."""
    line = " ".join(text[: 10 * _MAX].split())
    return line if len(line) <= _MAX else line[: _MAX - 4] + " ..."


_LIKENESS = 0.7  # accepts `mok` for `mock` (0.86), but not `nope` for `openai` (0.6)


def close_matches(name: str, known: Iterable[str], most: int = 1) -> list[str]:
    """The known names that are most similar to an unknown one."""
    import difflib

    by_fold = {each.casefold(): each for each in known if each != name}
    near = difflib.get_close_matches(name.casefold(), by_fold, most, _LIKENESS)
    return [by_fold[each] for each in near]


def did_you_mean(name: str, known: Iterable[str], most: int = 1) -> str:
    """A hint with similar names; empty if there are none. Not for commands that remove
    something."""
    near = close_matches(name, known, most)
    return f"did you mean {' or '.join(near)}?" if near else ""


_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # first, since it begins like the mark of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_DECLARED = rb"<(?:meta|\?xml)\b[^>]{0,500}?(?:charset|encoding)\s*=\s*[\"']?\s*([\w.:+-]{1,40})"
_MEANT = {  # https://encoding.spec.whatwg.org/#names-and-labels: encodings by label
    "ascii": "cp1252",
    "euc_kr": "cp949",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "shift_jis": "cp932",
    "tis-620": "cp874",
}
_CHARSETS = (
    r"utf-(8|16|32)(-[lb]e)?|cp\d+|iso8859-\d+|koi8-[rtu]|big5\w*|gb\w+|euc_\w+|"
    r"shift_\w+|iso2022_\w+|mac-\w+|hz|johab|ptcp154|tis-620|ascii"
)
_SINGLE_BYTE = r"cp(?!932|949|950)\d+|iso8859-\d+|koi8-[rtu]|mac-\w+|ptcp154|tis-620|ascii"
_HEAD = 8192
_FEW = 10
_CONTROLS = bytes(each for each in range(32) if each not in b"\t\n\r\f\x1b")
_CONTROL_CHARACTERS = "[\0-\x08\x0b\x0e-\x1a\x1c-\x1f]"
_MIN_UTF16 = 4
_LINE_ENDS = b"\r\n"
_PLAIN_ALPHABET = bytes.maketrans(b"-_", b"+/")


def encoding_of(head: bytes, default: str = "utf-8") -> str:
    """The encoding of a byte order mark, as Windows writes it, or of UTF-16 without one, or else
    the default. It looks at the first bytes only: give 8 KiB if available."""
    marked = next((name for mark, name in _MARKS if head.startswith(mark)), "")
    return marked or _unmarked(head[:_HEAD]) or default


def _unmarked(head: bytes) -> str:
    """The byte order of UTF-16 in which most letters are of Latin alphabets, so that every second
    byte is 0; empty for other bytes."""
    if b"\0" not in head or len(head) % 2 or len(head) < _MIN_UTF16:
        return ""
    for name, high in (("utf-16-le", head[1::2]), ("utf-16-be", head[::2])):
        if high.count(0) > len(high) // 2:
            text = codecs.getincrementaldecoder(name)("replace").decode(head)
            return "" if re.search(_CONTROL_CHARACTERS, text) or "\ufffd" in text else name
    return ""


def charset_of(label: str) -> str:
    """Python's name of the encoding that a label means on the web; empty if there is none."""
    try:
        name = codecs.lookup(label).name
    except (LookupError, ValueError):  # NUL, and surrogates
        return ""
    return _MEANT.get(name, name) if re.fullmatch(_CHARSETS, name) else ""


def is_single_byte(encoding: str) -> bool:
    """Whether each byte is a character of this encoding. Decoding then never fails, even if the
    text is in another encoding."""
    return re.fullmatch(_SINGLE_BYTE, codecs.lookup(encoding).name) is not None


def charset_in_html(data: bytes) -> str:
    """Python's name of the encoding that HTML declares; empty if it declares none."""
    found = re.search(_DECLARED, data[:_HEAD], re.IGNORECASE)
    name = charset_of(found[1].decode()) if found else ""
    # a declaration that is readable as ASCII is not UTF-16 or UTF-32
    return "utf-8" if name.startswith(("utf-16", "utf-32")) else name


def is_text(data: bytes) -> bool:
    """Whether bytes look like text.

    They begin with a byte order mark or are UTF-16, or are UTF-8 with few control characters and no
    NUL, or have no control characters in another encoding. Only the first 8 KiB are checked.
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
    """Decode UTF-8, or another encoding of Unicode by `encoding_of`. Raises `ValueError`, which
    does not contain it, if it has invalid bytes."""
    try:
        return data.decode(encoding_of(data))
    except UnicodeDecodeError as error:
        name = error.encoding.upper()
        raise ValueError(f"not {name} at byte {error.start}") from None


def decode_text(data: bytes, default: str = "utf-8") -> str:
    """Decode text of unknown encoding.

    The encoding is that of the byte order mark, else UTF-16 if the text looks like it, else UTF-8
    if the text is valid UTF-8 and the default is a single-byte encoding. Otherwise it is the
    default, for example that of the user's locale, or Windows-1252 if the default fails. A text
    that is mostly UTF-8 is decoded as UTF-8, with U+FFFD for invalid bytes."""
    encoding = encoding_of(data, default)
    if is_single_byte(encoding):
        with contextlib.suppress(UnicodeDecodeError):
            return data.decode()
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
    """Decode Base64 (RFC 4648) in either alphabet, with or without padding. Raises `ValueError`,
    which does not contain the text, if it is not Base64.

    Line ends are ignored, since MIME and the `base64` command write them. Blanks are not, since
    they may have been `+` before a form was decoded."""
    try:
        plain = text.strip().encode("ascii").translate(_PLAIN_ALPHABET, _LINE_ENDS).rstrip(b"=")
        return binascii.a2b_base64(plain + b"=" * (-len(plain) % 4), strict_mode=True)
    except (UnicodeEncodeError, binascii.Error):
        raise ValueError("expected Base64") from None
