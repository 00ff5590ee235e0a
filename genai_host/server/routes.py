"""The HTTP routes of the host itself: its APIs and the page."""

from __future__ import annotations

from genai_host.api import HttpRoute
from genai_host.server.anthropic import routes as anthropic
from genai_host.server.gemini import routes as gemini
from genai_host.server.native import routes as native
from genai_host.server.ollama import routes as ollama
from genai_host.server.openai import routes as openai
from genai_host.server.page import routes as page
from genai_host.server.responses import routes as responses
from genai_host.serving import models

_APIS = (openai, responses, models, anthropic, gemini, ollama, native, page)


def own_routes() -> list[HttpRoute]:
    """Return the routes of all APIs, in the order of matching."""
    return [route for api in _APIS for route in api.ROUTES]
