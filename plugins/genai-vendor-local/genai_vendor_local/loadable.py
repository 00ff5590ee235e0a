"""Check in a separate process whether llama.cpp can load a file.

llama.cpp does not reject every damaged file: some end the process by a failed assertion. So a new
file is first loaded in a separate process. The result is cached with the size and modification time
of the file.

With `-c` or `-m`, Python searches the current directory first, which can contain untrusted files,
for example `xllamacpp.py` in a downloaded directory. The commands here do not import from it.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from genai_host.api import CancelToken, ChildLimits, run_in_child
from genai_host.errors import ConfigurationError

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


_MAGIC = b"GGUF"
_loaded: list[Any] = []  # filled by `load`: a server released this early can hang


def must_be_loadable(file: Path, checked: Path, limits: CancelToken) -> None:
    """Check that llama.cpp can load a file.

    Raises:
        ConfigurationError: The file cannot be read or loaded, or is not a GGUF file.
        GenaiError: The error of `limits`.
    """
    try:
        with file.open("rb") as stream:
            magic = stream.read(len(_MAGIC))
    except OSError as error:
        raise ConfigurationError(f"cannot read {file}: {error.strerror}") from error
    if magic != _MAGIC:
        raise ConfigurationError(f"{file} is not a GGUF file", hint="use the path of a GGUF file")
    mark = _mark(file, checked)
    if not mark.exists():
        run_in_child(
            f"{__name__}:load",
            str(file.resolve()),
            returns=None,
            cancel=limits,
            limits=ChildLimits(may_write=True),
            exceeded=not_loadable(file),
            environment=environment(checked.parent),
        )
        remember_loadable(file, checked)


def remember_loadable(file: Path, checked: Path) -> None:
    """Mark a file as loadable until it changes, because it was verified in another way."""
    checked.mkdir(parents=True, exist_ok=True)
    _mark(file, checked).touch()


def not_loadable(file: Path) -> ConfigurationError:
    return ConfigurationError(
        f"llama.cpp cannot load {file}: the file is damaged, truncated, or of an unsupported type",
        hint="download it again; for known weights: genai-host local pull",
    )


def load(file: str) -> None:
    """Load a file; runs in a process that exits afterwards."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = file
    params.n_ctx = 256
    params.warmup = False
    params.verbosity = 0
    params.api_keys = [secrets.token_hex(32)]
    _loaded.append(xllamacpp.Server(params))


def _mark(file: Path, checked: Path) -> Path:
    status = file.stat()
    stamp = f"{file.resolve()}\0{status.st_size}\0{status.st_mtime_ns}"
    return checked / hashlib.sha256(stamp.encode("utf-8", "surrogateescape")).hexdigest()
