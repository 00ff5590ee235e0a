"""Python in another process with the same module search path."""

from __future__ import annotations

import sys

_SAME_FIRST = """
import sys
first = sys.argv.pop(1)
if not getattr(sys.flags, "safe_path", False):
    sys.path[0] = first
"""


def has_interpreter() -> bool:
    """Whether a Python interpreter can be started: not in a frozen program, nor if Python is
    embedded."""
    return bool(sys.executable) and not getattr(sys, "frozen", False)


def interpreter_command(code: str, *arguments: str) -> list[str]:
    """The command that runs code with arguments in `sys.argv[1:]`."""
    return [sys.executable, "-c", _SAME_FIRST + code, sys.path[0], *arguments]
