"""Fields of API formats that the host does not interpret.

The reader of a format keeps the fields that it does not know in `extra` of the part, message or
tool where they were, by the name of the dialect (`JsonReader.extra_fields`). The same dialect
writes them at the same place (`with_extra`); other dialects leave them out.

    Text("hi", extra={"my-dialect": {"new_field": {"a": 1}}})
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, Protocol

from genai_host.api.json_text import check_numbers, well_formed_object


class HasExtra(Protocol):
    """A part, a message or a tool."""

    @property
    def extra(self) -> Mapping[str, Any] | None: ...


def checked_extra(value: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Convert a value of `extra`: None if it is empty, without lone surrogates.

    Raises:
        ValidationError: It contains NaN or infinity.
    """
    if not value:
        return None
    check_numbers(value)
    return well_formed_object(value)


def with_extra(written: dict[str, Any], source: HasExtra, dialect: str) -> dict[str, Any]:
    """Add the fields of a dialect to an object that it has written.

    Args:
        written: The object.
        source: What was written, for example a part.
        dialect: Name of the dialect.

    Returns:
        The object with the fields. Fields that the dialect has written have priority.
    """
    extra = source.extra
    if extra is None or dialect not in extra:
        return written
    return merged_extra(written, extra[dialect])


def merged_extra(written: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Merge fields into an object and the objects in it; fields of the object have priority."""
    merged = dict(written)
    for name, value in extra.items():
        own = merged.setdefault(name, value)
        if own is not value and isinstance(own, Mapping) and isinstance(value, Mapping):
            merged[name] = merged_extra(own, value)
    return merged


def unknown_fields(data: Mapping[str, Any], known: Set[str]) -> dict[str, Any]:
    """The unknown fields of an object in a reply, without empty ones.

    Args:
        data: The object.
        known: Names of the fields that the reader knows.
    """
    if data.keys() <= known:
        return {}
    return {
        name: value for name, value in data.items() if name not in known and value not in _EMPTY
    }


_EMPTY: tuple[Any, ...] = (None, "", [], {})


def extra_of(dialect: str, fields: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Fields for `extra`; None if there are none."""
    return {dialect: fields} if fields else None


def joined_extra(*sources: HasExtra) -> Mapping[str, Any] | None:
    """The merged `extra` of messages or parts that become one; earlier fields have priority."""
    joined: dict[str, Any] = {}
    for source in sources:
        if source.extra is not None:
            joined = merged_extra(joined, source.extra)
    return joined or None
