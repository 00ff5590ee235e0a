"""`install`, `upgrade` and `uninstall`: in this process, with an installer that is played; in
environments with pip and with uv, into which wheels are installed."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import pytest
from support import Terminal

from genai_host import Config
from genai_host.cli.install import _run
from genai_host.plugins.index import LoadResult, PluginIndex, plugin_row
from genai_host.plugins.installer import PythonEnvironment
from genai_host_testing import make_distribution
from genai_host_testing.environments import Environment

_GOOD = """
from genai_host.api import Model, hookimpl
@hookimpl
def genai_models():
    yield Model("modest", ["plain"], at={})
"""
_ENDS = "import os\nos._exit(3)\n"
_LOADED = LoadResult("loaded")
_PYTHON = "/venv/bin/python"


class Pip:
    """An installer, and the host in another process, both played.

    ran        commands of the installer, without those of pip itself
    does       what the installer changes
    code       of the installer
    outcomes   of loading plugins, by name; they load, if they are not named
    says       what the host prints instead of its plugins; None for its plugins
    """

    def __init__(self) -> None:
        self.ran: list[Sequence[str]] = []
        self.does: Callable[[], object] = lambda: None
        self.code = 0
        self.outcomes: dict[str, LoadResult | None] = {}
        self.says: tuple[str, str] | None = None
        self.is_slow = False

    def start(self, command: Sequence[str], **options: Any) -> _Played:
        if command[:3] == [_PYTHON, "-m", "pip"]:
            self.ran.append(command[3:])
            self.does()
            return _Played(command, self.code)
        assert options["stdin"] == subprocess.DEVNULL
        if command[-1] == "check":
            return _Played(command, 1, is_slow=self.is_slow)
        rows = [
            plugin_row(plugin, self.outcomes.get(plugin.name, _LOADED), Config())
            for plugin in PluginIndex().plugins()
        ]
        return _Played(command, 0, self.says or (json.dumps(rows), ""))


class _Played:
    """As much of `subprocess.Popen` as is used."""

    def __init__(
        self, args: Sequence[str], code: int, says: tuple[str, str] = ("", ""),
        is_slow: bool = False,
    ) -> None:  # fmt: skip
        self.args, self.returncode, self._says, self._is_slow = args, code, says, is_slow

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def communicate(self, _: object = None, timeout: float | None = None) -> tuple[str, str]:
        if timeout is not None and self._is_slow:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self._says

    def wait(self) -> int:
        return self.returncode

    poll = wait

    def kill(self) -> None:
        self._is_slow = False


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch) -> Pip:
    pip = Pip()
    here = PythonEnvironment(_PYTHON, "/venv")
    monkeypatch.setattr(PythonEnvironment, "here", classmethod(lambda cls: here))
    monkeypatch.setattr("subprocess.Popen", pip.start)
    return pip


class TestInstall:
    def test_changed_plugins_are_listed(self, terminal: Terminal, pip: Pip, site: Path) -> None:
        name = "genai-models-modest"
        for version in ("1.0", "1.1"):
            pip.does = partial(make_distribution, site, name, version=version)
            code, out, err = terminal("install --yes", name)
            assert (code, out) == (0, f"{name}\t{name}\t{version}\tloaded\t\n")
            assert f"{_PYTHON} -m pip install {name}" in err
            shutil.rmtree(site / f"genai_models_modest-{version}.dist-info")
            make_distribution(site, name, version=version)
        pip.does = lambda: make_distribution(site, name, version="1.2")
        [row] = terminal.json("upgrade", name)
        assert (row["name"], row["version"], row["status"]) == (name, "1.2", "loaded")
        assert pip.ran[-1] == ["install", "--upgrade", name]

    @pytest.mark.parametrize(("outcome", "says"), [
        (LoadResult("broken", "RuntimeError: oh", "change it"), "fix zz-new: change it"),
        (None, "zz-new could not be checked; load it: genai-host plugins check zz-new:zz-new"),
    ])  # fmt: skip
    def test_a_plugin_that_does_not_load_is_reported(
        self, terminal: Terminal, pip: Pip, site: Path, outcome: LoadResult | None, says: str
    ) -> None:
        pip.does = lambda: make_distribution(site, "zz-new")
        pip.outcomes["zz-new"] = outcome
        code, out, err = terminal("install --yes zz-new")
        assert (code, out.split("\t")[3]) == (1, outcome.status if outcome else "unchecked")
        assert says in err

    def test_what_has_no_plugin_stays(self, terminal: Terminal, pip: Pip, site: Path) -> None:
        pip.does = lambda: make_distribution(site, "modest", entry_points={})
        code, out, err = terminal("install --yes modest")
        assert (code, out) == (0, "")
        assert "no plugin was added or changed\n" in err
        remove = f"{_PYTHON} -m pip uninstall --yes modest"
        assert f"modest has no plugin of genai-host; to remove it: {remove}\n" in err

    @pytest.mark.parametrize(("command", "ran"), [
        ("install genai-vendor-mock", "install genai-vendor-mock"),
        ("upgrade genai-vendor-mock", "install --upgrade genai-vendor-mock"),
        ("uninstall Genai_Vendor.mock", "uninstall --yes genai-vendor-mock"),
    ])  # fmt: skip
    def test_exit_code(self, terminal: Terminal, pip: Pip, command: str, ran: str) -> None:
        for code in (7, 0):
            pip.code = code
            assert terminal(command)[:2] == (code, "")
        assert pip.ran == [ran.split()] * 2

    def test_a_host_that_does_not_start_is_reported(self, terminal: Terminal, pip: Pip) -> None:
        for says, last in (
            (("", "Traceback\nImportError: oh\n"), "ImportError: oh"),
            (("?", ""), "no output"),
        ):
            pip.says = says
            err = terminal.error("install genai-vendor-mock")
            assert f"error: genai-host no longer starts: {last}\n" in err
        pip.says, pip.is_slow = None, True
        code, _, err = terminal("install genai-vendor-mock")
        assert (code, "takes longer than 120 s" in err) == (0, True)

    def test_upgrade_all_needs_an_index(self, terminal: Terminal, pip: Pip, site: Path) -> None:
        make_distribution(site, "zz-public")
        info = make_distribution(site, "zz-private")
        (info / "direct_url.json").write_text('{"url": "file:///src/zz-private"}')
        code, out, err = terminal("upgrade --all --dry-run")
        assert (code, "zz-public" in out.split(), "zz-private" in out) == (0, True, False)
        assert "skipped: zz-private, not installed from a package index\n" in err
        terminal.monkeypatch.setattr("genai_host.cli.install.installed_sources", dict)
        assert terminal("upgrade --all") == (0, "", "nothing to upgrade\n")
        assert pip.ran == []

    def test_a_managed_environment(self, terminal: Terminal, pip: Pip, tmp_path: Path) -> None:
        (tmp_path / "pipx_metadata.json").touch()
        here = PythonEnvironment(_PYTHON, str(tmp_path))
        terminal.monkeypatch.setattr(PythonEnvironment, "here", classmethod(lambda cls: here))
        err = terminal.error("install genai-vendor-openai")
        assert f"\n  run: pipx inject {tmp_path.name} genai-vendor-openai\n" in err
        assert pip.ran == []

    def test_a_dry_run_prints_the_command(self, terminal: Terminal, pip: Pip) -> None:
        command = "install --dry-run a -e /src/b -- --index-url https://u:p@c.d/e"
        shown = f"{_PYTHON} -m pip install --index-url 'https://***@c.d/e' --editable /src/b a\n"
        assert terminal(command) == (0, shown, "")
        data = terminal.json("upgrade --dry-run Genai_Vendor.mock")
        assert " ".join(data["command"]) == f"{_PYTHON} -m pip install --upgrade genai-vendor-mock"
        assert (data.keys(), pip.ran) == ({"command"}, [])

    def test_paths_are_made_absolute(self, terminal: Terminal, pip: Pip, tmp_path: Path) -> None:
        (tmp_path / "plugin").mkdir()
        (tmp_path / "a.whl").touch()
        terminal.monkeypatch.chdir(tmp_path)
        _, out, _ = terminal("install --dry-run plugin ./plugin a.whl ./gone")
        assert out.split()[4:] == ["plugin", f"{tmp_path}/plugin", f"{tmp_path}/a.whl", "./gone"]

    @pytest.mark.parametrize(("command", "code", "says"), [
        ("install", 2, "nothing to install"),
        ("install -- a", 2, "nothing to install"),
        ("install --pre a", 2, "No such option"),
        ("uninstall", 2, "Missing argument"),
        ("upgrade", 2, "nothing to upgrade: name plugins or use --all"),
        ("upgrade --all a", 2, "nothing to upgrade: name plugins or use --all"),
        ("upgrade zz-none", 1, "error: cannot upgrade 'zz-none': not installed\n"),
        ("upgrade mock", 1, "the plugin mock is in the distribution genai-vendor-mock\n"),
        ("upgrade genai-vendor-mok", 1, "did you mean genai-vendor-mock?\n"),
        ("uninstall genai-vendor-mok", 1, "\n  list plugins: genai-host plugins\n"),
        ("uninstall genai-host", 1, "genai-host cannot uninstall itself\n"),
        ("uninstall Requests", 1, "error: cannot uninstall 'requests': not "),
    ])  # fmt: skip
    def test_an_error_has_a_next_step(
        self, terminal: Terminal, pip: Pip, command: str, code: int, says: str
    ) -> None:
        assert says in terminal.error(command, code=code)
        assert pip.ran == []

    @pytest.mark.parametrize("command", ["install", "upgrade", "uninstall"])
    def test_read_only_configuration(self, terminal: Terminal, pip: Pip, command: str) -> None:
        terminal.monkeypatch.setenv("GENAI_HOST_READ_ONLY", "1")
        err = terminal.error(f"{command} genai-vendor-mock")
        assert err == "error: the configuration is read-only: GENAI_HOST_READ_ONLY is set\n"
        assert pip.ran == []
        terminal.out(f"{command} genai-vendor-mock --dry-run")

    @pytest.mark.parametrize(("answer", "shown"), [
        ("https://user:secret@a.b/c", "https://***@a.b/c"),
        ("git+https://token@a.b/c@main", "git+https://***@a.b/c@main"),
        ("git+https://a.b/c@main", "git+https://a.b/c@main"),
        ("a @ https://u:p@b/c", "a @ https://***@b/c"),
        ("--index-url=https://u:p@b/c", "--index-url=https://***@b/c"),
    ])  # fmt: skip
    def test_hides_passwords(self, terminal: Terminal, pip: Pip, answer: str, shown: str) -> None:
        _, out, err = terminal("install --dry-run a --", answer)
        assert shlex.split(out)[4:] == [shown, "a"]
        assert "secret" not in err


class TestItem6ThirdParties:
    """What is not of this project is installed only if the user agrees."""

    @pytest.mark.parametrize(("target", "says"), [
        ("genai-vendor-grok", "is a third-party package, not a distribution of genai-host"),
        ("Genai_Vendor.grok[x]>=1", "is a third-party package"),
        ("wordlist", "; did you mean genai-vendor-wordlist?"),
        ("genai-feature-resarch", "; did you mean genai-feature-research?"),
        ("git+https://u:p@a.b/genai-vendor-openai", "is a Git repository"),
        ("genai-vendor-openai @ https://a.b/c.whl", "is a URL"),
        ("https://a.b/genai-vendor-openai.whl", "is a URL"),
    ])  # fmt: skip
    def test_refused_unasked(self, terminal: Terminal, pip: Pip, target: str, says: str) -> None:
        code, out, err = terminal("install genai-vendor-openai", target)
        assert (code, out, pip.ran) == (1, "", [])
        error, hint = err.splitlines()
        assert error.startswith("error: ")
        assert says in error
        assert hint.startswith("  if you trust it: genai-host install --yes genai-vendor-openai ")
        assert "u:p" not in err
        again = shlex.split(hint.partition(": genai-host ")[2])
        if "u:p" not in target:
            assert terminal(*again)[0] == 0
            assert pip.ran == [["install", "genai-vendor-openai", target]]

    @pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 130), ("", 130)])
    def test_a_terminal_asks(self, terminal: Terminal, pip: Pip, answer: str, code: int) -> None:
        terminal.monkeypatch.setattr("genai_host.cli.install.is_terminal", lambda stream: True)
        ended, _, err = terminal("install genai-vendor-grok", stdin=f"{answer}\n")
        assert (ended, len(pip.ran)) == (code, int(code == 0))
        assert "genai-vendor-grok is a third-party package" in err
        assert "Install it? [y/N]" in err

    @pytest.mark.parametrize(
        "target", ["genai-vendor-openai", "Genai_Vendor.OpenAI==9", "genai-host[all]", "requests"]
    )
    def test_asks_nothing(self, terminal: Terminal, pip: Pip, tmp_path: Path, target: str) -> None:
        (tmp_path / "zz.whl").touch()
        terminal.out("install", target)
        terminal.out("install", f"{tmp_path}/zz.whl", "-e", str(tmp_path))
        files = ["--editable", str(tmp_path), f"{tmp_path}/zz.whl"]
        assert pip.ran == [["install", target], ["install", *files]]

    def test_installed_from_elsewhere(self, terminal: Terminal, pip: Pip, tmp_path: Path) -> None:
        info = make_distribution(tmp_path, "zz-private")
        (info / "direct_url.json").write_text('{"url": "file:///src/zz-private"}')
        terminal.monkeypatch.syspath_prepend(str(tmp_path))
        for command in ("install", "upgrade"):
            code, _, err = terminal(command, "zz-private")
            assert (code, pip.ran) == (1, [])
            assert "may be a third-party package: the installed one is from file:///src/" in err
            assert f"genai-host {command} --yes zz-private" in err
        assert terminal("upgrade --yes zz-private")[0] == 0
        assert pip.ran == [["install", "--upgrade", "zz-private"]]


@pytest.mark.smoke
@pytest.mark.process
def test_an_installer_that_is_interrupted_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C reaches it as well; it tidies up."""
    waited: list[int] = []
    wait = subprocess.Popen.wait

    def interrupted(process: Any, timeout: float | None = None) -> int:
        waited.append(wait(process, timeout))
        if len(waited) == 1:
            raise KeyboardInterrupt
        return waited[-1]

    monkeypatch.setattr(subprocess.Popen, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        _run([sys.executable, "-c", ""])
    assert waited == [0, 0]


class Folder:
    """Wheels in a folder, made up; `further` has the installer look nowhere else."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.further = ["--", "--no-index", "--find-links", str(path)]

    def add(self, name: str, version: str = "1.0", code: str = _GOOD) -> Path:
        module = name.replace("-", "_")
        source = self.path / f"source-{name}-{version}"
        kind = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        files = {f"{module}.py": code, f"{module}-{version}.dist-info/WHEEL": kind}
        make_distribution(source, name, version=version, files=files)
        wheel = self.path / f"{module}-{version}-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            for file in source.rglob("*"):
                archive.write(file, file.relative_to(source))
        return wheel


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    path = tmp_path / "wheels"
    path.mkdir()
    return Folder(path)


@pytest.fixture(scope="session")
def with_pip(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment as `python -m venv` makes it, with host, mock and chat."""
    environment = Environment(tmp_path_factory.mktemp("with-pip") / "venv", Path())
    subprocess.run([sys.executable, "-m", "venv", str(environment.folder)], check=True)
    names = ("genai-host", "genai-vendor-mock", "genai-feature-chat")
    environment.install(*(str(wheels[name]) for name in names))
    return environment.folder


@pytest.fixture(params=["pip", "uv"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Environment]:
    """An environment of each kind; what a test installs there is uninstalled after it."""
    if request.param == "uv":
        places = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
        monkeypatch.setenv("PATH", places)  # uv is there
        yield request.getfixturevalue("environment")
        return
    installed = Environment(request.getfixturevalue("with_pip"), tmp_path / "home")
    before = set(installed.site.iterdir())
    yield installed
    for path in set(installed.site.iterdir()) - before:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def listed(environment: Environment) -> set[str]:
    done = environment.run("plugins", "--json", check=True)
    return {row["name"] for row in json.loads(done.stdout)}


@pytest.mark.slow
class TestEnvironments:
    def test_install_upgrade_uninstall(self, place: Environment, folder: Folder) -> None:
        usual, name = listed(place), "genai-models-modest"
        folder.add(name, "1.0", f"print('loud')\n{_GOOD}")
        done = place.run("install", "--yes", name, *folder.further, check=True)
        assert done.stdout == f"{name}\t{name}\t1.0\tloaded\t\n"
        assert "modest" in place.run("models", "--all").stdout
        folder.add(name, "1.1")
        again = place.run("install", "--yes", name, *folder.further, check=True)
        assert (again.stdout, "no plugin was added" in again.stderr) == ("", True)
        done = place.run("upgrade", "genai_models.modest", "--json", *folder.further, check=True)
        [row] = json.loads(done.stdout)
        assert (row["version"], row["status"]) == ("1.1", "loaded")
        place.run("uninstall", name, check=True)
        assert listed(place) == usual

    def test_a_plugin_that_ends_the_process(self, place: Environment, folder: Folder) -> None:
        """One that is there before prevents nothing."""
        make_distribution(place.site, "zz-ends", files={"zz_ends.py": _ENDS})
        folder.add("zz-ends-too", code=_ENDS)
        folder.add("genai-models-modest")
        done = place.run("install", "--yes", "zz-ends-too", "genai-models-modest", *folder.further)
        assert done.returncode == 1
        rows = {line.split("\t")[0]: line.split("\t") for line in done.stdout.splitlines()}
        assert rows.keys() == {"zz-ends-too", "genai-models-modest"}
        assert rows["genai-models-modest"][3] == "loaded"
        assert rows["zz-ends-too"][3] == "broken"
        assert "it ends the process while it is loaded (exit code" in rows["zz-ends-too"][4]
        assert "genai-host plugins disable zz-ends-too" in done.stderr
        place.run("uninstall", "zz-ends-too", "genai-models-modest", check=True)

    def test_wheel_and_editable(self, place: Environment, folder: Folder, tmp_path: Path) -> None:
        wheel = folder.add("genai-models-modest")
        project = tmp_path / "project"
        _write_project(project)
        place.run("install", str(wheel), check=True)
        # what builds it comes from the index, as for any project
        place.run("install", "--editable", str(project), check=True)
        assert {"genai-models-modest", "edited"} <= listed(place)
        (project / "edited.py").write_text("oh no")
        rows = json.loads(place.run("plugins", "check", "edited", "--json").stdout)
        assert rows[0]["status"] == "broken"
        stderr = place.run("upgrade", "--all", "--dry-run").stderr
        assert "skipped: genai-models-modest" in stderr
        assert "skipped: edited" in stderr
        place.run("uninstall", "genai-models-modest", "edited", check=True)

    def test_an_installer_that_fails_is_shown(self, place: Environment, folder: Folder) -> None:
        done = place.run("install", "--yes", "genai-models-missing", *folder.further)
        assert (done.returncode != 0, done.stdout) == (True, "")
        assert "genai-models-missing" in done.stderr
        assert "Traceback" not in done.stderr


def _write_project(folder: Path) -> None:
    folder.mkdir()
    (folder / "edited.py").write_text(_GOOD)
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools>=77"]\n'
        'build-backend = "setuptools.build_meta"\n'
        '[project]\nname = "edited"\nversion = "1"\n'
        '[project.entry-points.genai_host]\nedited = "edited"\n'
        '[tool.setuptools]\npy-modules = ["edited"]\n'
    )
