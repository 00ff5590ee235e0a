"""The Pyodide release: its version, location and download from the npm registry."""

from __future__ import annotations

import base64
import configparser
import hashlib
import os
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from attrs import frozen

from genai_host import paths
from genai_host.errors import ConfigurationError, ServiceUnavailable

_REGISTRY = "https://registry.npmjs.org"
_BLOCK = 2**18
_SECONDS = 30.0  # timeout without data
_DONE = "pulled"  # a file that marks a complete download

OnProgress = Callable[[int, int], None]
"""Receives the number of bytes downloaded, and the total; 0 if unknown."""


@frozen
class Release:
    """One version of an npm package.

    Attributes:
        integrity: SHA-512 of the tarball in base64, in npm's format.
        files: Names of the files to extract.
        most: Maximum number of bytes of the tarball, and of the unpacked files.
    """

    name: str
    version: str
    integrity: str
    files: tuple[str, ...]
    most: int = 64 * 2**20

    def address(self, registry: str) -> str:
        return f"{registry.rstrip('/')}/{self.name}/-/{self.name}-{self.version}.tgz"

    def is_in(self, folder: Path) -> bool:
        """Whether a directory contains the complete, verified release."""
        try:
            return (folder / _DONE).read_text(encoding="utf-8").strip() == self.integrity
        except (OSError, ValueError):
            return False


KNOWN = Release(
    "pyodide",
    "314.0.7",
    "0YvXxEhfEdpLfb/XkM2BFAeMROq0iMUX2bzzH9pOttyMcWkwq+HbE5uyuGD82LN7y2q+SNvi/6V5JEsOlD2R1A==",
    (
        "package.json",
        "pyodide-lock.json",
        "pyodide.asm.mjs",
        "pyodide.asm.wasm",
        "pyodide.mjs",
        "python_stdlib.zip",
    ),
)


def folder_of(configured: str) -> Path:
    """Return the directory of Pyodide, without links, because Node resolves them."""
    usual = os.path.join(paths.cache_dir(), "sandbox", f"{KNOWN.name}-{KNOWN.version}")
    return Path(os.path.realpath(os.path.expanduser(configured or usual)))


def registry(environ: Mapping[str, str], home: Path) -> str:
    """Return npm's registry: from the environment, `.npmrc`, or the public one. Raises
    `ConfigurationError`: the address is invalid."""
    named = environ.get("npm_config_registry") or environ.get("NPM_CONFIG_REGISTRY")
    named = named or _in_npmrc(home / ".npmrc") or _REGISTRY
    try:
        parts = urlsplit(named)
        is_known = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_known = False
    if not is_known:
        raise ConfigurationError(
            "the npm registry must be an http(s) URL",
            hint="set npm_config_registry, or registry in ~/.npmrc",
        )
    return named


def _in_npmrc(file: Path) -> str:
    """Return `registry` from a file of npm settings; see npmrc(5)."""
    try:
        text = file.read_text(encoding="utf-8")
        read = configparser.RawConfigParser(
            strict=False, allow_no_value=True, delimiters=("=",), interpolation=None
        )
        read.read_string(f"[npmrc]\n{text}")
    except (OSError, ValueError, configparser.Error):
        return ""
    return (read.get("npmrc", "registry", fallback="") or "").strip("\"' ")


def pull(release: Release, folder: Path, registry: str, on_progress: OnProgress) -> Path:
    """Download and verify a release into a directory, atomically.

    Raises:
        ServiceUnavailable: The download failed.
        ConfigurationError: The content is wrong, or the directory contains other files.
    """
    from filelock import FileLock

    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if release.is_in(folder):
            return folder
        if folder.exists() and any(folder.iterdir()):
            raise ConfigurationError(
                f"{folder} contains other files", hint="use an empty directory"
            )
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="pull-") as scratch:
            tarball = Path(scratch) / "package.tgz"
            _fetch(release, release.address(registry), tarball, on_progress)
            unpacked = Path(scratch) / "unpacked"
            unpacked.mkdir()
            _unpack(release, tarball, unpacked)
            (unpacked / _DONE).write_text(release.integrity, encoding="utf-8")
            if folder.exists():
                folder.rmdir()
            os.replace(unpacked, folder)
    return folder


def _fetch(release: Release, address: str, target: Path, on_progress: OnProgress) -> None:
    import requests

    digest, size = hashlib.sha512(), 0
    try:
        with (
            requests.get(address, stream=True, timeout=_SECONDS) as reply,
            target.open("wb") as sink,
        ):
            reply.raise_for_status()
            announced = reply.headers.get("Content-Length", "")
            whole = int(announced) if announced.isascii() and announced.isdigit() else 0
            for block in reply.iter_content(_BLOCK):
                size += len(block)
                if size > release.most:
                    raise ConfigurationError(f"{release.name} is larger than expected")
                digest.update(block)
                sink.write(block)
                on_progress(size, whole)
    except (requests.RequestException, ValueError) as error:
        status = getattr(getattr(error, "response", None), "status_code", None)
        why = f"status {status}" if status else type(error).__name__
        raise ServiceUnavailable(
            f"cannot download {release.name} {release.version}: {why}",
            hint="check the network connection, npm_config_registry and HTTPS_PROXY",
        ) from error
    found = base64.b64encode(digest.digest()).decode()
    if found != release.integrity:
        raise ConfigurationError(
            f"the download is not {release.name} {release.version}: its SHA-512 is {found}",
            hint="nothing was saved",
        )


def _unpack(release: Release, tarball: Path, folder: Path) -> None:
    """Extract only the regular files of the release: no links, no directories."""
    missing, size = set(release.files), 0
    try:
        with tarfile.open(tarball, "r:gz") as archive:
            for member in archive:
                name = _name(member)
                if name not in missing:
                    continue
                source = archive.extractfile(member)
                size += member.size
                if source is None or size > release.most:
                    raise ConfigurationError(f"{release.name} is larger than expected")
                with source, (folder / name).open("xb") as sink:
                    shutil.copyfileobj(source, sink, _BLOCK)
                missing.remove(name)
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise ConfigurationError(f"{release.name} is damaged: {error}") from error
    if missing:
        raise ConfigurationError(f"{release.name} lacks {', '.join(sorted(missing))}")


def _name(member: tarfile.TarInfo) -> str:
    """Return the name of a regular file at the top of the package; empty for other members."""
    parts = PurePosixPath(member.name).parts
    is_plain = member.isreg() and len(parts) == 2 and parts[0] == "package"
    return parts[1] if is_plain else ""
