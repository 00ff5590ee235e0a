"""A value for a JSON Schema, as far as that is simple."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_OF_TYPES: Mapping[str, Any] = {
    "string": "sample",
    "boolean": True,
    "object": {},
    "null": None,
}


def sample_of(schema: Any) -> Any:
    """A value that a simple schema takes; what it is for others, nobody knows."""
    if not isinstance(schema, Mapping):
        return "sample"
    for given in ("const", "default"):
        if given in schema:
            return schema[given]
    if schema.get("enum"):
        return schema["enum"][0]
    for either in ("anyOf", "oneOf"):
        if schema.get(either):
            return sample_of(schema[either][0])
    kind = schema.get("type", "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind in ("number", "integer"):
        return schema.get("minimum", schema.get("maximum", 1))
    if kind == "array":
        return [sample_of(schema.get("items", {}))]
    if kind == "object" and "properties" in schema:
        return {name: sample_of(each) for name, each in schema["properties"].items()}
    return _OF_TYPES.get(kind, "sample")
