"""The addresses of the web chat."""

from __future__ import annotations

from genai_host.api import HttpRoute

_ASSETS = "genai_host.server.page.assets:Assets"

ROUTES: tuple[HttpRoute, ...] = (
    HttpRoute("GET", "/", f"{_ASSETS}.page", size=0, counts=False),
    HttpRoute("GET", "/page", f"{_ASSETS}.page", size=0, counts=False),
    HttpRoute("GET", "/page/assets/{name}", f"{_ASSETS}.asset", size=0, counts=False),
    HttpRoute("POST", "/page/markdown", "genai_host.server.page.markdown:render", counts=False),
)
