"""The configuration file: read whole, checked, written atomically."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import tomlkit
from filelock import FileLock

from genai_host import paths
from genai_host.config import (
    Config,
    InstanceConfig,
    ModelConfig,
    ServerConfig,
    SetConfig,
    edit_config,
    read_config,
)
from genai_host.config.reader import line_of
from genai_host.errors import ConfigurationError
from genai_host.providers.config_edits import set_keys
from genai_host.util.files import write_text

_WHOLE = """
version = 2
read_only = true

[defaults]
feature = "agent"
model = "smollm2"
embedding_model = "e5"
provider_order = ["local", "mine"]
remember = true

[aliases]
fast = "smollm2@local"

[models."gpt-5.5"]
of = "gpt-5.5"
provider_order = ["mine"]
parameters = { temperature = 0, stop = ["x"] }

[approvals]
send_mail = "ask"

[tools.files]
folder = "/notes"

[server.service_tools]
web_search = "ddgs__search"

[plugins]
disabled = ["a", "dist:b"]
allowlist = ["c"]
strict = true

[providers.mine]
type = "local"
enabled = false
models = { own = "/m/own.gguf" }
threads = 2
"""

_OPEN = _WHOLE.replace("read_only = true\n", "")


@pytest.fixture
def file(home: Path) -> Path:
    path = home / "config" / "config.toml"
    path.parent.mkdir(parents=True)
    return path


def refused(match: str | None = None) -> ConfigurationError:
    """The error of a file that is not opened for editing."""
    with pytest.raises(ConfigurationError, match=match) as caught, edit_config():
        pytest.fail("it was opened for editing")
    return caught.value


def test_all_that_a_file_can_say(file: Path) -> None:
    file.write_text(_WHOLE)
    assert read_config() == Config(
        feature="agent",
        models={"chat": "smollm2", "embed": "e5"},
        provider_order=("local", "mine"),
        disabled=("a", "dist:b"),
        allowlist=("c",),
        strict=True,
        providers={"mine": InstanceConfig("local", False, {"own": "/m/own.gguf"}, {"threads": 2})},
        aliases={"fast": "smollm2@local"},
        model_configs={
            "gpt-5.5": ModelConfig("gpt-5.5", ("mine",), {"temperature": 0, "stop": ["x"]})
        },
        approvals={"send_mail": "ask"},
        server=ServerConfig(service_tools={"web_search": "ddgs__search"}),
        tools={"files": SetConfig({"folder": "/notes"})},
        remember=True,
        read_only=True,
        file=str(file),
    )


def test_a_removed_key_is_ignored_with_a_warning(file: Path) -> None:
    file.write_text("[server]\nport = 1\npin = true\n")
    config = read_config()
    assert config.server.port == 1
    [warning] = config.warnings
    assert warning.startswith(f"{file}:3: server.pin is ignored: ")


def test_misplaced_file_is_named(home: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("[server]\nport = 1\n")
    assert read_config().warnings == ()
    wrong = home / "config.toml"
    wrong.write_text("[server]\nport = 2\n")
    warning = f"{wrong} is not read: the configuration is {file}"
    config = read_config()
    assert (config.server.port, config.warnings) == (1, (warning,))
    file.unlink()
    assert read_config().warnings == (warning,)
    assert read_config(wrong).warnings == ()
    monkeypatch.setenv("GENAI_HOST_CONFIG", str(wrong))
    assert (read_config().server.port, read_config().warnings) == (2, ())


def test_a_file_may_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_config() == Config()
    assert Config().feature == "chat"
    named = tmp_path / "new" / "other.toml"
    monkeypatch.setenv("GENAI_HOST_CONFIG", str(named))
    with edit_config() as document:
        document["defaults"] = {"feature": "x"}
    assert read_config().feature == "x"
    monkeypatch.delenv("GENAI_HOST_CONFIG")
    assert read_config(named).feature == "x"


@pytest.mark.parametrize(("text", "where", "hint"), [
    ("defalts = 1", "unknown key 'defalts'", "did you mean defaults?"),
    ("[defaults]\nmodell = 'x'", "unknown key 'defaults.modell'", "did you mean model?"),
    ("[tools]\nfiles = 1", "tools.files must be a table, not an integer", ""),
    ("[tools.Files]\na = 1", "tools.Files is not a valid tool set name", "lower-case"),
    ("[plugins]\nzzz = 1", "unknown key 'plugins.zzz'", "choose from disabled, allowlist, strict"),
    ("defaults = 3", "defaults must be a table, not an integer", ""),
    ("[defaults]\nfeature = 3", "defaults.feature must be a string, not an integer", ""),
    ("[defaults]\nmodel = 3", "defaults.model must be a string", ""),
    ("[defaults]\nprovider_order = 'x'", "defaults.provider_order must be a list of strings", ""),
    ("[plugins]\ndisabled = [1]", "plugins.disabled must be a list of strings", ""),
    ("[plugins]\nstrict = 1", "plugins.strict must be true or false, not an integer", ""),
    ("[providers.x]\nthreads = 1", "providers.x must have a type", ""),
    ("[providers]\nx = 1", "providers.x must be a table", ""),
    ("[providers.x]\ntype = 1", "providers.x.type must be a string", ""),
    ("[providers.x]\ntype = 'a'\nenabled = 1", "providers.x.enabled must be true or false", ""),
    ("[providers.x]\ntype = 'a'\nmodels.m = 1", "providers.x.models.m must be a string", ""),
    ("[providers.'Not Plain']\ntype = 'a'", "is not a valid provider name", "lower-case"),
    ("version = 3", "version 3 is newer", "genai-host upgrade genai-host"),
])  # fmt: skip
def test_wrong_value_is_named(file: Path, text: str, where: str, hint: str) -> None:
    file.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        read_config()
    assert where in str(caught.value)
    assert hint in caught.value.hint
    assert caught.value.file == str(file)


@pytest.mark.parametrize("content", [b"[", b"\xff", b"a = 1\na = 2"])
def test_a_file_that_is_no_toml_is_never_overwritten(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    refused()
    assert file.read_bytes() == content


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_names_the_encoding(file: Path, encoding: str) -> None:
    """Notepad and PowerShell write one."""
    file.write_bytes('version = 1\naliases = {a = "Köln"}\n'.encode(encoding))
    assert read_config().aliases == {"a": "Köln"}


@pytest.mark.parametrize("end", [b"\r\n", b"\n"], ids=["alike", "different"])
def test_line_ends_are_kept(file: Path, end: bytes) -> None:
    before = b"version = 2\r\n# mine\r\n[defaults]" + end + b'model = "a"\r\n'
    file.write_bytes(before)
    with edit_config() as document:
        document["defaults"]["model"] = "b"
    assert file.read_bytes() == before.replace(b'"a"', b'"b"')


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_new_lines_end_as_those_of_the_file(file: Path, end: str) -> None:
    before = 'version = 2\n[aliases]\na = """one\ntwo"""\n'
    file.write_bytes(before.replace("\n", end).encode())
    with edit_config() as document:
        document["aliases"]["b"] = "c"
    added = f'{before}b = "c"\n'
    assert file.read_bytes().decode() == added.replace("\n", end)


def test_named_file_must_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="cannot read"):
        read_config(tmp_path)
    missing = tmp_path / "typo.toml"
    with pytest.raises(ConfigurationError, match="no such file"):
        read_config(missing)
    monkeypatch.setenv("GENAI_HOST_CONFIG", str(missing))
    with pytest.raises(ConfigurationError, match="no such file") as caught:
        read_config()
    assert caught.value.file == str(missing)
    assert "GENAI_HOST_CONFIG" in caught.value.hint


@pytest.mark.parametrize("text", ["a = " + "[" * 3_000, "a" + ".a" * 3_000 + " = 1"])
def test_what_is_nested_too_deeply_is_told(file: Path, text: str) -> None:
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=re.escape(str(file))):
        read_config()
    refused(re.escape(str(file)))


@pytest.mark.parametrize("depth", range(50, 1_000, 50))
def test_however_deep_it_is_nested_it_can_be_changed_or_not(file: Path, depth: int) -> None:
    """Reading it and changing it do not go the same way: one may take more than the other."""
    text = f"[providers.x]\ntype = 'y'\na = {'[' * depth}{']' * depth}\n"
    file.write_text(text)
    try:
        with edit_config() as document:
            document["version"] = 1
    except ConfigurationError:
        assert file.read_text() == text


class TestEditing:
    def test_comments_and_order_stay(self, file: Path) -> None:
        before = "# mine\n[plugins]  # these\nstrict = true\n\n[defaults]\nmodel = 'a'\n"
        file.write_text(before)
        for _ in range(2):  # the second change is none
            with edit_config() as document:
                document["defaults"]["model"] = "b"
        text = file.read_text()
        assert text.startswith("# mine\n")
        assert "[plugins]  # these\nstrict = true\n\n[defaults]" in text
        assert read_config().models == {"chat": "b"}
        backup = file.with_name("config.toml.bak")
        assert backup.read_text() == before
        assert stat.S_IMODE(backup.stat().st_mode) == 0o600

    def test_a_new_file_has_a_version_and_is_the_users_alone(self, home: Path) -> None:
        with edit_config() as document:
            document["defaults"] = {"feature": "x"}
        file = Path(paths.config_file())
        assert "version = 2" in file.read_text()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600

    def test_the_file_keeps_its_permissions(self, file: Path) -> None:
        file.write_text(_OPEN)
        file.chmod(0o644)
        with edit_config() as document:
            document["defaults"]["model"] = "b"
        assert stat.S_IMODE(file.stat().st_mode) == 0o644

    def test_another_group_may_not_read(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        file.write_text(_OPEN)
        file.chmod(0o640)
        status = os.stat(file)
        theirs = os.stat_result((*status[:5], status.st_gid + 1, *status[6:]))
        look = os.stat

        def stat_of(path: str) -> os.stat_result:
            return theirs if path == str(file) else look(path)

        def refuse(*_: object) -> None:
            raise PermissionError

        monkeypatch.setattr("genai_host.util.files.os.stat", stat_of)
        monkeypatch.setattr("genai_host.util.files.os.chown", refuse)
        write_text(str(file), "x = 1")
        monkeypatch.undo()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600

    def test_an_error_amid_a_change_leaves_the_file_alone(self, file: Path) -> None:
        file.write_text(_OPEN)
        with pytest.raises(ConfigurationError, match="nonsense"), edit_config() as document:
            document["nonsense"] = 1
        with pytest.raises(ZeroDivisionError), edit_config() as document:
            document["defaults"]["model"] = "b"
            raise ZeroDivisionError
        assert file.read_text() == _OPEN
        assert {each.name for each in file.parent.iterdir()} == {file.name, f"{file.name}.lock"}

    def test_failed_write(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        file.write_text(_OPEN)

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "replace", full)
        cannot = "cannot write .*: No space"
        with pytest.raises(ConfigurationError, match=cannot), edit_config() as document:
            document["defaults"]["model"] = "b"
        assert file.read_text() == _OPEN
        assert not list(file.parent.glob("*.new"))

    @pytest.mark.parametrize("name", [
        *("a-file/config.toml", "a-file/folder/config.toml"),
        pytest.param(
            "/proc/config.toml",
            marks=pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="Linux has it"),
        ),
    ])  # fmt: skip
    def test_no_place(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        (tmp_path / "a-file").touch()
        monkeypatch.setenv("GENAI_HOST_CONFIG", str(tmp_path / name))
        assert "GENAI_HOST_CONFIG" in refused("cannot write ").hint

    @pytest.mark.part
    def test_lock_of_another_process(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("genai_host.util.files._SECONDS", 0.01)
        with FileLock(f"{file}.lock"):
            refused("another process")
        with edit_config():
            pass

    @pytest.mark.parametrize("exists", [True, False])
    def test_a_link_stays_one(self, file: Path, tmp_path: Path, exists: bool) -> None:
        target = tmp_path / "dotfiles" / "config.toml"
        target.parent.mkdir()
        if exists:
            target.write_text("# mine\n")
        file.symlink_to(target)
        with edit_config() as document:
            document["defaults"] = {"feature": "x"}
        assert file.is_symlink()
        assert target.read_text().startswith("# mine\n" if exists else "version = 2")
        assert read_config().feature == "x"

    @pytest.mark.process
    def test_processes_that_change_it_at_once_lose_nothing(self, home: Path) -> None:
        code = (
            "import sys; from genai_host.config import edit_config\n"
            "with edit_config() as document:\n"
            "    document.setdefault('plugins', {}).setdefault('disabled', [])"
            ".append(sys.argv[1])"
        )
        names = [f"plugin-{number}" for number in range(8)]
        started = [subprocess.Popen([sys.executable, "-c", code, name]) for name in names]
        assert [process.wait() for process in started] == [0] * 8
        assert sorted(read_config().disabled) == names


@pytest.mark.parametrize(("config", "theirs", "ours"), [
    (Config(), "", ""),
    (Config(disabled=["p"]), "disabled", "disabled"),
    (Config(disabled=["d:p"]), "disabled", ""),
    (Config(disabled=["other:p"]), "", ""),
    (Config(allowlist=["p"]), "", ""),
    (Config(allowlist=["d:p"]), "", ""),
    (Config(allowlist=[]), "not on the list of allowed plugins", ""),
    (Config(allowlist=["p"], disabled=["p"]), "disabled", "disabled"),
])  # fmt: skip
def test_which_plugins_are_blocked(config: Config, theirs: str, ours: str) -> None:
    assert (config.blocks("p", "d"), config.blocks("p", "genai-host")) == (theirs, ours)


class TestLines:
    TEXT = """\
