"""Files and addresses as parts of a message."""

from __future__ import annotations

import mimetypes
import os
import urllib.parse
from pathlib import Path

from genai_host.api import File, Image, Part, Text
from genai_host.errors import ConfigurationError, Unavailable

MOST_BYTES = 20 * 1024 * 1024
_SECONDS = (5.0, 30.0)  # to connect; between two blocks
_BLOCK = 1 << 16

_PDF = "application/pdf"
_SIGNATURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"%PDF-": _PDF,
}


def attachment(source: str | os.PathLike[str]) -> Part:
    """A part from a file, or from an http(s) address, which is fetched now.

    A picture becomes an `Image`, text a `Text` under its name, all else a `File`.
    Raises `ConfigurationError` if there is no such file or it is larger than
    20 MiB, `Unavailable` if an address cannot be read.
    """
    name = os.fspath(source)
    if _is_address(name):
        data, media_type = _fetch(name)
        return part_of(data, _last_of(name), media_type)
    try:
        path = Path(name).expanduser()
        with path.open("rb") as stream:
            data = stream.read(MOST_BYTES + 1)
    except (OSError, ValueError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"{name} cannot be read: {why}", file=name) from error
    if len(data) > MOST_BYTES:
        raise _too_large(name)
    return part_of(data, path.name)


def part_of(data: bytes, name: str = "", media_type: str = "") -> Part:
    """A part from content that is at hand.

    media_type   what it is said to be; what the content or the name tell comes first

    Raises `ConfigurationError` for a picture or a document that is empty.
    """
    kind = _media_type(data, name) or media_type.partition(";")[0].strip()
    is_picture = kind.startswith("image/") and kind != "image/svg+xml"
    if not data and (is_picture or kind == _PDF):
        raise ConfigurationError(f"{name} is empty", file=name)
    if is_picture:
        return Image(data, kind)
    if kind != _PDF:
        text = _as_text(data)
        if text is not None:
            return Text(f"{name}:\n\n{text}" if name else text)
    return File(data, kind or "application/octet-stream", name)


def _media_type(data: bytes, name: str) -> str:
    for signature, kind in _SIGNATURES.items():
        if data.startswith(signature):
            return kind
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    return mimetypes.guess_type(name)[0] or ""


def _as_text(data: bytes) -> str | None:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _last_of(address: str) -> str:
    path = urllib.parse.urlsplit(address).path
    return urllib.parse.unquote(path.rpartition("/")[2])


def shown(source: str) -> str:
    """A file or an address as it may be shown: an address without its user, its
    password and its query, which may be a signature."""
    if not _is_address(source):
        return source
    try:
        parts = urllib.parse.urlsplit(source)
        _ = parts.port
    except ValueError:  # as where a password has a slash in it
        return "the address"
    if "@" in parts.query + parts.fragment:
        return "the address"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _is_address(source: str) -> bool:
    return source.lower().startswith(("http://", "https://"))


def _fetch(address: str) -> tuple[bytes, str]:
    """The body and its media type. The environment's proxies hold, its netrc does not."""
    import requests
    import urllib3

    try:
        with requests.Session() as session:
            session.trust_env = False
            session.proxies = dict(requests.utils.get_environ_proxies(address))
            with session.get(address, stream=True, timeout=_SECONDS) as reply:
                status = reply.status_code
                if status >= 400:
                    raise Unavailable(
                        f"{shown(address)} cannot be read: it answered with status {status}",
                        status=status,
                        retryable=status >= 500 or status == 429,
                    )
                data = bytearray()
                for block in reply.iter_content(_BLOCK):
                    data += block
                    if len(data) > MOST_BYTES:
                        raise _too_large(shown(address))
                return bytes(data), reply.headers.get("Content-Type", "")
    except (requests.RequestException, urllib3.exceptions.HTTPError, ValueError) as error:
        # from None: the libraries quote addresses whole
        raise Unavailable(f"{shown(address)} cannot be read: {_reason(error)}") from None


def _reason(error: BaseException) -> str:
    """What the system said, as `Connection refused`, or what kind of error it is."""
    reason = type(error).__name__
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            reason = cause.strerror
        cause = cause.__cause__ or cause.__context__
    return reason


def _too_large(name: str) -> ConfigurationError:
    return ConfigurationError(f"{name} is larger than {MOST_BYTES >> 20} MiB")
