"""A model is data: declared once, offered by whoever runs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from genai_host.api.converters import string_set, strings, strings_or_none
from genai_host.api.exchange import Operation
from genai_host.api.validators import (
    ANY_BY_NAME,
    ANY_BY_NAMES,
    FILLED,
    FILLED_BY_NAME,
    OPERATION,
    SCHEMAS,
    SIZE_OR_NONE,
)


@frozen
class Model:
    """A model, whoever runs it.

    name           unique among all plugins, as `llama-3.3-70b`
    dialects       the wire formats it can be spoken to in, best first
    aliases        other names for it, unique as well
    capabilities   what it can do; see `dialects.CAPABILITIES`
    window         tokens that prompt and answer share; None if unknown
    max_output     tokens that an answer may have; None if unknown
    parameters     JSON Schemas that replace the dialect's for the names given,
                   `False` for a parameter that it refuses
    defaults       parameter values that suit it, used where nobody sets others
    variant        for each dialect, which of its variants to write
    operation      what it is for
    at             short form of `Offering`: provider type to its id there
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

    model      name of the model
    provider   provider type, or the name of one instance
    id         the model's id there
    dialects   those it can be spoken to in there, best first, whether or not the model
               names them; None for all that both know
    lacks      capabilities that it has elsewhere and not there
    variant    which variants the dialect is to write there
    window     its window there, if smaller
    """

    model: str = field(validator=FILLED)
    provider: str = field(validator=FILLED)
    id: str = field(validator=FILLED)
    dialects: tuple[str, ...] | None = field(default=None, converter=strings_or_none)
    lacks: frozenset[str] = field(default=frozenset(), converter=string_set)
    variant: Mapping[str, Any] = field(factory=dict, validator=ANY_BY_NAME)
    window: int | None = field(default=None, validator=SIZE_OR_NONE)
