"""Which command installs: by what made the environment."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from genai_host.errors import ConfigurationError
from genai_host.plugins.installer import PythonEnvironment, installer_command, required_name
from genai_host.util.names import normal_name


@pytest.fixture(autouse=True)
def uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with uv, which does nothing."""
    program = tmp_path / "programs" / "uv"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    return program


def place(tmp_path: Path, **options: Any) -> PythonEnvironment:
    folder = tmp_path / "my-host"
    folder.mkdir(exist_ok=True)
    return PythonEnvironment(str(folder / "bin" / "python"), str(folder), **options)


def commands(here: PythonEnvironment) -> list[list[str]]:
    return [
        installer_command(here, "install", ["a", "b"], ["/e"], ["--pre"]),
        installer_command(here, "upgrade", ["a"], [], ["--pre"]),
        installer_command(here, "uninstall", ["a"], [], ["-v"]),
    ]


def test_pip_installs_where_it_is(tmp_path: Path) -> None:
    here = place(tmp_path)
    pip = [here.python, "-m", "pip"]
    assert commands(here) == [
        [*pip, "install", "--pre", "--editable", "/e", "a", "b"],
        [*pip, "install", "--upgrade", "--pre", "a"],
        [*pip, "uninstall", "--yes", "-v", "a"],
    ]


@pytest.mark.parametrize("is_beside", [False, True])
def test_uv_installs_where_pip_is_not(
    tmp_path: Path, uv: Path, monkeypatch: pytest.MonkeyPatch, is_beside: bool
) -> None:
    here = place(tmp_path, has_pip=False)
    if is_beside:  # beside the interpreter, not on PATH
        monkeypatch.setenv("PATH", "")
        here = here._replace(python=str(uv.parent / "python"))
    at = ["--python", here.python]
    assert commands(here) == [
        [str(uv), "pip", "install", *at, "--pre", "--editable", "/e", "a", "b"],
        [str(uv), "pip", "install", *at, "--upgrade", "--pre", "a"],
        [str(uv), "pip", "uninstall", *at, "-v", "a"],
    ]


def test_without_either_the_hint_adds_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ConfigurationError, match="no pip, and uv is not on PATH") as caught:
        installer_command(place(tmp_path, has_pip=False), "install", ["a"])
    assert caught.value.hint.endswith("/bin/python -m ensurepip")


