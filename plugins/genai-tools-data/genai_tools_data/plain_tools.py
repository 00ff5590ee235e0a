"""Arithmetic and the time."""

from __future__ import annotations

from typing import Annotated

from genai_host.api import ToolContext, tool
from genai_tools_data import calculator, present

_USAGE = "as 2 * (3 + 4) or round(sqrt(2), 3); ** is a power, % the rest of a division"


@tool(repeatable=True, seconds=10.0)
def calculate(expression: Annotated[str, _USAGE]) -> str:
    """Calculate a number. Ask for it whenever there is anything to calculate."""
    return calculator.calculate(expression)


@tool(repeatable=True, seconds=10.0)
def current_time(
    run: ToolContext,
    zone: Annotated[str, "an IANA name, as Europe/Oslo; empty for the user's zone"] = "",
) -> str:
    """Say what day and what time it is now, for the user or elsewhere."""
    return present.now(run.context, zone, present.local_time)


PLAIN_TOOLS = (calculate, current_time)
