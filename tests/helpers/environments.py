"""Environments in which the built wheels of the host and the plugins are installed."""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from filelock import FileLock

from genai_host_testing.environments import Environment, build_wheel, make_environment, uv

__all__ = ["Environment", "base", "build_wheels", "environment", "wheels"]

ROOT = Path(__file__).resolve().parents[2]
_WHEELS = ROOT / "dist"
_KEPT = 3  # of wheels of earlier sources, for developers with several branches
_NOT_BUILT = {".cache", ".git", ".tox", ".venv", "build", "dist", "node_modules", "tests"}


@pytest.fixture(scope="session")
def wheels() -> Iterator[dict[str, Path]]:
    """Return the wheels of the host and of each plugin, by name. Installers find them, for what
    plugins require."""
    _need_uv()
    built = build_wheels()
    with pytest.MonkeyPatch.context() as patch:
        for variable in ("UV_FIND_LINKS", "PIP_FIND_LINKS"):
            patch.setenv(variable, str(built["genai-host"].parent))
        yield built


def build_wheels() -> dict[str, Path]:
    """Build the wheels of the host and of each plugin, once for each state of the sources.

    Raises:
        FileNotFoundError: uv is not installed.
    """
    folder = _WHEELS / _digest()
    _WHEELS.mkdir(exist_ok=True)
    with FileLock(_WHEELS / "lock"):
        if not folder.is_dir():
            _build(folder)
    wheels = sorted(folder.glob("*.whl"))
    return {wheel.name.split("-")[0].replace("_", "-"): wheel for wheel in wheels}


def _build(folder: Path) -> None:
    """Build from a copy, because a build leaves files beside its sources."""
    with tempfile.TemporaryDirectory(dir=_WHEELS) as directory:
        source, out = Path(directory, "project"), Path(directory, "wheels")
        for file in _sources():
            copy = source / file.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, copy)
        projects = [source, *sorted(each.parent for each in source.glob("plugins/*/setup.cfg"))]
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            list(threads.map(build_wheel, projects, itertools.repeat(out)))
        out.rename(folder)
    earlier = sorted(_WHEELS.glob("?" * 64), key=lambda each: each.stat().st_mtime)
    for each in earlier[:-_KEPT]:
        shutil.rmtree(each)


def _sources() -> Iterator[Path]:
    """Yield the files from which the wheels are built."""
    for folder, names, files in os.walk(ROOT):
        names[:] = sorted(each for each in names if each not in _NOT_BUILT and not _is_left(each))
        yield from (Path(folder, each) for each in sorted(files) if not _is_left(each))


def _is_left(name: str) -> bool:
    return name.startswith(".") or name.endswith((".egg-info", ".pyc")) or name == "__pycache__"


def _digest() -> str:
    digest = hashlib.sha256()
    for file in _sources():
        for part in (str(file.relative_to(ROOT)).encode(), file.read_bytes()):
            digest.update(len(part).to_bytes(8) + part)
    return digest.hexdigest()


@pytest.fixture(scope="session")
def base(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the host, mock, chat, the open models and an API format, to be copied."""
    folder = tmp_path_factory.mktemp("base") / "venv"
    names = (
        "genai-host",
        "genai-vendor-mock",
        "genai-feature-chat",
        "genai-models-open",
        "genai-wire-openai",
    )
    environment = make_environment(folder, folder)
    environment.install(*(str(wheels[name]) for name in names))
    return folder


@pytest.fixture
def environment(base: Path, tmp_path: Path) -> Iterator[Environment]:
    """The base environment, for one test; packages that the test installs are removed later."""
    installed = Environment(base, tmp_path / "home")
    before = set(installed.site.iterdir())
    yield installed
    for path in set(installed.site.iterdir()) - before:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _need_uv() -> None:
    try:
        uv("--version")
    except FileNotFoundError as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))
