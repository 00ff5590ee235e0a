"""The web chat: a page that uses the native API, and the assistants API if the server has it.

    GET  /                      the page
    GET  /page/assets/{name}    its scripts and style sheets, from `assets/`
    POST /page/markdown         renders Markdown of a model as a tree that the page builds

There is no build step, and nothing is loaded from other servers. The page's Content Security Policy
forbids other scripts and styles, and the page never inserts HTML.
"""

from __future__ import annotations

import hashlib
from importlib.resources import files
from types import MappingProxyType

from attrs import frozen

from genai_host.api import RouteRequest, RouteResponse
from genai_host.errors import NotFound
from genai_host.host import Host

PAGE = "page.html"

_TYPES = MappingProxyType(
    {
        "css": "text/css; charset=utf-8",
        "html": "text/html; charset=utf-8",
        "js": "text/javascript; charset=utf-8",
        "svg": "image/svg+xml",
    }
)

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
"""Content Security Policy, level 3. No policy of trusted types is allowed, so no text can become
HTML or a script."""

_HEADERS = MappingProxyType(
    {
        "cache-control": "no-cache",  # validated each time, with a 304 reply
        "content-security-policy": POLICY,
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "permissions-policy": "camera=(), geolocation=(), microphone=()",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
    }
)


@frozen
class _Asset:
    content: bytes
    media_type: str
    tag: str


class Assets:
    """Files of the page, read once per host. Thread-safe."""

    def __init__(self, host: Host) -> None:
        folder = files(__name__).joinpath("assets")
        self._assets = {
            each.name: _asset(each.name, each.read_bytes())
            for each in folder.iterdir()
            if each.name.rpartition(".")[2] in _TYPES
        }

    def page(self, request: RouteRequest) -> RouteResponse:
        """Return the page. All its URLs are relative to its own."""
        return _reply(self._assets[PAGE], request)

    def asset(self, request: RouteRequest) -> RouteResponse:
        """Return a file. Raises `NotFound`."""
        name = request.parameters["name"]
        if name not in self._assets or name == PAGE:
            raise NotFound("file not found")
        return _reply(self._assets[name], request)


def _asset(name: str, content: bytes) -> _Asset:
    tag = hashlib.sha256(content).hexdigest()[:32]
    return _Asset(content, _TYPES[name.rpartition(".")[2]], f'"{tag}"')


def _reply(asset: _Asset, request: RouteRequest) -> RouteResponse:
    headers = {**_HEADERS, "etag": asset.tag}
    if _has(asset.tag, request.headers.get("if-none-match", "")):
        return RouteResponse(status=304, headers=headers)
    return RouteResponse(asset.content, headers={**headers, "content-type": asset.media_type})


def _has(tag: str, given: str) -> bool:
    """Whether the client has the content with this tag: RFC 9110, 13.1.2, weak comparison."""
    return any(each.strip().removeprefix("W/") in (tag, "*") for each in given.split(","))
