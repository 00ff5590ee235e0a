"""JSON Schemas of the requests and replies of the native API, for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]

_TEXT: Schema = {"type": "string"}
_NAME: Schema = {"type": "string", "minLength": 1}
_FLAG: Schema = {"type": "boolean"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_NAMES: Schema = {"type": "array", "items": _TEXT}
_OBJECT: Schema = {"type": "object"}
_ANY: Schema = {}
_AT: Schema = {"type": "string", "format": "date-time"}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _list(name: str) -> Schema:
    return _shape({"data": {"type": "array", "items": _ref(name)}})


def _shape(properties: Mapping[str, Schema], *optional: str) -> Schema:
    """Schema of a reply, which allows further fields."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}


def _sent(properties: Mapping[str, Schema], *required: str) -> Schema:
    """Schema of a request, which allows no further fields."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


_TITLE: Schema = {"type": "string", "maxLength": 500, "pattern": r"^[^\u0000-\u001f\u007f]*$"}
_OPENED: Mapping[str, Schema] = {
    "model": _NAME,
    "provider": _NAME,
    "models": {"type": "object", "additionalProperties": _NAME},
    "parameters": _OBJECT,
    "settings": _OBJECT,
    "tools": _NAMES,
}
_CONFIGURATION: Mapping[str, Schema] = {"of": _NAME, "provider_order": _NAMES}
_SAID: Mapping[str, Schema] = {
    "message": {"anyOf": [_NAME, _ref("Message"), {"type": "array", "items": _ref("Part")}]},
    "regenerate": _FLAG,
    "context": _OBJECT,
    "output_schema": _OBJECT,
}
_STATE: Schema = {"enum": ["works", "needs", "unreachable", "not offered"]}
_SUMMARY: Mapping[str, Schema] = {
    "id": _NAME,
    "title": _TEXT,
    "feature": _TEXT,
    "models": {"type": "object", "additionalProperties": _TEXT},
    "status": {"enum": ["idle", "failed", "paused", "running", "interrupted", "damaged"]},
    "turns": _ANY,
    "cost": _or_null(_OBJECT),
    "created": _AT,
    "updated": _AT,
    "forked_from": _or_null(_TEXT),
}
_PAUSE = _shape({"kind": _TEXT, "payload": _ANY})
_ERROR = _shape({"code": _NAME, "message": _TEXT, "hint": _TEXT, "path": _TEXT}, "hint", "path")

_EVENTS: Mapping[str, Schema] = {
    "turn": _shape({"turn": _COUNT}),
    "delta": _shape(
        {"text": _TEXT, "reasoning": _TEXT, "tool_call": _OBJECT}, "text", "reasoning", "tool_call"
    ),
    "reset": _OBJECT,
    "progress": _shape({"text": _TEXT, "data": _ANY}, "data"),
    "retry": _shape({"seconds": {"type": "number"}, "provider": _NAME, "reason": _TEXT}),
    "step": _shape({"kind": _NAME, "title": _TEXT, "data": _ANY}, "data"),
    "paused": _PAUSE,
    "answer": _ref("Answer"),
    "error": _shape({**_ERROR["properties"], "retry_after": _COUNT}, "hint", "path", "retry_after"),
}

_PREPARING: Mapping[str, Schema] = {
    "progress": _shape({"text": _TEXT, "done": _or_null(_COUNT), "total": _or_null(_COUNT)}),
    "done": _ref("Provider"),
    "error": _ERROR,
}

SCHEMAS: Mapping[str, Schema] = {
    "Anything": _ANY,
    "Problem": _shape({"error": _ERROR}),
    "About": _shape({"name": _TEXT, "version": _TEXT, "user": _TEXT, "keeps": _FLAG}),
    "Plugins": _list("Plugin"),
    "Plugin": _shape(
        {
            "name": _NAME,
            "distribution": _TEXT,
            "version": _TEXT,
            "status": _TEXT,
            "reason": _TEXT,
            "fix": _TEXT,
            "provides": _OBJECT,
        }
    ),
    "Features": _list("Feature"),
    "Feature": _shape(
        {
            "name": _NAME,
            "help": _TEXT,
            "roles": {"type": "object", "additionalProperties": _TEXT},
            "optional": _NAMES,
            "settings": _OBJECT,
            "runs": _FLAG,
            "reason": _TEXT,
        }
    ),
    "Models": _list("Model"),
    "Model": _shape(
        {
            "name": _NAME,
            "aliases": _NAMES,
            "for": _TEXT,
            "window": _or_null(_COUNT),
            "can": _NAMES,
            "runs": _FLAG,
            "state": _STATE,
            "reason": _TEXT,
            "providers": _NAMES,
            "configuration": _or_null(
                _shape({**_CONFIGURATION, "parameters": _OBJECT, "reason": _TEXT})
            ),
        }
    ),
    "NewModel": _sent(
        {
            "name": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._:-]*$"},
            **_CONFIGURATION,
            "parameters": _OBJECT,
        },
        "name",
        "of",
    ),
    "ModelChange": _sent({**_CONFIGURATION, "parameters": _OBJECT}),
    "ProviderTypes": _list("ProviderType"),
    "ProviderType": _shape({"name": _NAME, "plugin": _TEXT, "settings": _OBJECT}),
    "Routes": _shape({"data": {"type": "array", "items": _ref("Route")}, "more": _FLAG}),
    "Route": _shape(
        {
            "name": _NAME,
            "model": _TEXT,
            "provider": _TEXT,
            "dialect": _or_null(_TEXT),
            "id": _or_null(_TEXT),
            "for": _TEXT,
            "runs": _FLAG,
            "state": _STATE,
            "reasons": _NAMES,
            "can": _NAMES,
            "window": _or_null(_COUNT),
            "parameters": _OBJECT,
        },
        "parameters",
    ),
    "Providers": _list("Provider"),
    "Provider": _shape(
        {
            "name": _NAME,
            "type": _TEXT,
            "enabled": _FLAG,
            "status": {"enum": ["works", "needs", "unreachable", "disabled"]},
            "reason": _TEXT,
            "settings": _OBJECT,
            "preparation": _or_null(_TEXT),
        }
    ),
    "ListedModels": _list("ListedModel"),
    "ListedModel": _shape(
        {
            "name": _NAME,
            "id": _NAME,
            "dialects": _NAMES,
            "for": _NAMES,
            "can": _NAMES,
            "window": _or_null(_COUNT),
        }
    ),
    "Preparing": _sent({"model": _NAME}),
    "PreparationEvents": {
        **_shape(_PREPARING, *_PREPARING),
        "description": "The data of each event of a stream, by the name of the event",
    },
    "NewProvider": _sent(
        {
            "name": {"type": "string", "pattern": "^[a-z0-9]+(-[a-z0-9]+)*$"},
            "type": _NAME,
            "settings": _OBJECT,
            "enabled": _FLAG,
        },
        "name",
        "type",
    ),
    "ProviderChange": _sent({"enabled": _FLAG, "settings": _OBJECT}),
    "Conversations": _shape(
        {
            "data": {
                "type": "array",
                "items": {"anyOf": [_ref("Summary"), _ref("Found")]},
            },
            "next": _or_null(_TEXT),
        },
        "next",
    ),
    "Summary": _shape(_SUMMARY),
    "Found": _shape(
        {
            "conversation": _NAME,
            "title": _TEXT,
            "turn": _or_null(_COUNT),
            "role": _TEXT,
            "text": _TEXT,
        }
    ),
    "Conversation": _shape(
        {
            **_SUMMARY,
            "configurations": {"type": "object", "additionalProperties": _TEXT},
            "parameters": _OBJECT,
            "settings": _OBJECT,
            "tools": _or_null(_NAMES),
            "pause": _or_null(_PAUSE),
            "turns": {"type": "array", "items": _ref("Turn")},
            "more": _FLAG,
        }
    ),
    "Stats": _list("UsageRow"),
    "UsageRow": _shape(
        {
            "of": {"type": "object", "additionalProperties": _TEXT},
            "calls": _COUNT,
            "failed": {"type": "object", "additionalProperties": _COUNT},
            "input_tokens": _COUNT,
            "output_tokens": _COUNT,
            "cached_tokens": _COUNT,
            "reasoning_tokens": _COUNT,
            "cost": _shape({"dollars": {"type": "number"}, "unknown": _COUNT}),
            **dict.fromkeys(("mean", "p50", "p95", "slowest"), _or_null({"type": "number"})),
        }
    ),
    "Budgets": _list("Budget"),
    "Budget": _shape(
        {
            "name": _NAME,
            "user": _or_null(_TEXT),
            "period": {"enum": ["day", "month"]},
            "unit": {"enum": ["dollars", "tokens"]},
            "most": {"type": "number"},
            "spent": {"type": "number"},
            "unknown": _COUNT,
            "renews": _AT,
        }
    ),
    "NewConversation": _sent({"feature": _NAME, **_OPENED, "title": _TITLE}),
    "ConversationChange": _sent({**_OPENED, "title": _TITLE}),
    "Turn": _shape(
        {
            "turn": _COUNT,
            "at": _AT,
            "status": {
                "enum": ["answered", "failed", "unfinished", "paused", "replaced", "undone"]
            },
            "message": _ref("Message"),
            "answer": _or_null(_ref("Answer")),
            "partial": _TEXT,
            "error": _or_null(_ERROR),
            "pause": _or_null(_PAUSE),
        }
    ),
    "Message": _shape(
        {
            "role": {"enum": ["system", "user", "assistant", "tool"]},
            "content": {"type": "array", "items": _ref("Part"), "minItems": 1},
        }
    ),
    "Part": {
        "type": "object",
        "properties": {"type": _NAME},
        "required": ["type"],
        "description": "As defined in docs/message.schema.json",
    },
    "Answer": _shape(
        {
            "turn": _COUNT,
            "text": _TEXT,
            "data": _ANY,
            "reactions": {"type": "array", "items": _OBJECT},
            "images": {"type": "array", "items": _OBJECT},
            "usage": _OBJECT,
            "cost": _or_null(_OBJECT),
            "details": {"type": "array", "items": _OBJECT},
            "record_error": _ERROR,
        },
        "details",
        "record_error",
    ),
    "NewTurn": _sent({**_SAID, "stream": _FLAG}),
    "Result": _sent({"result": _ANY, "stream": _FLAG}),
    "TurnReply": _shape(
        {
            "turn": _COUNT,
            "status": {"enum": ["answered", "paused"]},
            "answer": _ref("Answer"),
            "pause": _PAUSE,
        },
        "answer",
        "pause",
    ),
    "TurnEvents": {
        **_shape(_EVENTS, *_EVENTS),
        "description": "The data of each event of a stream, by the name of the event",
    },
    "Cancelled": _shape({"cancelled": _FLAG}),
    "Undone": _shape({"message": _or_null(_ref("Message"))}),
    "NewJob": _sent({"feature": _NAME, **_OPENED, "conversation": _NAME, **_SAID}),
    "Job": _shape(
        {
            "id": _NAME,
            "status": {"enum": ["running", "done", "failed", "paused", "cancelled"]},
            "conversation": _TEXT,
            "error": _or_null(_ERROR),
        }
    ),
}
