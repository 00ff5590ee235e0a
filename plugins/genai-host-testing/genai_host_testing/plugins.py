"""Inline plugins, and the installed API formats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any

import importlib_metadata

from genai_host.api import hookimpl
from genai_host.plugins.contributions import KINDS
from genai_host.util.names import GROUP


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


@cache
def installed_wires() -> Mapping[str, Any]:
    """The host's own dialects and the installed plugins for API formats, by name: their entry
    points begin with `wire-`."""
    import genai_host.dialects

    found = importlib_metadata.entry_points(group=GROUP)
    wires: dict[str, Any] = {}
    for each in found:
        if each.name.startswith("wire-"):
            with suppress(Exception):  # a broken one must not fail the tests of others
                wires[each.name] = each.load()
    return {"dialects": genai_host.dialects, **wires}
