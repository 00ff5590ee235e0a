"""Types of reactions: what a tool may tell a front end to do, and in which form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import field, frozen

from genai_host.api.converters import strings
from genai_host.api.validators import ADDRESS, ANY_BY_NAME, BOOLEAN, Must


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable() and bool(value) and " " not in value


def _is_address(value: Any) -> bool:
    return value == "" or ADDRESS.holds(value)


@frozen
class ReactionType:
    """What a plugin registers: reactions of this type have this form.

        ReactionType("redirect", {"properties": {"url": {"type": "string"}}, "required": ["url"]})

    name        the `type` of such reactions, unique among all plugins
    schema      JSON Schema of its fields, `type` left out
    ends        whether the model is not to be asked again in the turn, as `ToolOutput.ends`
    text_view   function that shows one as text, as `package.module:name`, imported when one
                is shown; empty for none. It gets the reaction and the columns that there
                are, and gives lines, or one text
    pictures    fields that have a picture: a `data:` URL of an image, an object with
                `media_type` and `data` (base64), or base64 whose type is in the reaction's
                own `media_type`

    A tool that gives one of another form has failed. Types that nobody registers pass.
    """

    name: str = field(validator=Must("printable, without a space", _is_name))
    schema: Mapping[str, Any] = field(factory=dict, validator=ANY_BY_NAME)
    ends: bool = field(default=False, validator=BOOLEAN, kw_only=True)
    text_view: str = field(
        default="", validator=Must("as `package.module:name`, or empty", _is_address), kw_only=True
    )
    pictures: Sequence[str] = field(default=(), converter=strings, kw_only=True)
