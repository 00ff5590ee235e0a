"""Sandbox for Python code from a model: Pyodide in Node, without network access.

`genai-host sandbox pull` downloads Pyodide; before that the tool is not offered. The user sets the
limits, in the table `[tools.sandbox]` of the configuration.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from attrs import Attribute, field, frozen

from genai_host.api import Command, ReactionType, ToolSet, ToolSource, about, hookimpl, setting

_FILE = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "data": {"type": "string"}},
    "required": ["name", "data"],
}


def _between(least: float, most: float) -> Any:
    def check(owner: Any, attribute: Attribute[Any], value: float) -> None:
        if not (math.isfinite(value) and least <= value <= most):
            raise ValueError(f"{attribute.name} must be a number from {least:,} to {most:,}")

    return check


@frozen
class Settings:
    """Those of the table `[tools.sandbox]`. Raises `ValueError` for what is out of bounds."""

    seconds: float = setting(
        30.0, "time limit of the code of a call, in seconds", validator=_between(0.1, 3600)
    )
    memory: int = setting(512, "memory limit of the code, in MiB", validator=_between(64, 4096))
    sessions: int = setting(
        4,
        "maximum number of concurrent sessions, each a separate process",
        validator=_between(1, 64),
    )
    idle_seconds: float = setting(
        600.0, "seconds until an idle session ends", validator=_between(1, 86_400)
    )
    output_characters: int = field(
        default=20_000,
        validator=_between(100, 90_000),  # the host truncates texts at 100,000
        metadata=about("maximum number of output characters sent to the model"),
    )
    file_bytes: int = setting(
        20_000_000,
        "maximum size of the files of a call, in bytes",
        validator=_between(1, 100_000_000),
    )
    folder: str = setting("", "directory of Pyodide; in your cache directory if not set")


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
