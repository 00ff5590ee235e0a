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

_SIGNATURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"%PDF-": "application/pdf",
}


def attachment(source: str | os.PathLike[str]) -> Part:
    """A part from a file, or from an http(s) address, which is fetched now.

    A picture becomes an `Image`, text a `Text` under its name, all else a `File`.
    Raises `ConfigurationError` if there is no such file or it is larger than
    20 MiB, `Unavailable` if an address cannot be read.
    """
    name = os.fspath(source)
    if urllib.parse.urlsplit(name).scheme in ("http", "https"):
        data, media_type = _fetch(name)
        return part_of(data, _last_of(name), media_type)
    path = Path(name).expanduser()
    try:
        if path.stat().st_size > MOST_BYTES:
            raise _too_large(name)
        return part_of(path.read_bytes(), path.name)
    except OSError as error:
        raise ConfigurationError(f"{name} cannot be read: {error.strerror}", file=name) from error


def part_of(data: bytes, name: str = "", media_type: str = "") -> Part:
    """A part from content that is at hand.

    media_type   what it is said to be; what the content or the name tell comes first
    """
    kind = _media_type(data, name) or media_type.partition(";")[0].strip()
    if kind.startswith("image/") and kind != "image/svg+xml":
        return Image(data, kind)
    if kind != "application/pdf":
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


def _fetch(address: str) -> tuple[bytes, str]:
    """The body and its media type. The environment's proxies hold, its netrc does not."""
    import urllib.request

    import requests

    with requests.Session() as session:
        session.trust_env = False
        session.proxies = urllib.request.getproxies()
        try:
            with session.get(address, stream=True, timeout=_SECONDS) as reply:
                reply.raise_for_status()
                data = bytearray()
                for block in reply.iter_content(_BLOCK):
                    data += block
                    if len(data) > MOST_BYTES:
                        raise _too_large(address)
                return bytes(data), reply.headers.get("Content-Type", "")
        except requests.RequestException as error:
            raise Unavailable(f"{address} cannot be read: {error}") from error


def _too_large(name: str) -> ConfigurationError:
    return ConfigurationError(f"{name} is larger than {MOST_BYTES >> 20} MiB")
