"""Where the system has no libgomp, which llama.cpp needs, it is fetched as the weights are."""

from __future__ import annotations

import ctypes
import hashlib
import os
import sys
import zipfile
from pathlib import Path

import pytest
from attrs import evolve
from genai_vendor_local import Settings, downloads, openmp
from genai_vendor_local.loadable import OPENMP as NAME, environment
from genai_vendor_local.openmp import Runtime
from genai_vendor_local.provider import LocalProvider
from genai_vendor_local.weights import DEFAULT

from genai_host.api import Cancellation, PreparationProgress, Services
from genai_host.cli.main import run
from genai_host.errors import ConfigurationError, ServiceUnavailable
from genai_host_testing import ManualClock
from genai_host_testing.internal.fixtures import NO_HTTP

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere its wheel has all")

OWN_NAME = "libgomp-0a1b2c3d.so.1.0.0"
CONTENT = b"ELF" + OWN_NAME.encode() + b"\0GOMP_parallel\0"
RUNTIME = Runtime(
    requirement="toy-openmp==1.0", member=f"toy_openmp.libs/{OWN_NAME}",
    sha256=hashlib.sha256(CONTENT).hexdigest(), size=len(CONTENT), license="MIT",
)  # fmt: skip


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A system without the library, and with an index that has a copy of it; the folder of
    the weights."""
    index = tmp_path / "index"
    index.mkdir()
    for tool in ("PIP", "UV"):
        monkeypatch.setenv(f"{tool}_NO_INDEX", "1")
        monkeypatch.setenv(f"{tool}_FIND_LINKS", str(index))
    with zipfile.ZipFile(index / "toy_openmp-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(RUNTIME.member, CONTENT)
        info = "toy_openmp-1.0.dist-info"
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: toy-openmp\nVersion: 1.0\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    monkeypatch.setattr(openmp, "_opens", lambda name: False)
    monkeypatch.setattr(openmp, "BUILDS", {os.uname().machine: RUNTIME})
    return tmp_path / "data" / "local"


@pytest.fixture
def provider(bare: Path, clock: ManualClock) -> LocalProvider:
    bare.mkdir(parents=True)
    DEFAULT.file(bare).touch()
    return LocalProvider(Settings(), Services("local", clock, bare, NO_HTTP))


@pytest.mark.process
def test_item_1_it_is_fetched_and_gets_the_name_that_is_looked_for(bare: Path) -> None:
    openmp.pull(bare)
    assert [file.name for file in bare.iterdir()] == [NAME]
    data = (bare / NAME).read_bytes()
    assert data == b"ELF" + NAME.encode() + bytes(len(OWN_NAME) - len(NAME)) + CONTENT[-15:]
    assert len(data) == len(CONTENT)
    assert environment(bare)["LD_LIBRARY_PATH"].endswith(str(bare))


def test_item_1_what_is_there_is_not_fetched(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openmp, "_opens", lambda name: name == NAME)
    openmp.pull(bare)
    assert not bare.exists()
    assert environment(bare) is os.environ


@pytest.mark.process
def test_item_1_another_library_is_refused(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = evolve(RUNTIME, sha256="0" * 64)
    monkeypatch.setattr(openmp, "BUILDS", {os.uname().machine: other})
    with pytest.raises(ConfigurationError, match="do not match the expected"):
        openmp.pull(bare)
    assert not list(bare.iterdir())


@pytest.mark.process
def test_item_1_without_a_network(
    bare: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for tool in ("PIP", "UV"):
        monkeypatch.setenv(f"{tool}_FIND_LINKS", str(tmp_path / "nothing"))
    with pytest.raises(ServiceUnavailable) as caught:
        openmp.pull(bare)
    assert caught.value.hint == f"check the network connection; {RUNTIME.elsewhere}"
    assert "libgomp1" in caught.value.hint


def test_item_1_machine_without_a_copy(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openmp, "BUILDS", {})
    with pytest.raises(ConfigurationError, match=NAME) as caught:
        openmp.pull(bare)
    assert "libgomp1" in caught.value.hint


@pytest.mark.smoke
@pytest.mark.process
def test_item_1_a_model_that_lacks_it_is_not_shown_as_working(provider: LocalProvider) -> None:
    assert provider.unavailable_models()[DEFAULT.name] == openmp.missing()
    assert provider.preparation() is not None
    reports: list[PreparationProgress] = []
    with pytest.raises(ConfigurationError):
        openmp.load(provider._folder)
    openmp.pull(provider._folder, report=reports.append, limits=Cancellation())
    assert reports[0].text == f"Downloading the OpenMP library {NAME}"
    assert DEFAULT.name not in provider.unavailable_models()
    assert provider.preparation() is None


@pytest.mark.process
def test_item_1_before_llama_cpp(provider: LocalProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    monkeypatch.setattr(ctypes, "CDLL", loaded.append)
    openmp.pull(provider._folder)
    provider._engine(DEFAULT.name)
    assert loaded == [str(provider._folder / NAME)]


@pytest.mark.process
def test_item_1_pull_fetches_both(
    bare: Path, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = home / "data" / "local"
    folder.mkdir(parents=True)
    DEFAULT.file(folder).touch()
    monkeypatch.setattr(downloads, "_sha256", lambda file: RUNTIME.sha256)
    monkeypatch.setattr("genai_vendor_local.cli.pull", lambda *_, **__: DEFAULT.file(folder))
    assert run(["local", "pull"]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{DEFAULT.file(folder)}\n"
    assert captured.err == f"Downloading the OpenMP library {NAME} (0.0 MB)\n"
    assert (folder / NAME).is_file()


def test_the_copies_are_described_whole() -> None:
    for build in openmp.BUILDS.values():
        assert len(bytes.fromhex(build.sha256)) == 32
        assert "==" in build.requirement
        assert len(Path(build.member).name) > len(NAME)
