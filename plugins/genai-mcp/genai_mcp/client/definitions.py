"""From what a server says of its tools to tools of the host.

All that a server says is a stranger's: a description may be written to make a model do
something, an annotation may be a lie. So a human is asked before each call, unless the user
says otherwise (`approvals`), and no tool is repeatable, whatever its annotations say.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any

from genai_host.api import Tool, ToolContext, ToolOutput
from genai_host.api.json_text import write_json
from genai_host.errors import ValidationError
from genai_mcp import mirrored
from genai_mcp.texts import clean, one_line

MOST_DESCRIPTION = 1024
"""Characters of a description, as many as all services take; what is beyond is cut off."""

MOST_SCHEMA = 100_000
"""Bytes of a schema, as JSON; a tool with more is left out."""

MOST_TOOLS = 1000

_LONGEST = 64  # characters of a tool's full name
_BETWEEN = "__"

Call = Callable[[str, Mapping[str, Any], Mapping[str, str], ToolContext], ToolOutput]
"""Calls a tool: its name there, its arguments, the headers that go with them."""

_log = logging.getLogger(__name__)


def tools_of(
    server: str, definitions: Iterable[Any], call: Call, *, has_headers: bool
) -> list[Tool]:
    """The tools that can be used; of the others it is said why they are left out.

    has_headers   whether arguments are repeated in headers
    """
    found: dict[str, Tool] = {}
    for number, definition in enumerate(definitions):
        if number == MOST_TOOLS:
            _log.warning("%s has more than %d tools: the rest is left out", server, MOST_TOOLS)
            break
        try:
            tool = _tool(server, definition, call, has_headers)
            if tool.name in found:
                raise ValidationError(f"there is another one that is called {tool.name} here")
            found[tool.name] = tool
        except (ValidationError, RecursionError) as error:
            name = definition.get("name") if isinstance(definition, Mapping) else definition
            _log.warning(
                "%s: the tool %s is left out: %s", server, one_line(str(name)), one_line(str(error))
            )
    return list(found.values())


def _tool(server: str, definition: Any, call: Call, has_headers: bool) -> Tool:
    """Raises `ValidationError` for one that cannot be used."""
    if not isinstance(definition, Mapping):
        raise ValidationError("it is no object")
    name, schema = definition.get("name"), definition.get("inputSchema")
    if not isinstance(name, str) or not name:
        raise ValidationError("it has no name")
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        raise ValidationError("its inputSchema is none of an object")
    if len(write_json(schema)) > MOST_SCHEMA:
        raise ValidationError(f"its inputSchema has more than {MOST_SCHEMA} bytes")
    places = mirrored.places(schema) if has_headers else {}

    def run(arguments: Mapping[str, Any], run: ToolContext) -> ToolOutput:
        return call(name, arguments, mirrored.values(places, arguments), run)

    return Tool(
        usable_name(name, _LONGEST - len(server) - len(_BETWEEN)),
        _description(definition) or name,
        run,
        schema,
        approval="ask",
    )


def usable_name(name: str, most: int) -> str:
    """A name that a tool can have: what cannot stand in one is `_`, and one that is too
    long ends with a digest of itself."""
    plain = re.sub(r"[^a-zA-Z0-9_-]", "_", name)
    if not re.match(r"[a-zA-Z_]", plain):
        plain = f"_{plain}"
    if len(plain) <= most:
        return plain
    digest = sha256(name.encode(errors="replace")).hexdigest()[:8]
    return f"{plain[: most - 9]}_{digest}"


def _description(definition: Mapping[str, Any]) -> str:
    for given in (definition.get("description"), definition.get("title")):
        if isinstance(given, str) and (text := clean(given, MOST_DESCRIPTION).strip()):
            return text
    return ""
