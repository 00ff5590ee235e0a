"""Options of `ask` and `chat`: pairs, schemas, completion, and the resulting conversation. Invalid
numbers are refused with an error of one line, and nothing is changed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner
from support import Terminal

from genai_host import Host
from genai_host.cli.options import (
    attach_option,
    conversation_options,
    model_parameters,
    named_values,
    open_conversation,
    read_schema,
)
from genai_host_testing.internal.fixtures import requests_of

DEEP = 100_000


@click.command()
@conversation_options
@attach_option("FILE|-", "Send it along.")
def command(**options: Any) -> None:
    """Print the arguments."""
    click.echo(json.dumps(options, sort_keys=True))


_ALL_OPTIONS = """
    -m M -p P -f F --role a=b --role c=d -s S --param x=1 --setting y=2 -a one -a -
    -T t,u* --no-tools --max-cost 0.5
"""


def test_options_reach_the_command_by_name() -> None:
    usual: dict[str, Any] = dict.fromkeys(("model", "provider", "feature", "system", "max_cost"))
    usual |= {name: [] for name in ("roles", "params", "settings", "tools", "attach")}
    assert json.loads(CliRunner().invoke(command, []).output) == {**usual, "no_tools": False}
    everything = CliRunner().invoke(command, _ALL_OPTIONS.split())
    assert json.loads(everything.output) == {
        "model": "M", "provider": "P", "feature": "F", "roles": ["a=b", "c=d"], "system": "S",
        "params": ["x=1"], "settings": ["y=2"], "tools": ["t,u*"], "no_tools": True,
        "max_cost": 0.5, "attach": ["one", "-"],
    }  # fmt: skip


@pytest.mark.parametrize(("pair", "values"), [
    ("a=1", {"a": 1}),
    ("a=1.5", {"a": 1.5}),
    ("a=true", {"a": True}),
    ("a=null", {"a": None}),
    ('a="1"', {"a": "1"}),
    ('a=["x"]', {"a": ["x"]}),
    ("a=x", {"a": "x"}),
    ("a=", {"a": ""}),
    ("a=b=c", {"a": "b=c"}),
    ("a=[1", {"a": "[1"}),
    ("a b= x", {"a b": " x"}),
    # no JSON, though `json` takes it
    ("a=NaN", {"a": "NaN"}),
    ("a=Infinity", {"a": "Infinity"}),
    ("a=" + "1" * 5_000, {"a": "1" * 5_000}),
    ("a=" + "[" * DEEP, {"a": "[" * DEEP}),
], ids=lambda value: repr(value)[:20])  # fmt: skip
def test_a_value_is_json_where_it_can_be(pair: str, values: dict[str, Any]) -> None:
    assert named_values((pair,), "--setting") == values
    assert named_values(("a=0", "b=2", pair), "--setting") == {"a": 0, "b": 2, **values}


def test_fields_of_the_body_are_given_one_by_one_or_together() -> None:
    pairs = ("top_p=1", "extra_body.top_k=40", 'extra_body={"a": {"b": 1}}', "extra_body.c.d=x")
    assert model_parameters(pairs) == {
        "top_p": 1,
        "extra_body": {"top_k": 40, "a": {"b": 1}, "c.d": "x"},
    }
    assert model_parameters(("extra_body=null", "a.b=1")) == {"extra_body": None, "a.b": 1}


def test_unenforced_pattern_is_noted(capsys: pytest.CaptureFixture[str]) -> None:
    assert read_schema('{"pattern": "["}') == {"pattern": "["}
    expected = "note: the pattern '[' is not enforced: unterminated character set\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize("pair", ["a", "", "=1", "="])
def test_what_is_no_pair_is_a_wrong_use(pair: str) -> None:
    with pytest.raises(click.BadParameter, match="expected NAME=VALUE") as caught:
        named_values(("a=1", pair), "--setting")
    assert caught.value.param_hint == "--setting"


@pytest.mark.parametrize("text", ["{}", ' {"type": "object"}', '\n{"title": "é"}'])
def test_a_schema_is_written_out_or_in_a_file(tmp_path: Path, text: str) -> None:
    file = tmp_path / "schema.json"
    file.write_text(text, encoding="utf-8")
    assert read_schema(text) == json.loads(text)
    assert read_schema(str(file)) == json.loads(text)


@pytest.mark.parametrize("schema", [
    "{", "{} and more", "missing.json", "", ".", "[]", '{"a":' * DEEP, "nul\0", "x" * 5_000,
    '{"type": 5}', '{"not": ' * 900 + "{}" + "}" * 900,
], ids=lambda schema: repr(schema[:12]))  # fmt: skip
def test_wrong_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schema: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(click.BadParameter) as caught:
        read_schema(schema)
    assert caught.value.param_hint == "--schema"


@pytest.mark.parametrize(("content", "why"), [
    (b"[]", "expected a JSON object"),
    (b"null", "expected a JSON object"),
    (b"nothing", "invalid JSON"),
    (b"", "invalid JSON"),
    (b"\xff", "invalid JSON"),
    (b"[" * DEEP, "invalid JSON"),
], ids=lambda value: repr(value)[:20])  # fmt: skip
def test_a_file_that_is_no_schema_is_a_wrong_use(tmp_path: Path, content: bytes, why: str) -> None:
    file = tmp_path / "schema.json"
    file.write_bytes(content)
    with pytest.raises(click.BadParameter, match=why) as caught:
        read_schema(str(file))
    assert caught.value.param_hint == "--schema"


Open = Callable[..., Any]


@pytest.fixture
def opened(host: Host) -> Open:
    """Open a conversation with these command line options."""
    usual: dict[str, Any] = dict.fromkeys(("provider", "feature", "system"))
    usual |= {"model": "mock", "roles": (), "params": (), "settings": ()}
    app: Any = SimpleNamespace(host=host)
    return lambda **options: open_conversation(app, **{**usual, **options})


def asked(host: Host) -> Any:
    """Return the last prompt of the mock."""
    return requests_of(host)[-1]


def test_the_options_choose_model_and_parameters(host: Host, opened: Open) -> None:
    opened(params=("temperature=0.5", 'stop=["x"]')).say("hi")
    assert asked(host)["parameters"] == {"temperature": 0.5, "stop": ["x"]}
    assert opened(model="mock", provider="mock", feature="chat").models == {"main": "mock@mock"}


@pytest.mark.parametrize(("options", "text"), [
    ({}, "You are a helpful assistant."),
    ({"system": "Be brief."}, "Be brief."),
    ({"system": ""}, None),
    ({"settings": ("system_prompt=Rhyme.",)}, "Rhyme."),
    ({"settings": ("system_prompt=Rhyme.",), "system": "Be brief."}, "Be brief."),
])  # fmt: skip
def test_system_prompt(host: Host, opened: Open, options: dict[str, Any], text: str | None) -> None:
    opened(**options).say("hi")
    first = asked(host)["messages"][0]
    if text is None:
        assert first["role"] == "user"
    else:
        assert first == {"role": "system", "content": [{"type": "text", "text": text}]}


@pytest.mark.parametrize("name", ["param", "role", "setting"])
def test_an_option_that_is_no_pair_is_named(opened: Open, name: str) -> None:
    with pytest.raises(click.BadParameter) as caught:
        opened(**{f"{name}s": ("nonsense",)})
    assert caught.value.param_hint == f"--{name}"


@pytest.mark.parametrize(("command", "former", "now"), [
    ("ask", "--again", "--regenerate"),
    ("ask", "--cid", "--conversation"),
    ("ask", "--save", "--save-template"),
    ("chat", "--set", "--setting"),
    ("batch run", "--at-once", "--concurrency"),
    ("batch run", "--restart", "--overwrite"),
    ("batch run", "--with", "--executor-setting"),
    ("conversations resume", "--allow", "--approve"),
    ("conversations resume", "--no", "--deny-all"),
    ("keys set", "--setting", "--secret"),
    ("models", "--at", "--provider"),
    ("routes explain", "--for", "--operation"),
])  # fmt: skip
def test_former_names_of_options(terminal: Terminal, command: str, former: str, now: str) -> None:
    words = set(re.findall(r"--[a-z-]+", terminal(*command.split(), "--help")[1]))
    assert now in words
    assert former not in words
    for name in (now, former):
        code, _, err = terminal(*command.split(), f"{name}=\x1b", "--no-such-option")
        assert (code, f"No such option: {name}" in err) == (2, False), err


@pytest.mark.parametrize(
    ("former", "now"),
    [("stats", "usage"), ("count", "tokens"), ("conversations waiting", "conversations paused")],
)
def test_former_names_of_commands(terminal: Terminal, former: str, now: str) -> None:
    *group, name = now.split()
    listed = set(re.findall(r"^  ([a-z-]+)", terminal(*group, "--help")[1], re.MULTILINE))
    assert name in listed
    assert former.split()[-1] not in listed
    assert (
        terminal(*former.split(), "--help")[1].splitlines()[2:]
        == (terminal(*now.split(), "--help")[1].splitlines()[2:])
    )


_NEVER = ("-1", "nan", "inf", "-inf", "1e400", "9" * 30, "true")
_IN_FILES = ("-1", "nan", "inf", "-inf", "9" * 30, "true", '"1"')


def _refused(terminal: Terminal, *command: str) -> str:
    """Return the first line of an error, which has at most a hint as its second line."""
    first, *hint = terminal.error(*command).splitlines()
    assert (first.startswith("error: "), len(hint) <= 1) == (True, True), (first, hint)
    return first


_LIMITS = (
    *("connect_timeout", "first_token_timeout", "read_timeout", "timeout"),
    *("max_concurrency", "queue_size", "breaker_threshold", "breaker_reset"),
)
_SERVER = ("port", "max_concurrency", "queue_size", "rate_limit", "workers", "graceful_timeout")
_KEYS = (
    *(f"server.{name}" for name in _SERVER),
    *(f"providers.mock.limits.{name}" for name in _LIMITS),
    *("budgets.per_turn", "tools.pages.seconds", "tools.pages.megabytes"),
    *("tools.sandbox.memory", "tools.sandbox.idle_seconds"),
)
_NO_ZERO = {"server.port", "server.graceful_timeout", "budgets.per_turn", "queue_size"}


@pytest.mark.parametrize("key", _KEYS)
def test_item_9_config_set_refuses_it(terminal: Terminal, home: Path, key: str) -> None:
    zero = () if {key, key.rpartition(".")[2]} & _NO_ZERO else ("0",)
    for value in (*_NEVER, *zero, "", "1,5"):
        error = _refused(terminal, "config", "set", f"{key}={value}")
        assert re.search(rf"\b{key.rpartition('.')[2]}\b", error)
    assert not (home / "config" / "config.toml").exists()


@pytest.mark.parametrize(("table", "head", "name"), [
    *(("providers.mock.limits", '[providers.mock]\ntype = "mock"\n', name) for name in _LIMITS),
    *(
        (f"budgets.{table}", "", name)
        for table in ("total", "user", "users.ann")
        for name in ("day", "month", "day_tokens", "month_tokens")
    ),
])  # fmt: skip
def test_item_9_its_file_is_refused(terminal: Terminal, table: str, head: str, name: str) -> None:
    for value in _IN_FILES:
        terminal.configure(f"{head}[{table}]\n{name} = {value}\n")
        assert re.search(rf"\b{name}\b", _refused(terminal, "ask -p mock hi"))


@pytest.mark.parametrize(("option", "command"), [
    ("--max-cost", "ask -p mock hi"),
    ("--max-cost", "chat -p mock"),
    ("--max-cost", "batch run none.jsonl"),
    ("--concurrency", "batch run none.jsonl"),
    ("--limit", "conversations list"),
    ("--limit", "conversations search hi"),
    ("--turn", "conversations fork last"),
    ("--older-than", "conversations delete --yes"),
    ("--port", "serve"),
    ("--max-concurrency", "serve"),
    ("--at-once", "serve"),
    ("--queue-size", "serve"),
    ("--rate-limit", "serve"),
    ("--workers", "serve"),
    ("--graceful-timeout", "serve"),
])  # fmt: skip
def test_item_9_an_option_refuses_it(terminal: Terminal, option: str, command: str) -> None:
    terminal("ask -p mock", "there is a conversation")
    for value in (*_NEVER, ""):
        if option == "--max-cost" and value == "9" * 30:
            continue  # it is much, and a number
        assert option in terminal.error(*command.split(), option, value, code=2).splitlines()[-1]
