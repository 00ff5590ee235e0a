"""The Python interpreter: the start of another one with the same module search path, and the
garbage collector while a command starts.

A start creates many objects that stay, such as imported modules. The collector would look at them
repeatedly, in a tenth of the time of a short command.
"""

from __future__ import annotations

import gc
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


def pause_collection() -> None:
    """Pause the garbage collector, at the start of a program."""
    gc.disable()


def resume_collection() -> None:
    """Resume the garbage collector, if it is paused. It ignores the objects that exist by then."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
