"""`genai-host plugins new`: the plugin is complete and works, and no file is overwritten."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import genai_vendor_mock
import pytest
import tomlkit
from broken_plugins import BROKEN
from environments import Environment
from support import Terminal

from genai_host import Config, InstalledPlugins
from genai_host.cli.scaffold import Scaffold, new_scaffold
from genai_host.errors import ConfigurationError
from genai_host.plugins.discovery import Plugins
from genai_host.plugins.index import LoadResult, PluginIndex
from genai_host.plugins.results import LoadedPlugin
from genai_host_testing import make_distribution
from genai_host_testing.environments import make_environment
from genai_host_testing.fake_service import FakeService, json_reply
from genai_host_testing.internal.fixtures import MakeHost

KINDS = ["vendor", "feature", "tool"]
NAMES = ["acme", "my-ai-2", "x", "01-ai", "class", "genai", "self", "test", "genai-tools"]
NO_NAMES = ["", " ", "Acme", "my_ai", "a--b", "a-", "a.b", "a/b", "..", "a b", "ä", "a\n", "<name>"]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The current directory of the user."""
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def nothing(tmp_path: Path) -> PluginIndex:
    """An index of no plugins."""
    return PluginIndex([str(tmp_path / "nothing")], str(tmp_path / "index"))


def written(folder: Path) -> dict[str, str]:
    """All files below a folder."""
    return {
        str(file.relative_to(folder)): file.read_text(encoding="utf-8")
        for file in folder.rglob("*")
        if file.is_file()
    }


def install(site: Path, scaffold: Scaffold) -> str:
    """Put it into a folder as its own metadata says; the name of its module."""
    files = scaffold.files()
    project = tomlkit.parse(files["pyproject.toml"]).unwrap()
    [module] = project["tool"]["setuptools"]["py-modules"]
    make_distribution(
        site,
        project["project"]["name"],
        version=project["project"]["version"],
        entry_points=project["project"]["entry-points"]["genai_host"],
        files={f"{module}.py": files[f"{module}.py"]},
    )
    assert isinstance(module, str)
    return module


class TestCommand:
    @pytest.mark.parametrize("kind", KINDS)
    def test_folder_and_next_steps(self, terminal: Terminal, work: Path, kind: str) -> None:
        code, out, err = terminal("plugins new", kind, "acme", "--directory", str(work))
        assert code == 0
        folder = work / Scaffold(kind, "acme").distribution
        assert [str(Path(line).relative_to(folder)) for line in out.splitlines()] == [
            os.path.join(*path.split("/")) for path in Scaffold(kind, "acme").files()
        ]
        assert len(written(folder)) == len(out.splitlines())
        assert f'  pip install -e "{folder}[test]"\n  pytest "{folder}"\n' in err
        assert ("ACME_API_KEY" in err) is (kind == "vendor")

    def test_it_writes_here_unless_told_otherwise(self, terminal: Terminal, work: Path) -> None:
        terminal.monkeypatch.chdir(work)
        file = os.path.join("genai-vendor-acme", "pyproject.toml")
        assert terminal.out("plugins new vendor acme").splitlines()[0] == file
        assert (work / file).exists()

    @pytest.mark.parametrize("name", NO_NAMES)
    def test_invalid_names(self, terminal: Terminal, work: Path, name: str) -> None:
        err = terminal.error("plugins new vendor", name, "--directory", str(work))
        assert err.startswith(f"error: invalid vendor name {name!r}\n  use lower-case")
        assert not written(work)

    @pytest.mark.parametrize(
        "arguments", ["gadget acme", "vendor", "vendor -x", "vendor acme --directory nowhere"]
    )
    def test_wrong_use(self, terminal: Terminal, work: Path, arguments: str) -> None:
        terminal.monkeypatch.chdir(work)
        assert terminal(f"plugins new {arguments}")[0] == 2
        assert not written(work)

    @pytest.mark.parametrize("there", ["folder", "file", "link"])
    def test_nothing_is_overwritten(self, terminal: Terminal, work: Path, there: str) -> None:
        place = work / "genai-vendor-acme"
        if there == "folder":
            place.mkdir()
            (place / "README.md").write_text("mine")
        elif there == "file":
            place.write_text("mine")
        else:
            place.symlink_to(work / "elsewhere")
        before = written(work)
        err = terminal.error("plugins new vendor acme --directory", str(work))
        assert err.startswith(f"error: {place} already exists\n")
        assert written(work) == before
        assert not (work / "elsewhere").exists()

    def test_names_of_installed_plugins_are_taken(self, terminal: Terminal, work: Path) -> None:
        for kind, name in (("vendor", "mock"), ("feature", "chat")):
            err = terminal.error("plugins new", kind, name, "--directory", str(work))
            assert (
                f"the name {name!r} is used by the installed distribution genai-{kind}-{name}"
                in err
            )
        assert not written(work)

    def test_it_works_whatever_is_broken(self, terminal: Terminal, work: Path, site: Path) -> None:
        for plugin in BROKEN:
            plugin.install(site)
        terminal.configure("[[[")
        before = set(sys.modules)
        for kind in KINDS:
            code, _, err = terminal("plugins new", kind, "acme", "--directory", str(work))
            assert (code, err.partition(":")[0]) == (0, "next")
        assert not [name for name in set(sys.modules) - before if name.startswith("zz_")]


