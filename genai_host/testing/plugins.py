"""Inline plugins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from genai_host.api import hookimpl
from genai_host.plugins.contributions import KINDS


class InlinePlugin:
    """A plugin with the given contributions, by the names of `Contributions`.

        Host(discovery=StaticPlugins({"mine": InlinePlugin(features=[feature])}))

    A test that needs further hooks subclasses it.
    """

    def __init__(self, **declared: Iterable[Any]) -> None:
        unknown = declared.keys() - KINDS.keys()
        if unknown:
            raise TypeError(f"no kind of declaration: {', '.join(sorted(unknown))}")
        self.declared: Mapping[str, Iterable[Any]] = declared


def _hook(kind: str) -> Callable[[InlinePlugin], Iterable[Any]]:
    def declared(self: InlinePlugin) -> Iterable[Any]:
        return self.declared.get(kind, ())

    return hookimpl(declared)


for _kind in KINDS:
    setattr(InlinePlugin, f"genai_{_kind}", _hook(_kind))
