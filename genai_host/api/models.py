"""Models, offerings and the parameters that dialects share.

A model is data: it is declared once, and any provider can offer it.

`STANDARD` has the model parameters that all dialects call by the same name, as JSON Schemas. A
dialect lists the parameters of its format, a model narrows or refuses them, and a provider adds
its own. The values of a user are checked against the outcome. An unknown name is an error: no
parameter is dropped silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from genai_host.api.calls import Operation
from genai_host.api.validators import (
    ANY_BY_NAME,
    ANY_BY_NAMES,
    FILLED,
    FILLED_BY_NAME,
    OPERATION,
    SCHEMAS,
    SIZE_OR_NONE,
    string_set,
    strings,
    strings_or_none,
)

STANDARD: Mapping[str, Mapping[str, Any]] = {
    "temperature": {
        "type": "number",
        "minimum": 0,
        "maximum": 2,
        "description": "randomness: 0 always takes the likeliest token",
    },
    "top_p": {
        "type": "number",
        "minimum": 0,
        "maximum": 1,
        "description": "choose among the likeliest tokens that add up to this probability",
    },
    "top_k": {
        "type": "integer",
        "minimum": 1,
        "description": "choose among this many of the likeliest tokens",
    },
    "max_tokens": {
        "type": "integer",
        "minimum": 1,
        "description": "end the answer after this many tokens",
    },
    "stop": {
        "type": "array",
        "items": {"type": "string", "minLength": 1},
        "description": "end the answer before any of these strings",
    },
    "seed": {
        "type": "integer",
        "description": "the same seed gives the same answer, as far as the service can",
    },
    "presence_penalty": {
        "type": "number",
        "minimum": -2,
        "maximum": 2,
        "description": "above 0: rather new tokens than ones that occurred",
    },
    "frequency_penalty": {
        "type": "number",
        "minimum": -2,
        "maximum": 2,
        "description": "above 0: the rarer, the more often they occurred",
    },
}


EXTRA_BODY = "extra_body"
"""The parameter for a service's own parameters, which the host does not know: an object whose
fields are sent in the body of the request as they are. See `Provider.extra_body`."""

EXTRA_BODY_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "description": "fields that only the service knows, sent as they are",
}


def merged_parameters(*levels: Mapping[str, Any]) -> dict[str, Any]:
    """Model parameters of several levels, later ones first; the fields of `extra_body` are merged
    one by one."""
    merged: dict[str, Any] = {}
    for level in levels:
        before = merged.get(EXTRA_BODY)
        merged.update(level)
        now = merged.get(EXTRA_BODY)
        if isinstance(before, Mapping) and isinstance(now, Mapping):
            merged[EXTRA_BODY] = {**before, **now}
    return merged


def standard_parameters(*names: str) -> dict[str, Mapping[str, Any]]:
    """Those of the standard parameters, for `Dialect.parameters`."""
    return {name: STANDARD[name] for name in names}


@frozen
class Model:
    """A model, whoever runs it.

    Attributes:
        name: Unique among all plugins, for example `llama-3.3-70b`.
        dialects: The wire formats it can be spoken to in, best first.
        aliases: Other names for it, unique as well.
        capabilities: What it can do; see `dialects.CAPABILITIES`.
        window: Tokens that prompt and answer share; None if unknown.
        max_output: Tokens that an answer may have; None if unknown.
        parameters: JSON Schemas that replace the dialect's for the names given, `False` for a
            parameter that it refuses.
        defaults: Parameter values that suit it, used where nobody sets others.
        variant: For each dialect, which of its variants to write.
        operation: What it is for.
        at: Short form of `Offering`: provider type to its id there.
    """

    name: str = field(validator=FILLED)
    dialects: tuple[str, ...] = field(converter=strings)
    aliases: tuple[str, ...] = field(default=(), converter=strings)
    capabilities: frozenset[str] = field(default=frozenset(), converter=string_set)
    window: int | None = field(default=None, validator=SIZE_OR_NONE)
    max_output: int | None = field(default=None, validator=SIZE_OR_NONE)
    parameters: Mapping[str, Any] = field(factory=dict, validator=SCHEMAS)
    defaults: Mapping[str, Any] = field(factory=dict, validator=ANY_BY_NAME)
    variant: Mapping[str, Mapping[str, Any]] = field(factory=dict, validator=ANY_BY_NAMES)
    operation: Operation = field(default="chat", validator=OPERATION)
    at: Mapping[str, str] = field(factory=dict, validator=FILLED_BY_NAME)


@frozen
class Offering:
    """A provider has a model, under an id of its own.

    Anybody may say so: the plugin that declares the model, the one that brings
    the provider, or a third. A model that nobody declared may be offered too.

    Attributes:
        model: Name of the model.
        provider: Provider type, or the name of one instance.
        id: The model's id there.
        dialects: Those it can be spoken to in there, best first, whether or not the model names
            them; None for all that both know.
        lacks: Capabilities that it has elsewhere and not there.
        variant: Which variants the dialect is to write there.
        window: Its window there, if smaller.
    """

    model: str = field(validator=FILLED)
    provider: str = field(validator=FILLED)
    id: str = field(validator=FILLED)
    dialects: tuple[str, ...] | None = field(default=None, converter=strings_or_none)
    lacks: frozenset[str] = field(default=frozenset(), converter=string_set)
    variant: Mapping[str, Any] = field(factory=dict, validator=ANY_BY_NAME)
    window: int | None = field(default=None, validator=SIZE_OR_NONE)
