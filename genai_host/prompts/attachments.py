"""Attachments and fragments: files and texts that are sent with a message.

An attachment is a separate part of the message, from a file or a URL, for example an image or a
document. A fragment is a text that is prepended to the message.
"""

from __future__ import annotations

import contextlib
import errno
import mimetypes
import os
import queue
import threading
import urllib.parse
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from genai_host.api import File, Image, Part, Text
from genai_host.errors import ConfigurationError, ServiceUnavailable
from genai_host.util.files import MAX_BYTES, read_bytes
from genai_host.util.text import charset_of, decode_text, decode_unicode, is_single_byte, is_text

if TYPE_CHECKING:
    import requests


PIPED = "-"
"""Name of standard input in place of a file."""

_SECONDS = (5.0, 30.0)  # timeouts: connect, read
_MAX_SECONDS = 60.0  # timeout of the whole download
_BLOCK = 1 << 16

_PDF = "application/pdf"
_SIGNATURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"%PDF-": _PDF,
}
# types of files sent as such (MIME Sniffing Standard, section 6; RFC 9639 for FLAC)
_NAMELESS = {
    b"ID3": "audio/mpeg",
    b"\xff\xfb": "audio/mpeg",
    b"OggS\0": "application/ogg",
    b"fLaC": "audio/flac",
    b"\x1a\x45\xdf\xa3": "video/webm",
    b"PK\x03\x04": "application/zip",
    b"\x1f\x8b\x08": "application/gzip",
}
_BRANDS = {
    b"avif": "image/avif",
    b"heic": "image/heic",
    b"M4A ": "audio/mp4",
    b"qt  ": "video/quicktime",
}


def attachment(source: str | os.PathLike[str]) -> Part:
    """Create a part from a file or an http(s) URL, which is downloaded.

    An image becomes an `Image`, text a `Text` with its name, any other content a `File`.

    Raises:
        ConfigurationError: The file cannot be read, or is larger than 20 MiB.
        ServiceUnavailable: The URL cannot be read.
    """
    name = os.fspath(source)
    if is_address(name):
        data, media_type = fetched(name)
        return part_of(data, _last_of(name), media_type)
    return part_of(read_file(name), Path(name).name)


def attachments(sources: Iterable[str], piped: Callable[[], bytes] | None = None) -> list[Part]:
    """Read files, URLs, and `-` with `piped`, as parts; each is read once, and identical ones of
    the same name are sent once. Without `piped`, `-` is the name of a file."""
    parts: list[Part] = []
    for source in each_once(sources):
        part = part_of(piped()) if piped and source == PIPED else attachment(source)
        if part not in parts:
            parts.append(part)
    return parts


def each_once(sources: Iterable[str]) -> list[str]:
    """Remove duplicate names of the same file or URL."""
    kept: dict[str, str] = {}
    for source in sources:
        kept.setdefault(_identity(source), source)
    return list(kept.values())


def _identity(source: str) -> str:
    """A key that is equal for all names of a file."""
    if is_address(source) or source == PIPED:
        return source
    try:
        return os.path.realpath(os.path.expanduser(source))
    except (OSError, ValueError):  # reported when the file is read
        return source


def read_file(name: str, most: int | None = None) -> bytes:
    """Return the content of a file, up to a number of bytes (20 MiB by default). Raises
    `ConfigurationError` if the file cannot be read, or is larger."""
    most = MAX_BYTES if most is None else most
    try:
        return read_bytes(str(Path(name).expanduser()), most)
    except (OSError, ValueError, RuntimeError) as error:
        if isinstance(error, OSError) and error.errno == errno.EFBIG:
            raise _too_large(name, most) from None
        why = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"cannot read {name!r}: {why}", file=name) from error


def part_of(data: bytes, name: str = "", media_type: str = "") -> Part:
    """Create a part. Its media type is detected from the content or the name; otherwise, the
    declared type is used. Raises `ConfigurationError` if an image or a document is empty."""
    declared, charset = _content_type(media_type)
    kind = _media_type(data, name) or declared
    is_picture = kind.startswith("image/") and kind != "image/svg+xml"
    if not data and (is_picture or kind == _PDF):
        raise ConfigurationError(f"{name} is empty", file=name)
    if is_picture:
        return Image(data, kind)
    if kind != _PDF:
        text = _as_text(data, is_named_text=kind.startswith("text/"), charset=charset)
        if text is not None:
            return Text(f"{name}:\n\n{text}" if name else text)
    return File(data, kind or "application/octet-stream", name)


