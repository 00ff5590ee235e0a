"""All that the host itself answers over HTTP: the routes of its APIs and of the page."""

from __future__ import annotations

import importlib
import importlib.util

from genai_host.api import HttpRoute

_PACKAGES = ("openai", "anthropic", "gemini", "ollama", "native", "page")


def own_routes() -> list[HttpRoute]:
    """Those of all APIs, in this order."""
    found: list[HttpRoute] = []
    for package in _PACKAGES:
        module = f"{__package__}.{package}"
        if importlib.util.find_spec(module) and importlib.util.find_spec(f"{module}.routes"):
            found += importlib.import_module(f"{module}.routes").ROUTES
    return found
