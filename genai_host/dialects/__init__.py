"""The host's own dialect, `plain`, for providers in this process; registered through the hooks, as
those of plugins."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from genai_host.api import Dialect, hookimpl


@hookimpl
def genai_dialects() -> Iterable[Dialect[Any, Any]]:
    from genai_host.dialects.plain import Plain, PlainCount, PlainEmbed

    return [Plain(), PlainEmbed(), PlainCount()]
