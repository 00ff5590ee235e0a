"""Files that are no models: each is one clear line that names the file."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import genai_vendor_local
import pytest
from genai_vendor_local.weights import DEFAULT

from genai_host import Config, Host
from genai_host.errors import ConfigurationError, NoRoute
from genai_host_testing.internal.configs import provider_config
from genai_host_testing.internal.fixtures import MakeHost

GARBAGE = b"GGUF" + bytes(range(251, 0, -1)) * 64
BROKEN = {
    "empty": b"",
    "shorter than its magic": b"GGU",
    "no gguf": b"<html>404 Not Found</html>" * 100,
    "nothing but magic": b"GGUF",
    "garbage": GARBAGE,
    "zeros": b"GGUF" + bytes(4096),
    "of another version": b"GGUF" + (99).to_bytes(4, "little") + bytes(4096),
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "my model.gguf"


@pytest.fixture
def file_host(make_host: MakeHost, file: Path) -> Host:
    """A host that has the file under the name `mine`."""
    settings = {"threads": 1, "window": 256}
    mine = provider_config("local", models={"mine": str(file)}, **settings)
    return make_host(local=genai_vendor_local, config=Config(providers={"local": mine}))


def assert_refused(host: Host, model: str, file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    conversation = host.open("chat", model, parameters={"max_tokens": 1})
    with pytest.raises(ConfigurationError) as caught:
        conversation.say("hi")
    error = caught.value
    assert str(file) in error.message
    assert "\n" not in error.message
    assert "\n" not in error.hint
    assert error.provider == "local"
    assert conversation.history == ()
    assert capfd.readouterr() == ("", "")  # llama.cpp keeps its own words to itself


@pytest.mark.parametrize("is_folder", [False, True])
def test_a_file_that_is_not_there_does_not_run(
    file_host: Host, file: Path, is_folder: bool
) -> None:
    if is_folder:
        file.mkdir()
    for name in ("mine", f"local/{file}"):
        (candidate,) = file_host.explain(name, "local")
        assert candidate.reasons == (f"no such file: {file}",)
        with pytest.raises(NoRoute, match="cannot run") as caught:
            file_host.open("chat", name)
        assert str(file) in caught.value.message


def test_a_file_that_comes_and_goes_is_noticed(file_host: Host, file: Path) -> None:
    for _ in range(2):
        assert not file_host.explain("mine", "local")[0].runs
        file.write_bytes(GARBAGE)
        assert file_host.explain("mine", "local")[0].runs
        file.unlink()


@pytest.mark.parametrize("id", ["~nobody-of-that-name/x.gguf", "x" * 5000, "a\0b"])
def test_what_is_no_name_of_a_file_is_no_fault_of_a_plugin(file_host: Host, id: str) -> None:
    (candidate,) = file_host.explain(f"local/{id}")
    assert candidate.reasons == (f"no such file: {id}",)


def test_a_file_that_vanishes_meanwhile_is_one_line_that_names_it(
    file_host: Host, file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file.write_bytes(GARBAGE)
    conversation = file_host.open("chat", "mine")
    file.unlink()
    with pytest.raises(ConfigurationError, match="no such file") as caught:
        conversation.say("hi")
    assert str(file) in caught.value.message
    assert capfd.readouterr() == ("", "")


@pytest.mark.process
@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_what_is_no_model_is_one_line_that_names_the_file(
    file_host: Host, file: Path, content: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    file.write_bytes(content)
    assert_refused(file_host, "mine", file, capfd)
    assert_refused(file_host, f"local/{file}", file, capfd)


@pytest.mark.smoke
@pytest.mark.weights
@pytest.mark.parametrize("size", [24, 100_000, 3_000_000, DEFAULT.size - 1])
def test_a_model_that_is_cut_short_is_one_line_that_names_the_file(
    file_host: Host, file: Path, weights: Path, size: int, capfd: pytest.CaptureFixture[str]
) -> None:
    with DEFAULT.file(weights).open("rb") as source:
        file.write_bytes(source.read(size))
    assert_refused(file_host, "mine", file, capfd)


@pytest.mark.weights
@pytest.mark.parametrize("kind", ["empty", "no gguf", "garbage"])
def test_a_file_that_is_put_right_is_loaded(
    file_host: Host, file: Path, weights: Path, kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    file.write_bytes(BROKEN[kind])
    assert_refused(file_host, "mine", file, capfd)
    file.unlink()
    file.symlink_to(DEFAULT.file(weights))
    conversation = file_host.open("chat", "mine", parameters={"max_tokens": 1})
    assert conversation.say("hi").usage.output_tokens == 1


@pytest.mark.weights
def test_a_file_is_run_by_its_path(file_host: Host, tmp_path: Path, weights: Path) -> None:
    other = tmp_path / "another@model+1.gguf"
    other.symlink_to(DEFAULT.file(weights))
    conversation = file_host.open("chat", f"local/{other}", parameters={"max_tokens": 1})
    assert conversation.models == {"main": f"local/{other}"}
    assert conversation.say("hi").usage.output_tokens == 1


def test_a_file_that_may_not_be_read_is_one_line_that_names_it(
    file_host: Host, file: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_bytes(GARBAGE)
    open_file = Path.open

    def refuse(path: Path, *arguments: Any, **named: Any) -> Any:
        if path == file:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return open_file(path, *arguments, **named)

    monkeypatch.setattr(Path, "open", refuse)
    assert_refused(file_host, "mine", file, capfd)
