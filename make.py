#!/usr/bin/env python3
"""Everything from a fresh clone, with nothing but Python and its venv module.

    python3 make.py ask "What is the capital of France?"
    python3 make.py --all serve
    python3 make.py test

`ask` makes an environment in .venv, installs the host with the chat and the embedded model
(`genai-host[starter]`), downloads the weights of the model, and asks it. Any arguments of
`genai-host ask` follow. Other commands run in the same way, such as `python3 make.py chat`.
With `--all` before the command, all plugins are installed (`genai-host[all]`), and they stay.

`test` runs the tests of the default tier with tox, on the newest supported Python that is
there; `--all` those of all tiers. Further arguments go to tox.

    python3 make.py test genai-vendor-openai       the tests of one plugin, with what it needs alone
    python3 make.py test --changed                 the tests that what is changed may break
    python3 make.py test --coverage                how much of the code the tests run
    python3 make.py test --stress tests/FILE.py    a file fifty times, while all cores are busy
    python3 make.py test --mutate                  whether tests notice small changes of the core

`simulate` runs whole hosts with simulated faults; a seed decides everything (tests/simulation):

    python3 make.py simulate --turns 1000 --seed 1
"""

from __future__ import annotations

import configparser
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
OLDEST, NEWEST = (3, 11), (3, 14)
IN_CI = (3, 13)  # the default tier of tox.ini
_SETUPTOOLS = "setuptools >= 77"  # same as in pyproject.toml: builds use no isolated environments
_DOWNLOAD = re.compile(r"\s*Downloading ([\w.]+)-(\d[^-]*)-\S+\.whl \(([\d.]+ MB)\)")
_UNREACHABLE = ("NewConnectionError", "NameResolutionError", "ConnectTimeout", "ProxyError")
_WORKERS = ("-n", "2", "--dist=worksteal")  # same as in tox.ini
_NOT_FAR = (*_WORKERS, "--rings=unit,part,process")
_DEFAULT = (*_WORKERS, "--rings=unit,part,smoke")
_KIT = "genai-host-testing"
# two cores, of which tests often use one, or none while they wait; all run even after a failure
_TWO_AT_A_TIME = ["run-parallel", "--parallel", "2", "--parallel-no-spinner"]
_TOX = ("tox >= 4.25, < 5", "tox-uv >= 1.25, < 2")


def main(arguments: list[str]) -> int:
    if sys.version_info < OLDEST:
        return _stop(f"Python {OLDEST[0]}.{OLDEST[1]} or newer is needed, this is {sys.version}")
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if arguments else 2
    try:
        if arguments[0] == "test":
            return test(arguments[1:])
        if arguments[0] == "simulate":
            return _run_tox(["run"], ["simulate"], ["--", *arguments[1:]], dict(os.environ))
        return run(arguments[1:], "all") if arguments[0] == "--all" else run(arguments)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def run(command: list[str], extra: str = "") -> int:
    """Run a command of genai-host in an environment with the host and the model weights.

    `extra` is the extra of the host to install; empty for the installed one, or else `starter`.
    """
    folder = ROOT / ".venv"
    extra = extra or (_stamp(folder).partition(" ")[0] or "starter")
    plugins = _needed_by(extra)
    requirements = [f"{ROOT}[{extra}]", *map(str, plugins)]
    python = _environment(folder, requirements, stamp=f"{extra} {_digest([ROOT, *plugins])}")
    host = [str(python), "-m", "genai_host"]
    pulled = subprocess.run([*host, "local", "pull"], stdout=subprocess.DEVNULL)
    return pulled.returncode or _hand_over([*host, *command])


def _hand_over(command: list[str], is_posix: bool = os.name == "posix") -> int:
    """Run the command in place of this process, or as a child process where that is not supported.
    The command itself handles Ctrl-C."""
    if is_posix:
        os.execv(command[0], command)  # noqa: S606 - needs no shell
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return subprocess.run(command).returncode


