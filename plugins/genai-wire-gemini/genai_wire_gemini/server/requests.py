"""Requests of the Gemini API: generation settings, schemas, tools.

Source: Gemini API reference, "GenerationConfig", "ThinkingConfig", "Schema", "Tool",
"FunctionDeclaration", "FunctionCallingConfig".

Gemini's schemas are a subset of OpenAPI's, and are read as JSON Schemas: types are in capitals,
null is `nullable`, counts are 64-bit integers, which are strings in JSON, and values of an enum
are strings whatever the type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import field, frozen

from genai_host.api import JsonReader, ToolSchema, VendorTool, read_json
from genai_host.errors import NoRoute, ValidationError
from genai_host.serving import check_schema, each_once, offered_tool, one_of, vendor_tool
from genai_wire_gemini.dialect.replies import NAME

_TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
_OPEN_API_FORMATS = ("int32", "int64", "float", "double", "enum")
_RENAMED: Mapping[str, str] = {"ref": "$ref", "defs": "$defs"}


def json_schema(given: JsonReader) -> dict[str, Any]:
    """Convert a schema to JSON Schema; unknown keywords are unchanged. Raises `ValidationError`."""
    schema: dict[str, Any] = {}
    for name, written in given.names():
        kept = _keyword(given, name, given.value[written])
        if kept is not None:
            schema[_RENAMED.get(name, name)] = kept
    if "enum" in schema and schema.get("type") in ("integer", "number"):
        schema["enum"] = [_as_number(each) for each in schema["enum"]]
    return _nullable(schema) if given.flag("nullable") else schema


def _keyword(given: JsonReader, name: str, value: Any) -> Any:
    """The value of a keyword in JSON Schema; None to leave it out."""
    match name:
        case "nullable" | "propertyOrdering" | "example":
            return None
        case "type" if isinstance(value, str):
            if value != "TYPE_UNSPECIFIED" and value.lower() not in _TYPES:
                raise ValidationError(f"unknown type {value[:100]!r}", path=given.at(name))
            return None if value == "TYPE_UNSPECIFIED" else value.lower()
        case "format" if value in _OPEN_API_FORMATS:
            return None
        case "enum":
            return [*given.values(name)]
        case (
            "minItems" | "maxItems" | "minProperties" | "maxProperties" | "minLength" | "maxLength"
        ):
            return given.whole(name)
        case "items" | "additionalProperties" if not isinstance(value, bool):
            return json_schema(JsonReader(value, given.at(name), camel=True))
        case "anyOf" | "prefixItems":
            return [json_schema(each) for each in given.objects(name)]
        case "properties" | "defs" | "$defs":
            return {
                key: json_schema(JsonReader(each, f"{given.at(name)}.{key}", camel=True))
                for key, each in (given.mapping(name) or {}).items()
            }
    return value


def _as_number(value: Any) -> Any:
    try:
        number = read_json(value) if isinstance(value, str) else value
    except ValueError:
        return value
    return number if type(number) in (int, float) else value


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    if "enum" in schema:
        schema["enum"] = [*schema["enum"], None]
    if isinstance(schema.get("type"), str):
        schema["type"] = [schema["type"], "null"]
    if "anyOf" in schema:
        schema["anyOf"] = [*schema["anyOf"], {"type": "null"}]
    return schema


_NUMBERS: Mapping[str, str] = {
    "temperature": "temperature",
    "topP": "top_p",
    "presencePenalty": "presence_penalty",
    "frequencyPenalty": "frequency_penalty",
}
_WHOLE_NUMBERS: Mapping[str, str] = {
    "topK": "top_k",
    "maxOutputTokens": "max_tokens",
    "seed": "seed",
}
_NAMES = {**_NUMBERS, **_WHOLE_NUMBERS}
_HINTS = ("temperature", "topP", "topK")
"""Clients send these without being asked to, so a model that does not have them answers without."""
_EFFORTS = ("minimal", "low", "medium", "high", "xhigh", "max")
_LEVELS = tuple(effort.upper() for effort in _EFFORTS[:-1])
_UNSAID = "THINKING_LEVEL_UNSPECIFIED"
_NOT_DONE = (
    "responseLogprobs", "logprobs", "speechConfig", "imageConfig", "videoConfig", "responseFormat",
    "translationConfig",
)  # fmt: skip
_JSON, _ENUM = "application/json", "text/x.enum"
_ANY_JSON: Mapping[str, Any] = {}


@frozen
class RequestSettings:
    """Settings of a request.

    Attributes:
        parameters: Model parameters, by the host's names.
        schema: JSON Schema of the answer; None for text.
        thoughts: Whether to include reasoning.
        enum: Whether the answer is a bare value of the schema, without quotes.
    """

    parameters: Mapping[str, Any] = field(factory=dict)
    schema: Mapping[str, Any] | None = None
    thoughts: bool = False
    enum: bool = False


_SCHEMAS = frozenset({"responseschema", "responsejsonschema"})
_SAMPLING = {"temperature": "temperature", "topk": "top_k", "topp": "top_p"}


def _by_bare_name(value: Any) -> dict[str, Any] | None:
    """Fields by their names in any spelling, `topK` or `top_k`; None if it is not an object."""
    if not isinstance(value, Mapping):
        return None
    return {name.replace("_", "").lower(): each for name, each in value.items()}


def used_parameters(config: Any) -> frozenset[str] | None:
    """The parameters of `generationConfig` that a model may not have; None if the answer is
    checked, or values have to be adapted to the model."""
    fields = _by_bare_name(config)
    if fields is None:
        return None
    if not _SCHEMAS.isdisjoint(fields) and fields.get("responsemimetype") != _ENUM:
        return None
    thinking = _by_bare_name(fields.get("thinkingconfig", {}))
    if thinking is None or "thinkinglevel" in thinking:
        return None  # its values are those of the model
    used = {name for field, name in _SAMPLING.items() if field in fields}
    return frozenset(used | ({"thinking_budget"} if "thinkingbudget" in thinking else set()))


def configured(config: JsonReader | None, taken: Mapping[str, Any]) -> RequestSettings:
    """Read `generationConfig`; `taken` has the parameters of the model. Raises
    `ValidationError`."""
    if config is None:
        return RequestSettings()
    if config.whole("candidateCount") not in (None, 1):
        raise config.wrong("candidateCount", "not supported: only 1 is")
    if [each for each in config.values("responseModalities") if each not in ("TEXT", "text")]:
        raise config.wrong("responseModalities", "not supported: only TEXT is")
    parameters: dict[str, Any] = {}
    for wire, name in _NUMBERS.items():
        parameters[name] = config.number(wire)
    for wire, name in _WHOLE_NUMBERS.items():
        parameters[name] = config.whole(wire)
    for wire in _HINTS:
        if wire in config and _NAMES[wire] not in taken:
            config.drop(wire)
            del parameters[_NAMES[wire]]
        elif wire in config:
            config.dropped.parameters({_NAMES[wire]: config.at(wire)})
    parameters["stop"] = list(config.texts("stopSequences")) or None
    schema = _schema(config)
    thinking = config.object("thinkingConfig")
    thoughts = thinking is not None and bool(thinking.flag("includeThoughts"))
    if thinking is not None:
        parameters.update(_thinking(thinking, thoughts, taken))
    config.refuse(*_NOT_DONE)
    given = {name: value for name, value in parameters.items() if value is not None}
    return RequestSettings(given, schema, thoughts, config.text("responseMimeType") == _ENUM)


def safety(body: JsonReader, taken: Mapping[str, Any]) -> dict[str, Any]:
    """Read the safety settings, for models with that parameter. Other services have no
    equivalent."""
    settings: dict[str, Any] = {}
    body.dropped.parameters({"safety_settings": ""})
    for each in body.objects("safetySettings"):
        category, threshold = each.text("category"), each.text("threshold")
        extra = each.extra_fields()
        settings[category] = {"threshold": threshold, **extra[NAME]} if extra else threshold
    return {"safety_settings": settings} if settings and "safety_settings" in taken else {}


def _schema(config: JsonReader) -> Mapping[str, Any] | None:
    kind = config.text("responseMimeType")
    given = config.peek("responseSchema")
    config.raw("responseSchema")
    schema = config.mapping("responseJsonSchema")
    if kind not in ("", "text/plain", _JSON, _ENUM):
        raise config.wrong("responseMimeType", f"not one of text/plain, {_JSON}, {_ENUM}")
    if kind not in (_JSON, _ENUM):
        if given is not None or schema is not None:
            raise ValidationError(
                f"a schema requires responseMimeType {_JSON}", path=config.at("responseMimeType")
            )
        return None
    if given is not None and schema is not None:
        raise ValidationError(
            "responseSchema and responseJsonSchema cannot be combined",
            path=config.at("responseJsonSchema"),
        )
    if given is not None:
        schema = json_schema(given)
        check_schema(schema, given.path)
    elif schema is not None:
        check_schema(schema, config.at("responseJsonSchema"))
    if kind == _ENUM and not (schema and schema.get("enum")):
        raise config.wrong("responseMimeType", "only supported with a schema that has an enum")
    return _ANY_JSON if schema is None else schema


def _thinking(given: JsonReader, thoughts: bool, taken: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parameters for reasoning. Reasoning is included as requested even if the model has no
    parameter for it. A budget and a level are hints: they have no effect on such a model, and the
    nearest values on one with others."""
    found: dict[str, Any] = {}
    given.dropped.parameters({"include_thoughts": "", "thinking_budget": ""})
    if thoughts and "include_thoughts" in taken:
        found["include_thoughts"] = True
    budget = given.whole("thinkingBudget")
    if budget is not None:
        found.update(_budgeted(budget, taken))
    level = given.text("thinkingLevel").upper()
    if level not in ("", _UNSAID):
        if level not in _LEVELS:
            raise given.wrong("thinkingLevel", f"not one of {', '.join(_LEVELS)}")
        if "reasoning_effort" in taken:
            found["reasoning_effort"] = _nearest(level.lower(), taken["reasoning_effort"])
            given.dropped.parameters({"reasoning_effort": given.at("thinkingLevel")})
        else:
            given.drop("thinkingLevel")
    return found


