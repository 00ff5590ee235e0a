"""The routes of the Gemini API. A model name can have slashes, for example `provider/owner/id`, as
they are or percent-encoded."""

from __future__ import annotations

from genai_host.api import HttpRoute

_HERE = "genai_host.server.gemini"
_MOST_BYTES = 32 * 2**20  # messages can have images

ROUTES: tuple[HttpRoute, ...] = (
    *(
        HttpRoute(
            "POST",
            f"/{version}/models/{named}",
            f"{_HERE}.handlers:call",
            max_body_size=_MOST_BYTES,
        )
        for version in ("v1", "v1beta")
        for named in ("{call}", "{provider}/{call}", "{provider}/{owner}/{call}")
    ),
    HttpRoute("GET", "/v1beta/models", f"{_HERE}.handlers:listed"),
    *(
        HttpRoute("GET", f"/v1beta/models/{named}", f"{_HERE}.handlers:one")
        for named in ("{model}", "{provider}/{model}", "{provider}/{owner}/{model}")
    ),
)
