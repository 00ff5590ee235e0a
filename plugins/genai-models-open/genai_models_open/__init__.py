"""Declarations of open-weight models, without code; plugins with providers add offerings.

Context windows and capabilities are from the vendors' model cards, for the instruction-tuned
variants.
"""

from __future__ import annotations

from collections.abc import Iterable

from genai_host.api import Model, hookimpl
from genai_models_open.families import CHAT, EMBED

__all__ = ["CHAT", "EMBED"]


@hookimpl
def genai_models() -> Iterable[Model]:
    return [*CHAT, *EMBED]
