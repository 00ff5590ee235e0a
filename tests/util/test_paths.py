"""Where files are kept: the platform's usual places, or where the environment says."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from genai_host import Config, Host, StaticPlugins, paths


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, which relative paths begin at."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_all_files_can_be_kept_below_one_folder(home: Path) -> None:
    assert paths.config_file() == str(home / "config" / "config.toml")
    assert paths.config_dir() == str(home / "config")
    assert paths.cache_dir() == str(home / "cache")
    assert paths.data_dir("local") == str(home / "data" / "local")
    assert paths.state_dir() == str(home / "state")


def test_every_path_is_absolute(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENAI_HOST_HOME", "rel/x")
    assert paths.config_file() == str(folder / "rel" / "x" / "config" / "config.toml")
    for path in (paths.cache_dir(), paths.data_dir("p"), paths.data_dir(""), paths.state_dir()):
        assert path.startswith(f"{folder}{os.sep}")
    monkeypatch.setenv("GENAI_HOST_CONFIG", "my.toml")
    assert paths.config_file() == str(folder / "my.toml")


@pytest.fixture
def bare(home: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment that says nothing of where files are, and XDG's variables wrongly."""
    monkeypatch.delenv("GENAI_HOST_HOME")
    monkeypatch.delenv("HOME")
    for name in ("CACHE", "CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", "relative")
    return folder


@pytest.mark.skipif(os.name != "posix", reason="homes are POSIX")
@pytest.mark.parametrize("named", [None, "rel/home"])
def test_item_7_without_a_home_no_path_is_in_the_working_directory(
    bare: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, named: str | None
) -> None:
    """A container whose user is in no list of users."""
    monkeypatch.setattr(pwd, "getpwuid", unknown_user)
    if named is not None:
        monkeypatch.setenv("HOME", named)
    assert not paths.has_home()
    for path in (paths.config_file(), paths.keys_file(), paths.cache_dir(), paths.state_dir()):
        assert path.startswith("/dev/null/")
    with Host(discovery=StaticPlugins({})) as host:
        assert host.config == Config()
    [record] = caplog.records
    assert record.getMessage().startswith("no home directory, conversations are not saved")
    assert os.listdir(bare) == []


@pytest.mark.skipif(os.name != "posix", reason="homes are POSIX")
def test_item_7_relative_home_is_ignored(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = pwd.getpwuid(os.getuid()).pw_dir
    monkeypatch.setenv("HOME", "relative")
    assert paths.has_home()
    assert paths.config_file() == f"{listed}/.config/genai-host/config.toml"


def unknown_user(number: int) -> None:
    raise KeyError(f"getpwuid(): uid not found: {number}")


@pytest.mark.parametrize("named", [None, "", "my.toml"])
def test_named_file(folder: Path, monkeypatch: pytest.MonkeyPatch, named: str | None) -> None:
    if named is not None:
        monkeypatch.setenv("GENAI_HOST_CONFIG", named)
    assert paths.named_config_file() == (str(folder / named) if named else "")
