"""Types of reactions: what a tool may tell a front end to do, and in which form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from genai_host.api.validators import ANY_BY_NAME, BOOLEAN, Must


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable() and bool(value) and " " not in value


@frozen
class ReactionType:
    """What a plugin registers: reactions of this type have this form.

        ReactionType("redirect", {"properties": {"url": {"type": "string"}}, "required": ["url"]})

    name     the `type` of such reactions, unique among all plugins
    schema   JSON Schema of its fields, `type` left out
    ends     whether the model is not to be asked again in the turn, as `ToolOutput.ends`

    A tool that gives one of another form has failed. Types that nobody registers pass.
    """

    name: str = field(validator=Must("printable, without a space", _is_name))
    schema: Mapping[str, Any] = field(factory=dict, validator=ANY_BY_NAME)
    ends: bool = field(default=False, validator=BOOLEAN, kw_only=True)
