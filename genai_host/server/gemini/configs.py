"""How a model is to answer, from the generationConfig of a request.

Source: Gemini API reference, "GenerationConfig", "ThinkingConfig".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from genai_host.api.given import Given
from genai_host.errors import InvalidData
from genai_host.server.gemini.schemas import json_schema
from genai_host.server.offered import check_schema

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
_LEVELS = ("MINIMAL", "LOW", "MEDIUM", "HIGH", "XHIGH")
_UNSAID = "THINKING_LEVEL_UNSPECIFIED"
_NOT_DONE = (
    "responseLogprobs", "logprobs", "speechConfig", "imageConfig", "videoConfig",
    "mediaResolution", "enableEnhancedCivicAnswers", "responseFormat", "translationConfig",
    "routingConfig", "modelSelectionConfig", "modelConfig", "audioTimestamp",
    "enableAffectiveDialog",
)  # fmt: skip
_JSON = "application/json"
_ANY_JSON: Mapping[str, Any] = {}


@frozen
class Configured:
    """
    parameters   by the host's names
    schema       JSON Schema of the answer; None for free text
    thoughts     whether what the model thinks is to be shown
    """

    parameters: Mapping[str, Any] = field(factory=dict)
    schema: Mapping[str, Any] | None = None
    thoughts: bool = False


def configured(config: Given | None, taken: Mapping[str, Any]) -> Configured:
    """
    taken   the parameters that the model takes

    Raises `InvalidData`.
    """
    if config is None:
        return Configured()
    if config.whole("candidateCount") not in (None, 1):
        raise config.wrong("candidateCount", "more than one answer, which is not supported here")
    if [each for each in config.values("responseModalities") if each not in ("TEXT", "text")]:
        raise config.wrong("responseModalities", "not supported here: models answer in text")
    parameters: dict[str, Any] = {}
    for wire, name in _NUMBERS.items():
        parameters[name] = config.number(wire)
    for wire, name in _WHOLE_NUMBERS.items():
        parameters[name] = config.whole(wire)
    parameters["stop"] = list(config.texts("stopSequences")) or None
    schema = _schema(config)
    thinking = config.object("thinkingConfig")
    thoughts = thinking is not None and bool(thinking.flag("includeThoughts"))
    if thinking is not None:
        parameters.update(_thinking(thinking, thoughts, taken))
    config.refuse(*_NOT_DONE)
    config.nothing_else()
    given = {name: value for name, value in parameters.items() if value is not None}
    return Configured(given, schema, thoughts)


def safety(body: Given, taken: Mapping[str, Any]) -> dict[str, Any]:
    """What is to be blocked, for a model that has a choice: other services have rules of
    their own, and no names for these."""
    settings = {
        each.text("category"): each.text("threshold") for each in body.objects("safetySettings")
    }
    return {"safety_settings": settings} if settings and "safety_settings" in taken else {}


def _schema(config: Given) -> Mapping[str, Any] | None:
    kind = config.text("responseMimeType")
    given = config.object("responseSchema")
    schema = config.mapping("responseJsonSchema")
    if kind not in ("", "text/plain", _JSON):
        raise config.wrong("responseMimeType", f"neither text/plain nor {_JSON}")
    if kind != _JSON:
        if given is not None or schema is not None:
            raise InvalidData(
                f"a schema needs responseMimeType {_JSON}", path=config.at("responseMimeType")
            )
        return None
    if given is not None and schema is not None:
        raise InvalidData("there are two schemas", path=config.at("responseJsonSchema"))
    if given is not None:
        schema = json_schema(given)
        check_schema(schema, given.path)
    elif schema is not None:
        check_schema(schema, config.at("responseJsonSchema"))
    return _ANY_JSON if schema is None else schema


def _thinking(given: Given, thoughts: bool, taken: Mapping[str, Any]) -> Mapping[str, Any]:
    """Thoughts are shown or not by what is written here: a model is told as well, if it can
    be. To think as it sees fit is what a model does that is told nothing."""
    found: dict[str, Any] = {}
    if thoughts and "include_thoughts" in taken:
        found["include_thoughts"] = True
    budget = given.whole("thinkingBudget")
    if budget is not None and (budget != -1 or "thinking_budget" in taken):
        found["thinking_budget"] = budget
    level = given.text("thinkingLevel").upper()
    if level not in ("", _UNSAID):
        if level not in _LEVELS:
            raise given.wrong("thinkingLevel", f"none of {', '.join(_LEVELS)}")
        found["reasoning_effort"] = level.lower()
    given.nothing_else()
    return found
