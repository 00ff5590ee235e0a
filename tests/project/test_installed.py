"""The host as a user has it: wheels, installed, found by their entry points."""

from __future__ import annotations

import json
import os
import re
import subprocess
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Any

import pytest
from broken_plugins import BROKEN
from environments import ROOT
from packaging.requirements import Requirement

from genai_host import __version__
from genai_host_testing import make_distribution

_VENDOR = """
from attrs import frozen
from genai_host.api import *

@frozen
class Settings:
    greeting: str = "hello"

class Greeter(Provider):
    serves = {"plain": DialectEndpoint()}
    default_models = {"chat": "greeter-1"}
    def __init__(self, settings, services):
        self.settings = settings
    def send(self, request, limits):
        reply = '{"message": {"role": "assistant", "content": "%s"}}' % self.settings.greeting
        return ProviderReply(reply.encode())
    stream = send

@hookimpl
def genai_providers():
    yield ProviderType("greeter", Settings, Greeter)

@hookimpl
def genai_models():
    yield Model("greeter-1", ["plain"], at={"greeter": "g"})
"""

_CALLS = """
import sys
calls = 0
def count(frame, event, value):
    global calls
    file = frame.f_code.co_filename
    calls += event == "call" and ("genai_" in file)
from genai_host.cli.main import main
sys.argv = ["genai-host", "ask", "--model", "mock", "hi"]
sys.setprofile(count)
try:
    main()
finally:
    sys.setprofile(None)
    names = {name.partition(".")[0] for name in sys.modules if name.startswith("genai_")}
    print(calls, *sorted(names), file=sys.stderr)
"""


def rows(environment: Any, *command: str, **variables: str) -> dict[str, dict[str, Any]]:
    done = environment.run(*command, "--json", environment=variables, check=True)
    return {row["name"]: row for row in json.loads(done.stdout)}


def configure(environment: Any, text: str) -> None:
    file = environment.home / "config" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text)


def metadata_of(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        [file] = [each for each in archive.namelist() if each.endswith("/METADATA")]
        return Parser().parsestr(archive.read(file).decode())


class TestWheels:
    def test_each_has_its_code_its_types_and_its_license(self, wheels: dict[str, Path]) -> None:
        assert len(wheels) >= 5
        for name, wheel in wheels.items():
            names = zipfile.ZipFile(wheel).namelist()
            package = name.replace("-", "_")
            assert f"{package}/py.typed" in names
            assert f"{package}/__init__.py" in names
            assert not [each for each in names if "tests/" in each]
            [license] = [each for each in names if each.endswith("/licenses/LICENSE")]
            assert zipfile.ZipFile(wheel).read(license) == (ROOT / "LICENSE").read_bytes()

    def test_the_host_has_the_templates_of_plugins(self, wheels: dict[str, Path]) -> None:
        files = set((ROOT / "genai_host" / "cli" / "scaffolds").rglob("*.txt"))
        names = set(zipfile.ZipFile(wheels["genai-host"]).namelist())
        assert len(files) == 13
        assert {str(file.relative_to(ROOT)) for file in files} <= names

    def test_item_10_metadata(self, wheels: dict[str, Path]) -> None:
        """Whose it is, where it is, and which hosts and Pythons (item 1) it works with."""
        for name, wheel in wheels.items():
            metadata = metadata_of(wheel)
            assert metadata["Author"] == "genai-host developers"
            assert metadata["License-Expression"] == "Apache-2.0"
            assert metadata["Requires-Python"] == ">=3.11"
            named = re.findall(r"Python :: (3\.\d+)", "\n".join(metadata.get_all("Classifier", [])))
            assert named == ["3.11", "3.12", "3.13", "3.14"]
            urls = dict(each.split(", ") for each in metadata.get_all("Project-URL", []))
            assert set(urls) == {"Homepage", "Source", "Documentation", "Changelog", "Issues"}
            if name != "genai-host":
                assert urls["Source"].endswith(f"/tree/main/plugins/{name}")
                assert urls["Changelog"].endswith(f"/blob/main/plugins/{name}/CHANGELOG.md")
                requirements = map(Requirement, metadata.get_all("Requires-Dist", []))
                [host] = [each for each in requirements if each.name == "genai-host"]
                assert {each.operator for each in host.specifier} == {">=", "<"}, name
                assert host.specifier.contains(__version__), name

    def test_item_10_links_of_readmes_are_absolute(self, wheels: dict[str, Path]) -> None:
        for name, wheel in wheels.items():
            text = str(metadata_of(wheel).get_payload())
            matches = re.findall(r"\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)", text, re.MULTILINE)
            links = [link for pair in matches for link in pair if link]
            assert [each for each in links if not re.match("https?://|#", each)] == [], name
            ours = re.findall(r"/genai-host/(?:(?:blob|tree)/)?main/([^\s)#]+)", "\n".join(links))
            assert [path for path in ours if not (ROOT / path).exists()] == [], name

    def test_installed_plugins_are_found_and_answer(self, environment: Any) -> None:
        done = environment.run("ask", "--provider", "mock", "hi")
        assert (done.returncode, done.stdout, done.stderr) == (0, "hi\n", "")
        plugins = rows(environment, "plugins")
        assert {row["status"] for row in plugins.values()} == {"loaded"}
        assert set(plugins) == {"chat", "dialects", "mock", "models-open", "wire-openai"}
        assert all(len(row["record"]) == 64 for row in plugins.values())

    def test_item_29_5_a_call_imports_no_other_plugin(self, environment: Any) -> None:
        """The first start after an install loads all plugins, to know what they declare."""
        command = [str(environment.python), "-c", _CALLS]
        variables = {**os.environ, "GENAI_HOST_HOME": str(environment.home)}
        for _ in range(2):
            done = subprocess.run(
                command, env=variables, cwd=os.sep, capture_output=True, text=True
            )
        calls, *imported = done.stderr.split()
        assert imported == ["genai_feature_chat", "genai_host", "genai_vendor_mock"]
        assert int(calls) <= 10_700


class TestStrangers:
    def test_a_vendor_is_one_class_and_one_line(self, environment: Any) -> None:
        """And several accounts of it are configured apart."""
        make_distribution(
            environment.site, "genai-vendor-greeter", files={"genai_vendor_greeter.py": _VENDOR}
        )
        done = environment.run("ask", "hi")
        assert (done.returncode, done.stdout, done.stderr) == (0, "hello\n", "")
        assert rows(environment, "providers")["greeter"]["status"] == "works"
        configure(environment, '[providers.formal]\ntype = "greeter"\ngreeting = "good day"\n')
        assert environment.run("ask", "-p", "formal", "x").stdout == "good day\n"
        assert environment.run("ask", "-p", "greeter", "x").stdout == "hello\n"


class TestChanges:
    """The index sees each change in the next process, at once."""

    @pytest.mark.parametrize(("options", "steps"), [
        ([], [("1.0", "first"), ("2.0", "second")]),
        (["--editable"], [("1.0", "first"), ("1.0", "second")]),
    ], ids=["installed", "editable"])  # fmt: skip
    def test_install_upgrade_and_uninstall(
        self, environment: Any, tmp_path: Path, options: list[str], steps: list[tuple[str, str]]
    ) -> None:
        usual = rows(environment, "plugins").keys()
        for version, point in steps:
            _write_project(tmp_path / version, version, point)
            environment.install(*options, str(tmp_path / version))
            assert rows(environment, "plugins").keys() == usual | {point}
        environment.uninstall("added")
        assert rows(environment, "plugins").keys() == usual

    def test_a_changed_pythonpath(self, environment: Any, tmp_path: Path) -> None:
        usual = rows(environment, "plugins").keys()
        make_distribution(tmp_path, "elsewhere")
        changed = rows(environment, "plugins", PYTHONPATH=str(tmp_path))
        assert changed.keys() == usual | {"elsewhere"}
        assert rows(environment, "plugins").keys() == usual


def _write_project(folder: Path, version: str, point: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "added.py").write_text("")
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools>=77"]\nbuild-backend = "setuptools.build_meta"\n'
        f'[project]\nname = "added"\nversion = "{version}"\n'
        f'[project.entry-points.genai_host]\n{point} = "added"\n'
        '[tool.setuptools]\npy-modules = ["added"]\n'
    )


