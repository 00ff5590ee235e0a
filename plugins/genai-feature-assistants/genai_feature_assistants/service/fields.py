"""Fields that several requests have, and attributes of files.

The fields are metadata, tools, the choice of a tool, the form of the answer and the truncation of
the thread. Clients set attributes of a file in a vector store; `matches` applies the filter of a
search to them.

Source: OpenAI API reference, "Assistants"; OpenAPI document 2.3.0, "VectorStoreFileAttributes",
"ComparisonFilter", "CompoundFilter".
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from genai_host.api import JsonReader, RouteRequest, SchemaValidator, body_of
from genai_host.errors import ValidationError

MAX_PAIRS = 16
MAX_CODE_FILES = 20

_KEY, _TEXT = 64, 512  # characters in metadata and attributes
_NAME = 64
_KINDS = ("code_interpreter", "file_search", "function")
_CHOICES = ("none", "auto", "required")


def metadata_in(given: JsonReader) -> dict[str, str]:
    """Return at most 16 pairs, of 64 and 512 characters. Raises `ValidationError`."""
    found = given.mapping("metadata") or {}
    path = given.at("metadata")
    if len(found) > MAX_PAIRS:
        raise ValidationError(f"metadata must have at most {MAX_PAIRS} pairs", path=path)
    for key, value in found.items():
        if len(key) > _KEY:
            raise ValidationError(f"a key must have at most {_KEY} characters", path=path)
        if not isinstance(value, str) or len(value) > _TEXT:
            raise ValidationError(
                f"a value must be a string of at most {_TEXT} characters", path=f"{path}.{key}"
            )
    return dict(found)


def metadata_change(request: RouteRequest) -> dict[str, Any]:
    """Return the fields of a request that can change the metadata alone."""
    given = body_of(request)
    metadata = metadata_in(given)
    given.nothing_else()
    return {"metadata": metadata} if "metadata" in given.value else {}


def tools_in(given: JsonReader, most: int = 128) -> list[dict[str, Any]]:
    """Return the tools, as the API shows them. Raises `ValidationError`."""
    found = [_tool(each) for each in given.objects("tools")]
    if len(found) > most:
        raise ValidationError(f"must be at most {most} tools", path=given.at("tools"))
    names = [each["function"]["name"] for each in found if each["type"] == "function"]
    kinds = [each["type"] for each in found if each["type"] != "function"]
    if len(set(names)) < len(names) or len(set(kinds)) < len(kinds):
        raise ValidationError("duplicate tool", path=given.at("tools"))
    return found


def _tool(given: JsonReader) -> dict[str, Any]:
    found: dict[str, Any] = {"type": given.choice("type", _KINDS)}
    match found["type"]:
        case "function":
            function = given.object("function")
            if function is None:
                raise ValidationError("function is missing", path=given.path)
            found["function"] = _function(function)
        case "file_search":
            search = given.object("file_search")
            if search is not None:
                found["file_search"] = _search(search)
        case "":
            raise ValidationError("type is missing", path=given.path)
        case kind:
            given.raw(kind)
    given.nothing_else()
    return found


def _function(given: JsonReader) -> dict[str, Any]:
    name = given.text("name")
    if not 1 <= len(name) <= _NAME or not name.replace("_", "a").replace("-", "a").isalnum():
        raise ValidationError(
            f"a name must have 1 to {_NAME} characters: letters, digits, _ and -",
            path=given.at("name"),
        )
    if name in ("file_search", "code_interpreter"):
        raise ValidationError(f"{name} is the name of a built-in tool", path=given.at("name"))
    parameters = given.mapping("parameters")
    if parameters is not None:
        SchemaValidator(parameters)  # raises for an invalid schema
    found = {
        "name": name,
        "description": given.text_or_none("description"),
        "parameters": parameters,
        "strict": given.flag("strict"),
    }
    given.nothing_else()
    return {name: value for name, value in found.items() if value is not None}


def _search(given: JsonReader) -> dict[str, Any]:
    ranking = given.object("ranking_options")
    found = {
        "max_num_results": given.whole("max_num_results", 1, 50),
        "ranking_options": None if ranking is None else ranking_in(ranking),
    }
    given.nothing_else()
    return {name: value for name, value in found.items() if value is not None}


def ranking_in(given: JsonReader) -> dict[str, Any]:
    """Return how passages are chosen. There is one ranker."""
    given.raw("ranker")
    return {
        "ranker": "default_2024_08_21",
        "score_threshold": given.number("score_threshold", 0, 1) or 0.0,
    }


def choice_in(given: JsonReader, tools: Sequence[Mapping[str, Any]]) -> Any:
    """Return the choice of a tool; `auto` by default. Raises `ValidationError`."""
    if not isinstance(given.raw("tool_choice"), dict):
        return given.choice("tool_choice", _CHOICES, "auto")
    chosen = given.object("tool_choice")
    assert chosen is not None
    kind = chosen.choice("type", _KINDS)
    function = chosen.object("function")
    choice: dict[str, Any] = {"type": kind}
    if kind == "function":
        choice["function"] = {"name": "" if function is None else function.text("name")}
    if not any(_is_chosen(tool, choice) for tool in tools):
        raise ValidationError(
            "the chosen tool is not among the tools of the run", path=given.at("tool_choice")
        )
    return choice


def _is_chosen(tool: Mapping[str, Any], chosen: Mapping[str, Any]) -> bool:
    if tool["type"] != chosen["type"]:
        return False
    name = chosen.get("function", {}).get("name")
    return tool["type"] != "function" or bool(tool["function"]["name"] == name)


def format_in(given: JsonReader) -> Any:
    """Return the format of answers; `auto` by default. Raises `ValidationError`."""
    if not isinstance(given.raw("response_format"), dict):
        return given.choice("response_format", ("auto",), "auto")
    form = given.object("response_format")
    assert form is not None
    kind = form.choice("type", ("text", "json_object", "json_schema"))
    if kind != "json_schema":
        return {"type": kind or "text"}
    described = form.object("json_schema")
    if described is None or not described.text("name"):
        raise ValidationError(
            "json_schema must have a name and a schema", path=form.at("json_schema")
        )
    schema = described.mapping("schema")
    SchemaValidator(schema or {})
    return {"type": kind, "json_schema": dict(described.value)}


def schema_of(form: Any) -> Mapping[str, Any] | None:
    """Return the JSON Schema of a format; None for text."""
    if not isinstance(form, Mapping) or form["type"] == "text":
        return None
    if form["type"] == "json_object":
        return {"type": "object"}
    return form["json_schema"].get("schema") or {"type": "object"}


def truncation_in(given: JsonReader) -> dict[str, Any]:
    """Return how much of the thread a run sees. Raises `ValidationError`."""
    strategy = given.object("truncation_strategy")
    if strategy is None:
        return {"type": "auto", "last_messages": None}
    kind = strategy.choice("type", ("auto", "last_messages"), "auto")
    last = strategy.whole("last_messages", 1)
    if kind == "last_messages" and last is None:
        raise ValidationError("last_messages must be a number", path=strategy.at("last_messages"))
    return {"type": kind, "last_messages": last if kind == "last_messages" else None}


_DEPTH = 10

_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}
_EQUALS = ("eq", "ne", "in", "nin")


def attributes_in(given: JsonReader) -> dict[str, Any]:
    """Return at most 16 texts, numbers and booleans by name. Raises `ValidationError`."""
    found = given.mapping("attributes") or {}
    path = given.at("attributes")
    if len(found) > MAX_PAIRS or any(len(key) > _KEY for key in found):
        raise ValidationError(
            f"must have at most {MAX_PAIRS} entries, with names of at most {_KEY} characters",
            path=path,
        )
    for key, value in found.items():
        if not isinstance(value, (str, bool, int, float)) or (
            isinstance(value, str) and len(value) > _TEXT
        ):
            raise ValidationError(
                f"an attribute must be a number, a boolean or a string up to {_TEXT} characters",
                path=f"{path}.{key}",
            )
    return dict(found)


def must_be_filter(filter: Any, path: str, depth: int = 0) -> None:
    """Raise `ValidationError` for an invalid filter."""
    if not isinstance(filter, Mapping) or depth > _DEPTH:
        raise ValidationError("a filter must be an object", path=path)
    kind = filter.get("type")
    if kind in ("and", "or"):
        inner = filter.get("filters")
        if not isinstance(inner, list):
            raise ValidationError("filters must be a list", path=f"{path}.filters")
        for number, each in enumerate(inner):
            must_be_filter(each, f"{path}.filters[{number}]", depth + 1)
    elif kind not in (*_ORDERS, *_EQUALS):
        raise ValidationError(f"unknown filter type {kind!r:.40}", path=f"{path}.type")
    elif not isinstance(filter.get("key"), str) or "value" not in filter:
        raise ValidationError("a filter must have a key and a value", path=path)
    elif (kind in ("in", "nin")) != isinstance(filter["value"], list):
        raise ValidationError(
            "value must be a list for in and nin, and a single value otherwise",
            path=f"{path}.value",
        )


def matches(attributes: Mapping[str, Any] | None, filter: Mapping[str, Any]) -> bool:
    """Return whether a file with these attributes passes a filter."""
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