def test(options: list[str]) -> int:
    """Run the tests of the default tier, of all tiers, or of a plugin, or repeat tests."""
    variables = {**os.environ, "PATH": os.pathsep.join([*_pyenv_pythons(), os.environ["PATH"]])}
    variables["UV_PYTHON_DOWNLOADS"] = "never"
    newest = IN_CI
    if os.environ.get("CI"):
        variables["GENAI_HOST_SKIP_MISSING"] = "false"  # no environment may be missing in CI
    else:
        found = _supported(variables["PATH"])
        if not found:
            return _stop(f"no supported Python is there: {_name(OLDEST)} to {_name(NEWEST)} are")
        print(f"the tests run on Python {_name(found[0])}", file=sys.stderr)
        newest = found[0]
    # named, because tox skips environments whose Python is missing and still succeeds
    tests = f"py{newest[0]}{newest[1]}"
    if options and options[0] in _plugins():
        variables["GENAI_HOST_TEST_REQUIRES"] = "\n".join(_to_test(options[0]))
    chosen, further = _chosen(options, tests)
    # the whole output of an environment when it ends, for those who read it later
    live = [] if "--all" in options else ["--parallel-live"]
    return _run_tox([*_TWO_AT_A_TIME, *live], chosen, further, variables)


def _run_tox(
    command: list[str], names: list[str], further: list[str], variables: dict[str, str]
) -> int:
    """Run tox environments with further arguments of tox, and return the exit code."""
    python = _environment(ROOT / ".tox" / "runner", list(_TOX), stamp=" ".join(_TOX))
    tox = [str(python), "-m", "tox", *command, "--conf", str(ROOT / "tox.ini")]
    run = subprocess.run([*tox, "-e", ",".join(names), *further], env=variables, cwd=ROOT)
    return run.returncode


def _chosen(options: list[str], tests: str) -> tuple[list[str], list[str]]:
    """The tox environments for the options of `test`, and further arguments of tox. `tests` is the
    environment for the default tier here."""
    if options[:1] in (["--stress"], ["--mutate"]):
        return [tests], ["--", *options]
    if options[:1] == ["--changed"]:
        return [tests], ["--", *options, *_DEFAULT]
    if options[:1] == ["--coverage"]:
        return ["coverage"], ["--", *_NOT_FAR, *options[1:]]
    if options and (folder := _plugins().get(options[0])):
        return ["plugin"], ["--", str(folder), *_NOT_FAR, *options[1:]]
    chosen = _labels()["all" if "--all" in options else "default"]
    chosen = [each.replace(f"py{IN_CI[0]}{IN_CI[1]}", tests) for each in chosen]
    return chosen, [option for option in options if option != "--all"]


def _labels() -> dict[str, list[str]]:
    """Environments of the tiers in tox.ini."""
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini", encoding="utf-8")
    lines = [line.partition("=") for line in tox["tox"]["labels"].strip().splitlines()]
    return {name.strip(): re.findall(r"[\w-]+", found) for name, _, found in lines}


def _environment(folder: Path, requirements: list[str], stamp: str) -> Path:
    """Python of a virtual environment with the requirements. The environment is recreated if the
    stamp differs."""
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if _stamp(folder) == stamp and python.exists():
        return python
    if not os.access(ROOT, os.W_OK):
        sys.exit(_stop(f"{ROOT} cannot be written", "clone the project into a folder of yours"))
    print(f"installing into {folder.relative_to(ROOT)}, once:", file=sys.stderr)
    made = subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)])
    if made.returncode:
        sys.exit(_stop("Python's venv module is missing", "on Debian: apt install python3-venv"))
    _install(python, [_SETUPTOOLS])
    _install(python, ["--no-build-isolation", *requirements])
    (folder / "stamp").write_text(stamp)
    return python


def _stamp(folder: Path) -> str:
    file = folder / "stamp"
    return file.read_text() if file.exists() else ""


