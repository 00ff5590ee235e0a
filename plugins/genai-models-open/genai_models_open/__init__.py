"""Open-weight models, declared once: data only. Who runs them adds offerings.

Windows and capabilities are those that the makers publish with the weights (their
model cards), for the instruction-tuned variants.
"""

from __future__ import annotations

from collections.abc import Iterable

from genai_host.api import Model, hookimpl
from genai_models_open.families import CHAT, EMBED

__all__ = ["CHAT", "EMBED"]


@hookimpl
def genai_models() -> Iterable[Model]:
    return [*CHAT, *EMBED]
