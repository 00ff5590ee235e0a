"""The routes of the web chat."""

from __future__ import annotations

from genai_host.api import HttpRoute

_ASSETS = "genai_host.server.page.assets:Assets"

ROUTES: tuple[HttpRoute, ...] = (
    HttpRoute("GET", "/", f"{_ASSETS}.page", max_body_size=0, rate_limited=False),
    HttpRoute("GET", "/page", f"{_ASSETS}.page", max_body_size=0, rate_limited=False),
    HttpRoute(
        "GET", "/page/assets/{name}", f"{_ASSETS}.asset", max_body_size=0, rate_limited=False
    ),
    HttpRoute(
        "POST", "/page/markdown", "genai_host.server.page.markdown:render", rate_limited=False
    ),
)
