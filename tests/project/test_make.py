"""The first command of the README, as a stranger runs it: a copy, no environment, no
home. Slow: it installs everything and fetches the weights."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from documents import copy_clone

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMAND = 'python3 make.py ask "What is the capital of France?"'
DEBIAN = "/usr/bin/python3"
RINGS = "-n 2 --dist=worksteal --rings=unit,part"
OTHERS = "lowest,bare,peers,page,agents,assistants-peers"
PLUGINS = ROOT / "plugins"


def _loaded(file: Path) -> Any:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


make = _loaded(ROOT / "make.py")

NEEDED_BY_BATCH = {
    *("genai-feature-agent", "genai-feature-chat", "genai-host-testing", "genai-server"),
    *("genai-vendor-mock", "genai-wire-openai"),
}
"""Plugins that it, its tests and the testing kit require."""


def _is_managed(python: str) -> bool:
    """Whether a Python is its system's, which pip may not install into (PEP 668)."""
    code = (
        "import sys, sysconfig, pathlib; print(sys.version_info >= (3, 11) and "
        "(pathlib.Path(sysconfig.get_path('stdlib')) / 'EXTERNALLY-MANAGED').exists())"
    )
    if not os.path.exists(python):
        return False
    done = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() == "True"


def _pythons() -> list[object]:
    base = os.path.join(sys.base_prefix, "bin", f"python3.{sys.version_info[1]}")
    managed = pytest.mark.skipif(
        not _is_managed(DEBIAN), reason=f"{DEBIAN} is no externally managed Python 3.11 or newer"
    )
    return [pytest.param(base, id="own"), pytest.param(DEBIAN, id="debian", marks=managed)]


