"""The addresses of the Gemini API. A name of a model may have slashes in it, as
`provider/owner/id`: as they are, or percent-encoded."""

from __future__ import annotations

from genai_host.api import HttpRoute

_HERE = "genai_host.server.gemini"
_MOST_BYTES = 32 * 2**20  # pictures come in requests

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
