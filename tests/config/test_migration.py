"""Keys of version 1: they are read, and a file is rewritten with its comments."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support import Terminal

from genai_host.config import read_config
from genai_host.config.environment import variable_of
from genai_host.config.migration import RENAMED, new_key
from genai_host.config.reader import migrate
from genai_host.errors import ConfigurationError

OLD = """\
# the file of ann
version = 1  # of the form
plugins.allowed = ["chat", "mock"]

[defaults]
embed = "e5"  # for embeddings
moderate = "judge"
prefer = [  # best first
  "mock",  # prefer = "x"
]

[conversations]
'store' = "/data/talks.db"

[server]
hosts = ["a.example"]
cors = ["https://b.example"]
record = true
at_once = 3
waiting = 4
rate = 5
drain = 2.5
log = true
log_json = true  # true: one object a line

[budgets]
run = 0.5
unknown = "refuse"
user = { day = 2 }

[providers.groq]
type = "openai-compatible"

[providers.groq.calls]  # seconds
connect = 2
first_token = 3
idle = 4
total = 5
at_once = 6
line = 7
failures = 8
pause = 9
"""
NEW = """\
# the file of ann
version = 2  # of the form
plugins.allowlist = ["chat", "mock"]

[defaults]
embedding_model = "e5"  # for embeddings
moderation_model = "judge"
provider_order = [  # best first
  "mock",  # prefer = "x"
]

[conversations]
database = "/data/talks.db"

[server]
allowed_hosts = ["a.example"]
cors_origins = ["https://b.example"]
record_api_calls = true
max_concurrency = 3
queue_size = 4
rate_limit = 5
graceful_timeout = 2.5
access_log = true
log_format = "json"  # true: one object a line

[budgets]
per_turn = 0.5
unknown_cost = "refuse"
user = { day = 2 }

[providers.groq]
type = "openai-compatible"