class TestBroken:
    """More than twenty broken plugins at once: one for each way to be broken."""

    @pytest.fixture
    def broken(self, environment: Any) -> Any:
        for plugin in BROKEN:
            plugin.install(environment.site)
        return environment

    @pytest.mark.parametrize("command", [["--help"], ["--version"], ["plugins"]])
    def test_looking_works_and_loads_none(self, broken: Any, command: list[str]) -> None:
        done = broken.run(*command)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout

    def test_a_good_model_answers_and_each_broken_plugin_is_named(self, broken: Any) -> None:
        done = broken.run("ask", "--provider", "mock", "hi")
        assert (done.returncode, done.stdout) == (0, "hi\n")
        assert "Traceback" not in done.stderr
        warnings = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
        assert len(warnings) == len(BROKEN)
        for plugin in BROKEN:
            [warning] = [
                line
                for line in warnings
                if f"({plugin.name} " in line or f"({plugin.name})" in line
            ]
            assert plugin.reason in warning

    def test_check_and_show_name_each_with_reason_and_fix(self, broken: Any) -> None:
        done = broken.run("plugins", "check", "--json")
        assert done.returncode == 1
        broken_rows = [row for row in json.loads(done.stdout) if row["status"] == "broken"]
        assert len(broken_rows) == len(BROKEN)
        assert all(row["reason"] and row["fix"] and row["distribution"] for row in broken_rows)
        shown = broken.run("plugins", "show", "zz-exception")
        assert shown.returncode == 0
        assert "RuntimeError: oh" in shown.stdout
        assert "Traceback" in shown.stdout

    def test_disabling_ends_the_warnings(self, broken: Any) -> None:
        names = [f"{plugin.name}:{plugin.plugin}" for plugin in BROKEN]
        assert broken.run("plugins", "disable", *names).returncode == 0
        done = broken.run("ask", "-p", "mock", "hi")
        assert (done.stdout, done.stderr) == ("hi\n", "")
        listed = json.loads(broken.run("plugins", "--json").stdout)
        assert sum(row["status"] == "blocked" for row in listed) == len(BROKEN)
        assert broken.run("plugins", "enable", names[0]).returncode == 0
        assert broken.run("ask", "-p", "mock", "hi").stderr.count("warning: ") == 1

    def test_strict_mode_refuses_to_go_on(self, broken: Any) -> None:
        configure(broken, "[plugins]\nstrict = true\n")
        done = broken.run("ask", "-p", "mock", "hi")
        assert (done.returncode, done.stdout) == (1, "")
        assert "error: plugin" in done.stderr
        assert broken.run("plugins").returncode == 0


def test_eight_first_runs_at_once_all_work(environment: Any) -> None:
    """In a home where nothing is yet."""
    command = [str(environment.genai_host), "ask", "-p", "mock", "hi"]
    variables = {**os.environ, "GENAI_HOST_HOME": str(environment.home)}
    started = [
        subprocess.Popen(
            command, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )
        for _ in range(8)
    ]  # fmt: skip
    assert [process.communicate() for process in started] == [("hi\n", "")] * 8
