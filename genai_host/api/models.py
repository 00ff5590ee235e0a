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

from genai_host.api.calls import EXTRA_BODY as EXTRA_BODY, Operation
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


def parameter(type: str, description: str, **keywords: Any) -> dict[str, Any]:
    """The JSON Schema of a model parameter.

    Args:
        type: Its JSON type.
        description: One line.
        **keywords: Further keywords, for example `minimum`.
    """
    return {"type": type, **keywords, "description": description}


STANDARD: Mapping[str, Mapping[str, Any]] = {
    "temperature": parameter(
        "number", "randomness: 0 always selects the likeliest token", minimum=0, maximum=2
    ),
    "top_p": parameter(
        "number",
        "sample from the likeliest tokens whose probabilities add up to this",
        minimum=0,
        maximum=1,
    ),
    "top_k": parameter("integer", "number of likeliest tokens to sample from", minimum=1),
    "max_tokens": parameter("integer", "maximum number of output tokens", minimum=1),
    "stop": parameter(
        "array",
        "strings that end the answer; they are not part of it",
        items={"type": "string", "minLength": 1},
    ),
    "seed": parameter("integer", "seed for reproducible answers, if the service supports it"),
    "presence_penalty": parameter(
        "number", "above 0: penalize tokens that occurred before", minimum=-2, maximum=2
    ),
    "frequency_penalty": parameter(
        "number", "above 0: penalize tokens by how often they occurred", minimum=-2, maximum=2
    ),
}


EXTRA_BODY_SCHEMA: Mapping[str, Any] = parameter(
    "object", "further fields of the request body, sent unchanged"
)


def merged_parameters(*levels: Mapping[str, Any]) -> dict[str, Any]:
    """Merge model parameters, later levels first; fields of `extra_body` are merged one by one."""
    merged: dict[str, Any] = {}
    for level in levels:
        if not level:
            continue
        before = merged.get(EXTRA_BODY)
        merged.update(level)
        if before is not None:
            now = merged[EXTRA_BODY]
            if isinstance(before, Mapping) and isinstance(now, Mapping):
                merged[EXTRA_BODY] = {**before, **now}
    return merged


def standard_parameters(*names: str, **narrowed: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Schemas of standard parameters, for `Dialect.parameters`.

    Args:
        names: Names of the parameters, for example `temperature`.
        **narrowed: Further parameters, with keywords that replace those of the schema.

    Returns:
        JSON Schema by name.
    """
    own = {name: {**STANDARD[name], **keywords} for name, keywords in narrowed.items()}
    return {**{name: STANDARD[name] for name in names}, **own}


@frozen
class Model:
    """A declaration of a model, independent of providers.

    Attributes:
        name: Unique among all plugins, for example `llama-3.3-70b`.
        dialects: Dialects it supports, best first.
        aliases: Other names, unique as well.
        capabilities: Capabilities; see `CAPABILITIES`.
        window: Context window in tokens, input and output together; None if unknown.
        max_output: Maximum number of output tokens; None if unknown.
        parameters: JSON Schemas that replace those of the dialect, by name; `False` for a parameter
            that the model does not accept.
        defaults: Recommended parameter values, used unless others are set.
        variant: Options of each dialect; see `Dialect.variant`.
        operation: Kind of call.
        at: Short form of `Offering`: id of the model by provider type.
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
    """A declaration that a provider offers a model.

    Any plugin can declare it: that of the model, that of the provider, or a third. The model need
    not be declared.

    Attributes:
        model: Name of the model.
        provider: Provider type, or name of a provider.
        id: Id of the model at the provider.
        dialects: Dialects it supports there, best first, whether or not the model lists them; None
            for all that model and provider share.
        unsupported: Capabilities of the model that are missing there.
        variant: Options of the dialects there.
        window: Context window there, if smaller than the model's.
    """

    model: str = field(validator=FILLED)
    provider: str = field(validator=FILLED)
    id: str = field(validator=FILLED)
    dialects: tuple[str, ...] | None = field(default=None, converter=strings_or_none)
    unsupported: frozenset[str] = field(default=frozenset(), converter=string_set)
    variant: Mapping[str, Any] = field(factory=dict, validator=ANY_BY_NAME)
    window: int | None = field(default=None, validator=SIZE_OR_NONE)
