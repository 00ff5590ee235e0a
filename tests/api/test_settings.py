"""Settings: read from what is given and from the environment, described, and secrets kept."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any, Literal
from unittest import mock

import attrs
import pytest
from attrs import field, frozen, validators as must

from genai_host.api import Codec, Secret, about
from genai_host.api.settings import NoSettings, describe, read_settings
from genai_host.errors import ConfigurationError, GenaiError, ValidationError


@frozen
class Settings:
    endpoint: str = field(default="https://x", metadata=about("address of the service"))
    api_key: Secret | None = field(default=None, metadata=about("the key", env="X_KEY"))
    retries: int = field(
        default=3, metadata=about("how often", env=["A_RETRIES", "B_RETRIES"]), validator=must.ge(0)
    )
    seconds: float | None = None
    tags: list[str] = field(factory=list)
    mode: Literal["fast", "1"] = "fast"
    made: int = field(default=1, init=False)


@frozen
class Required:
    name: str = field(metadata=about("name of it", env="X_NAME"))
    size: int = field(metadata=about("how large"))
    bare: int = field()


def read(table: Any = (), environ: Any = ()) -> Settings:
    return read_settings(Settings, dict(table), environ=dict(environ), owner="provider x")


def refusal(
    table: Any, environ: Any = (), settings: type[Any] = Settings, owner: str = "provider x"
) -> GenaiError:
    with pytest.raises(ConfigurationError) as caught:
        read_settings(settings, table, environ=dict(environ), owner=owner)
    assert caught.value.message.startswith(f"{owner}: ")
    return caught.value


def test_what_nobody_sets_has_its_default() -> None:
    assert read() == Settings()
    assert read_settings(NoSettings, {}, environ={}) == NoSettings()
    assert read().tags is not read().tags


def test_what_is_given_comes_first_then_the_environment() -> None:
    environ = {"A_RETRIES": "5", "B_RETRIES": "7"}
    assert read({"retries": 1}, environ).retries == 1
    assert read({}, environ).retries == 5
    assert read({}, {"B_RETRIES": "7"}).retries == 7
    assert read({}, {"A_RETRIES": "", "B_RETRIES": "7"}).retries == 7
    assert read({}, {"X_KEY": ""}).api_key is None


def test_the_environment_is_that_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_RETRIES", "9")
    assert read_settings(Settings, {}).retries == 9
    assert read().retries == 3


def test_json_becomes_what_the_field_is() -> None:
    settings = read({"seconds": 5, "tags": ["a"], "mode": "1"})
    assert settings == Settings(seconds=5.0, tags=["a"], mode="1")


@pytest.mark.parametrize(("table", "names", "hint"), [
    ({"endpont": "x"}, "unknown setting 'endpont'", "did you mean endpoint?"),
    ({"zzz": 1}, "unknown setting 'zzz'", "endpoint, api_key, retries"),
    ({"made": 2}, "unknown setting 'made'", ""),
    ({"retries": "3"}, "retries: expected an integer, not a string", "how often"),
    ({"retries": None}, "retries: expected an integer", "how often"),
    ({"retries": -1}, "'retries' must be >= 0: -1", ""),
    ({"tags": "abc"}, "tags: expected a list, not a string", ""),
    ({"tags": ["a", 5]}, "tags: expected a string, not an integer", ""),
    ({"seconds": True}, "seconds: expected a number", ""),
    ({"mode": "slow"}, "slow not in literal", ""),
    ({"api_key": "sk-1"}, "api_key is a secret and is not read from here", "X_KEY"),
])  # fmt: skip
def test_what_does_not_fit_is_refused_by_name(table: dict[str, Any], names: str, hint: str) -> None:
    error = refusal(table)
    assert names in error.message
    assert hint in error.hint
    assert "unknown error" not in error.message


@pytest.mark.parametrize("text", ["x", "3.5", "[" * 100_000, "null"], ids=lambda text: text[:9])
def test_a_variable_that_does_not_fit_is_refused_by_name(text: str) -> None:
    error = refusal({}, {"B_RETRIES": text})
    assert "B_RETRIES" in error.message
    assert error.hint == "how often"


@pytest.mark.parametrize(("table", "missing", "hint"), [
    ({"size": 1, "bare": 1}, "name is missing", "name: name of it; or set X_NAME"),
    ({"name": "n", "bare": 1}, "size is missing", "size: how large"),
    ({"name": "n", "size": 1}, "bare is missing", "bare: "),
])  # fmt: skip
def test_what_is_required_is_asked_for(table: dict[str, Any], missing: str, hint: str) -> None:
    error = refusal(table, {}, Required, "f")
    assert (error.message, error.hint) == (f"f: {missing}", hint)
    environ = {"X_NAME": "n"}
    assert read_settings(Required, {"size": 1, "bare": 2}, environ=environ) == Required("n", 1, 2)


def _refuse_data(value: int) -> int:
    raise ValidationError("not like this")


@frozen
class Picky:
    level: int = field(default=1, converter=_refuse_data)


@frozen
class Choosy:
    level: str = field(default="low", validator=must.in_(["low", "high"]))


def test_what_the_class_refuses_is_a_wrong_setting() -> None:
    assert refusal({"level": 1}, {}, Picky, "f").message == "f: not like this"
    message = refusal({"level": "x"}, {}, Choosy, "f").message
    assert "'level' must be in" in message
    assert "Attribute(" not in message  # for people, not for developers
    assert refusal({"a": 1}, {}, NoSettings, "f").hint == "settings: none"


def test_a_description_has_what_help_needs() -> None:
    fields = {each.name: each for each in describe(Settings)}
    assert [(name, each.type) for name, each in fields.items()] == [
        ("endpoint", "str"),
        ("api_key", "Secret | None"),
        ("retries", "int"),
        ("seconds", "float | None"),
        ("tags", "list[str]"),
        ("mode", "Literal['fast', '1']"),
    ]
    assert fields["retries"].env == ("A_RETRIES", "B_RETRIES")
    assert fields["api_key"].env == ("X_KEY",)
    assert fields["seconds"].env == ()
    assert fields["endpoint"].help == "address of the service"
    assert fields["seconds"].help == ""
    assert [name for name, each in fields.items() if each.secret] == ["api_key"]
    assert fields["retries"].default == 3
    assert fields["tags"].default is None
    assert not any(each.required for each in fields.values())
    assert all(each.required and each.default is None for each in describe(Required))
    assert describe(NoSettings) == []


def test_a_default_that_is_no_json_is_described_as_text() -> None:
    @frozen
    class Odd:
        folder: Path = Path("/tmp/x")
        kinds: frozenset[str] = frozenset({"a"})
        seconds: float = float("inf")
        several: tuple[int, ...] = (1, 2)
        nested: Any = field(default={"a": [Path("b")]})
        fine: Any = field(default={"a": [1, None, "x"]})

    defaults = {each.name: each.default for each in describe(Odd)}
    assert defaults == {
        "folder": "/tmp/x", "kinds": "frozenset({'a'})", "seconds": "inf", "several": (1, 2),
        "nested": str({"a": [Path("b")]}), "fine": {"a": [1, None, "x"]},
    }  # fmt: skip
    json.dumps([attrs.asdict(each) for each in describe(Odd)], allow_nan=False)


@pytest.mark.parametrize("env", [5, [5], None])
def test_a_variable_has_a_name(env: Any) -> None:
    with pytest.raises(TypeError):
        about("help", env=env)


def test_what_reads_settings_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes 3 ms to make."""
    init = mock.Mock(side_effect=Codec.__init__)
    monkeypatch.setattr(Codec, "__init__", lambda *args: init(*args))
    for _ in range(3):
        read({"retries": 1, "seconds": 2}, {"B_RETRIES": "3"})
    assert init.call_count <= 1


