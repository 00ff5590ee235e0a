"""`install`, `upgrade` and `uninstall`, in environments that are really made: with pip,
without it, of uv tool; of pipx with a program that stands in for it. What is installed
are wheels of a folder here."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from environments import base, environment, wheels
from support import Terminal

from genai_host.cli.install import _run, _shown, perform
from genai_host.plugins.installer import Place
from genai_host.testing import make_distribution
from genai_host.testing.environments import Environment, uv

__all__ = ["base", "environment", "wheels"]

_GOOD = """
from genai_host.api import Model, hookimpl
@hookimpl
def genai_models():
    yield Model("modest", ["plain"], at={})
"""
_ENDS = "import sys\nsys.exit(3)\n"
_ENDS_AT_ONCE = "import os\nos._exit(3)\n"


class Folder:
    """Wheels in a folder, made up; `further` has the installer look nowhere else."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.further = ["--", "--no-index", "--find-links", str(path)]

    def add(
        self,
        name: str,
        version: str = "1.0",
        code: str = _GOOD,
        *,
        is_plugin: bool = True,
        further: Mapping[str, str] | None = None,
    ) -> Path:
        module = name.replace("-", "_")
        source = self.path / f"source-{name}-{version}"
        kind = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        make_distribution(
            source,
            name,
            version=version,
            entry_points=None if is_plugin else {},
            files={
                f"{module}.py": code,
                f"{module}-{version}.dist-info/WHEEL": kind,
                **(further or {}),
            },
        )
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
    made = Environment(tmp_path_factory.mktemp("with-pip") / "venv", Path())
    subprocess.run([sys.executable, "-m", "venv", str(made.folder)], check=True)
    names = ("genai-host", "genai-vendor-mock", "genai-feature-chat")
    made.install(*(str(wheels[name]) for name in names))
    return made.folder


_FAKE_PIPX = """
# Stands in for pipx: it does what is asked with uv, and keeps the list that pipx keeps.
import json, pathlib, re, shlex, subprocess, sys
uv, env = {uv!r}, pathlib.Path({env!r})
file = env / "pipx_metadata.json"
kept = json.loads(file.read_text())
def pip(command, *words):
    subprocess.run([uv, "pip", command, "--python", str(env / "bin" / "python"), *words],
                   check=True)
match sys.argv[1:]:
    case ["inject", env.name, *words]:
        passed = [w for each in words if each.startswith("--pip-args=")
                  for w in shlex.split(each[11:])]
        names = [each for each in words if not each.startswith("--")]
        edit = ["-e"] if "--editable" in words else []
        pip("install", *passed, *(w for name in names for w in [*edit, name]))
        kept["injected_packages"].update(dict.fromkeys(names, {{}}))
    case ["uninject", "--leave-deps", env.name, *names]:
        pip("uninstall", *names)
        for name in names:
            del kept["injected_packages"][name]
    case ["runpip", env.name, command, *words]:
        pip(command, *words)
    case _:
        sys.exit("what is " + shlex.join(sys.argv[1:]))
file.write_text(json.dumps(kept))
"""


