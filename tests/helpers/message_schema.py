"""The JSON Schema of the JSON form of `Message`, for docs/message.schema.json."""

from __future__ import annotations

from collections.abc import Iterable
from types import UnionType
from typing import Any, Union, get_args, get_origin

import attrs

from genai_host.api.messages import PARTS, ROLES, Message, Part
from genai_host.api.schema import schema_of


def message_schema(parts: Iterable[type[Part]] = PARTS) -> dict[str, Any]:
    """The JSON Schema of the JSON form of `Message`.

    Args:
        parts: Kinds of message part.
    """
    definitions = {part.type: _part_schema(part) for part in parts}
    fields = attrs.fields_dict(attrs.resolve_types(Message))
    any_part = {"oneOf": [{"$ref": f"#/$defs/{tag}"} for tag in definitions]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Message",
        "type": "object",
        "properties": {
            "role": {"enum": list(ROLES)},
            "content": {
                "anyOf": [{"type": "string"}, {"type": "array", "items": any_part}],
                "description": "parts; a string stands for one text part",
            },
            **{name: _field_schema(fields[name].type) for name in ("name", "extra")},
        },
        "required": ["role", "content"],
        "additionalProperties": False,
        "$defs": definitions,
    }


def _part_schema(part: type[Part]) -> dict[str, Any]:
    fields = attrs.fields(attrs.resolve_types(part))
    return {
        "type": "object",
        "properties": {
            "type": {"const": part.type},
            **{field.name: _field_schema(field.type) for field in fields},
        },
        "required": ["type", *(f.name for f in fields if f.default is attrs.NOTHING)],
        "additionalProperties": False,
    }


def _field_schema(form: Any) -> dict[str, Any]:
    members = get_args(form)
    if get_origin(form) is tuple:
        return {"type": "array", "items": _field_schema(members[0])}
    kinds = [member for member in members if isinstance(member, type)]
    is_union = get_origin(form) in (Union, UnionType)
    if is_union and len(kinds) == len(members) and all(issubclass(kind, Part) for kind in kinds):
        return {"oneOf": [{"$ref": f"#/$defs/{member.type}"} for member in members]}
    return schema_of(form)
