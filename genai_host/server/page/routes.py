"""The addresses of the web chat."""

from __future__ import annotations

from genai_host.api import HttpRoute

ROUTES: tuple[HttpRoute, ...] = (
    HttpRoute("GET", "/", "genai_host.server.page.assets:Assets.page", size=0),
    HttpRoute("GET", "/page", "genai_host.server.page.assets:Assets.page", size=0),
    HttpRoute("GET", "/page/assets/{name}", "genai_host.server.page.assets:Assets.asset", size=0),
    HttpRoute("POST", "/page/markdown", "genai_host.server.page.markdown:render", size=2 * 2**20),
)
