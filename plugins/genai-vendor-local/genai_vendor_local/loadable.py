"""Whether llama.cpp can load a file, found out where it can do no harm.

It does not refuse every damaged file: some end the whole process by a failed
assertion. So a file that is new is first loaded in a process of its own, once; that
it can be loaded is remembered with its size and its time of change.
"""

from __future__ import annotations

import hashlib
import secrets
from pathlib import Path
from typing import Any

from genai_host.api import CancelToken, ChildLimits, run_in_child
from genai_host.errors import ConfigurationError
from genai_vendor_local.processes import environment

_MAGIC = b"GGUF"
_loaded: list[Any] = []  # by `load`: a server that is released this soon may hang


def must_be_loadable(file: Path, checked: Path, limits: CancelToken) -> None:
    """Check that llama.cpp can load a file.

    Args:
        file: The file.
        checked: Directory that caches the results.
        limits: Cancels the check.

    Raises:
        ConfigurationError: The file cannot be read or loaded, or is not a GGUF file.
        GenaiError: The error of `limits`.
    """
    try:
        with file.open("rb") as stream:
            magic = stream.read(len(_MAGIC))
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}") from error
    if magic != _MAGIC:
        raise ConfigurationError(f"{file} is not a GGUF file", hint="name a GGUF file by its path")
    mark = _mark(file, checked)
    if not mark.exists():
        _try_to_load(file, checked, limits)
        remember_loadable(file, checked)


def remember_loadable(file: Path, checked: Path) -> None:
    """Take a file for loadable until it changes: it was checked otherwise."""
    checked.mkdir(parents=True, exist_ok=True)
    _mark(file, checked).touch()


def not_loadable(file: Path) -> ConfigurationError:
    return ConfigurationError(
        f"llama.cpp cannot load {file}: the file is corrupt, cut short, or of a kind that it "
        "does not know",
        hint="fetch it again; known weights: genai-host local pull",
    )


def _try_to_load(file: Path, checked: Path, limits: CancelToken) -> None:
    run_in_child(
        f"{__name__}:load",
        str(file.resolve()),
        returns=None,
        cancel=limits,
        limits=ChildLimits(may_write=True),
        exceeded=not_loadable(file),
        environment=environment(checked.parent),
    )


def load(file: str) -> None:
    """Load a file, in a process that ends afterwards."""
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
