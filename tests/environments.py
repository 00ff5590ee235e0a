"""Environments in which the built wheels of host and plugins are really installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
_UNWANTED = shutil.ignore_patterns(
    ".*", "build", "dist", "*.egg-info", "__pycache__", "node_modules", "tests"
)


class Environment:
    """A virtual environment, and a home for what runs in it."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder = folder
        self.home = home
        scripts = "Scripts" if os.name == "nt" else "bin"
        self.python = folder / scripts / "python"
        self.genai_host = folder / scripts / "genai-host"

    def run(
        self,
        *command: str,
        stdin: str = "",
        environment: Mapping[str, str] | None = None,
        check: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Run the installed `genai-host`."""
        return subprocess.run(
            [str(self.genai_host), *command],
            input=stdin,
            capture_output=True,
            text=True,
            check=check,
            cwd=self.folder,
            env={**os.environ, "GENAI_HOST_HOME": str(self.home), **(environment or {})},
        )

    def install(self, *wanted: str) -> None:
        _uv("pip", "install", "--quiet", "--python", str(self.python), *wanted)

    def uninstall(self, *names: str) -> None:
        _uv("pip", "uninstall", "--quiet", "--python", str(self.python), *names)

    @property
    def site(self) -> Path:
        """Where distributions are installed."""
        code = "import sysconfig; print(sysconfig.get_path('purelib'))"
        done = subprocess.run(
            [str(self.python), "-c", code], capture_output=True, text=True, check=True
        )
        return Path(done.stdout.strip())


def _uv(*arguments: str) -> None:
    uv = shutil.which(
        "uv", path=os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    )
    if uv is None:
        reason = "uv is not installed: wheels are built and installed with it"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    done = subprocess.run([uv, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"uv {' '.join(arguments)} failed:\n{done.stderr}")


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheels of the host and of each plugin, by name, built from a copy."""
    source = tmp_path_factory.mktemp("source") / "project"
    out = tmp_path_factory.mktemp("wheels")
    shutil.copytree(ROOT, source, ignore=_UNWANTED)
    for folder in (source, *sorted((source / "plugins").iterdir())):
        if (folder / "setup.cfg").exists():
            _uv(
                "build",
                "--quiet",
                "--wheel",
                "--python",
                sys.executable,
                "-o",
                str(out),
                str(folder),
            )
    return {wheel.name.split("-")[0].replace("_", "-"): wheel for wheel in out.glob("*.whl")}


@pytest.fixture(scope="session")
def base(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with host, mock, chat and the open models, to be copied."""
    folder = tmp_path_factory.mktemp("base") / "venv"
    _uv("venv", "--quiet", "--python", sys.executable, str(folder))
    names = ("genai-host", "genai-vendor-mock", "genai-feature-chat", "genai-models-open")
    environment = Environment(folder, folder)
    environment.install(*(str(wheels[name]) for name in names))
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