def _media_type(data: bytes, name: str) -> str:
    for signature, kind in _SIGNATURES.items():
        if data.startswith(signature):
            return kind
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    return mimetypes.guess_type(name)[0] or _kind_of(data)


def _kind_of(data: bytes) -> str:
    """Detect the media type by the first bytes, if the name has none. Any text has no type."""
    if _as_text(data) is not None:
        return ""
    for signature, kind in _NAMELESS.items():
        if data.startswith(signature):
            return kind
    if data.startswith(b"RIFF") and data[8:12] == b"WAVE":
        return "audio/wav"
    if data[4:8] == b"ftyp":  # ISO/IEC 14496-12: the brand determines the type
        return _BRANDS.get(data[8:12], "video/mp4")
    return ""


def _as_text(data: bytes, *, is_named_text: bool = False, charset: str = "") -> str | None:
    """Decode UTF-8, or text with a byte order mark; other encodings only if the name or the type
    indicates text."""
    if is_named_text and is_text(data):
        with contextlib.suppress(ValueError, LookupError):  # the charset may be wrong
            return _in_charset(data, charset)
        return decode_text(data)
    try:
        text = decode_unicode(data)
    except ValueError:
        return None
    return None if "\0" in text else text


def _in_charset(data: bytes, charset: str) -> str:
    """Decode text. Raises `ValueError` or `LookupError` if the charset is wrong."""
    name = charset_of(charset)
    if charset and not name:
        raise LookupError(f"unknown charset {charset[:40]}")
    if not name or is_single_byte(name):  # servers name their default also for UTF-8
        return decode_text(data, name or "utf-8")
    return data.decode(name).removeprefix("\ufeff")


def _last_of(address: str) -> str:
    path = urllib.parse.urlsplit(address).path
    return urllib.parse.unquote(path.rpartition("/")[2])


def shown(source: str) -> str:
    """Return a source for display. A URL is shown without user, password and query, which can be
    secret."""
    if not is_address(source):
        return source
    try:
        parts = urllib.parse.urlsplit(source)
        _ = parts.port
    except ValueError:  # for example a password with a slash
        return "the address"
    if "@" in parts.query + parts.fragment:
        return "the address"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def is_address(source: str) -> bool:
    """Return whether a source is an http(s) URL."""
    return source.lower().startswith(("http://", "https://"))


def fetched(address: str, most: int | None = None) -> tuple[bytes, str]:
    """Download a URL, and return its content, of at most 20 MiB by default, and its media type.

    Raises:
        ServiceUnavailable: The URL cannot be read, or not within a minute.
        ConfigurationError: The content is larger.
    """
    most = MAX_BYTES if most is None else most
    ended: queue.SimpleQueue[tuple[bytes, str] | BaseException] = queue.SimpleQueue()

    def fetch() -> None:
        try:
            ended.put(_fetch(address, most))
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            ended.put(error)

    # in a thread that is abandoned after a timeout: slow transfers and name resolution have no
    # timeout of a socket
    threading.Thread(target=fetch, daemon=True).start()
    try:
        outcome = ended.get(timeout=_MAX_SECONDS)
    except queue.Empty:
        raise ServiceUnavailable(
            f"cannot fetch {shown(address)} within {_MAX_SECONDS:g} s", retryable=True
        ) from None
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def _fetch(address: str, most: int) -> tuple[bytes, str]:
    """Download with the proxies of the environment, but not its netrc."""
    import requests
    import urllib3

    from genai_host.http.connections import environment_proxies

    try:
        with requests.Session() as session:
            session.trust_env = False
            session.proxies = environment_proxies(address)
            session.hooks["response"].append(_must_stay_encrypted)
            with session.get(address, stream=True, timeout=_SECONDS) as reply:
                status = reply.status_code
                if status >= 400:
                    raise ServiceUnavailable(
                        f"cannot fetch {shown(address)}: status {status}",
                        status=status,
                        retryable=status >= 500 or status == 429,
                    )
                data = bytearray()
                for block in reply.iter_content(_BLOCK):
                    data += block
                    if len(data) > most:
                        raise _too_large(shown(address), most)
                return bytes(data), reply.headers.get("Content-Type", "")
    except (requests.RequestException, urllib3.exceptions.HTTPError, ValueError) as error:
        # from None: the libraries quote full URLs
        raise ServiceUnavailable(f"cannot fetch {shown(address)}: {_reason(error)}") from None