class TestNames:
    def test_names_that_plugins_declare_are_taken(self, tmp_path: Path, site: Path) -> None:
        make_distribution(site, "genai-vendor-big", entry_points={"big": "big"})
        index = PluginIndex([str(site)], str(tmp_path / "index"))
        new_scaffold("vendor", "small", index)
        [plugin] = index.plugins()
        index.remember({plugin.key: LoadResult("loaded", provides={"providers": ["big", "small"]})})
        taken = (("vendor", "small"), ("vendor", "big"), ("feature", "big"), ("tool", "big"))
        for kind, name in taken:
            with pytest.raises(ConfigurationError, match="installed distribution genai-vendor-big"):
                new_scaffold(kind, name, index)
        new_scaffold("feature", "small", index)  # a provider and a feature may share one
        index.remember(
            {plugin.key: LoadResult("loaded", provides={"tools": ["big_one", "class_"]})}
        )
        for name in ("big-one", "class"):
            with pytest.raises(ConfigurationError, match="installed distribution genai-vendor-big"):
                new_scaffold("tool", name, index)

    @pytest.mark.parametrize("name", NAMES)
    def test_all_that_depends_on_the_name_fits(self, nothing: PluginIndex, name: str) -> None:
        for kind in KINDS:
            scaffold = new_scaffold(kind, name, nothing)
            for path, text in scaffold.files().items():
                assert not re.search(r"<[a-z]+>", path + text)
                assert all(len(line) <= 100 for line in text.splitlines())
                if path.endswith(".py"):
                    compile(text, path, "exec")
            assert "<" not in scaffold.next_steps(Path("x"))
            [variable] = set(re.findall(r"\w+_API_KEY", str(scaffold.files()))) or {"none"}
            assert variable.isidentifier()

    @pytest.mark.parametrize("name", NAMES)
    def test_it_is_found_and_loads(
        self, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        declared = {
            "vendor": {"providers": [name], "models": [f"{name}-1"]},
            "feature": {"features": [name]},
            "tool": {"tools": [Scaffold("tool", name).function]},
        }
        for kind in KINDS:
            folder = site / kind
            install(folder, Scaffold(kind, name))
            monkeypatch.syspath_prepend(str(folder))
            index = PluginIndex([str(folder)], str(tmp_path / "index"))
            [result] = Plugins(InstalledPlugins(index, on_trial="none"), Config()).results
            assert isinstance(result, LoadedPlugin), f"{result}"
            assert result.declared.names() == declared[kind]


def test_the_service_of_a_vendor_is_nowhere_until_its_author_says_where() -> None:
    """A name that nobody can register (RFC 2606)."""
    [address] = re.findall(r"https://\S+(?=\")", str(Scaffold("vendor", "acme").files()))
    assert address == "https://api.acme.example/v1"


def test_a_feature_answers_and_heeds_its_setting(site: Path, make_host: MakeHost) -> None:
    plugin = importlib.import_module(install(site, Scaffold("feature", "poet")))
    host = make_host(new=plugin, mock=genai_vendor_mock)
    answer = host.open("poet", "mock").say("hi")
    assert answer.text == "Write this again, in plain words: hi"
    conversation = host.open("poet", "mock", settings={"style": "in verse"})
    events = [event.text for event in conversation.stream("hi")]
    assert "".join(events) == "Write this again, in verse: hi"  # and nothing of the draft
    assert [detail.kind for detail in answer.details] == ["prompt", "prompt"]


def passes(
    folder: Path, *arguments: object, python: object = sys.executable, path: str = ""
) -> None:
    """Run pytest in a folder, with further folders on the path."""
    done = subprocess.run(
        [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path} if path else None,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.process
def test_their_tests_pass(tmp_path: Path) -> None:
    """Some of them: tests/project/test_tutorials.py runs all, in an environment of their own."""
    names = (("vendor", "acme"), ("feature", "my-poet"), ("tool", "my-words"))
    folders = [str(Scaffold(*each).write(tmp_path)) for each in names]
    some = (
        "it_answers or written_again or resume_after_every_entry or Models or deviations "
        "or samples_return or services or nothing_to_count"
    )
    passes(tmp_path, "-k", some, *folders, path=os.pathsep.join(folders))


@pytest.mark.process
def test_item_8_their_tests_run_in_a_folder_that_has_tests_of_its_own(tmp_path: Path) -> None:
    """For example a clone of the host."""
    (tmp_path / "setup.cfg").write_text("[tool:pytest]\naddopts = --no-such-option\n")
    (tmp_path / "conftest.py").write_text("raise RuntimeError('not of the plugin')\n")
    folder = Scaffold("tool", "my-words").write(tmp_path)
    passes(tmp_path, "-k", "samples", folder, path=str(folder))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_they_work_as_installed_wheels(environment: Environment, work: Path) -> None:
    for kind, name in (("vendor", "acme"), ("feature", "poet"), ("tool", "words")):
        environment.run("plugins", "new", kind, name, "--directory", str(work), check=True)
        environment.install(str(work / Scaffold(kind, name).distribution))
    assert environment.run("plugins", "check", "acme", "poet", "words").returncode == 0
    rows = json.loads(environment.run("plugins", "--json", check=True).stdout)
    table = {row["distribution"]: row for row in rows}
    assert table["genai-vendor-acme"]["provides"] == {"providers": ["acme"], "models": ["acme-1"]}
    assert table["genai-feature-poet"]["provides"] == {"features": ["poet"]}
    assert table["genai-tools-words"]["provides"] == {"tools": ["words"]}
    done = environment.run("tools", "call", "words", "text=one two")
    assert (done.stdout, done.stderr) == ("2 words\n", "")
    done = environment.run("ask", "-f", "poet", "-m", "mock", "hi")
    assert (done.stdout, done.stderr) == ("Write this again, in plain words: hi\n", "")
    choice = {"message": {"content": "from afar"}, "finish_reason": "stop"}
    with FakeService([json_reply({"choices": [choice]})]) as service:
        file = environment.home / "config" / "config.toml"
        file.parent.mkdir(parents=True)
        file.write_text(f'[providers.acme]\ntype = "acme"\nbase_url = "{service.url}/v1"\n')
        variables = {"ACME_API_KEY": "sk-123456", "NO_PROXY": "*"}
        done = environment.run("ask", "-m", "acme-1", "hi", environment=variables)
    assert (done.stdout, done.stderr) == ("from afar\n", "")
    [sent] = service.requests
    assert sent.headers["authorization"] == "Bearer sk-123456"


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("wheels")
@pytest.mark.parametrize("kind", KINDS)
def test_their_tests_require_the_testing_kit_alone(kind: str, tmp_path: Path) -> None:
    """In an environment with what `pip install -e ".[test]"` brings."""
    environment = make_environment(tmp_path / "venv", tmp_path / "home")
    folder = Scaffold(kind, "acme").write(tmp_path)
    environment.install("-e", f"{folder}[test]")
    passes(folder, python=environment.python)
