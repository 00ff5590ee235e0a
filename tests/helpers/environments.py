"""Environments in which the built wheels of host and plugins are really installed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from genai_host.testing.environments import Environment, build_wheel, make_environment, uv

__all__ = ["Environment", "base", "environment", "wheels"]

ROOT = Path(__file__).resolve().parents[2]
_UNWANTED = shutil.ignore_patterns(
    ".*", "build", "dist", "*.egg-info", "__pycache__", "node_modules", "tests"
)


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheels of the host and of each plugin, by name, built from a copy."""
    _need_uv()
    source = tmp_path_factory.mktemp("source") / "project"
    out = tmp_path_factory.mktemp("wheels")
    shutil.copytree(ROOT, source, ignore=_UNWANTED)
    folders = [source, *sorted((source / "plugins").iterdir())]
    built = [build_wheel(folder, out) for folder in folders if (folder / "setup.cfg").exists()]
    return {wheel.name.split("-")[0].replace("_", "-"): wheel for wheel in built}


@pytest.fixture(scope="session")
def base(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with host, mock, chat and the open models, to be copied."""
    folder = tmp_path_factory.mktemp("base") / "venv"
    names = ("genai-host", "genai-vendor-mock", "genai-feature-chat", "genai-models-open")
    made = make_environment(folder, folder)
    made.install(*(str(wheels[name]) for name in names))
    return folder


@pytest.fixture
def environment(base: Path, tmp_path: Path) -> Iterator[Environment]:
    """The base environment, to be changed by one test: what a test installs is
    uninstalled after it."""
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