def _must_stay_encrypted(reply: requests.Response, **_: object) -> None:
    """Refuse redirects from https to http, which requests would follow."""
    target = urllib.parse.urljoin(reply.url, reply.headers.get("Location", ""))
    if reply.is_redirect and reply.url.startswith("https:") and not target.startswith("https:"):
        raise ServiceUnavailable(
            f"cannot fetch {shown(reply.url)}: it redirects from https to http"
        )


def _reason(error: BaseException) -> str:
    """The system's message, for example `Connection refused`, or the type of error."""
    reason = type(error).__name__
    at_proxy = "the proxy failed: " if reason == "ProxyError" else ""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            reason = cause.strerror
        cause = cause.__cause__ or cause.__context__
    return at_proxy + reason


def _too_large(name: str, most: int) -> ConfigurationError:
    return ConfigurationError(f"{name} is larger than {most >> 20} MiB")


MAX_FRAGMENT_BYTES = 5 * 1024 * 1024
_TEXTS = {"json", "xml", "yaml", "x-yaml", "toml", "javascript", "sql", "x-sh", "x-ndjson"}
_SUFFIXES = ("+json", "+xml", "+yaml")  # RFC 6838, Structured Syntax Name Suffixes


def with_fragments(fragments: Iterable[str], asked: str) -> str:
    """Prepend fragments to a prompt."""
    return "\n\n".join(filter(None, [*fragments, asked]))


def read_fragments(sources: Iterable[str], piped: Callable[[], str] | None = None) -> list[str]:
    """Read files, URLs, and `-` with `piped`, as texts; each is read and returned once. Without
    `piped`, `-` is the name of a file."""
    found: dict[str, None] = {}
    for source in each_once(sources):
        text = piped().rstrip("\n") if piped and source == PIPED else fragment(source)
        found[text] = None
    return [text for text in found if text]


def fragment(source: str) -> str:
    """Return the text of a file or of an http(s) URL, which is downloaded. Its first line is the
    source.

    Raises:
        ConfigurationError: The file cannot be read, is not text, or is larger than 5 MiB.
        ServiceUnavailable: The URL cannot be read.
    """
    if is_address(source):
        data, media_type = fetched(source, MAX_FRAGMENT_BYTES)
        return _named(_decoded(data, media_type, shown(source)), shown(source))
    # the full path would disclose more about the user than necessary
    name = os.path.basename(source) if os.path.isabs(os.path.expanduser(source)) else source
    return _named(_decoded(read_file(source, MAX_FRAGMENT_BYTES), "", source), name)


def _named(text: str, name: str) -> str:
    return f"{name}:\n\n{text}".rstrip("\n")


def _decoded(data: bytes, media_type: str, source: str) -> str:
    kind, charset = _content_type(media_type)
    main, _, sub = kind.partition("/")
    if kind and main != "text" and sub not in _TEXTS and not sub.endswith(_SUFFIXES):
        raise _no_text(source, f" but {kind}")
    if not is_text(data):
        raise _no_text(source, "")
    try:
        text = _in_charset(data, charset)
    except (ValueError, LookupError) as error:  # the charset may be unknown
        raise _no_text(source, f" in {charset[:40]}") from error
    if "\0" in text:
        raise _no_text(source, "")
    return text.replace("\r\n", "\n")


def _content_type(media_type: str) -> tuple[str, str]:
    """Type and charset of a Content-Type (RFC 9110, section 8.3)."""
    from email.message import Message

    if not media_type:
        return "", ""
    message = Message()
    message["Content-Type"] = media_type.replace("\n", " ").replace("\r", " ")
    return message.get_content_type(), message.get_content_charset() or ""


def _no_text(source: str, what: str) -> ConfigurationError:
    return ConfigurationError(
        f"{source} is not text{what}", file=source, hint=f"attach it: --attach {source}"
    )
