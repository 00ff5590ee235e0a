"""Unknown fields of a request, for services of the same format (see `JsonReader.extra_fields`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from genai_host.api import JsonReader

Place = tuple[str, ...]
"""Names of a field and of the objects that it is in."""


def drop_unsent(
    given: JsonReader,
    unknown: dict[str, Any],
    places: Mapping[str, Place],
    capabilities: Collection[str],
) -> None:
    """Remove the unknown fields of objects that are not sent: a service would refuse the objects
    without the fields that the host knows.

    Args:
        given: The request.
        unknown: Its unknown fields, which are changed.
        places: Objects that are only sent for models with a capability, by the capability.
        capabilities: Capabilities of the model.
    """
    for capability, (*outer, name) in places.items():
        if capability in capabilities:
            continue
        reader, fields = given, unknown
        for each in outer:
            inner = reader.object(each)
            if inner is None:
                break
            reader, fields = inner, fields.get(each, {})
        else:
            if name in fields:
                dropped = reader.object(name)
                assert dropped is not None
                dropped.drop(*fields.pop(name))