def test_a_secret_comes_from_the_environment_as_it_is() -> None:
    key = read({}, {"X_KEY": "12345"}).api_key
    assert isinstance(key, Secret)
    assert key.reveal() == "12345"
    assert read({"api_key": Secret("x")}, {"X_KEY": "y"}).api_key == Secret("x")
    assert read({"api_key": None}, {"X_KEY": "y"}).api_key is None


def test_no_error_tells_a_secret() -> None:
    @frozen
    class Checked:
        key: Secret = field(metadata=about("key", env="X_KEY"), validator=must.in_([Secret("a")]))

    for table, environ in (({"key": "sk-hidden"}, {}), ({}, {"X_KEY": "sk-hidden"})):
        error = refusal(table, environ, Checked)
        assert "sk-hidden" not in str(error) + repr(error.fields())


def test_nothing_shows_a_secret() -> None:
    secret = Secret("sk-hidden")
    settings = Settings(api_key=secret)
    shown = [repr(secret), str(secret), f"{secret}", f"{[secret]!r}", repr(settings)]
    shown += [repr(attrs.asdict(settings)), repr(Codec().to_json(settings))]
    assert not any("sk-hidden" in text for text in shown)
    assert shown[:3] == ["Secret('***')"] * 3
    assert not hasattr(secret, "__dict__")
    with pytest.raises(TypeError):
        json.dumps({"key": secret})


def test_a_secret_is_not_pickled() -> None:
    for act in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="a Secret is not pickled"):
            act(Settings(api_key=Secret("x")))


@pytest.mark.parametrize("text", ["a", "\udcff"], ids=ascii)
def test_secrets_are_equal_by_what_they_hide(text: str) -> None:
    """A variable with other bytes than UTF-8 has surrogates in their place."""
    assert Secret(text) == Secret(text)
    assert Secret(text) != Secret("\udcfe")
    assert Secret(text) != text
    assert len({Secret(text), Secret(text), Secret("b")}) == 2
