"""Where files are kept: the platform's usual places, or where the environment says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from genai_host import paths


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
    for found in (paths.cache_dir(), paths.data_dir("p"), paths.data_dir(""), paths.state_dir()):
        assert found.startswith(f"{folder}{os.sep}")
    monkeypatch.setenv("GENAI_HOST_CONFIG", "my.toml")
    assert paths.config_file() == str(folder / "my.toml")


def test_a_home_that_is_not_known_is_no_exception(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GENAI_HOST_HOME")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    for name in ("CACHE", "CONFIG", "DATA", "STATE"):
        monkeypatch.delenv(f"XDG_{name}_HOME", raising=False)
    assert os.path.isabs(paths.cache_dir())


@pytest.mark.parametrize("named", [None, "", "my.toml"])
def test_which_configuration_file_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, named: str | None
) -> None:
    if named is not None:
        monkeypatch.setenv("GENAI_HOST_CONFIG", named)
    assert paths.named_config_file() == (str(folder / named) if named else "")
