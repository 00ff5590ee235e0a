"""Which commands install where: by what made the environment."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from genai_host.errors import ConfigurationError
from genai_host.plugins.installer import (
    Installed,
    Installer,
    Place,
    find_installer,
    required_name,
    who_needs,
)
from genai_host.util.names import normal_name


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with uv and pipx, which do nothing."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("uv", "pipx"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return folder


def place(tmp_path: Path, **said: Any) -> Place:
    folder = tmp_path / "my-host"
    folder.mkdir(exist_ok=True)
    return Place(str(folder / "bin" / "python"), str(folder), **said)


def commands(installer: Installer) -> list[list[list[str]]]:
    """To install, to upgrade, to uninstall."""
    return [
        installer.install(["a", "b"], ["/e"], ["--pre"]),
        installer.upgrade(["a"], ["--pre"]),
        installer.uninstall(["a"], ["-v"]),
    ]


def test_an_environment_with_pip(tmp_path: Path) -> None:
    here = place(tmp_path)
    pip = [here.python, "-m", "pip"]
    assert commands(find_installer(here)) == [
        [[*pip, "install", "--pre", "--editable", "/e", "a", "b"]],
        [[*pip, "install", "--upgrade", "--pre", "a"]],
        [[*pip, "uninstall", "--yes", "-v", "a"]],
    ]


def test_one_without_pip_is_for_uv(tmp_path: Path, programs: Path) -> None:
    here = place(tmp_path, has_pip=False)
    uv, at = [str(programs / "uv"), "pip"], ["--python", here.python]
    assert commands(find_installer(here)) == [
        [[*uv, "install", *at, "--pre", "--editable", "/e", "a", "b"]],
        [[*uv, "install", *at, "--upgrade", "--pre", "a"]],
        [[*uv, "uninstall", *at, "-v", "a"]],
    ]


def test_uv_is_found_beside_python(
    tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    here = place(tmp_path, has_pip=False)._replace(python=str(programs / "python"))
    [[program, *_]] = find_installer(here).install(["a"], [], [])
    assert program == str(programs / "uv")


@pytest.mark.parametrize(
    ("file", "says"),
    [("", "there is no pip"), ("pipx_metadata.json", "pipx is"), ("uv-receipt.toml", "uv is")],
)
def test_what_is_missing_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, says: str
) -> None:
    monkeypatch.setenv("PATH", "")
    here = place(tmp_path, has_pip=False)
    if file:
        (Path(here.prefix) / file).write_text("")
    with pytest.raises(ConfigurationError, match=says) as caught:
        find_installer(here)
    assert "on your PATH" in caught.value.hint
    assert ("ensurepip" in caught.value.hint) is (not file)


class TestSystem:
    """A Python that the operating system manages (PEP 668)."""

    def test_nothing_is_installed_there(self, tmp_path: Path) -> None:
        here = place(tmp_path, is_system=True, is_own=False)
        with pytest.raises(ConfigurationError, match="the operating system manages") as caught:
            find_installer(here)
        assert "pipx install genai-host" in caught.value.hint

    def test_a_virtual_environment_of_it_is_another_matter(self, tmp_path: Path) -> None:
        assert find_installer(place(tmp_path, is_system=True)).install(["a"], [], [])

    def test_who_insists_may(self, tmp_path: Path) -> None:
        here = place(tmp_path, is_system=True, is_own=False)
        installer = find_installer(here, ["--break-system-packages"])
        assert installer.install(["a"], [], [])

    def test_it_is_told_by_the_file_of_the_specification(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sysconfig.get_path", lambda *_: str(tmp_path))
        assert not Place.here().is_system
        (tmp_path / "EXTERNALLY-MANAGED").touch()
        assert Place.here().is_system


def test_here(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Place.here()
    assert (here.python, here.prefix) == (sys.executable, sys.prefix)
    assert here.is_own is (sys.prefix != sys.base_prefix)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert not Place.here().has_pip


class TestPipx:
    @pytest.fixture
    def here(self, tmp_path: Path, programs: Path) -> Place:
        here = place(tmp_path)
        kept: dict[str, Any] = {"injected_packages": {"Genai_Vendor.A": {}}}
        (Path(here.prefix) / "pipx_metadata.json").write_text(json.dumps(kept))
        return here

    def test_it_injects(self, here: Place, programs: Path) -> None:
        pipx = str(programs / "pipx")
        install, upgrade, uninstall = commands(find_installer(here))
        assert install == [
            [pipx, "inject", "my-host", "--pip-args=--pre", "a", "b"],
            [pipx, "inject", "my-host", "--editable", "--pip-args=--pre", "/e"],
        ]
        assert upgrade == [[pipx, "runpip", "my-host", "install", "--upgrade", "--pre", "a"]]
        assert uninstall == [[pipx, "runpip", "my-host", "uninstall", "-y", "-v", "a"]]

    def test_what_is_there_is_installed_anew(self, here: Place) -> None:
        [command] = find_installer(here).install(["genai-vendor-a==2"], [], [])
        assert command[1:] == ["inject", "my-host", "--force", "genai-vendor-a==2"]

    def test_arguments_with_spaces_stay_whole(self, here: Place) -> None:
        [command] = find_installer(here).install(["a"], [], ["--find-links", "a b"])
        assert "--pip-args=--find-links 'a b'" in command

    def test_what_was_injected_is_taken_out_again_and_what_it_needed_stays(
        self, here: Place, programs: Path
    ) -> None:
        pipx = str(programs / "pipx")
        assert find_installer(here).uninstall(["genai-vendor-a", "b"], []) == [
            [pipx, "uninject", "--leave-deps", "my-host", "genai-vendor-a"],
            [pipx, "runpip", "my-host", "uninstall", "-y", "b"],
        ]


_RECEIPT = """
[tool]
requirements = [
    { name = "my-host", extras = ["x", "y"], specifier = ">=1,<2" },
    { name = "named" },
    { name = "pinned", specifier = "==1.0", marker = "python_full_version >= '3.10'" },
    { name = "edited", editable = "/src/edited" },
    { name = "folder", directory = "/src/folder" },
    { name = "wheel", path = "/a b/wheel-1.0-py3-none-any.whl" },
    { name = "remote", url = "https://example.org/remote.zip" },
    { name = "cloned", git = "https://example.org/a.git?subdirectory=b&rev=v1#0123" },
]
python = "3.12"
"""


class TestUvTool:
    """It forgets what it is not told again."""

    @pytest.fixture
    def here(self, tmp_path: Path, programs: Path) -> Place:
        here = place(tmp_path)
        (Path(here.prefix) / "uv-receipt.toml").write_text(_RECEIPT)
        return here

    def test_all_that_is_there_is_told_again(self, here: Place, programs: Path) -> None:
        [command] = find_installer(here).install(["new"], ["/e"], ["--no-index"])
        uv = str(programs / "uv")
        assert command[:7] == [uv, "tool", "install", "--no-index", "--python", "3.12",
                               "my-host[x,y]>=1,<2"]  # fmt: skip
        assert list(zip(command[7::2], command[8::2], strict=True)) == [
            ("--with", "named"),
            ("--with", "pinned==1.0 ; python_full_version >= '3.10'"),
            ("--with-editable", "/src/edited"),
            ("--with", "folder @ /src/folder"),
            ("--with", "wheel @ /a b/wheel-1.0-py3-none-any.whl"),
            ("--with", "remote @ https://example.org/remote.zip"),
            ("--with", "cloned @ git+https://example.org/a.git@v1#subdirectory=b"),
            ("--with", "new"),
            ("--with-editable", "/e"),
        ]

    def test_what_is_asked_for_anew_takes_the_place_of_what_was(self, here: Place) -> None:
        [command] = find_installer(here).install(["Pinned>=2"], [], [])
        assert not [word for word in command if word.startswith("pinned")]
        assert command[-2:] == ["--with", "Pinned>=2"]

    def test_what_is_uninstalled_is_left_out(self, here: Place) -> None:
        [command] = find_installer(here).uninstall(["Edited", "named"], [])
        assert not {"/src/edited", "named", "--with-editable"} & set(command)
        assert "folder @ /src/folder" in command

    def test_what_is_upgraded_is_named(self, here: Place) -> None:
        [command] = find_installer(here).upgrade(["named"], [])
        assert command[-2:] == ["--upgrade-package", "named"]
        assert "pinned==1.0 ; python_full_version >= '3.10'" in command

    def test_a_host_in_development_stays_so(self, here: Place) -> None:
        text = '[tool]\nrequirements = [{ name = "my-host", editable = "/src/host" }]\n'
        (Path(here.prefix) / "uv-receipt.toml").write_text(text)
        [command] = find_installer(here).install(["a"], [], [])
        assert command[3:] == ["--editable", "/src/host", "--with", "a"]

    @pytest.mark.parametrize("text", ["[", "\0", "tool = 1\nx"])
    def test_a_receipt_that_cannot_be_read_is_not_done_without(
        self, here: Place, text: str
    ) -> None:
        (Path(here.prefix) / "uv-receipt.toml").write_text(text)
        with pytest.raises(ConfigurationError, match=r"cannot read .*uv-receipt\.toml"):
            find_installer(here).install(["a"], [], [])


@pytest.mark.parametrize(
    ("requirement", "name"),
    [
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
    ],
)
def test_what_a_requirement_names(requirement: str, name: str) -> None:
    assert required_name(requirement) == name


def test_names_are_the_same_however_they_are_written() -> None:
    assert len({normal_name(name) for name in ("Ab-c", "ab_c", "AB.C", "ab-_c")}) == 1


def test_what_is_needed_by_way_of_another_is_needed() -> None:
    needs = {"host": {"a"}, "a": {"b"}, "b": {"a", "gone"}, "plugin": {"c"}, "c": set[str]()}
    installed = {name: Installed(name, "1", frozenset(those)) for name, those in needs.items()}
    assert who_needs("b", installed, ["host"]) == "host"
    assert who_needs("gone", installed, ["host"]) == "host"
    assert who_needs("c", installed, ["host"]) == ""
    assert who_needs("c", installed, ["host", "plugin"]) == "plugin"
    assert who_needs("host", installed, ["host", "plugin"]) == ""
