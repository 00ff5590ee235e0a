"""Values that show a model what a JSON Schema takes."""

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
    """Numbers and words of which each is another, so that it can be seen where each came
    from: a model that is shown the same `x` everywhere writes `x` as well. The same schemas
    get the same values, in their order."""

    def __init__(self) -> None:
        self._numbers = count(*_NUMBERS)
        self._words = cycle(_WORDS)

    def of(self, schema: Any, root: Any = None, depth: int = 0) -> Any:
        """A value that is valid for a JSON Schema: its own example, or the simplest. Of an object,
        the required properties, or all if none are.

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
    """Names of properties."""
    required = schema.get("required", ())
    names = [name for name in schema["properties"] if name in required]
    return names or list(schema["properties"])


def _resolved(reference: str, root: Any) -> Any:
    found = root
    for step in reference.lstrip("#").strip("/").split("/"):
        found = found.get(step) if isinstance(found, Mapping) and step else found
    return found
