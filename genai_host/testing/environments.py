"""Environments in which distributions are really installed, from wheels; with uv.

environment = make_environment(tmp_path / "venv", tmp_path / "home")
environment.install("genai-host", str(build_wheel(Path("my-plugin"), tmp_path)))
assert "mine" in environment.run("plugins").stdout
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path


class Environment:
    """A virtual environment, and a home for what runs in it.

    python       its interpreter
    genai_host   the command, once it is installed there
    """

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
        """Install distributions, by name or as wheels and folders by their path."""
        uv("pip", "install", "--quiet", "--python", str(self.python), *wanted)

    def uninstall(self, *names: str) -> None:
        uv("pip", "uninstall", "--quiet", "--python", str(self.python), *names)

    @property
    def site(self) -> Path:
        """Where distributions are installed."""
        code = "import sysconfig; print(sysconfig.get_path('purelib'))"
        done = subprocess.run(
            [str(self.python), "-c", code], capture_output=True, text=True, check=True
        )
        return Path(done.stdout.strip())


def make_environment(folder: Path, home: Path) -> Environment:
    """An empty environment for the Python that runs."""
    uv("venv", "--quiet", "--python", sys.executable, str(folder))
    return Environment(folder, home)


def build_wheel(source: Path, out: Path) -> Path:
    """Build the wheel of a distribution into a folder; the wheel."""
    out.mkdir(parents=True, exist_ok=True)
    before = set(out.glob("*.whl"))
    uv("build", "--quiet", "--wheel", "--python", sys.executable, "-o", str(out), str(source))
    [wheel] = set(out.glob("*.whl")) - before
    return wheel


def uv(*arguments: str) -> None:
    """Run uv, which is looked for beside this Python and on PATH.

    Raises `FileNotFoundError` if it is not installed, `RuntimeError` if it fails.
    """
    places = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    found = shutil.which("uv", path=places)
    if found is None:
        raise FileNotFoundError("uv is not installed: wheels are built and installed with it")
    done = subprocess.run([found, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"uv {' '.join(arguments)} failed:\n{done.stderr}")
