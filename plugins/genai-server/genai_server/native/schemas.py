"""JSON Schemas of the requests and replies of the native API, for the OpenAPI document.

A key such as `"name version"` has the names of several properties with the same schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]

_TEXT: Schema = {"type": "string"}
_NAME: Schema = {"type": "string", "minLength": 1}
_FLAG: Schema = {"type": "boolean"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_NUMBER: Schema = {"type": "number"}
_OBJECT: Schema = {"type": "object"}
_ANY: Schema = {}
_AT: Schema = {"type": "string", "format": "date-time"}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _list(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def _by_name(schema: Schema) -> Schema:
    return {"type": "object", "additionalProperties": schema}


def _page(name: str) -> Schema:
    return _reply({"data": _list(_ref(name))})


def _reply(properties: Mapping[str, Schema], optional: str = "") -> Schema:
    """Schema of a reply, which allows further fields."""
    each = _split(properties)
    required = [name for name in each if name not in optional.split()]
    return {"type": "object", "properties": each, "required": required}


def _request(properties: Mapping[str, Schema], required: str = "") -> Schema:
    """Schema of a request, which allows no further fields."""
    return {
        "type": "object",
        "properties": _split(properties),
        "required": required.split(),
        "additionalProperties": False,
    }


def _events(properties: Mapping[str, Schema]) -> Schema:
    about = "The data of each event of a stream, by the name of the event"
    return {**_reply(properties, " ".join(properties)), "description": about}


def _split(properties: Mapping[str, Schema]) -> dict[str, Schema]:
    return {name: schema for names, schema in properties.items() for name in names.split()}


_NAMES = _list(_TEXT)
_TITLE: Schema = {"type": "string", "maxLength": 500, "pattern": r"^[^\u0000-\u001f\u007f]*$"}
_OPENED: Mapping[str, Schema] = {
    "model provider": _NAME,
    "models": _by_name(_NAME),
    "parameters settings": _OBJECT,
    "tools": _NAMES,
}
_CONFIGURATION: Mapping[str, Schema] = {
    "of": _NAME,
    "provider_order": _NAMES,
    "parameters": _OBJECT,
}
_INPUT: Mapping[str, Schema] = {
    "message": {"anyOf": [_NAME, _ref("Message"), _list(_ref("Part"))]},
    "regenerate": _FLAG,
    "context output_schema": _OBJECT,
}
_STATE: Schema = {"enum": ["works", "needs", "unreachable", "not offered"]}
_SUMMARY: Mapping[str, Schema] = {
    "id": _NAME,
    "title feature": _TEXT,
    "models": _by_name(_TEXT),
    "status": {"enum": ["idle", "failed", "paused", "running", "interrupted", "damaged"]},
    "cost": _or_null(_OBJECT),
    "created updated": _AT,
    "forked_from": _or_null(_TEXT),
}
_PAUSE = _reply({"kind": _TEXT, "payload": _ANY})
_ERROR_FIELDS: Mapping[str, Schema] = {"code": _NAME, "message hint path": _TEXT}
_ERROR = _reply(_ERROR_FIELDS, "hint path")

SCHEMAS: Mapping[str, Schema] = {
    "Anything": _ANY,
    "Problem": _reply({"error": _ERROR}),
    "About": _reply({"name version user": _TEXT, "keeps": _FLAG}),
    "Plugins": _page("Plugin"),
    "Plugin": _reply(
        {"name": _NAME, "distribution version status reason fix": _TEXT, "provides": _OBJECT}
    ),
    "Features": _page("Feature"),
    "Feature": _reply(
        {
            "name": _NAME,
            "help reason": _TEXT,
            "roles": _by_name(_TEXT),
            "optional": _NAMES,
            "settings": _OBJECT,
            "runs": _FLAG,
        }
    ),
    "Models": _page("Model"),
    "Model": _reply(
        {
            "name": _NAME,
            "aliases can providers": _NAMES,
            "for reason": _TEXT,
            "window": _or_null(_COUNT),
            "runs": _FLAG,
            "state": _STATE,
            "configuration": _or_null(_reply({**_CONFIGURATION, "reason": _TEXT})),
        }
    ),
    "NewModel": _request(
        {
            "name": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._:-]*$"},
            **_CONFIGURATION,
        },
        "name of",
    ),
    "ModelChange": _request(_CONFIGURATION),
    "ProviderTypes": _page("ProviderType"),
    "ProviderType": _reply({"name": _NAME, "plugin": _TEXT, "settings": _OBJECT}),
    "Routes": _reply({"data": _list(_ref("Route")), "more": _FLAG}),
    "Route": _reply(
        {
            "name": _NAME,
            "model provider for": _TEXT,
            "dialect id": _or_null(_TEXT),
            "runs": _FLAG,
            "state": _STATE,
            "reasons can": _NAMES,
            "window": _or_null(_COUNT),
            "parameters": _OBJECT,
        },
        "parameters",
    ),
    "Providers": _page("Provider"),
    "Provider": _reply(
        {
            "name": _NAME,
            "type reason": _TEXT,
            "enabled": _FLAG,
            "status": {"enum": ["works", "needs", "unreachable", "disabled"]},
            "settings": _OBJECT,
            "preparation": _or_null(_TEXT),
        }
    ),
    "ListedModels": _page("ListedModel"),
    "ListedModel": _reply(
        {"name id": _NAME, "dialects for can": _NAMES, "window": _or_null(_COUNT)}
    ),
    "Preparing": _request({"model": _NAME}),
    "PreparationEvents": _events(
        {
            "progress": _reply({"text": _TEXT, "done total": _or_null(_COUNT)}),
            "done": _ref("Provider"),
            "error": _ERROR,
        }
    ),
    "NewProvider": _request(
        {
            "name": {"type": "string", "pattern": "^[a-z0-9]+(-[a-z0-9]+)*$"},
            "type": _NAME,
            "settings": _OBJECT,
            "enabled": _FLAG,
        },
        "name type",
    ),
    "ProviderChange": _request({"enabled": _FLAG, "settings": _OBJECT}),
    "Conversations": _reply(
        {
            "data": _list({"anyOf": [_ref("Summary"), _ref("Found")]}),
            "next": _or_null(_TEXT),
        },
        "next",
    ),
    "Summary": _reply({**_SUMMARY, "turns": _ANY}),
    "Found": _reply({"conversation": _NAME, "title role text": _TEXT, "turn": _or_null(_COUNT)}),
    "Conversation": _reply(
        {
            **_SUMMARY,
            "configurations": _by_name(_TEXT),
            "parameters settings": _OBJECT,
            "tools": _or_null(_NAMES),
            "pause": _or_null(_PAUSE),
            "turns": _list(_ref("Turn")),
            "more": _FLAG,
        }
    ),
    "Stats": _page("UsageRow"),
    "UsageRow": _reply(
        {
            "of": _by_name(_TEXT),
            "calls input_tokens output_tokens cached_tokens reasoning_tokens": _COUNT,
            "failed": _by_name(_COUNT),
            "cost": _reply({"dollars": _NUMBER, "unknown": _COUNT}),
            "mean p50 p95 slowest": _or_null(_NUMBER),
        }
    ),
    "Budgets": _page("Budget"),
    "Budget": _reply(
        {
            "name": _NAME,
            "user": _or_null(_TEXT),
            "period": {"enum": ["day", "month"]},
            "unit": {"enum": ["dollars", "tokens"]},
            "most spent": _NUMBER,
            "unknown": _COUNT,
            "renews": _AT,
        }
    ),
    "NewConversation": _request({"feature": _NAME, **_OPENED, "title": _TITLE}),
    "ConversationChange": {
        **_request(
            {
                names: _or_null(each)
                for names, each in {
                    **_OPENED,
                    "models": _by_name(_or_null(_NAME)),
                    "title": _TITLE,
                }.items()
            }
        ),
        "description": "A JSON Merge Patch (RFC 7396): what is null gets its default",
    },
    "Turn": _reply(
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
    "Message": _reply(
        {
            "role": {"enum": ["system", "user", "assistant", "tool"]},
            "content": {**_list(_ref("Part")), "minItems": 1},
        }
    ),
    "Part": {**_reply({"type": _NAME}), "description": "As defined in docs/message.schema.json"},
    "Citation": _reply(
        {"url title cited_text": _TEXT, "start end": _COUNT}, "title cited_text start end"
    ),
    "Answer": _reply(
        {
            "turn": _COUNT,
            "text": _TEXT,
            "citations": _list(_ref("Citation")),
            "data": _ANY,
            "reactions images details": _list(_OBJECT),
            "usage": _OBJECT,
            "cost": _or_null(_OBJECT),
            "record_error": _ERROR,
        },
        "details record_error",
    ),
    "NewTurn": _request({**_INPUT, "stream": _FLAG}),
    "Result": _request({"result": _ANY, "stream": _FLAG}),
    "TurnReply": _reply(
        {
            "turn": _COUNT,
            "status": {"enum": ["answered", "paused"]},
            "answer": _ref("Answer"),
            "pause": _PAUSE,
        },
        "answer pause",
    ),
    "TurnEvents": _events(
        {
            "turn": _reply({"turn": _COUNT}),
            "delta": _reply(
                {
                    "text reasoning": _TEXT,
                    "tool_call": _OBJECT,
                    "citations": _list(_ref("Citation")),
                },
                "text reasoning tool_call citations",
            ),
            "reset": _OBJECT,
            "progress": _reply({"text": _TEXT, "data": _ANY}, "data"),
            "retry": _reply({"seconds": _NUMBER, "provider": _NAME, "reason": _TEXT}),
            "step": _reply({"kind": _NAME, "title": _TEXT, "data": _ANY}, "data"),
            "paused": _PAUSE,
            "answer": _ref("Answer"),
            "error": _reply({**_ERROR_FIELDS, "retry_after": _COUNT}, "hint path retry_after"),
        }
    ),
    "Cancelled": _reply({"cancelled": _FLAG}),
    "Undone": _reply({"message": _or_null(_ref("Message"))}),
    "NewJob": _request({"feature conversation": _NAME, **_OPENED, **_INPUT}),
    "Job": _reply(
        {
            "id": _NAME,
            "status": {"enum": ["running", "done", "failed", "paused", "cancelled"]},
            "conversation": _TEXT,
            "error": _or_null(_ERROR),
        }
    ),
}
