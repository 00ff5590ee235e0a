"""The garbage collector while a command starts.

A start creates many objects that stay, such as imported modules. The collector would look at them
repeatedly, in a tenth of the time of a short command.
"""

from __future__ import annotations

import gc


def pause_collection() -> None:
    """Pause the garbage collector, at the start of a program."""
    gc.disable()


def resume_collection() -> None:
    """Resume the garbage collector, if it is paused. It ignores the objects that exist by then."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
