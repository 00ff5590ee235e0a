"""Sandbox for Python code from a model: Pyodide in Node, without network access.

`genai-host sandbox pull` downloads Pyodide; before that the tool is not offered. The user sets the
limits, in the table `[tools.sandbox]` of the configuration.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from genai_host.api import Command, ReactionType, ToolSet, ToolSource, hookimpl
from genai_tools_sandbox.settings import Settings

_FILE = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "data": {"type": "string"}},
    "required": ["name", "data"],
}


@hookimpl
def genai_tool_sources() -> Iterable[ToolSet[Any]]:
    yield ToolSet("sandbox", Settings, _open)


@hookimpl
def genai_reactions() -> Iterable[ReactionType]:
    files = {"type": "array", "items": _FILE}
    yield ReactionType("sandbox_files", {"properties": {"files": files}, "required": ["files"]})


@hookimpl
def genai_commands() -> Iterable[Command]:
    yield Command("sandbox", "Download the Python sandbox.", "genai_tools_sandbox.cli:sandbox")


def _open(settings: Settings) -> ToolSource:
    from genai_tools_sandbox.tools import SandboxTools

    return SandboxTools(settings)