def _budgeted(budget: int, taken: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parameters for a budget: 0 for no reasoning, -1 for the default of the model."""
    least = taken.get("thinking_budget", {}).get("minimum", 0)
    if budget == 0 and "none" in taken.get("reasoning_effort", {}).get("enum", ()):
        return {"reasoning_effort": "none"}
    if "thinking_budget" not in taken or (budget <= 0 and budget < least):
        return {}
    return {"thinking_budget": max(budget, least)}


def _nearest(level: str, effort: Mapping[str, Any]) -> str:
    """The effort of a model that is nearest to a level, the lower one of two."""
    efforts = [each for each in effort.get("enum", (level,)) if each in _EFFORTS]
    wanted = _EFFORTS.index(level)
    return min(efforts, key=lambda each: abs(_EFFORTS.index(each) - wanted), default=level)


_DECLARATIONS = "functionDeclarations"
_OF_SERVICE: Mapping[str, str] = {
    "codeExecution": "code_execution",
    "enterpriseWebSearch": "web_search",
    "googleMaps": "",
    "googleSearch": "web_search",
    "googleSearchRetrieval": "web_search",
    "urlContext": "web_fetch",
}
"""Tools that the service runs, with their kinds. They name nothing that others have stored at the
service."""
_MODES: Mapping[str, str | None] = {
    "MODE_UNSPECIFIED": None,
    "AUTO": "auto",
    "ANY": "required",
    "NONE": "none",
    "VALIDATED": "auto",
}


def tools_in(body: JsonReader) -> list[ToolSchema]:
    """Read the tools. Raises `ValidationError`, also for tools of Google's services if the model is
    unknown."""
    return each_once(_declared(body), body.at("tools"))


def _declared(body: JsonReader) -> Iterator[ToolSchema]:
    for tool in body.objects("tools"):
        for name, _ in tool.names():
            if name != _DECLARATIONS:
                own = _of_service(name, tool)
                if own is not None:
                    yield own
        yield from map(_tool, tool.objects(_DECLARATIONS))


def _of_service(name: str, tool: JsonReader) -> VendorTool | None:
    why = f"only {_DECLARATIONS}"
    if name in _OF_SERVICE:
        try:
            return vendor_tool(name, tool, name, kind=_OF_SERVICE[name])
        except NoRoute as error:
            why = str(error)
    raise ValidationError(f"this model does not support the tool {name}: {why}", path=tool.at(name))


def chosen(
    body: JsonReader, tools: Sequence[ToolSchema]
) -> tuple[Sequence[ToolSchema], str | None]:
    """Read the tools that may be called, and the choice among them. Raises `ValidationError`."""
    config = body.object("toolConfig")
    if config is None:
        return tools, None
    config.refuse_elsewhere("retrievalConfig", "includeServerSideToolInvocations")
    calling = config.object("functionCallingConfig")
    if calling is None:
        return tools, None
    choice = _MODES[calling.choice("mode", tuple(_MODES), "MODE_UNSPECIFIED")]
    names = calling.texts("allowedFunctionNames")
    calling.refuse("streamFunctionCallArguments")
    others = [tool for tool in tools if isinstance(tool, VendorTool)]
    tools = [tool for tool in tools if not isinstance(tool, VendorTool)]
    wanted, there = frozenset(names), {tool.name for tool in tools}
    allowed = [tool for tool in tools if tool.name in wanted] if names else tools
    for number, name in enumerate(names):
        if name not in there:
            path = f"{calling.at('allowedFunctionNames')}[{number}]"
            raise ValidationError(f"unknown function {name}", path=path)
    if choice == "required" and not tools:
        raise ValidationError("no functions to choose from", path=calling.at("mode"))
    if choice == "required" and len(allowed) == 1:
        functions, name = one_of(allowed, allowed[0].name)
        return [*functions, *others], name
    return [*allowed, *others], choice if tools else None


def _tool(given: JsonReader) -> ToolSchema:
    name, description = given.text("name"), given.text("description")
    schema, parameters = given.mapping("parametersJsonSchema"), given.peek("parameters")
    given.raw("parameters")
    if schema is not None and parameters is not None:
        raise ValidationError(
            "parameters and parametersJsonSchema cannot be combined",
            path=given.at("parametersJsonSchema"),
        )
    given.choice("behavior", ("UNSPECIFIED", "BLOCKING"))
    extra = given.extra_fields("response", "responseJsonSchema")  # not sent to the model
    if parameters is not None:
        schema = json_schema(parameters)
        path = parameters.path
    else:
        path = given.at("parametersJsonSchema") if schema is not None else given.path
    # a function without parameters may have an empty schema
    return offered_tool(name, description, schema or None, path, extra=extra)
