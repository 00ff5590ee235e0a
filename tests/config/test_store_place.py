"""The place of the store: where the configuration says, and no password in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import Terminal

from genai_host.config import read_config
from genai_host.errors import ConfigurationError
from genai_host.store import Store

VARIABLE = "GENAI_HOST_CONVERSATIONS__DATABASE"
PASSWORDS = [
    "postgresql://ada:s3cret@host/talks", "postgresql://ada:s3cret/more@host/talks",
    "postgresql+psycopg://ada:s3cret@host:5432/talks", "postgresql://ada:s3cret:more@[::1]/talks",
    "postgresql://host/talks?user=ada&password=s3cret", "postgresql://host/talks?p%61ssword=s3cret",
    "postgresql://ada@host/talks?SSLpassword=s3cret",
]  # fmt: skip


def written(folder: Path, place: str) -> Path:
    file = folder / "config.toml"
    file.write_text(f"version = 2\n[conversations]\ndatabase = '{place}'\n", encoding="utf-8")
    return file


@pytest.mark.parametrize("place", PASSWORDS)
def test_a_password_is_refused_and_never_shown(tmp_path: Path, place: str) -> None:
    file = written(tmp_path, place)
    for where, environ in (("config.toml:3: .*", {}), (VARIABLE, {VARIABLE: place})):
        with pytest.raises(
            ConfigurationError, match=f"{where} must not contain a password"
        ) as caught:
            read_config(None if environ else file, environ=environ)
        assert "PGPASSWORD" in caught.value.hint
        assert "s3cret" not in f"{caught.value}{caught.value.hint}"


@pytest.mark.parametrize("place", [
    "postgresql://host/talks", "postgresql://ada@host:5432/talks",
    "postgresql://ada@/talks?host=/run/postgresql", "postgresql://[::1]:5432/talks?sslmode=require",
    "~/talks.db", "/data/talks.db", "",
])  # fmt: skip
def test_places_without_one_are_taken(tmp_path: Path, place: str) -> None:
    assert read_config(written(tmp_path, place)).database == place
    assert read_config(environ={VARIABLE: place}).database == place


def test_a_file_needs_its_whole_path(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="must be an absolute path"):
        read_config(written(tmp_path, "talks.db"))


class TestCommands:
    @pytest.mark.part
    def test_they_keep_conversations_there(self, terminal: Terminal, home: Path) -> None:
        terminal.monkeypatch.setenv("HOME", str(home))
        terminal.configure('[conversations]\ndatabase = "~/mine/talks.db"\n')
        assert terminal("ask -p mock", "said here")[0] == 0
        with Store(home / "mine" / "talks.db") as store:
            assert [each.title for each in store.conversations()] == ["said here"]
        with Store() as usual:
            assert not Path(usual.location).exists()
        assert "said here" in terminal("conversations list")[1]
        assert terminal("ask -p mock -c", "said next")[0] == 0
        assert str(home / "mine" / "talks.db") in terminal("doctor")[1]

    def test_a_variable_comes_first(self, terminal: Terminal, home: Path) -> None:
        terminal.configure('[conversations]\ndatabase = "/nowhere/at/all.db"\n')
        terminal.monkeypatch.setenv(VARIABLE, str(home / "here.db"))
        assert terminal("ask -p mock", "said here")[0] == 0
        with Store(home / "here.db") as store:
            assert [each.title for each in store.conversations()] == ["said here"]

    def test_a_password_is_not_set(self, terminal: Terminal) -> None:
        err = terminal.error(f"config set conversations.database={PASSWORDS[0]}")
        assert ("must not contain a password" in err, "s3cret" in err) == (True, False)
        terminal.out("config set conversations.database=postgresql://ada@host/x")
        assert "postgresql://ada@host/x" in terminal("config show")[1]
