"""Commands for child Python processes that do not import from the current directory.

With `-c` or `-m`, Python searches the current directory first, which can contain untrusted files,
for example `xllamacpp.py` in a downloaded directory.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

OPENMP = "libgomp.so.1"
"""The library that llama.cpp requires and some systems lack."""

_MODULE = """\
import runpy, sys
sys.path[:] = [folder for folder in sys.path if folder]  # "" is the current one
del sys.argv[0]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def module(name: str, *arguments: str) -> list[str]:
    """Return a command that runs a module like `python -m`."""
    return [sys.executable, "-c", _MODULE, name, *arguments]


def environment(folder: Path) -> Mapping[str, str]:
    """Return the environment for a process that loads `OPENMP` from a directory."""
    if not (folder / OPENMP).is_file():
        return os.environ
    own = os.environ.get("LD_LIBRARY_PATH")
    return {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(filter(None, (own, str(folder))))}