def _install(python: Path, requirements: list[str]) -> None:
    """Install with pip, and show downloads. Exits if it fails."""
    options = ["--disable-pip-version-check", "--no-input", "--no-compile", "--progress-bar=off"]
    variables = {"PIP_RETRIES": "2", "PIP_ROOT_USER_ACTION": "ignore", **os.environ}
    lines: list[str] = []
    with subprocess.Popen(
        [str(python), "-m", "pip", "install", *options, *requirements],
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if found := _DOWNLOAD.match(line):
                print("  downloading {} {} ({})".format(*found.groups()), file=sys.stderr)
            elif line.startswith("Installing collected packages: ") and "," in line:
                print(f"  installing {line.count(',') + 1} distributions", file=sys.stderr)
    if process.returncode == 0:
        return
    if any(sign in line for line in lines for sign in _UNREACHABLE):
        message, step = "the package index cannot be reached", "check the network, and HTTPS_PROXY"
        sys.exit(_stop(message, f"{step}; PIP_INDEX_URL names another index"))
    sys.stderr.writelines(lines[-20:])
    sys.exit(_stop("pip could not install what is needed", "its words above name the cause"))


def _plugins() -> dict[str, Path]:
    """Directories of the plugins, by distribution."""
    return {file.parent.name: file.parent for file in sorted(ROOT.glob("plugins/*/setup.cfg"))}


def _needed_by(extra: str) -> list[Path]:
    """Directories of the plugins that an extra of the host requires, as they are on no package
    index."""
    return _folders(_names(_setup(ROOT)["options.extras_require"][extra]), _plugins())


def _to_test(plugin: str) -> list[str]:
    """Test requirements of a plugin, for pip."""
    folders = _plugins()
    names = _names(_setup(folders[plugin])["options.extras_require"]["test"])
    names += _names(_setup(folders[_KIT])["options.extras_require"]["internal"])
    needed = _folders([plugin, *names], folders)
    needed.remove(folders[plugin])
    return [f"-e {ROOT}", *(f"-e {each}" for each in needed), f"-e {folders[plugin]}[test]"]


def _folders(names: list[str], folders: dict[str, Path]) -> list[Path]:
    """Directories of these distributions and their requirements in this project."""
    left, needed = names, set()
    while left:
        name = left.pop()
        if name in folders and name not in needed:
            needed.add(name)
            left += _names(_setup(folders[name])["options"]["install_requires"])
    return [folders[name] for name in sorted(needed)]


def _setup(folder: Path) -> configparser.ConfigParser:
    setup = configparser.ConfigParser(interpolation=None)
    setup.read(folder / "setup.cfg", encoding="utf-8")
    return setup


def _names(requirements: str) -> list[str]:
    return re.findall(r"^[\w.-]+", requirements, re.MULTILINE)


def _digest(folders: list[Path]) -> str:
    """Hash of all installed files in these directories."""
    digest = hashlib.sha256()
    for folder in folders:
        for file in (folder / "setup.cfg", *sorted(folder.glob("genai_*/**/*.py"))):
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _pyenv_pythons() -> list[str]:
    """Directories of pyenv's Pythons, newest first; tox searches PATH only."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    return [str(folder) for folder in sorted(root.glob("versions/3.*/bin"), reverse=True)]


def _supported(path: str) -> list[tuple[int, int]]:
    """Supported Pythons on the path, and this one, newest first. Shims, such as those of pyenv, are
    skipped."""
    found = {sys.version_info[:2]} if OLDEST <= sys.version_info[:2] <= NEWEST else set()
    for minor in range(OLDEST[1], NEWEST[1] + 1):
        command = shutil.which(f"python3.{minor}", path=path)
        if command and subprocess.run([command, "-c", ""], capture_output=True).returncode == 0:
            found.add((3, minor))
    return sorted(found, reverse=True)


def _name(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def _stop(message: str, step: str = "") -> int:
    print(f"error: {message}" + (f"\n  {step}" if step else ""), file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