class TestSystem:
    """A Python that the operating system manages (PEP 668)."""

    def test_nothing_is_installed_there(self, tmp_path: Path) -> None:
        here = place(tmp_path, is_system=True, is_own=False)
        with pytest.raises(ConfigurationError, match="the operating system manages") as caught:
            installer_command(here, "install", ["a"])
        assert "pipx install genai-host" in caught.value.hint
        assert installer_command(here, "install", ["a"], [], ["--break-system-packages"])

    def test_its_virtual_environments_are_free(self, tmp_path: Path) -> None:
        assert installer_command(place(tmp_path, is_system=True), "install", ["a"])

    def test_specified_file_decides(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sysconfig.get_path", lambda *_: str(tmp_path))
        assert not PythonEnvironment.here().is_system
        (tmp_path / "EXTERNALLY-MANAGED").touch()
        assert PythonEnvironment.here().is_system


def test_here(monkeypatch: pytest.MonkeyPatch) -> None:
    here = PythonEnvironment.here()
    assert (here.python, here.prefix) == (sys.executable, sys.prefix)
    assert here.is_own is (sys.prefix != sys.base_prefix)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert not PythonEnvironment.here().has_pip


_RECEIPT = """
[tool]
requirements = [
    { name = "my-host", extras = ["x", "y"], specifier = ">=1,<2" },
    { name = "named" },
    { name = "pinned", specifier = "==1.0", marker = "python_full_version >= '3.10'" },
    { name = "edited", editable = "/src/edited" },
    { name = "folder", directory = "/src/folder" },
    { name = "wheel", path = "/a b/wheel-1.0-py3-none-any.whl" },
    { name = "remote", url = "https://u:p@example.org/remote.zip" },
    { name = "cloned", git = "https://example.org/a.git?subdirectory=b&rev=v1#0123" },
]
"""
_LISTED = (
    " --with named --with \"pinned==1.0 ; python_full_version >= '3.10'\""
    " --with-editable /src/edited --with 'folder @ /src/folder'"
    " --with 'wheel @ /a b/wheel-1.0-py3-none-any.whl'"
    " --with 'remote @ https://***@example.org/remote.zip'"
    " --with 'cloned @ git+https://example.org/a.git@v1#subdirectory=b'"
)
_UV_TOOL = "uv tool install --pre 'my-host[x,y]>=1,<2'"


class TestManaged:
    """pipx and uv tool keep a list of what is installed: the user runs their command."""

    @pytest.mark.parametrize(("file", "action", "expected", "editable", "command"), [
        ("pipx_metadata.json", "install", ["a", "b==1"], [],
         "pipx inject my-host --pip-args=--pre a b==1"),
        ("pipx_metadata.json", "install", [], ["/e"],
         "pipx inject my-host --pip-args=--pre --editable /e"),
        ("pipx_metadata.json", "install", ["a"], ["/e"],
         ("pipx inject my-host --pip-args=--pre a"
         " && pipx inject my-host --pip-args=--pre --editable /e")),
        ("pipx_metadata.json", "upgrade", ["a"], [],
         "pipx runpip my-host install --upgrade --pre a"),
        ("pipx_metadata.json", "uninstall", ["a"], [], "pipx uninject --leave-deps my-host a"),
        ("uv-receipt.toml", "install", ["new"], ["/e"],
         f"{_UV_TOOL}{_LISTED} --with new --with-editable /e"),
        ("uv-receipt.toml", "install", ["Named>=2"], [],
         f"{_UV_TOOL}{_LISTED.replace(' --with named', '')} --with 'Named>=2'"),
        ("uv-receipt.toml", "upgrade", ["named"], [], "uv tool upgrade my-host --pre"),
        ("uv-receipt.toml", "uninstall", ["named"], [],
         f"{_UV_TOOL}{_LISTED.replace(' --with named', '')}"),
    ])  # fmt: skip
    def test_the_hint_is_its_command(
        self, tmp_path: Path, file: str, action: Any, expected: list[str], editable: list[str],
        command: str,
    ) -> None:  # fmt: skip
        here = place(tmp_path)
        (Path(here.prefix) / file).write_text(_RECEIPT if file.endswith("toml") else "{}")
        with pytest.raises(ConfigurationError, match=r"(pipx|uv tool) manages '.*/my-host'") as c:
            installer_command(here, action, expected, editable, ["--pre"])
        assert shlex.split(c.value.hint.removeprefix("run: ")) == shlex.split(command)

    def test_a_host_in_development_stays_editable(self, tmp_path: Path) -> None:
        here = place(tmp_path)
        text = '[tool]\nrequirements = [{ name = "my-host", editable = "/src/host" }]\n'
        (Path(here.prefix) / "uv-receipt.toml").write_text(text)
        with pytest.raises(ConfigurationError) as caught:
            installer_command(here, "install", ["a"])
        assert caught.value.hint == "run: uv tool install --editable /src/host --with a"

    @pytest.mark.parametrize("text", ["[", "\0", "tool = 1\nx", "", "[tool]\nrequirements = [1]"])
    def test_a_receipt_must_be_readable(self, tmp_path: Path, text: str) -> None:
        here = place(tmp_path)
        (Path(here.prefix) / "uv-receipt.toml").write_text(text)
        with pytest.raises(ConfigurationError, match=r"cannot read .*uv-receipt\.toml"):
            installer_command(here, "install", ["a"])


@pytest.mark.parametrize(("requirement", "name"), [
    ("genai-host", "genai-host"),
    ("Genai_Host.x[a,b] >= 1", "genai-host-x"),
    ("a>=1", "a"),
    ("a @ https://example.org/b", "a"),
    ("a ; python_version < '3.11'", "a"),
    ("a (>=1)", "a"),
    ("./a", ""),
    ("/a/b", ""),
    ("a/b", ""),
    ("https://example.org/a", ""),
    ("git+https://example.org/a", ""),
    ("", ""),
])  # fmt: skip
def test_the_name_of_a_requirement(requirement: str, name: str) -> None:
    assert required_name(requirement) == name


def test_spellings_of_a_name_are_equal() -> None:
    assert len({normal_name(name) for name in ("Ab-c", "ab_c", "AB.C", "ab-_c")}) == 1
