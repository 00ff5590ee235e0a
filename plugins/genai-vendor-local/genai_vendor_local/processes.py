"""Pythons of their own, as this one is, but for the current folder.

Python looks for modules in the current folder first, where it runs `-c` or `-m`; there
anybody's file may be, as `xllamacpp.py` in a folder that was downloaded.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

OPENMP = "libgomp.so.1"
"""The library that llama.cpp needs and that not every system has."""

_MODULE = """\
import runpy, sys
sys.path[:] = [folder for folder in sys.path if folder]  # "" is the current one
del sys.argv[0]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def module(name: str, *arguments: str) -> list[str]:
    """A command that runs a module as `python -m` does."""
    return [sys.executable, "-c", _MODULE, name, *arguments]


def environment(folder: Path) -> Mapping[str, str]:
    """The variables of a process that is to find `OPENMP` in a folder."""
    if not (folder / OPENMP).is_file():
        return os.environ
    own = os.environ.get("LD_LIBRARY_PATH")
    return {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(filter(None, (own, str(folder))))}
