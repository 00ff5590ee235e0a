"""Distributions and environments for tests.

`make_distribution` writes a module and its metadata into a directory, as if it were installed.
`make_environment` makes an environment into which wheels are really installed, with uv:

    environment = make_environment(tmp_path / "venv", tmp_path / "home")
    environment.install("genai-host", str(build_wheel(Path("my-plugin"), tmp_path)))
    assert "mine" in environment.run("plugins").stdout
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from genai_host.util.names import GROUP


def make_distribution(
    folder: Path,
    name: str,
    *,
    version: str = "1.0",
    entry_points: Mapping[str, str] | None = None,
    files: Mapping[str, str] | None = None,
) -> Path:
    """Install a distribution into a directory, as an installer does; replaces an earlier one.

    Args:
        folder: The directory, which is on `sys.path`.
        name: Name of the distribution.
        version: Its version.
        entry_points: Entry points of plugins by name; None for one plugin with the name and the
            module of the distribution.
        files: Texts by path in the directory; None for an empty module.

    Returns:
        Its `.dist-info` directory.
    """
    module = name.replace("-", "_")
    texts = dict(files if files is not None else {f"{module}.py": ""})
    points = entry_points if entry_points is not None else {name: module}
    info = f"{module}-{version}.dist-info"
    lines = "".join(f"{point} = {value}\n" for point, value in points.items())
    texts[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    texts[f"{info}/entry_points.txt"] = f"[{GROUP}]\n{lines}"
    for path, text in texts.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    record = "".join(_record_line(folder, path) for path in texts)
    (folder / info / "RECORD").write_text(f"{record}{info}/RECORD,,\n", encoding="utf-8")
    return folder / info


def _record_line(folder: Path, path: str) -> str:
    """A line of RECORD (PyPA, Recording installed projects)."""
    content = (folder / path).read_bytes()
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
    return f"{path},sha256={digest},{len(content)}\n"


class Environment:
    """A virtual environment, and a home directory for its programs.

    Attributes:
        python: Its interpreter.
        genai_host: Path of the installed command.
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
        """Install distributions by name, or wheels and directories by path."""
        uv("pip", "install", "--quiet", "--python", str(self.python), *wanted)

    def uninstall(self, *names: str) -> None:
        uv("pip", "uninstall", "--quiet", "--python", str(self.python), *names)

    @property
    def site(self) -> Path:
        """Directory of the installed distributions."""
        code = "import sysconfig; print(sysconfig.get_path('purelib'))"
        done = subprocess.run(
            [str(self.python), "-c", code], capture_output=True, text=True, check=True
        )
        return Path(done.stdout.strip())


def make_environment(folder: Path, home: Path) -> Environment:
    """Make an empty environment for the running Python."""
    uv("venv", "--quiet", "--python", sys.executable, str(folder))
    return Environment(folder, home)


def build_wheel(source: Path, out: Path) -> Path:
    """Build the wheel of a distribution into a directory, and return its path."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out) as made:
        uv("build", "--quiet", "--wheel", "--python", sys.executable, "-o", made, str(source))
        [wheel] = Path(made).glob("*.whl")
        return wheel.rename(out / wheel.name)


def uv(*arguments: str) -> None:
    """Run uv, found next to this Python or on PATH.

    Raises:
        FileNotFoundError: uv is not installed.
        RuntimeError: uv fails.
    """
    places = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    found = shutil.which("uv", path=places)
    if found is None:
        raise FileNotFoundError("uv is not installed: wheels are built and installed with it")
    done = subprocess.run([found, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"uv {' '.join(arguments)} failed:\n{done.stderr}")
