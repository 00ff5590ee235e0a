"""Secrets: the environment, then what is referred to, then the keyring, then the file."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import traceback
from pathlib import Path

import pytest
from attrs import field, frozen

from genai_host import paths
from genai_host.api import Secret, about
from genai_host.api.settings import Setting, describe
from genai_host.errors import ConfigurationError, GenaiError
from genai_host.secrets.backends import KeyRing
from genai_host.secrets.keys import SecretStore

CANARY = "sk-canary-3e07"


@frozen
class Settings:
    api_key: Secret | None = field(default=None, metadata=about("its key", env="DEFAULT_KEY"))


[KEY] = describe(Settings)
KEY_VALUE = Secret("x")


class Ring:
    """A keyring in memory; breaks if it is told to."""

    def __init__(self) -> None:
        self.held: dict[tuple[str, str], str] = {}
        self.breaks = False

    def get_password(self, service: str, username: str) -> str | None:
        self._may_break("locked")
        return self.held.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self._may_break(f"cannot store {password}")
        self.held[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        self._may_break("locked")
        del self.held[service, username]

    def _may_break(self, why: str) -> None:
        if self.breaks:
            raise RuntimeError(why)


@pytest.fixture
def ring() -> Ring:
    return Ring()


def find(keys: SecretStore, name: str = "mine", setting: Setting = KEY) -> tuple[str, str] | None:
    key = keys.find(name, setting, kind="usual")
    return None if key is None else (key.secret.reveal(), key.source)


class TestOrder:
    def test_the_environment_the_keyring_the_file(self, ring: Ring) -> None:
        """The usual variable of a type is for the instance that is named like it alone."""
        environ = {"GENAI_HOST_PROVIDERS__USUAL__API_KEY": "own", "DEFAULT_KEY": "usual"}
        keys = SecretStore(ring=KeyRing(ring), environ=environ)
        file = f"the file {paths.keys_file()}"
        for name in ("usual", "mine"):
            assert SecretStore(environ={}).set(name, "api_key", Secret("filed")) == file
        assert find(keys) == ("filed", file)
        for name in ("usual", "mine"):
            assert keys.set(name, "api_key", Secret("ringed")) == "the keyring"
        assert "ringed" not in Path(keys.path).read_text()
        assert "filed" not in Path(keys.path).read_text()
        own = "the environment variable GENAI_HOST_PROVIDERS__USUAL__API_KEY"
        assert find(keys, "usual") == ("own", own)
        del environ["GENAI_HOST_PROVIDERS__USUAL__API_KEY"]
        assert find(keys, "usual") == ("usual", "the environment variable DEFAULT_KEY")
        assert find(keys) == ("ringed", "the keyring")
        del environ["DEFAULT_KEY"]
        assert find(keys, "usual") == ("ringed", "the keyring")

    def test_the_variable_of_an_instance_is_its_own(self) -> None:
        keys = SecretStore(environ={"GENAI_HOST_PROVIDERS__MY_GATE__API_KEY": "x"})
        assert find(keys, "my-gate")
        assert find(keys, "my") is find(keys, "gate") is None
        assert not os.path.exists(paths.keys_file())

    def test_each_home_has_a_keyring_of_its_own(
        self, ring: Ring, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        SecretStore(ring=KeyRing(ring), environ={}).set("mine", "api_key", Secret("here"))
        monkeypatch.setenv("GENAI_HOST_HOME", str(tmp_path / "other"))
        SecretStore(ring=KeyRing(ring), environ={}).set("mine", "api_key", Secret("there"))
        assert sorted(ring.held.values()) == ["here", "there"]


class TestReferences:
    def test_a_variable_a_file_a_keyring(self, ring: Ring, tmp_path: Path) -> None:
        file = tmp_path / "key"
        file.write_text("filed\n")
        ring.held["work", "gate"] = "ringed"
        keys = SecretStore(ring=KeyRing(ring), environ={"MINE": "x", "DEFAULT_KEY": "usual"})
        for setting, secret, source in (
            ({"env": "MINE"}, "x", "the environment variable MINE"),
            ({"file": str(file)}, "filed", f"the file {file}"),
            ({"keyring": "work/gate"}, "ringed", "the keyring, as work/gate"),
        ):
            key = keys.find("usual", KEY, kind="usual", given=setting)
            assert key is not None
            assert (key.secret.reveal(), key.source) == (secret, f"{source}, as configured")

    @pytest.mark.parametrize(("value", "says"), [
        (CANARY, "must not be in the configuration"),
        ({}, "must refer to a secret"),
        ({"env": "A", "file": "b"}, "must refer to a secret"),
        ({"enw": CANARY}, "must refer to a secret"),
        ({"env": 3}, "must refer to a secret"),
        ({"env": "NOT_SET"}, "nothing in the environment variable NOT_SET"),
        ({"file": "/dev/null/none"}, "nothing in the file /dev/null/none"),
        ({"keyring": "a/b"}, "nothing in the keyring, as a/b"),
    ])  # fmt: skip
    def test_one_to_nothing_is_an_error(self, ring: Ring, value: object, says: str) -> None:
        keys = SecretStore(ring=KeyRing(ring), environ={"DEFAULT_KEY": "usual"})
        with pytest.raises(ConfigurationError, match=says) as caught:
            keys.find("usual", KEY, kind="usual", given=value)
        assert CANARY not in shown(caught.value)
        if value == CANARY:
            assert caught.value.hint.endswith("genai-host keys set usual --secret api_key")


class TestFile:
    @pytest.fixture
    def keys(self) -> SecretStore:
        keys = SecretStore(environ={})
        keys.set("mine", "api_key", Secret(CANARY))
        return keys

    def test_file_is_readable_by_owner_only(self, keys: SecretStore) -> None:
        assert stat.S_IMODE(os.stat(keys.path).st_mode) == 0o600
        assert stat.S_IMODE(os.stat(os.path.dirname(keys.path)).st_mode) == 0o700

    @pytest.mark.skipif(os.name == "nt", reason="there are no such modes")
    @pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
    def test_one_that_others_can_read_is_refused(self, keys: SecretStore, mode: int) -> None:
        os.chmod(keys.path, mode)
        for use in (find, lambda keys: keys.set("mine", "api_key", Secret("x")), SecretStore.kept):
            with pytest.raises(ConfigurationError, match="other users can read it") as caught:
                use(keys)
            assert caught.value.hint == f"chmod 600 {keys.path}"
        os.chmod(keys.path, 0o600)
        assert find(keys) == (CANARY, f"the file {keys.path}")

    @pytest.mark.parametrize("content", [
        b"", b"{", b"[]", b"null", b'{"version": 1}', b'{"version": 1, "keys": []}',
        b'{"version": 1, "keys": {"mine": "sk-canary-3e07"}}',
        b'{"version": 1, "keys": {"mine": {"api_key": ["sk-canary-3e07"]}}}',
        b'{"version": 2, "keys": {"mine": {"api_key": "sk-canary-3e07"}}}',
        b'{"version": 1, "keys": {"mine": {"api_key": "sk-canary-3e07"}}', b"[" * 100_000,
        b"sk-canary-3e07 \xff\xfe",
    ], ids=lambda content: content[:50].decode("latin-1"))  # fmt: skip
    def test_damaged_file_is_not_changed(self, keys: SecretStore, content: bytes) -> None:
        Path(keys.path).write_bytes(content)
        for use in (
            find,
            lambda keys: keys.set("mine", "api_key", Secret("x")),
            lambda keys: keys.remove("mine"),
            SecretStore.kept,
        ):
            with pytest.raises(ConfigurationError) as caught:
                use(keys)
            assert keys.path in str(caught.value)
            assert CANARY not in shown(caught.value)
        assert Path(keys.path).read_bytes() == content

    def test_failed_write(self, keys: SecretStore, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        other = Secret(CANARY[::-1])
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", full)
            with pytest.raises(ConfigurationError, match="No space") as caught:
                keys.set("mine", "api_key", other)
        assert CANARY[::-1] not in shown(caught.value)
        assert find(keys) == (CANARY, f"the file {keys.path}")
        assert not list(Path(keys.path).parent.glob("*.new"))

    def test_what_is_removed_is_gone(self, keys: SecretStore) -> None:
        keys.set("mine", "token", Secret("t"))
        assert keys.remove("mine", "token") == ["token"]
        assert keys.remove("mine", "token") == []
        assert keys.remove("mine") == ["api_key"]
        assert keys.kept() == {}
        assert json.loads(Path(keys.path).read_text()) == {"version": 1, "keys": {}}

    @pytest.mark.process
    def test_processes_that_set_keys_at_once_lose_none(self) -> None:
        code = (
            "import sys; from genai_host.api import Secret\n"
            "from genai_host.secrets.keys import SecretStore\n"
            "SecretStore().set(sys.argv[1], 'api_key', Secret('x'))"
        )
        names = [f"p-{number}" for number in range(8)]
        started = [subprocess.Popen([sys.executable, "-c", code, name]) for name in names]
        assert [process.wait() for process in started] == [0] * 8
        assert sorted(name for name, _ in SecretStore().kept()) == names

    def test_what_is_read_only_takes_no_keys(self) -> None:
        keys = SecretStore(environ={"GENAI_HOST_READ_ONLY": "1"})
        for change in (lambda: keys.set("mine", "api_key", KEY_VALUE), lambda: keys.remove("mine")):
            with pytest.raises(ConfigurationError, match="GENAI_HOST_READ_ONLY is set"):
                change()


class TestKeyring:
    def test_what_it_refuses_is_a_typed_error_without_the_secret(self, ring: Ring) -> None:
        keys = SecretStore(ring=KeyRing(ring), environ={})
        keys.set("mine", "api_key", Secret(CANARY))
        ring.breaks = True
        for use in (
            find,
            lambda keys: keys.set("mine", "api_key", Secret(CANARY)),
            lambda keys: keys.remove("mine"),
        ):
            with pytest.raises(
                ConfigurationError, match=r"cannot (read from|write to) the keyring: "
            ) as caught:
                use(keys)
            assert CANARY not in shown(caught.value)
        ring.breaks = False
        assert find(keys) == (CANARY, "the keyring")

    def test_what_is_removed_is_gone(self, ring: Ring) -> None:
        keys = SecretStore(ring=KeyRing(ring), environ={})
        keys.set("mine", "api_key", Secret("x"))
        assert keys.kept() == {("mine", "api_key"): "the keyring"}
        assert keys.remove("mine") == ["api_key"]
        assert ring.held == {}

    def test_what_it_has_lost_is_an_error(self, ring: Ring) -> None:
        keys = SecretStore(ring=KeyRing(ring), environ={})
        keys.set("mine", "api_key", Secret("x"))
        ring.held.clear()
        with pytest.raises(ConfigurationError, match="no longer has api_key of mine"):
            find(keys)

    def test_without_one_it_says_why(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert (
            "no usable keyring backend on this machine"
            in SecretStore().keyring_unavailable_reason()
        )
        monkeypatch.setitem(sys.modules, "keyring", None)
        assert "keyring is not installed" in SecretStore().keyring_unavailable_reason()

    def test_one_that_the_library_finds_is_used(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import keyring
        from keyring.backend import KeyringBackend

        class Found(Ring, KeyringBackend):
            priority = 1

        backend = Found()
        monkeypatch.setattr(keyring, "get_keyring", lambda: backend)
        assert SecretStore().keyring_unavailable_reason() == ""
        assert SecretStore().set("mine", "api_key", Secret("x")) == "the keyring"
        assert list(backend.held.values()) == ["x"]


def test_a_secret_is_in_no_repr(ring: Ring) -> None:
    keys = SecretStore(ring=KeyRing(ring), environ={"DEFAULT_KEY": CANARY})
    key = keys.find("usual", KEY, kind="usual")
    assert key is not None
    assert key.secret.reveal() == CANARY
    assert CANARY not in repr((keys, key, keys.kept()))


def shown(error: GenaiError) -> str:
    """Whatever of an error may be seen."""
    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__) is not None:
        causes.append(cause)
    return "".join(traceback.format_exception(error)) + repr([vars(cause) for cause in causes])