class TestTests:
    """A run without tests is never green: tox skips what has no Python, and is content."""

    @pytest.fixture
    def ran(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
        """What tox would be run with."""
        commands: list[str] = []

        def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
            commands.append(" ".join(command[command.index("--conf") + 2 :]))
            return subprocess.CompletedProcess(command, 0)

        monkeypatch.delenv("CI", raising=False)
        monkeypatch.setattr(make, "_environment", lambda *_, **__: tmp_path)
        monkeypatch.setattr(make.subprocess, "run", run)
        return commands

    @pytest.mark.parametrize(("there", "arguments", "expected"), [
        ([13, 11], "-q", "py313,types,lint -q"),
        ([12, 11], "-q", "py312,types,lint -q"),
        ([14, 13], "-q", "py314,types,lint -q"),
        ([13, 11], "--all", f"py313-all,{OTHERS},types,lint"),
        ([12, 11], "--all", f"py312-all,{OTHERS},types,lint"),
        ([13], "genai-otel -q", f"plugin -- {PLUGINS}/genai-otel {RINGS},process -q"),
        ([13], "--changed main", f"py313 -- --changed main {RINGS},smoke"),
        ([13], "--stress tests/x.py", "py313 -- --stress tests/x.py"),
        ([13], "--mutate --count 9", "py313 -- --mutate --count 9"),
    ])  # fmt: skip
    def test_item_1_they_run_on_the_supported_python_that_is_there(
        self, ran: list[str], monkeypatch: pytest.MonkeyPatch, there: list[int], arguments: str,
        expected: str,
    ) -> None:  # fmt: skip
        monkeypatch.setattr(make, "_supported", lambda path: [(3, minor) for minor in there])
        assert make.test(arguments.split()) == 0
        assert ran == [f"-e {expected}"]

    def test_item_1_a_python_is_missing(
        self, ran: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """In CI, that of the default tier must be there: tox fails for one that is missing."""
        monkeypatch.setattr(make, "_supported", lambda path: [])
        assert (make.test([]), ran) == (1, [])
        assert "no supported Python is there: 3.11 to 3.14 are" in capsys.readouterr().err
        monkeypatch.setenv("CI", "true")
        monkeypatch.setattr(make, "_supported", lambda path: [(3, 12)])
        assert make.test(["--all"]) == 0
        assert ran[0].startswith("-e py313-all,")

    @pytest.mark.process
    @pytest.mark.skipif(os.name != "posix", reason="commands are POSIX")
    def test_item_1_what_only_stands_for_a_python_is_none(self, tmp_path: Path) -> None:
        for minor, code in ((10, 0), (11, 0), (12, 127), (15, 0)):
            file = tmp_path / f"python3.{minor}"
            file.write_text(f"#!/bin/sh\nexit {code}\n")
            file.chmod(0o755)
        expected = {(3, 11), sys.version_info[:2]}
        assert make._supported(str(tmp_path)) == sorted(expected, reverse=True)


PIP = """\
Processing /clone
Collecting small>=1
  Downloading small-1.0-py3-none-any.whl.metadata (6.2 kB)
Downloading small-1.0-py3-none-any.whl (60 kB)
  Downloading large_one-2026.1-cp310-abi3-manylinux_2_17_x86_64.whl (33.8 MB)
Installing collected packages: small, large-one, genai-host
"""
OFFLINE = """\
WARNING: Retrying (Retry(total=1)) after connection broken by 'NewConnectionError(...)': /simple/x/
ERROR: Could not find a version that satisfies the requirement x (from versions: none)
"""


@pytest.mark.skipif(os.name != "posix", reason="the pip of these tests is a shell script")
class TestInstalling:
    """What is installed, and what is told of it."""

    def pip(self, folder: Path, says: str, code: int) -> Path:
        file = folder / "python"
        file.write_text(f"#!/bin/sh\ncat << 'END'\n{says}END\nexit {code}\n")
        file.chmod(0o700)
        return file

    def test_item_1_each_extra_takes_the_plugins_that_it_needs(self) -> None:
        assert [folder.name for folder in make._needed_by("starter")] == [
            *("genai-feature-chat", "genai-models-open", "genai-server"),
            *("genai-vendor-local", "genai-wire-openai"),
        ]
        plugins = make._plugins()
        assert make._needed_by("all") == [plugins[name] for name in plugins if name != make._KIT]

    def test_a_plugin_is_tested_with_the_plugins_that_it_requires(self) -> None:
        *needed, last = make._to_test("genai-batch")
        assert {line.rpartition("/")[2] for line in needed} == {ROOT.name, *NEEDED_BY_BATCH}
        assert last == f"-e {ROOT / 'plugins' / 'genai-batch'}[test]"

    @pytest.mark.process
    def test_item_1_downloads(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        make._install(self.pip(tmp_path, PIP, 0), ["x"])
        shown = "  downloading large_one 2026.1 (33.8 MB)\n  installing 3 distributions\n"
        assert capsys.readouterr() == ("", shown)

    @pytest.mark.smoke
    @pytest.mark.process
    def test_item_1_no_network(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as ended:
            make._install(self.pip(tmp_path, OFFLINE, 1), ["x"])
        assert ended.value.code == 1
        message, step = capsys.readouterr().err.splitlines()
        assert message == "error: the package index cannot be reached"
        assert "check the network" in step

    @pytest.mark.process
    def test_item_1_failing_pip(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        error = "ERROR: Could not install: [Errno 28] No space left on device\n"
        with pytest.raises(SystemExit):
            make._install(self.pip(tmp_path, error, 1), ["x"])
        err = capsys.readouterr().err
        assert err.startswith(error)
        assert "error: pip could not install what is needed\n" in err

    def test_item_1_a_clone_of_another_user_is_told(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(os, "access", lambda path, mode: False)
        with pytest.raises(SystemExit):
            make._environment(tmp_path / "venv", [], stamp="new")
        assert "cannot be written\n  clone the project into" in capsys.readouterr().err

    @pytest.mark.process
    def test_item_1_plugins_stay(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        wanted: list[tuple[str, str]] = []

        def environment(folder: Path, requirements: list[str], stamp: str) -> Path:
            wanted.append((requirements[0], stamp.partition(" ")[0]))
            folder.mkdir(exist_ok=True)
            (folder / "stamp").write_text(stamp)
            return self.pip(tmp_path, "", 3)

        monkeypatch.setattr(make, "ROOT", tmp_path)
        monkeypatch.setattr(make, "_needed_by", lambda extra: [])
        monkeypatch.setattr(make, "_digest", lambda folders: "digest")
        monkeypatch.setattr(make, "_environment", environment)
        for arguments in (["chat"], ["--all", "chat"], ["chat"]):
            assert make.main(arguments) == 3
        assert wanted == [(f"{tmp_path}[{extra}]", extra) for extra in ["starter", "all", "all"]]


def test_the_readme_has_the_commands() -> None:
    assert f"$ {COMMAND}\n" in README
    assert "$ python3 make.py test\n" in README
    assert "make.py test --all" in (ROOT / ".ci" / "run").read_text()


_START = """
import pathlib, sys
import make
make._environment = lambda *_, **__: pathlib.Path(sys.argv[1])
sys.exit(make.main(sys.argv[2:]))
"""


def started(python: Path, *command: str) -> subprocess.Popen[str]:
    """`make.py` in a process, with an environment that has this Python."""
    arguments = [sys.executable, "-c", _START, str(python), *command]
    out = subprocess.PIPE
    return subprocess.Popen(arguments, cwd=ROOT, stdout=out, stderr=out, text=True)


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """A Python that tells who it is and what it is to run, and ends with code 7; it has
    the weights already."""
    file = tmp_path / "python"
    file.write_text('#!/bin/sh\n[ "$4" = pull ] && exit $PULLED\necho $$ "$@"\nexit 7\n')
    file.chmod(0o700)
    return file


@pytest.mark.process
@pytest.mark.skipif(os.name != "posix", reason="elsewhere no process takes another's place")
def test_a_command_takes_the_place_of_the_process(python: Path) -> None:
    """So that Ctrl-C is its own matter, in a chat as well."""
    with started(python, "chat", "--model", "x") as process:
        out, err = process.communicate()
    assert (out, err) == (f"{process.pid} -m genai_host chat --model x\n", "")
    assert process.returncode == 7


@pytest.mark.process
@pytest.mark.skipif(os.name != "posix", reason="the Python of this test is a shell script")
def test_without_the_weights_nothing_is_run(python: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLED", "3")
    with started(python, "chat") as process:
        assert process.communicate() == ("", "")
    assert process.returncode == 3


def test_elsewhere_the_command_gets_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    handlers: list[object] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        handlers.append(signal.getsignal(signal.SIGINT))
        return subprocess.CompletedProcess(command, 7)

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(subprocess, "run", run)
    try:
        assert make._hand_over(["python"], is_posix=False) == 7
    finally:
        signal.signal(signal.SIGINT, before)
    assert handlers == [signal.SIG_IGN]


def test_early_ctrl_c(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(make, "_environment", interrupted)
    assert make.main(["chat"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("python", _pythons())
def test_a_stranger_gets_an_answer_of_a_real_model(python: str, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    copy_clone(clone)
    variables = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "GENAI_HOST_HOME")
    }
    variables["HOME"] = str(tmp_path)
    for name in ("CACHE", "CONFIG", "DATA", "STATE"):
        variables.pop(f"XDG_{name}_HOME", None)
    command = [python, "make.py", "ask", "What is the capital of France?"]
    done = subprocess.run(
        command, cwd=clone, env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert list(tmp_path.glob(".local/share/genai-host/local/*.gguf"))
