"""Pyodide comes from a registry whole and checked, or not at all."""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
from pathlib import Path

import pytest
from attrs import evolve
from genai_tools_sandbox import cli
from genai_tools_sandbox.process import can_run
from genai_tools_sandbox.pyodide import KNOWN, Release, folder_of, pull, registry

from genai_host.cli.main import run
from genai_host.errors import ConfigurationError, GenaiError, ServiceUnavailable
from genai_host_testing import FakeService
from genai_host_testing.fake_service import CUT, Reply

pytestmark = pytest.mark.part

FILES = {"package/a.mjs": b"one", "package/b.wasm": b"two" * 1000, "package/README.md": b"no"}


def _tarball(files: dict[str, bytes], *others: tarfile.TarInfo) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for other in others:
            archive.addfile(other)
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def _release(data: bytes) -> Release:
    integrity = base64.b64encode(hashlib.sha512(data).digest()).decode()
    return Release("made", "1.0.0", integrity, ("a.mjs", "b.wasm"), 1_000_000)


def _reply(data: bytes, status: str = "200 OK", length: int | None = None) -> Reply:
    size = len(data) if length is None else length
    head = f"HTTP/1.1 {status}\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n"
    return Reply([head.encode(), data, CUT])


def _tell(size: int, total: int) -> None:
    pass


def test_the_files_that_are_wanted_are_kept(service: FakeService, tmp_path: Path) -> None:
    data, progress = _tarball(FILES), []
    service.replies.append(_reply(data))
    release, folder = _release(data), tmp_path / "deep" / "made"
    pulled = pull(release, folder, service.url + "/", lambda *step: progress.append(step))
    assert pulled == folder
    assert release.is_in(folder)
    assert (folder / "a.mjs").read_bytes() == b"one"
    assert (folder / "b.wasm").read_bytes() == b"two" * 1000
    assert not (folder / "README.md").exists()
    assert service.requests[0].path == "/made/-/made-1.0.0.tgz"
    assert progress[-1] == (len(data), len(data))
    pull(release, folder, service.url, _tell)
    assert len(service.requests) == 1  # it is there


def _refused(service: FakeService, tmp_path: Path, release: Release, reply: Reply) -> GenaiError:
    """The error, once it is clear that nothing was saved."""
    service.replies.append(reply)
    folder = tmp_path / "made"
    with pytest.raises(GenaiError) as caught:
        pull(release, folder, service.url, _tell)
    assert not folder.exists()
    assert [each.name for each in tmp_path.iterdir() if each.name != "made.lock"] == []
    return caught.value


DATA, LARGE = _tarball(FILES), _tarball({**FILES, "package/b.wasm": bytes(2_000_000)})
OTHER, NO_TARBALL = _tarball({**FILES, "package/a.mjs": b"2"}), b"hello" * 100


@pytest.mark.parametrize(("release", "reply", "kind", "message"), [
    (_release(DATA), _reply(OTHER), ConfigurationError, "SHA-512"),
    (_release(DATA), _reply(DATA[:-20], length=len(DATA)), GenaiError, ""),
    (_release(DATA), _reply(b"no", "404 Not Found"), ServiceUnavailable, "404"),
    (evolve(_release(DATA), most=100), _reply(DATA), GenaiError, "larger"),
    (_release(LARGE), _reply(LARGE), GenaiError, "larger"),
    (_release(NO_TARBALL), _reply(NO_TARBALL), GenaiError, "damaged"),
], ids=["other", "cut", "absent", "endless", "unpacked", "no tarball"])  # fmt: skip
def test_what_is_not_as_it_should_be_is_refused(
    service: FakeService, tmp_path: Path, release: Release, reply: Reply, kind: type[GenaiError],
    message: str,
) -> None:  # fmt: skip
    error = _refused(service, tmp_path, release, reply)
    assert isinstance(error, kind)
    assert message in str(error)


@pytest.mark.parametrize(
    "name",
    ["package/../../a.mjs", "../a.mjs", "/tmp/a.mjs", "package/x/a.mjs", "a.mjs", "package/.."],
)
def test_files_elsewhere_are_left_out(service: FakeService, tmp_path: Path, name: str) -> None:
    data = _tarball({name: b"one", "package/b.wasm": b"two"})
    assert "lacks a.mjs" in str(_refused(service, tmp_path, _release(data), _reply(data)))
    assert not (tmp_path.parent / "a.mjs").exists()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_links_are_left_out(service: FakeService, tmp_path: Path, kind: bytes) -> None:
    link = tarfile.TarInfo("package/a.mjs")
    link.type, link.linkname = kind, "/etc/passwd"
    data = _tarball({"package/b.wasm": b"two"}, link)
    assert "lacks a.mjs" in str(_refused(service, tmp_path, _release(data), _reply(data)))


def test_a_folder_of_other_files_is_left_alone(service: FakeService, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ConfigurationError, match="other files"):
        pull(_release(b""), tmp_path, service.url, _tell)
    assert not service.requests
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_nothing_is_installed_before(tmp_path: Path) -> None:
    assert not KNOWN.is_in(tmp_path)
    assert not KNOWN.is_in(tmp_path / "none")
    (tmp_path / "pulled").write_bytes(b"\xff\xfe")
    assert not KNOWN.is_in(tmp_path)


def test_the_registry_is_that_of_npm(tmp_path: Path) -> None:
    assert registry({}, tmp_path) == "https://registry.npmjs.org"
    (tmp_path / ".npmrc").write_text(
        "; a comment\nregistry = http://mine.test/npm/ \n//x.test/:_authToken=a%b\nloud\n"
    )
    assert registry({}, tmp_path) == "http://mine.test/npm/"
    assert registry({"npm_config_registry": "https://o.test"}, tmp_path) == "https://o.test"
    (tmp_path / ".npmrc").write_bytes(b"\xff\n[[[")
    assert registry({}, tmp_path) == "https://registry.npmjs.org"
    for wrong in ("file:///etc", "x", "http://", "http://[x"):
        with pytest.raises(ConfigurationError) as caught:
            registry({"npm_config_registry": wrong}, tmp_path)
        assert "npm_config_registry" in str(caught.value.hint)


def test_the_folder_is_the_configured_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENAI_HOST_HOME", str(tmp_path))
    assert folder_of("").is_relative_to(tmp_path.resolve() / "cache")
    assert folder_of(str(tmp_path / "x")) == tmp_path / "x"
    assert folder_of("~").is_absolute()
    (tmp_path / "link").symlink_to(tmp_path / "x")
    assert folder_of(str(tmp_path / "link")) == (tmp_path / "x").resolve()


@pytest.mark.process
def test_the_command_pulls_it(
    service: FakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    data = _tarball(FILES)
    release, folder = _release(data), tmp_path / "pyodide"
    monkeypatch.setattr(cli, "KNOWN", release)
    monkeypatch.setenv("GENAI_HOST_HOME", str(tmp_path))
    monkeypatch.setenv("npm_config_registry", service.url)
    service.replies += [_reply(b"", "500 Sorry"), _reply(data)]
    assert run(["config", "set", f"tools.sandbox.folder={folder}"]) == 0
    assert run(["sandbox", "pull"]) != 0
    assert "cannot download" in capsys.readouterr().err
    assert run(["sandbox", "pull"]) == 0
    captured = capsys.readouterr()
    assert captured.out.strip() == str(folder)
    assert not can_run() or "cannot start Pyodide" in captured.err  # it is none
    assert release.is_in(folder)
