"""Fixtures of the plugins' tests: those of the testing kit."""

from __future__ import annotations

from typing import Any

from genai_host_testing.internal.fixtures import (
    background,
    host,
    local_host,
    make_host,
    make_local_host,
    offline,
    pyodide,
    scripted,
    weights,
)
from genai_host_testing.internal.warm_children import warm_children
from genai_host_testing.internal.warm_programs import mcp_shop

__all__ = [
    "background",
    "host",
    "local_host",
    "make_host",
    "make_local_host",
    "mcp_shop",
    "offline",
    "pyodide",
    "scripted",
    "warm_children",
    "weights",
]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say what tests have scored (`record_property("score", ...)`), whether they passed or
    not."""
    reports = [each for key in ("passed", "failed") for each in terminalreporter.getreports(key)]
    for report in reports:
        for name, value in report.user_properties:
            if name == "score":
                terminalreporter.write_line(f"SCORE {value}")
