"""Changes to the configuration: checked before anything is written, and nothing else moves."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import pytest
from attrs import field, frozen, validators as must
from hypothesis import given, strategies as st

from genai_host.api import Provider, ProviderType, Secret, Services, about
from genai_host.config import edit_config, read_config
from genai_host.config.reader import parse
from genai_host.config.schema import TABLES
from genai_host.errors import ConfigurationError
from genai_host.providers.config_edits import (
    add_instance,
    enable_instance,
    remove_instance,
    set_keys,
    split_key,
    unset_keys,
)
from genai_host_testing.internal.configs import provider_config

_BEFORE = [
    "",
    "# nothing but this\n",
    """\
# first
version = 2   # its version
[defaults]  # what is usual
model = "a"  # this one

# between
provider_order = [  # best first
    "x",  # the best
    "y",
]
[providers.own] # mine
type = "made"   # of this type
text = 'old'    # and text
table = { a = "1" }  # inline
# in the middle
[providers.own.models]
"m.1" = "id"  # dotted
# at the end
""",
    """\
# with dots
defaults.model = "a"  # usual
providers.own.type = "made"  # dotted
providers.own.limits.timeout = 9.5  # bound
providers.own.models = { m = "i" }  # inline
# the end
""",
    """\
[providers]  # all of them
own = { type = "made", text = "t" }  # inline
[aliases]
fast = "a"  # an alias
""",
    '[providers.own]\ntype = "made"\r\n# windows\r\n[defaults]\r\nmodel = "a"\r\n',
]


@frozen
class Settings:
    text: str = field(default="", metadata=about("a text"))
    count: int = field(default=0, metadata=about("a number"), validator=must.ge(-(10**6)))
    ratio: float | None = field(default=None, metadata=about("a fraction"))
    flag: bool = field(default=False, metadata=about("yes or no"))
    words: list[str] = field(factory=list, metadata=about("several"))
    table: Mapping[str, Any] = field(factory=dict, metadata=about("by name"))
    mode: Literal["fast", "slow"] = field(default="fast", metadata=about("how"))
    api_key: Secret | None = field(default=None, metadata=about("its key", env="MADE_KEY"))


@frozen
class Needing:
    address: str = field(metadata=about("where"))
    token: Secret = field(metadata=about("its token"))


def _unopened(settings: Any, services: Services) -> Provider:
    raise NotImplementedError


TYPES: dict[str, ProviderType[Any]] = {
    "made": ProviderType("made", Settings, _unopened),
    "needing": ProviderType("needing", Needing, _unopened),
}

_plain = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=20)
_names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,8}", fullmatch=True)
_json: Any = st.recursive(
    st.booleans() | st.integers(-(2**53), 2**53) | _plain,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_plain, inner, max_size=3),
    max_leaves=6,
)
_values: dict[str, Any] = {
    "text": _plain, "count": st.integers(-(10**6), 10**6),
    "ratio": st.floats(allow_nan=False, allow_infinity=False), "flag": st.booleans(),
    "words": st.lists(_plain, max_size=4), "table": st.dictionaries(_plain, _json, max_size=3),
    "mode": st.sampled_from(["fast", "slow"]),
}  # fmt: skip


@st.composite
def _changes(draw: Any) -> dict[str, tuple[str, Any]]:
    """Keys, to their values as text and as they are read."""
    chosen: dict[str, tuple[str, Any]] = {}
    for name in draw(st.lists(st.sampled_from([*_values]), unique=True, max_size=4)):
        value = draw(_values[name])
        text = value if isinstance(value, str) else json.dumps(value)
        chosen[f"providers.{draw(st.sampled_from(['own', 'made']))}.{name}"] = text, value
    for model in draw(st.lists(_plain.filter(bool), unique=True, max_size=2)):
        id = draw(_plain)
        chosen[f"providers.own.models.{model}"] = id, id
    if draw(st.booleans()):
        chosen["providers.own.limits.read_timeout"] = "7", 7
    if draw(st.booleans()):
        chosen[f"aliases.{draw(_names)}.x"] = "some/model", "some/model"
    if draw(st.booleans()):
        model = draw(_plain)
        chosen["defaults.model"] = model, model
    if draw(st.booleans()):
        chosen["plugins.strict"] = "true", True
    return chosen


@given(before=st.sampled_from(_BEFORE), changes=_changes())
def test_set_reads_back(tmp_path: Path, before: str, changes: dict[str, tuple[str, Any]]) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(before.encode())
    expected = copy.deepcopy(parse(before, "before"))
    expected["version"] = 2
    for name in {split_key(key)[1] for key in changes if key.startswith("providers")}:
        expected.setdefault("providers", {}).setdefault(name, {"type": "made"})
    for key, (_, value) in changes.items():
        *tables, last = split_key(key)
        inner = expected
        for table in tables:
            inner = inner.setdefault(table, {})
        inner[last] = value
    with edit_config(file) as document:
        types = {**TYPES, "own": TYPES["made"]}
        if "own" not in parse(before, "before").get("providers", {}):
            add_instance(document, types, "own", "made", {})
            expected.setdefault("providers", {}).setdefault("own", {"type": "made"})
        set_keys(document, types, {key: text for key, (text, _) in changes.items()})
    after = file.read_text(encoding="utf-8")
    assert parse(after, "after") == expected
    for comment in re.findall(r"#[^\r\n]*", before):
        assert comment in after
    read_config(file, environ={})


def add(name: str, kind: str, **values: str) -> None:
    with edit_config() as document:
        add_instance(document, TYPES, name, kind, values)


def set_in(keys: Mapping[str, str]) -> None:
    with edit_config() as document:
        set_keys(document, TYPES, keys)


class TestValues:
    @pytest.mark.parametrize(("key", "text", "says"), [
        ("providers.own.cuont", "1", "unknown setting 'providers.own.cuont'"),
        ("providers.own.count", "x", "providers.own.count: expected an integer"),
        ("providers.own.count", "-10000000", "'count' must be >="),
        ("providers.own.mode", "medium", "providers.own.mode: "),
        ("providers.own.ratio", "null", "TOML does not support null"),
        ("providers.own.table", '{"a": null}', "TOML does not support null"),
        ("providers.own.limits.read_timeout", "-1", "'read_timeout' must be > 0"),
        ("providers.own.limits.read_timeuot", "1",
         "unknown setting 'providers.own.limits.read_timeuot'"),
        ("providers.own.enabled", "maybe", "must be true or false"),
        ("providers.own.type", "unmade", "unknown provider type 'unmade'"),
        ("providers.nobody.text", "x", "unknown provider 'nobody'"),
        ("providers.own.table.a", "x", "unknown configuration key 'providers.own.table.a'"),
        ("providers.own", "x", "unknown configuration key 'providers.own'"),
        ("providers.own.models", "x", "unknown configuration key"),
        ("defaults.modell", "x", "unknown configuration key 'defaults.modell'"),
        ("version", "3", "unknown configuration key 'version'"),
        ("plugins.strict", "perhaps", "plugins.strict must be true or false, not 'perhaps'"),
        ("aliases.a b", "x", "is not a valid alias"),
    ])  # fmt: skip
    def test_one_that_is_wrong_is_refused(self, home: Path, key: str, text: str, says: str) -> None:
        add("own", "made")
        before = file_of(home).read_text()
        with pytest.raises(ConfigurationError, match=re.escape(says)):
            set_in({"defaults.model": "y", key: text})
        assert file_of(home).read_text() == before

    @pytest.mark.parametrize(("key", "hint"), [
        ("server.worker", "did you mean server.workers?"),
        ("server.workers.x", "did you mean server.workers?"),
        ("server.token", "edit the configuration file; show its path: genai-host config path"),
        ("budgets.user", "edit the configuration file; show its path: genai-host config path"),
        ("budgets.users.ada.day",
         "edit the configuration file; show its path: genai-host config path"),
        ("srever.port", "did you mean server.port?"),
        ("unknown.key", f"tables: {', '.join(sorted(TABLES))}"),
    ])  # fmt: skip
    def test_the_hint_for_an_unknown_key_names_one_to_set(self, key: str, hint: str) -> None:
        with pytest.raises(ConfigurationError) as caught:
            split_key(key)
        assert caught.value.hint == hint

    @pytest.mark.parametrize(
        "text", ["sk-canary-1", '"sk-canary-1"', '{"value": "sk-canary-1"}', "[]", "3"]
    )
    def test_a_secret_is_refused_with_the_way_to_keep_it(self, home: Path, text: str) -> None:
        add("own", "made")
        with pytest.raises(ConfigurationError) as caught:
            set_in({"providers.own.api_key": text})
        assert "is a secret" in str(caught.value)
        assert caught.value.hint == "genai-host keys set own --secret api_key"
        assert "canary" not in str(caught.value)
        assert "canary" not in file_of(home).read_text()

    def test_where_a_secret_is_may_be_said(self, home: Path) -> None:
        add("own", "made")
        set_in({"providers.own.api_key": '{"env": "MY_KEY"}'})
        assert read_config().providers["own"].settings == {"api_key": {"env": "MY_KEY"}}


def file_of(home: Path) -> Path:
    return home / "config" / "config.toml"


class TestInstances:
    def test_one_is_added_with_all_it_has(self) -> None:
        values = {"text": "x", "count": "3", "models.m.1": "id", "limits.read_timeout": "5"}
        add("own", "made", **values)
        assert read_config().providers == {
            "own": provider_config(
                "made", models={"m.1": "id"}, limits={"read_timeout": 5}, text="x", count=3
            )
        }

    @pytest.mark.parametrize(("name", "kind", "values", "says"), [
        ("Own", "made", {}, "invalid provider name 'Own'"),
        ("own", "maid", {}, "unknown provider type 'maid'"),
        ("new", "needing", {}, "provider new: address is missing"),
        ("new", "made", {"api_key": "sk-1"}, "is a secret"),
    ])  # fmt: skip
    def test_one_that_is_wrong_is_not(
        self, name: str, kind: str, values: dict[str, str], says: str
    ) -> None:
        with pytest.raises(ConfigurationError, match=re.escape(says)):
            add(name, kind, **values)
        assert read_config().providers == {}

    @pytest.mark.parametrize(("kind", "hint"), [
        ("maid", "did you mean made?"),
        ("bedrock", "install its plugin: genai-host install genai-vendor-bedrock"),
    ])  # fmt: skip
    def test_one_of_an_unknown_type_says_what_to_do(self, kind: str, hint: str) -> None:
        with pytest.raises(ConfigurationError) as caught:
            add("own", kind)
        assert caught.value.hint.endswith(hint)

    def test_a_secret_that_it_needs_may_come_later(self) -> None:
        add("new", "needing", address="x")
        assert read_config().providers["new"].settings == {"address": "x"}

    def test_none_is_added_twice(self) -> None:
        add("own", "made")
        with pytest.raises(ConfigurationError, match="already"):
            add("own", "made")

    def test_one_of_the_name_of_its_type_is_there_unasked(self) -> None:
        with edit_config() as document:
            set_keys(document, TYPES, {"providers.made.text": "x"})
            enable_instance(document, TYPES, "made", enabled=False)
        assert read_config().providers == {
            "made": provider_config("made", enabled=False, models={}, text="x")
        }
        with edit_config() as document:
            enable_instance(document, {}, "made", enabled=True)
        assert read_config().providers["made"].enabled

    def test_one_that_is_removed_is_gone(self) -> None:
        with edit_config() as document:
            add_instance(document, TYPES, "own", "made", {})
            remove_instance(document, "own")
        assert read_config().providers == {}
        with (
            pytest.raises(ConfigurationError, match="provider 'own' is not configured"),
            edit_config() as document,
        ):
            remove_instance(document, "own")

    def test_what_is_unset_is_as_without(self) -> None:
        keys = {"providers.made.text": "x", "providers.made.models.a.b": "c", "defaults.model": "m"}
        set_in(keys)
        with edit_config() as document:
            unset_keys(document, keys)
        config = read_config()
        assert config.providers == {"made": provider_config("made")}
        assert config.models == {}
        for key, says in (
            ("defaults.model", "is not set"),
            ("providers.other.text", "is not set"),
            ("providers.made.type", "a provider must have a type"),
        ):
            with pytest.raises(ConfigurationError, match=says), edit_config() as document:
                unset_keys(document, [key])


@pytest.mark.process
def test_sixteen_processes_that_set_keys_at_once_lose_none() -> None:
    """By the command, as users do."""
    run = [sys.executable, "-m", "genai_host", "config", "set"]
    keys = [f"aliases.a{number}=mock/m{number}" for number in range(8)]
    keys += [f"providers.mock.models.m{number}=m{number}" for number in range(8)]
    started = [subprocess.Popen([*run, key], stderr=subprocess.PIPE, text=True) for key in keys]
    ended = [(process.communicate()[1], process.returncode) for process in started]
    assert [code for _, code in ended] == [0] * 16, ended
    config = read_config()
    assert config.aliases == {f"a{number}": f"mock/m{number}" for number in range(8)}
    assert config.providers["mock"].models == {f"m{n}": f"m{n}" for n in range(8)}
