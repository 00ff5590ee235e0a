"""Example values for a JSON Schema, to show to a model."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count, cycle
from typing import Any

_NUMBERS = (5, 3)
_ITEMS = 2
_DEPTH = 8
_WORDS = (
    *("Alba", "Bruno", "Cedar", "Delta", "Ember", "Flint", "Grove", "Hazel"),
    *("Indigo", "Juniper", "Kestrel", "Lotus", "Maple", "Nimbus", "Onyx", "Pearl"),
)


class Examples:
    """Distinct numbers and words, so that the source of each is visible: a model that sees the same
    `x` everywhere writes `x` too. Equal schemas get equal values, in order.
    """

    def __init__(self) -> None:
        self._numbers = count(*_NUMBERS)
        self._words = cycle(_WORDS)

    def of(self, schema: Any, root: Any = None, depth: int = 0) -> Any:
        """Return a valid value for a JSON Schema: its own example, or the simplest value. For an
        object, it has the required properties, or all properties if none are required.

        Args:
            schema: The schema.
            root: Schema with the definitions; None for `schema`.
            depth: Nesting so far.
        """
        root = schema if root is None else root
        if not isinstance(schema, Mapping) or depth > _DEPTH:
            return next(self._words)
        for key in ("const", "default"):
            if key in schema:
                return schema[key]
        for key in ("examples", "enum"):
            if schema.get(key):
                return schema[key][0]
        if "$ref" in schema:
            return self.of(_resolved(schema["$ref"], root), root, depth + 1)
        for key in ("anyOf", "oneOf", "allOf"):
            if schema.get(key):
                return self.of(schema[key][0], root, depth + 1)
        if "properties" in schema:
            shown = {name: schema["properties"][name] for name in _shown(schema)}
            return {name: self.of(inner, root, depth + 1) for name, inner in shown.items()}
        if "items" in schema:
            return [self.of(schema["items"], root, depth + 1) for _ in range(_ITEMS)]
        kind = schema.get("type")
        return self._plainest(kind[0] if isinstance(kind, list) and kind else kind)

    def _plainest(self, kind: Any) -> Any:
        if kind in ("number", "integer"):
            return next(self._numbers)
        plain = {"boolean": True, "array": [], "object": {}, "null": None}
        return plain[kind] if kind in plain else next(self._words)


def _shown(schema: Mapping[str, Any]) -> list[str]:
    """Return the names of the properties to include."""
    required = schema.get("required", ())
    names = [name for name in schema["properties"] if name in required]
    return names or list(schema["properties"])


def _resolved(reference: str, root: Any) -> Any:
    found = root
    for step in reference.lstrip("#").strip("/").split("/"):
        found = found.get(step) if isinstance(found, Mapping) and step else found
    return found
