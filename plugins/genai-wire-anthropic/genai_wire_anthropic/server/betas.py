"""Beta features that clients name in the header `anthropic-beta`.

Source: Claude API reference, "Beta headers"; the guides to the features.
"""

from __future__ import annotations

import re

_DATED = re.compile(r"(?P<feature>.+)-[0-9]{4}-?[0-9]{2}-?[0-9]{2}")
_ABOUT_SERVICE = (
    "claude-code",
    "context-1m",
    "extended-cache-ttl",
    "fine-grained-tool-streaming",
    "interleaved-thinking",
    "oauth",
    "output-128k",
    "prompt-caching",
    "prompt-caching-scope",
    "thinking-token-count",
    "token-efficient-tools",
)
"""They change costs, limits or details of Anthropic's service, but not what is asked."""
_FOR_FIELDS = (
    "advanced-tool-use",
    "context-management",
    "effort",
    "mid-conversation-system",
    "pdfs",
    "structured-outputs",
    "token-counting",
)
"""They allow requests, or fields of requests, that are read, named or refused without them too."""
_NEUTRAL = frozenset((*_ABOUT_SERVICE, *_FOR_FIELDS))


def betas_in(header: str) -> list[str]:
    """Return the names in a header, in their order."""
    return [name for each in header.split(",") if (name := each.strip())]


def is_neutral(beta: str) -> bool:
    """Whether a service of another format answers the same without a beta."""
    found = _DATED.fullmatch(beta)
    return found is not None and found["feature"] in _NEUTRAL
