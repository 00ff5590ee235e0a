"""What a client says of a file in a vector store, and filters that look at it.

Source: OpenAPI document 2.3.0, "VectorStoreFileAttributes", "ComparisonFilter",
"CompoundFilter".
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from genai_feature_assistants.service.fields import MOST_PAIRS
from genai_host.api.http_routes import JsonReader
from genai_host.errors import ValidationError

_KEY, _TEXT = 64, 512
_DEPTH = 10

_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}
_EQUALS = ("eq", "ne", "in", "nin")


def attributes_in(given: JsonReader) -> dict[str, Any]:
    """At most 16 texts, numbers and truths, by name. Raises `ValidationError`."""
    found = given.mapping("attributes") or {}
    path = given.at("attributes")
    if len(found) > MOST_PAIRS or any(len(key) > _KEY for key in found):
        raise ValidationError(f"at most {MOST_PAIRS}, with names of {_KEY} characters", path=path)
    for key, value in found.items():
        if not isinstance(value, (str, bool, int, float)) or (
            isinstance(value, str) and len(value) > _TEXT
        ):
            raise ValidationError(
                f"an attribute is a number, true, false or a text of {_TEXT} characters",
                path=f"{path}.{key}",
            )
    return dict(found)


def must_be_filter(filter: Any, path: str, depth: int = 0) -> None:
    """Raises `ValidationError`."""
    if not isinstance(filter, Mapping) or depth > _DEPTH:
        raise ValidationError("a filter is an object", path=path)
    kind = filter.get("type")
    if kind in ("and", "or"):
        inner = filter.get("filters")
        if not isinstance(inner, list):
            raise ValidationError("filters is a list", path=f"{path}.filters")
        for number, each in enumerate(inner):
            must_be_filter(each, f"{path}.filters[{number}]", depth + 1)
    elif kind not in (*_ORDERS, *_EQUALS):
        raise ValidationError(f"there is no filter of type {kind!r:.40}", path=f"{path}.type")
    elif not isinstance(filter.get("key"), str) or "value" not in filter:
        raise ValidationError("a filter has a key and a value", path=path)
    elif (kind in ("in", "nin")) != isinstance(filter["value"], list):
        raise ValidationError("in and nin take a list, and others none", path=f"{path}.value")


def matches(attributes: Mapping[str, Any] | None, filter: Mapping[str, Any]) -> bool:
    """Whether a file with these attributes passes a filter."""
    kind = filter["type"]
    if kind in ("and", "or"):
        found = (matches(attributes, each) for each in filter["filters"])
        return all(found) if kind == "and" else any(found)
    has, wanted = (attributes or {}).get(filter["key"]), filter["value"]
    if kind in ("eq", "ne"):
        return _is(has, wanted) is (kind == "eq")
    if kind in ("in", "nin"):
        return any(_is(has, each) for each in wanted) is (kind == "in")
    try:
        return has is not None and bool(_ORDERS[kind](has, wanted))
    except TypeError:  # a text is neither more nor less than a number
        return False


def _is(one: Any, other: Any) -> bool:
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)