[providers.groq.limits]  # seconds
connect_timeout = 2
first_token_timeout = 3
read_timeout = 4
timeout = 5
max_concurrency = 6
queue_size = 7
breaker_threshold = 8
breaker_reset = 9
"""
MIGRATE = "rename all keys: genai-host config migrate"


@pytest.fixture
def file(home: Path) -> Path:
    path = home / "config" / "config.toml"
    path.parent.mkdir(parents=True)
    return path


def test_the_samples_have_every_key() -> None:
    for old, new in RENAMED.items():
        name = old.rpartition(".")[2]
        assert re.search(rf"\b{name}(\]|'? = )", OLD)
        assert re.search(rf"\b{new}(\]| = )", NEW)


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_a_file_reads_alike_before_and_after(file: Path, terminal: Terminal, end: str) -> None:
    file.write_bytes(OLD.replace("\n", end).encode())
    before = read_config()
    assert before.warnings == (f"{file}:3: plugins.allowed is now plugins.allowlist; {MIGRATE}",)
    assert terminal("config migrate")[0] == 0
    assert file.read_bytes() == NEW.replace("\n", end).encode()
    assert file.with_name("config.toml.bak").read_bytes() == OLD.replace("\n", end).encode()
    assert read_config() == before._replace(warnings=())
    assert terminal("config migrate")[0] == 0
    assert file.read_bytes() == NEW.replace("\n", end).encode()


@pytest.mark.parametrize(("before", "after"), [
    ("server = { at_once = 1, log_json = false }", None),
    ("server.at_once=1", None),
    ('[server]\n"at_once" = 1', "[server]\nmax_concurrency = 1"),
    ("[providers.x]\ntype = 'y'\nat_once = 3", "[providers.x]\ntype = 'y'\nat_once = 3"),
    ("providers.x.calls.idle = 1", "providers.x.limits.read_timeout = 1"),
    ("providers.x = {calls={idle=1}}", "providers.x = {limits={read_timeout=1}}"),
    ("[providers]\nx.type = 'y'\nx.calls.line=1",
     "[providers]\nx.type = 'y'\nx.limits.queue_size=1"),
    ("providers.total.calls.total = 5", "providers.total.limits.timeout = 5"),
    ("[providers.calls.calls]\nidle = 3", "[providers.calls.limits]\nread_timeout = 3"),
    ('providers.x.calls = { proxy = "http://p/?total=1", total = 5 }',
     'providers.x.limits = { proxy = "http://p/?total=1", timeout = 5 }'),
    ("[providers.calls]\ntype = 'y'\nidle = 3", "[providers.calls]\ntype = 'y'\nidle = 3"),
    ("[server.users.log]\ntoken = {env = 'A'}", "[server.users.log]\ntoken = {env = 'A'}"),
])  # fmt: skip
def test_other_layouts(file: Path, before: str, after: str | None) -> None:
    changed = migrate(before, "file")
    expected = before.replace("at_once", "max_concurrency")
    assert changed == (after or expected.replace("log_json = false", 'log_format = "text"'))


def test_a_command_that_changes_a_file_migrates_it(file: Path, terminal: Terminal) -> None:
    code, out, err = terminal("config migrate")
    assert (code, out, err.startswith("no configuration file at ")) == (0, "", True)
    file.write_text(OLD)
    assert terminal("config show")[2].count("genai-host config migrate") == 1
    terminal.out("config set server.max_concurrency=7")
    assert file.read_text() == NEW.replace("max_concurrency = 3", "max_concurrency = 7")


def test_removed_keys_are_deleted_once(file: Path, terminal: Terminal) -> None:
    file.write_text("[server]\npin = true\nport = 1\n")
    assert terminal("config migrate") == (0, "", f"migrated: {file}\n")
    assert file.read_text().split("\n", 1)[0] == "version = 2"
    assert file.read_text().endswith("[server]\nport = 1\n")
    assert terminal("config migrate") == (0, "", f"nothing to migrate: {file}\n")


def test_an_error_has_the_line_of_an_old_key(file: Path) -> None:
    file.write_text("[server]\nport = 1\nat_once = 0\n")
    with pytest.raises(ConfigurationError, match=r":3: server\.max_concurrency must be 1 or"):
        read_config()


@pytest.mark.parametrize("text", ["version = 2\n[server]\n", "[server]\nmax_concurrency = 3\n"])
def test_an_old_key_beside_new_ones_is_an_error(file: Path, text: str) -> None:
    file.write_text(f"{text}at_once = 3\n")
    with pytest.raises(ConfigurationError, match=r"unknown key 'server\.at_once'") as caught:
        read_config()
    assert caught.value.hint == "use max_concurrency"


def test_what_cannot_be_migrated_names_the_keys() -> None:
    text = "server = { root_path = '/, at_once = ', at_once = 3 }"
    with pytest.raises(ConfigurationError, match="cannot migrate file") as caught:
        migrate(text, "file")
    assert "server.at_once is now server.max_concurrency" in caught.value.hint


def test_variables_with_old_names(tmp_path: Path) -> None:
    values = {"server.log_json": "yes", "server.cors": "https://b.example", "budgets.run": "0.5"}
    values |= {"budgets.unknown": "refuse", "conversations.store": "/data/talks.db"}
    values |= dict.fromkeys(("server.at_once", "server.waiting", "server.rate"), "3")
    values |= dict.fromkeys(("server.drain", "server.log", "server.record"), "1")
    keys = {old: old.replace("*", "groq") for old in RENAMED if old != "providers.*.calls"}
    values |= {old: "3" for old in keys if "*" in old}
    environ = {variable_of(*key.split(".")): values.get(old, "x") for old, key in keys.items()}
    new = {variable_of(*new_key(key).split(".")): values.get(old, "x") for old, key in keys.items()}
    new["GENAI_HOST_SERVER__LOG_FORMAT"] = "json"
    config = read_config(environ=environ)
    current = read_config(environ=new)
    assert config._replace(warnings=(), providers={}) == current._replace(providers={})
    (migrated,), (expected,) = config.providers.values(), current.providers.values()
    assert migrated.overrides.keys() == expected.overrides.keys()
    assert set(config.warnings) == {
        f"the environment variable {variable_of(*key.split('.'))} is now "
        f"{variable_of(*new_key(key).split('.'))}"
        for key in keys.values()
    }
    both = {"GENAI_HOST_SERVER__AT_ONCE": "3", "GENAI_HOST_SERVER__MAX_CONCURRENCY": "4"}
    assert read_config(environ=both).server.max_concurrency == 4


@pytest.mark.parametrize(("old", "new"), [
    ("server.at_once", "server.max_concurrency"),
    ("providers.groq.calls.idle", "providers.groq.limits.read_timeout"),
])  # fmt: skip
def test_an_old_key_cannot_be_set(terminal: Terminal, old: str, new: str) -> None:
    assert f"use {new}" in terminal.error("config set", f"{old}=3")