@pytest.fixture(params=["pip", "uv", "pipx"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Environment]:
    """An environment of each kind; what a test installs there is uninstalled after it."""
    if request.param == "pip":
        installed = Environment(request.getfixturevalue("with_pip"), tmp_path / "home")
        before = set(installed.site.iterdir())
        yield installed
        for path in set(installed.site.iterdir()) - before:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        return
    installed = request.getfixturevalue("environment")
    if request.param == "uv":
        yield installed
        return
    kept = installed.folder / "pipx_metadata.json"
    kept.write_text('{"injected_packages": {}}')
    pipx = installed.folder / "bin" / "pipx"
    code = _FAKE_PIPX.format(uv=_uv(), env=str(installed.folder)).replace("env.name", '"venv"')
    pipx.write_text(f"#!{sys.executable}\n{code}")
    pipx.chmod(0o755)
    yield installed
    kept.unlink()
    pipx.unlink()


def _uv() -> str:
    places = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    found = shutil.which("uv", path=places)
    assert found is not None  # the environment was made with it
    return found


@pytest.fixture(autouse=True)
def found_uv(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """On PATH, where it would be if it had made the environment."""
    if request.node.get_closest_marker("slow"):
        path = os.pathsep.join([os.path.dirname(_uv()), os.environ["PATH"]])
        monkeypatch.setenv("PATH", path)


Run = Callable[..., dict[str, Any]]


@pytest.fixture
def run(place: Environment, folder: Folder) -> Run:
    """Runs a command with `--json`, and gives what changed."""

    def run(*command: str, code: int = 0) -> dict[str, Any]:
        # to uninstall, pip takes no such arguments
        further = folder.further if command[0] != "uninstall" else ()
        done = place.run(*command, "--json", *further)
        assert done.returncode == code, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    return run


def listed(environment: Environment) -> set[str]:
    done = environment.run("plugins", "--json", check=True)
    return {row["name"] for row in json.loads(done.stdout)}


@pytest.mark.slow
class TestEverywhere:
    def test_a_plugin_comes_changes_and_goes(
        self, place: Environment, folder: Folder, run: Run
    ) -> None:
        usual = listed(place)
        folder.add("genai-models-modest", "1.0")
        done = run("install", "--yes", "genai-models-modest")
        [row] = done["came"]
        assert row == {
            "name": "genai-models-modest", "distribution": "genai-models-modest",
            "version": "1.0", "before": "", "status": "loaded", "reason": "", "fix": "",
        }  # fmt: skip
        assert (done["went"], done["changed"], done["without_plugin"]) == ([], [], [])
        assert "modest" in place.run("models", "--all").stdout

        folder.add("genai-models-modest", "1.1")
        assert run("install", "--yes", "genai-models-modest")["changed"] == []
        [row] = run("upgrade", "genai_models.modest")["changed"]
        assert (row["before"], row["version"], row["status"]) == ("1.0", "1.1", "loaded")

        [row] = run("uninstall", "genai-models-modest")["went"]
        assert (row["name"], row["before"]) == ("genai-models-modest", "1.1")
        assert listed(place) == usual

    def test_broken_plugins_keep_nothing_from_working(
        self, place: Environment, folder: Folder, run: Run
    ) -> None:
        """One that ends the program when it is loaded is there before, comes, and goes."""
        make_distribution(place.site, "zz-ends", files={"zz_ends.py": _ENDS})
        folder.add("zz-ends-too", code=_ENDS)
        folder.add("genai-models-modest")
        done = run("install", "--yes", "zz-ends-too", "genai-models-modest", code=1)
        rows = {row["name"]: row for row in done["came"]}
        assert rows["genai-models-modest"]["status"] == "loaded"
        assert rows["zz-ends-too"]["status"] == "broken"
        assert "SystemExit: 3" in rows["zz-ends-too"]["reason"]
        assert "zz-ends-too" in rows["zz-ends-too"]["fix"]
        went = run("uninstall", "zz-ends-too")["went"]
        assert [row["name"] for row in went] == ["zz-ends-too"]

    def test_a_wheel_and_a_folder_that_is_used_as_it_stands(
        self, place: Environment, folder: Folder, tmp_path: Path, run: Run
    ) -> None:
        wheel = folder.add("genai-models-modest")
        project = tmp_path / "project"
        _write_project(project)
        place.run("install", str(wheel), check=True)
        # what builds it comes from the index, as for any project
        place.run("install", "--editable", str(project), check=True)
        assert {"genai-models-modest", "edited"} <= listed(place)
        (project / "edited.py").write_text("oh no")
        found = json.loads(place.run("plugins", "check", "edited", "--json").stdout)
        assert found[0]["status"] == "broken"
        left = place.run("upgrade", "--all", "--dry-run").stderr
        assert "skipped: genai-models-modest" in left
        assert "skipped: edited" in left
        assert len(run("uninstall", "genai-models-modest", "edited")["went"]) == 2


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


@pytest.mark.slow
class TestOne:
    """What is the same wherever it is."""

    @pytest.fixture
    def place(self, environment: Environment) -> Environment:
        return environment

    def test_what_brings_no_plugin_is_told_and_stays(
        self, place: Environment, folder: Folder, run: Run
    ) -> None:
        folder.add("modest", is_plugin=False)
        assert run("install", "--yes", "modest")["without_plugin"] == ["modest"]
        done = place.run("install", "--yes", "modest", *folder.further)
        assert done.returncode == 0
        assert "modest brings no plugin" in done.stderr
        assert "genai-host uninstall modest" in done.stderr
        assert "genai-vendor-modest" not in done.stderr  # which nobody owns
        assert run("uninstall", "modest")["went"] == []
        assert "is not installed" in place.run("uninstall", "modest").stderr

    def test_the_status_of_the_installer_is_passed_on_with_what_it_says(
        self, place: Environment, folder: Folder
    ) -> None:
        done = place.run("install", "--yes", "genai-models-missing", *folder.further)
        assert done.returncode != 0
        assert "genai-models-missing" in done.stderr
        assert "Traceback" not in done.stderr
        assert done.stdout == ""

    def test_a_dry_run_changes_nothing(self, place: Environment, folder: Folder) -> None:
        folder.add("genai-models-modest")
        usual = listed(place)
        done = place.run("install", "--dry-run", "genai-models-modest", *folder.further)
        assert done.returncode == 0
        assert "genai-models-modest" in done.stdout
        assert listed(place) == usual

    def test_what_others_need_stays(self, place: Environment, run: Run) -> None:
        for name, holder in {"attrs": "genai-host", "genai-host": "itself"}.items():
            done = place.run("uninstall", name)
            assert done.returncode == 1
            assert holder in done.stderr
        assert listed(place)

    def test_the_bundled_plugins_are_installed_by_their_wheels(
        self, place: Environment, wheels: dict[str, Path]
    ) -> None:
        further = ["--", "--no-index", "--find-links", str(wheels["genai-host"].parent)]
        done = place.run("install", "genai-vendor-openai", "--json", *further)
        assert done.returncode == 0, done.stderr
        assert {row["status"] for row in json.loads(done.stdout)["came"]} == {"loaded"}
        assert place.run("uninstall", "genai-vendor-openai").returncode == 0

    def test_a_plugin_that_ends_the_process_is_told(
        self, environment: Environment, folder: Folder
    ) -> None:
        folder.add("zz-ends", code=_ENDS_AT_ONCE)
        done = environment.run("install", "--yes", "zz-ends", *folder.further)
        assert done.returncode == 1
        assert "it ends the process while it is loaded (exit code" in done.stdout
        assert "genai-host plugins disable zz-ends" in done.stderr
        assert environment.run("uninstall", "zz-ends").returncode == 0

    def test_what_a_plugin_prints_is_no_part_of_the_output(
        self, environment: Environment, folder: Folder
    ) -> None:
        folder.add("genai-models-modest", code=f"print('loud')\n{_GOOD}")
        done = environment.run("install", "--yes", "genai-models-modest", "--json", *folder.further)
        assert json.loads(done.stdout)["came"][0]["status"] == "loaded"

    def test_what_changed_is_a_table(self, environment: Environment, folder: Folder) -> None:
        folder.add("genai-models-modest")
        done = environment.run("install", "--yes", "genai-models-modest", *folder.further)
        name = "genai-models-modest"
        assert done.stdout == f"came\t{name}\t{name}\t1.0\tloaded\t\n"
        done = environment.run("uninstall", name)
        assert done.stdout == f"went\t{name}\t{name}\t1.0\t\t\n"

    def test_a_host_that_does_not_start_any_more_is_told(
        self, environment: Environment, folder: Folder
    ) -> None:
        """As where a distribution brings a file that takes the place of one of ours."""
        folder.add("zz-writes", further={"genai_host/cli/terminal.py": "raise ImportError('oh')"})
        terminal = environment.site / "genai_host" / "cli" / "terminal.py"
        kept = terminal.read_bytes()
        try:
            done = environment.run("install", "--yes", "zz-writes", *folder.further)
        finally:
            terminal.unlink()  # it may be a link into a cache
            terminal.write_bytes(kept)
        assert done.returncode == 1
        assert "genai-host does not start any more: ImportError" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_uv_tool_keeps_what_was_there(
    wheels: dict[str, Path], folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It installs what its receipt lists and uninstalls all else."""
    tools = tmp_path / "tools"
    monkeypatch.setenv("UV_TOOL_DIR", str(tools))
    monkeypatch.setenv("UV_TOOL_BIN_DIR", str(tmp_path / "bin"))
    monkeypatch.setenv("UV_FIND_LINKS", str(wheels["genai-host"].parent))
    uv("tool", "install", "--python", sys.executable, "genai-host", "--with", "genai-feature-chat")
    made = Environment(tools / "genai-host", tmp_path / "home")
    assert listed(made) == {"dialects", "chat"}
    wheel = folder.add("genai-models-modest")
    folder.add("genai-models-named", code=_GOOD.replace("modest", "named"))
    further = ["--", "--find-links", str(folder.path)]

    made.run("install", "--yes", str(wheel), "genai-models-named", *further, check=True)
    all_of_them = {"dialects", "chat", "genai-models-modest", "genai-models-named"}
    assert listed(made) == all_of_them

    folder.add("genai-models-named", "1.1", _GOOD.replace("modest", "named"))
    done = made.run("upgrade", "genai-models-named", "--json", *further, check=True)
    [row] = json.loads(done.stdout)["changed"]
    assert (row["before"], row["version"]) == ("1.0", "1.1")
    assert listed(made) == all_of_them

    done = made.run("uninstall", "genai-models-named", "--json", *further, check=True)
    assert [row["name"] for row in json.loads(done.stdout)["went"]] == ["genai-models-named"]
    assert listed(made) == all_of_them - {"genai-models-named"}
    # what it was told stays: uv's own command knows the plugin
    uv("tool", "upgrade", "genai-host")
    assert listed(made) == all_of_them - {"genai-models-named"}


class TestHere:
    """What runs no installer."""

    @pytest.fixture(autouse=True)
    def here(self, monkeypatch: pytest.MonkeyPatch) -> None:
        made = Place("/venv/bin/python", "/venv")
        monkeypatch.setattr(Place, "here", classmethod(lambda cls: made))

    def test_a_dry_run_prints_the_command(self, terminal: Terminal) -> None:
        assert terminal(
            "install", "--dry-run", "a", "-e", "/src/b", "--", "--index-url", "https://u:p@c.d/e"
        ) == (
            0,
            "/venv/bin/python -m pip install --index-url 'https://***@c.d/e' --editable /src/b a\n",
            "",
        )
        code, out, _ = terminal("uninstall", "--dry-run", "--json", "Genai_Vendor.mock")
        pip = ["/venv/bin/python", "-m", "pip"]
        assert code == 0
        assert json.loads(out) == {"commands": [[*pip, "uninstall", "--yes", "genai-vendor-mock"]]}

    def test_a_path_is_given_whole_and_a_name_as_it_is(
        self, terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "plugin").mkdir()
        (tmp_path / "a.whl").touch()
        monkeypatch.chdir(tmp_path)
        _, out, _ = terminal("install", "--dry-run", "plugin", "./plugin", "a.whl", "./gone")
        assert out.split()[4:] == ["plugin", f"{tmp_path}/plugin", f"{tmp_path}/a.whl", "./gone"]

    @pytest.mark.parametrize(
        ("command", "code", "says"),
        [
            (["install"], 2, "which plugin?"),
            (["install", "--", "a"], 2, "which plugin?"),
            (["install", "--pre", "a"], 2, "No such option"),
            (["uninstall"], 2, "Missing argument"),
            (["upgrade"], 2, "name plugins or use --all"),
            (["upgrade", "--all", "a"], 2, "name plugins or use --all"),
            (["upgrade", "zz-none"], 1, "error: zz-none is not installed\n"),
            (["upgrade", "mock"], 1, "the plugin mock comes with genai-vendor-mock\n"),
            (["upgrade", "genai-vendor-mok"], 1, "did you mean genai-vendor-mock?\n"),
            (["uninstall", "genai-vendor-mok"], 1, "\n  genai-host plugins lists what is\n"),
            (["uninstall", "genai-host"], 1, "genai-host cannot uninstall itself\n"),
            (["uninstall", "Requests"], 1, "cannot uninstall requests: genai-host needs it\n"),
        ],
    )
    def test_what_cannot_be_is_told(
        self, terminal: Terminal, command: list[str], code: int, says: str
    ) -> None:
        ended, out, err = terminal(*command)
        assert (ended, out) == (code, "")
        assert says in err

    def test_what_another_plugin_needs_goes_with_it_only(
        self, terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        make_distribution(tmp_path, "zz-library", entry_points={})
        info = make_distribution(tmp_path, "zz-plugin")
        with (info / "METADATA").open("a") as stream:
            stream.write("Requires-Dist: zz-library>=1\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        code, _, err = terminal("uninstall", "--dry-run", "zz-library")
        assert code == 1
        assert (
            "cannot uninstall zz-library: zz-plugin needs it\n  genai-host uninstall zz-plugin"
            in err
        )
        assert terminal("uninstall", "--dry-run", "zz-library", "zz-plugin")[0] == 0


class TestItem6ThirdParties:
    """What is not of this project is installed only if the user agrees."""

    @pytest.fixture(autouse=True)
    def ran(self, monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
        made = Place("/venv/bin/python", "/venv")
        monkeypatch.setattr(Place, "here", classmethod(lambda cls: made))
        ran: list[Sequence[str]] = []

        def run(command: Sequence[str]) -> int:
            ran.append(command[4:])
            return 0

        monkeypatch.setattr("genai_host.cli.install._run", run)
        monkeypatch.setattr("genai_host.cli.install._load_anew", lambda: None)
        monkeypatch.setattr("genai_host.cli.install._listed_anew", list)
        return ran

    @pytest.mark.parametrize(
        ("wanted", "says"),
        [
            ("genai-vendor-grok", "is a third party's, not a distribution of genai-host"),
            ("Genai_Vendor.grok[x]>=1", "is a third party's"),
            ("wordlist", "; did you mean genai-vendor-wordlist?"),
            ("genai-feature-resarch", "; did you mean genai-feature-research?"),
            ("git+https://u:p@a.b/genai-vendor-openai", "is a Git repository"),
            ("genai-vendor-openai @ https://a.b/c.whl", "is an address"),
            ("https://a.b/genai-vendor-openai.whl", "is an address"),
        ],
    )  # fmt: skip
    def test_it_is_refused_where_nobody_can_be_asked(
        self, terminal: Terminal, ran: list[Sequence[str]], wanted: str, says: str
    ) -> None:
        code, out, err = terminal("install", "genai-vendor-openai", wanted)
        assert (code, out, ran) == (1, "", [])
        error, hint = err.splitlines()
        assert error.startswith("error: ")
        assert says in error
        assert hint.startswith("  if you trust it: genai-host install --yes genai-vendor-openai ")
        assert "u:p" not in err
        again = shlex.split(hint.partition(": genai-host ")[2])
        if "u:p" not in wanted:
            assert terminal(*again)[0] == 0
            assert ran == [["genai-vendor-openai", wanted]]

    @pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 130), ("", 130)])
    def test_a_user_at_a_terminal_is_asked(
        self,
        terminal: Terminal,
        ran: list[Sequence[str]],
        monkeypatch: pytest.MonkeyPatch,
        answer: str,
        code: int,
    ) -> None:
        monkeypatch.setattr("genai_host.cli.install.is_terminal", lambda stream: True)
        ended, _, err = terminal("install", "genai-vendor-grok", stdin=f"{answer}\n")
        assert (ended, len(ran)) == (code, int(code == 0))
        assert "genai-vendor-grok is a third party's" in err
        assert "Install it? [y/N]" in err

    @pytest.mark.parametrize(
        "wanted",
        ["genai-vendor-openai", "Genai_Vendor.OpenAI==9", "genai-host[all]", "requests"],
    )
    def test_what_is_ours_or_here_already_needs_no_question(
        self, terminal: Terminal, ran: list[Sequence[str]], wanted: str
    ) -> None:
        assert terminal("install", wanted)[0] == 0
        assert ran == [[wanted]]

    def test_a_file_of_this_machine_needs_none(
        self, terminal: Terminal, ran: list[Sequence[str]], tmp_path: Path
    ) -> None:
        (tmp_path / "zz.whl").touch()
        assert terminal("install", f"{tmp_path}/zz.whl", "-e", str(tmp_path))[0] == 0
        assert ran == [["--editable", str(tmp_path), f"{tmp_path}/zz.whl"]]

    def test_what_no_index_brought_may_be_a_strangers_there(
        self,
        terminal: Terminal,
        ran: list[Sequence[str]],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        info = make_distribution(tmp_path, "zz-private")
        (info / "direct_url.json").write_text('{"url": "file:///src/zz-private"}')
        monkeypatch.syspath_prepend(str(tmp_path))
        for command in ("install", "upgrade"):
            code, _, err = terminal(command, "zz-private")
            assert (code, ran) == (1, [])
            assert "may be a third party's: the installed one is from file:///src/" in err
            assert f"genai-host {command} --yes zz-private" in err
        assert terminal("upgrade", "--yes", "zz-private")[0] == 0
        assert ran == [["--upgrade", "zz-private"]]


@pytest.mark.process
def test_of_several_commands_the_first_that_fails_is_the_last(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Its status is passed on, and what it prints is no part of the output."""
    fails = [sys.executable, "-c", "print('installing'); raise SystemExit(7)"]
    never = [sys.executable, "-c", f"open({str(tmp_path / 'never')!r}, 'w')"]
    assert perform([fails, never], [], dry_run=False, as_json=True) == 7
    out, err = capfd.readouterr()
    done = json.loads(out)
    assert (done["exit_code"], done["came"], done["went"], done["changed"]) == (7, [], [], [])
    assert "installing" in err
    assert not (tmp_path / "never").exists()


@pytest.mark.smoke
@pytest.mark.process
def test_an_installer_that_is_interrupted_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("https://user:secret@a.b/c", "https://***@a.b/c"),
        ("git+https://token@a.b/c@main", "git+https://***@a.b/c@main"),
        ("git+https://a.b/c@main", "git+https://a.b/c@main"),
        ("a @ https://u:p@b/c", "a @ https://***@b/c"),
        ("--index-url=https://u:p@b/c", "--index-url=https://***@b/c"),
    ],
)
def test_passwords_of_addresses_are_not_shown(word: str, shown: str) -> None:
    assert _shown([word]) == [shown]


@pytest.mark.parametrize("command", ["install", "upgrade", "uninstall"])
def test_where_the_configuration_is_read_only_nothing_is_run(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    def run(*_: object) -> None:
        pytest.fail("it was run")

    monkeypatch.setattr("genai_host.cli.install._run", run)
    monkeypatch.setenv("GENAI_HOST_READ_ONLY", "1")
    code, out, err = terminal(command, "genai-vendor-mock")
    assert (code, out) == (1, "")
    assert err == "error: the configuration is read-only: GENAI_HOST_READ_ONLY is set\n"
    assert terminal(command, "genai-vendor-mock", "--dry-run")[0] == 0
