"""The environment, which comes before the configuration file; the place of the store, and no
password in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import Terminal

from genai_host import Host, StaticPlugins
from genai_host.api import Model
from genai_host.config import (
    BudgetsConfig,
    Config,
    InstanceConfig,
    ServerConfig,
    read_config,
    unread_config,
)
from genai_host.config.environment import is_set, overrides_in, unknown_in, variable_of
from genai_host.config.schema import known_keys
from genai_host.errors import ConfigurationError
from genai_host.store import Store
from genai_host_testing import InlinePlugin


def test_each_key_has_a_variable() -> None:
    environ = {
        "GENAI_HOST_READ_ONLY": "1",
        "GENAI_HOST_DEFAULTS__FEATURE": "agent",
        "GENAI_HOST_DEFAULTS__MODEL": "a",
        "GENAI_HOST_DEFAULTS__EMBEDDING_MODEL": "b",
        "GENAI_HOST_DEFAULTS__MODERATION_MODEL": "c",
        "GENAI_HOST_DEFAULTS__TRANSCRIPTION_MODEL": "d",
        "GENAI_HOST_DEFAULTS__PROVIDER_ORDER": "local, mine",
        "GENAI_HOST_DEFAULTS__REMEMBER": "yes",
        "GENAI_HOST_PLUGINS__DISABLED": "x,d:y",
        "GENAI_HOST_PLUGINS__ALLOWLIST": "z",
        "GENAI_HOST_PLUGINS__STRICT": "TRUE",
        "GENAI_HOST_CONVERSATIONS__RECORD": "no",
        "GENAI_HOST_CONVERSATIONS__DATABASE": "~/talks.db",
        "GENAI_HOST_SERVER__HOST": "::1",
        "GENAI_HOST_SERVER__PORT": "80",
        "GENAI_HOST_SERVER__ALLOWED_HOSTS": "a.example,b.example",
        "GENAI_HOST_SERVER__CORS_ORIGINS": "https://c.example",
        "GENAI_HOST_SERVER__ROOT_PATH": "/host",
        "GENAI_HOST_SERVER__RECORD_API_CALLS": "yes",
        "GENAI_HOST_SERVER__PASS_THROUGH": "yes",
        "GENAI_HOST_SERVER__STRICT": "yes",
        "GENAI_HOST_SERVER__MAX_CONCURRENCY": "3",
        "GENAI_HOST_SERVER__QUEUE_SIZE": "4",
        "GENAI_HOST_SERVER__RATE_LIMIT": "5",
        "GENAI_HOST_SERVER__GRACEFUL_TIMEOUT": "2.5",
        "GENAI_HOST_SERVER__ACCESS_LOG": "1",
        "GENAI_HOST_SERVER__LOG_FORMAT": "json",
        "GENAI_HOST_SERVER__WORKERS": "2",
        "GENAI_HOST_BUDGETS__PER_TURN": "0.5",
        "GENAI_HOST_BUDGETS__UNKNOWN_COST": "refuse",
        "GENAI_HOST_SERVER__CERTFILE": "c.pem",
        "GENAI_HOST_SERVER__KEYFILE": "k.pem",
    }
    assert {variable_of(*key.split(".")) for key in known_keys()} == set(environ)
    assert read_config(environ=environ) == Config(
        feature="agent",
        models={"chat": "a", "embed": "b", "moderate": "c", "transcribe": "d"},
        provider_order=("local", "mine"),
        disabled=("x", "d:y"),
        allowlist=("z",),
        strict=True,
        remember=True,
        read_only=True,
        record=False,
        database="~/talks.db",
        budgets=BudgetsConfig(per_turn=0.5, unknown_cost="refuse"),
        server=ServerConfig(
            host="::1",
            port=80,
            allowed_hosts=("a.example", "b.example"),
            cors_origins=("https://c.example",),
            root_path="/host",
            record_api_calls=True,
            pass_through=True,
            strict=True,
            max_concurrency=3,
            queue_size=4,
            rate_limit=5,
            graceful_timeout=2.5,
            access_log=True,
            log_format="json",
            workers=2,
            certfile="c.pem",
            keyfile="k.pem",
        ),
    )


def test_it_comes_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        '[defaults]\nmodel = "m"\nembedding_model = "e"\n'
        '[providers.big-window]\ntype = "local"\nwindow = 1\n[providers.other]\ntype = "x"\n'
    )
    environ = {
        "GENAI_HOST_DEFAULTS__MODEL": "n",
        "GENAI_HOST_PROVIDERS__BIG_WINDOW__WINDOW": "8192",
        "GENAI_HOST_PROVIDERS__BIG_WINDOW__LIMITS__TIMEOUT": "900",
        "GENAI_HOST_PROVIDERS__OTHER__ENABLED": "false",
        "GENAI_HOST_PROVIDERS__OPENAI__BASE_URL": "u",
        "GENAI_HOST_PROVIDERS__NEW__TYPE": "x",
    }
    config = read_config(file, environ=environ)
    assert config.models == {"chat": "n", "embed": "e"}
    assert config.providers == {
        "big-window": InstanceConfig(
            "local",
            settings={"window": 1},
            overrides={
                "window": "GENAI_HOST_PROVIDERS__BIG_WINDOW__WINDOW",
                "limits.timeout": "GENAI_HOST_PROVIDERS__BIG_WINDOW__LIMITS__TIMEOUT",
            },
        ),
        "other": InstanceConfig("x", enabled=False),
        "openai": InstanceConfig(
            "openai", overrides={"base_url": "GENAI_HOST_PROVIDERS__OPENAI__BASE_URL"}
        ),
        "new": InstanceConfig("x"),
    }
    assert "8192" not in repr(config)  # it may be a secret as well


def test_an_empty_variable_is_not_set() -> None:
    assert overrides_in({"GENAI_HOST_DEFAULTS__MODEL": ""}) == {}
    assert not is_set("GENAI_HOST_READ_ONLY", {"GENAI_HOST_READ_ONLY": ""})


@pytest.mark.parametrize(("variable", "hint"), [
    *(
        (f"GENAI_HOST_PROVIDERS__{name}", "GENAI_HOST_PROVIDERS__MY_NAME__BASE_URL")
        for name in ("X", "__WINDOW", "X__MODELS__M", "X__LIMITS", "X__A__B")
    ),
    ("GENAI_HOST_TOOLS__X", "GENAI_HOST_TOOLS__MY_NAME__FOLDER"),
    ("GENAI_HOST_TOOLS__X__A__B", "GENAI_HOST_TOOLS__MY_NAME__FOLDER"),
])  # fmt: skip
def test_one_that_names_no_setting_is_refused(variable: str, hint: str) -> None:
    with pytest.raises(ConfigurationError, match=variable) as caught:
        read_config(environ={variable: "sk-canary"})
    assert hint in caught.value.hint
    assert "sk-canary" not in str(caught.value)


@pytest.mark.parametrize(("variable", "hint"), [
    ("GENAI_HOST_DEFAULTS_MODEL", "did you mean GENAI_HOST_DEFAULTS__MODEL?"),
    ("GENAI_HOST_DEFAULTS__MODL", "did you mean GENAI_HOST_DEFAULTS__MODEL?"),
    ("GENAI_HOST_CONFG", "did you mean GENAI_HOST_CONFIG?"),
    ("GENAI_HOST_SERVER_PORT", "did you mean GENAI_HOST_SERVER__PORT?"),
])  # fmt: skip
def test_item_7_one_that_is_not_known_is_ignored_with_a_warning(
    variable: str, hint: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert read_config(environ={variable: "sk-canary"}) == Config()
    assert unknown_in({variable: "sk-canary"}) == {variable: hint}
    monkeypatch.setenv(variable, "sk-canary")
    with Host(discovery=StaticPlugins({})):
        pass
    [record] = caplog.records
    assert record.getMessage() == f"the environment variable {variable} is ignored: {hint}"


@pytest.mark.parametrize(("variable", "value"), [
    ("GENAI_HOST_PORT", "tcp://10.96.0.7:80"),
    ("GENAI_HOST_SERVICE_HOST", "10.96.0.7"),
    ("GENAI_HOST_SERVICE_PORT", "80"),
    ("GENAI_HOST_SERVICE_PORT_HTTP", "80"),
    ("GENAI_HOST_PORT_80_TCP", "tcp://10.96.0.7:80"),
    ("GENAI_HOST_PORT_80_TCP_PROTO", "tcp"),
    ("GENAI_HOST_PORT_80_TCP_PORT", "80"),
    ("GENAI_HOST_PORT_80_TCP_ADDR", "10.96.0.7"),
    ("GENAI_HOST_WEB_PORT", "tcp://10.96.0.8:8080"),
    ("GENAI_HOST_WEB_SERVICE_HOST", "10.96.0.8"),
    ("GENAI_HOST_VERSION", "0.1.0"),
    ("GENAI_HOST_SHA256", "a1"),
    ("GENAI_HOST_NONSENSE", ""),
    ("GENAI_HOST_PROVIDERS__X", ""),
])  # fmt: skip
def test_item_7_variables_of_kubernetes_are_ignored(variable: str, value: str) -> None:
    """A Service named genai-host, or genai-host-web, of the same namespace."""
    assert read_config(environ={variable: value}) == Config()
    assert unknown_in({variable: value}) == {}


@pytest.mark.parametrize("name", ["PLUGINS__STRICT", "READ_ONLY", "SAFE"])
def test_one_of_another_kind_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"GENAI_HOST_{name} must be true or false"):
        read_config(environ={f"GENAI_HOST_{name}": "maybe"})


def test_those_of_the_tests_and_of_others_are_none_of_ours() -> None:
    environ = {"GENAI_HOST_TEST_X": "1", "GENAI_HOSTS": "1", "genai_host_y": "1", "PATH": "/"}
    assert read_config(environ=environ) == Config()


class TestSafeMode:
    @pytest.mark.parametrize(
        ("value", "safe"), [("1", True), ("yes", True), ("0", False), ("", False)]
    )
    def test_the_environment_alone_says_so(self, value: str, safe: bool) -> None:
        assert read_config(environ={"GENAI_HOST_SAFE": value}) == Config(safe=safe)

    @pytest.mark.parametrize("value", ["1", "maybe"])
    def test_configuration_not_in_order(self, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
        monkeypatch.setenv("GENAI_HOST_SAFE", value)
        assert unread_config() == Config(safe=True)

    def test_plugins_of_third_parties_are_blocked(self) -> None:
        safe = Config(safe=True)
        assert safe.blocks("mine", "genai-vendor-mine") == "of a third party (safe mode)"
        for ours in ("genai-host", "genai-vendor-mock", "Genai_Vendor.Mock"):
            assert safe.blocks("mock", ours) == ""
        assert Config().blocks("mine", "genai-vendor-mine") == ""

    def test_plugins_that_are_given_are_not(self) -> None:
        plugins = StaticPlugins({"mine": InlinePlugin(models=[Model("m", ["plain"])])})
        with Host(config=Config(safe=True), discovery=plugins) as host:
            assert list(host.registry.models) == ["m"]


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