# comment
defaults.feature = "x"
[providers."a"]
type = "t"
models = { m = "a.b" }
limits.first_token_timeout = 1
note = \"\"\"
type = "no"
[providers.b]
\"\"\"
list = [
  "x",
]

[ providers . b ] # spaced
'type' = "u"
headers = { a = "1", b = "2" }
[aliases]
"a.b" = "c"
"""

    @pytest.mark.parametrize(("key", "line"), [
        (["defaults", "feature"], 2),
        (["providers", "a"], 3),
        (["providers", "a", "type"], 4),
        (["providers", "a", "models", "m"], 5),
        (["providers", "a", "limits", "first_token_timeout"], 6),
        (["providers", "a", "note"], 7),
        (["providers", "a", "list"], 11),
        (["providers", "b", "type"], 16),
        (["providers", "b", "headers", "b"], 17),
        (["aliases", "a.b"], 19),
        (["providers", "b", "unset"], 15),
        (["nowhere"], None),
    ])  # fmt: skip
    def test_each_key_has_its_line(self, key: list[str], line: int | None) -> None:
        assert line_of(self.TEXT, key) == line
        assert line_of(self.TEXT.replace("\n", "\r\n"), key) == line

    @pytest.mark.parametrize(("text", "line"), [
        ("version = 1\n\n[defaults]\nmodell = 'x'", 4),
        ("[providers.x]\ntype = 'a'\nmodels = = {}", 3),
        ("version = 1\ndefaults = 3", 2),
        ("[providers.x]\n\nthreads = 1", 1),
        ("[aliases]\nfast = ''", 2),
        ("[aliases]\nfast = 'b'\n[models.a]\nof = 'fast'\n[models.b]\nof = 'a@x'", 2),
        ("[aliases]\nfast = 'b'\n[models.fast]\nof = 'x'", 3),
        ("[models.a]\nparameters = {}", 1),
        ("[models.a]\nof = 'x'\n\nparam = {}", 4),
        ("[models.'a/b']\nof = 'x'", 1),
        ("[models.a]\nof = 'x'\nprovider_order = 'x'", 3),
        ("[models.a]\nof = 'x'\nparameters.seed = 2030-01-01", 3),
        ("[approvals]\nroll = 'perhaps'", 2),
        ("[approvals]\nroll = true", 2),
        ("[approvals]\n'*_delete' = 'deny'", 2),
        ("[approvals]\n'git__*_delete*' = 'deny'", 2),
        ("[server.service_tools]\nweb_search = 1", 2),
        ("[server.service_tools]\n\nsearch = 'find'", 3),
        ("[aliases]\n'a b' = 'x'", 2),
        ("read_only = 1", 1),
    ])  # fmt: skip
    def test_an_error_has_it(self, file: Path, text: str, line: int) -> None:
        file.write_text(text)
        with pytest.raises(ConfigurationError) as caught:
            read_config()
        assert caught.value.line == line
        assert f"{file}" in str(caught.value)
        assert str(line) in str(caught.value)


def test_what_cannot_be_written_as_it_is_meant_is_refused(file: Path) -> None:
    file.write_text("version = 1\n")
    with pytest.raises(ConfigurationError, match="cannot change"), edit_config() as document:
        document["defaults"] = {"model": "\udcff"}
    assert file.read_text() == "version = 1\n"


def test_what_a_newer_version_wrote_is_neither_read_nor_changed(file: Path) -> None:
    file.write_text("version = 3\n[future]\n")
    for use in (read_config, lambda: edit_config().__enter__()):
        with pytest.raises(ConfigurationError, match="3 is newer than this genai-host") as caught:
            use()
        assert caught.value.line == 1
        assert "upgrade" in caught.value.hint


def test_what_would_be_written_otherwise_than_it_is_meant_is_refused(file: Path) -> None:
    """What keeps the layout does not know how to put a table amid dotted keys."""
    before = 'providers.a.type = "x"\nproviders.a.limits.timeout = 1\n'
    file.write_text(before)
    with pytest.raises(ConfigurationError, match="in this way"), edit_config() as document:
        document["providers"]["b"] = {"type": "y"}
    assert file.read_text() == before


@pytest.mark.parametrize(("key", "value", "wrong"), [
    ("max_concurrency", "0", "must be 1 or more"),
    ("queue_size", "-3", "must be 0 or more"),
    ("rate_limit", "0", "must be 1 or more"),
    ("workers", "0", "must be 1 to 1000"),
    ("workers", "1000000", "must be 1 to 1000"),
    ("max_concurrency", "9" * 30, "must be 1 to 1000000000000000"),
    ("graceful_timeout", "inf", "must be 0 to 1000000000000000"),
    ("graceful_timeout", "-0.5", "must be 0 or more"),
    ("graceful_timeout", "nan", "must be 0 or more"),
    ("port", "65536", "must be 0 to 65535"),
])  # fmt: skip
def test_item_7_wrong_number_is_refused(file: Path, key: str, value: str, wrong: str) -> None:
    """In the file, in the environment, and by `config set`, which writes nothing."""
    with pytest.raises(ConfigurationError, match=f"server.{key} {wrong}"):
        set_keys(tomlkit.document(), {}, {f"server.{key}": value})
    variable = f"GENAI_HOST_SERVER__{key.upper()}"
    with pytest.raises(ConfigurationError, match=f"{variable} {wrong}"):
        read_config(environ={variable: value})
    file.write_text(f"[server]\n{key} = {value}\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=f"server.{key} {wrong}"):
        read_config()


def test_read_only(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = "the configuration is read-only: "
    for text, mode, why in (
        ("version = 1\nread_only = true\n", 0o600, f"{file}:2 sets read_only"),
        ("version = 1\n", 0o400, f"{file} is not writable"),
    ):
        file.write_text(text)
        file.chmod(mode)
        error = refused()
        assert (str(error), error.hint) == (prefix + why, "")
        assert file.read_text() == text
    file.unlink()
    monkeypatch.setenv("GENAI_HOST_READ_ONLY", "1")
    error = refused()
    assert (str(error), error.hint) == (f"{prefix}GENAI_HOST_READ_ONLY is set", "")
    assert not file.exists()
