#!/usr/bin/env python3
"""Everything from a fresh clone, with nothing but Python and its venv module.

    python3 make.py ask "What is the capital of France?"
    python3 make.py test

`ask` makes an environment in .venv, installs the host and the bundled plugins,
fetches the weights of the embedded model, and asks it: any arguments of
`genai-host ask` follow. Another command than `ask` is run the same way:
`python3 make.py chat`.

`test` runs the tests of the default tier with tox, on the newest supported Python that is
there; `--all` the second tier as well. Further arguments go to tox.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
OLDEST, NEWEST = (3, 11), (3, 14)
IN_CI = (3, 13)  # what the default tier of tox.ini runs on
_TOX = ("tox >= 4.25, < 5", "tox-uv >= 1.25, < 2")


def main(arguments: list[str]) -> int:
    if sys.version_info < OLDEST:
        return _stop(f"Python {OLDEST[0]}.{OLDEST[1]} or newer is needed, this is {sys.version}")
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if arguments else 2
    try:
        return test(arguments[1:]) if arguments[0] == "test" else run(arguments)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def run(command: list[str]) -> int:
    """Run a command of genai-host, in an environment that has it and the weights."""
    python = _environment(ROOT / ".venv", [str(ROOT), *map(str, _plugins())], stamp=_sources())
    host = [str(python), "-m", "genai_host"]
    pulled = subprocess.run([*host, "local", "pull"], stdout=subprocess.DEVNULL)
    return pulled.returncode or _hand_over([*host, *command])


def _hand_over(command: list[str], is_posix: bool = os.name == "posix") -> int:
    """Run the command in place of this process, or else wait for it: what Ctrl-C does
    is its own matter, as in a chat."""
    if is_posix:
        os.execv(command[0], command)  # noqa: S606 - it needs no shell
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return subprocess.run(command).returncode


def test(options: list[str]) -> int:
    """Run the tests, tier by tier; the exit code of the first that fails."""
    tiers = ["default", "second"] if "--all" in options else ["default"]
    options = [option for option in options if option != "--all"]
    python = _environment(ROOT / ".tox" / "runner", list(_TOX), stamp=" ".join(_TOX))
    variables = {**os.environ, "PATH": os.pathsep.join([*_pyenv_pythons(), os.environ["PATH"]])}
    variables["UV_PYTHON_DOWNLOADS"] = "never"
    chosen = {"default": ["-m", "default"], "second": ["-m", "second"]}
    if os.environ.get("CI"):
        variables["GENAI_HOST_SKIP_MISSING"] = "false"  # nothing is to be missing there
    else:
        found = _supported(variables["PATH"])
        if not found:
            return _stop(f"no supported Python is there: {_name(OLDEST)} to {_name(NEWEST)} are")
        print(f"the tests run on Python {_name(found[0])}", file=sys.stderr)
        if found[0] != IN_CI:
            # tox skips an environment whose Python is not there, and is content with none
            chosen["default"] = ["-e", f"lint,types,py{found[0][0]}{found[0][1]}"]
    for tier in tiers:
        tox = [str(python), "-m", "tox", "run", "--conf", str(ROOT / "tox.ini"), *chosen[tier]]
        code = subprocess.run([*tox, *options], env=variables, cwd=ROOT).returncode
        if code:
            return code
    return 0


def _environment(folder: Path, requirements: list[str], stamp: str) -> Path:
    """The Python of a virtual environment that has what is required. It is made anew
    when the stamp is another."""
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    mark = folder / "stamp"
    if mark.exists() and mark.read_text() == stamp:
        return python
    print(f"installing into {folder.relative_to(ROOT)} ...", file=sys.stderr)
    made = subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)])
    if made.returncode:
        sys.exit(_stop("Python's venv module is missing; on Debian: apt install python3-venv"))
    pip = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    installed = subprocess.run([*pip, *requirements])
    if installed.returncode:
        sys.exit(_stop("pip could not install what is needed: see its words above"))
    mark.write_text(stamp)
    return python


def _plugins() -> list[Path]:
    return sorted(file.parent for file in ROOT.glob("plugins/*/setup.cfg"))


def _sources() -> str:
    """A digest of all that is installed from this clone."""
    digest = hashlib.sha256()
    for folder in (ROOT, *_plugins()):
        for file in (folder / "setup.cfg", *sorted(folder.glob("genai_*/**/*.py"))):
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _pyenv_pythons() -> list[str]:
    """Where pyenv keeps its Pythons, newest first: tox looks on PATH alone."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    return [str(folder) for folder in sorted(root.glob("versions/3.*/bin"), reverse=True)]


def _supported(path: str) -> list[tuple[int, int]]:
    """Versions of the supported Pythons that are there, newest first: on the path, and this one.
    A command that only stands for one, as pyenv has them, is not one."""
    found = {sys.version_info[:2]} if OLDEST <= sys.version_info[:2] <= NEWEST else set()
    for minor in range(OLDEST[1], NEWEST[1] + 1):
        command = shutil.which(f"python3.{minor}", path=path)
        if command and subprocess.run([command, "-c", ""], capture_output=True).returncode == 0:
            found.add((3, minor))
    return sorted(found, reverse=True)


def _name(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def _stop(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
