"""`genai-host models add`, `set`, `list` and `remove`: model configurations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import Terminal

from genai_host.config import ModelConfig, read_config


def listed(terminal: Terminal) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in terminal.json("models") if row["configuration"]}


@pytest.mark.part
def test_item_3_a_configuration_is_added_set_listed_and_removed(terminal: Terminal) -> None:
    arguments = ("precise", "--of", "mock", "-p", "mock", "--param", "temperature=0")
    added = terminal.json("models add", *arguments)
    assert added["configuration"] == {
        "of": "mock", "provider_order": ["mock"], "parameters": {"temperature": 0}, "reason": "",
    }  # fmt: skip
    assert (added["for"], added["runs"], added["providers"]) == ("chat", True, ["mock"])
    assert listed(terminal)["precise"] == added
    terminal.out("models set precise --param temperature=null --param seed=3")
    assert terminal.out("models list") == 'precise\tmock\tmock\t{"seed": 3}\n'
    assert "models.precise.parameters.seed\t3\tfile" in terminal.out("config show")
    terminal.out("models remove precise")
    assert (listed(terminal), read_config().configurations) == ({}, {})


def test_item_3_it_is_chosen_wherever_a_model_is(terminal: Terminal, tmp_path: Path) -> None:
    terminal.out("models add precise --of mock --param temperature=0")
    for arguments in (["-m", "precise"], ["-m", "precise@mock"], ["-m", "precise", "-p", "mock"]):
        answer = json.loads(terminal.out("ask --json", *arguments, "hi"))
        prompt = answer["details"][0]["data"]
        assert (prompt["configuration"], prompt["model"]) == ("precise", "mock"), arguments
        assert "precise, which is mock@mock" in answer["details"][0]["title"]
    terminal.out("config default model precise")
    answer = json.loads(terminal.out("ask --json hi"))
    assert answer["details"][0]["data"]["configuration"] == "precise"
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"prompt": "hi", "model": "precise"}\n')
    answers = Path(terminal.out("batch run", str(rows)).strip())
    assert json.loads(answers.read_text())["text"] == "hi"


@pytest.mark.part
def test_they_are_lists(terminal: Terminal) -> None:
    terminal.out("models add precise --of mock -p mock --param seed=3")
    [row] = terminal.json("models list")
    assert row == {
        "name": "precise", "of": "mock", "provider_order": ["mock"], "parameters": {"seed": 3},
    }  # fmt: skip
    lines = [line.split("\t") for line in terminal.out("models --all").splitlines()]
    assert {row[0]: row[6:] for row in lines}["precise"] == ["works", ""]
    assert {len(row) for row in lines} == {8}


@pytest.mark.parametrize(("arguments", "error"), [
    (("set", "mine"), "nothing to change: use --of, --provider or --param"),
    (("--all", "list"), "options of list come after it"),
    (("--json", "add", "x", "--of", "mock"), "options of add come after it"),
])  # fmt: skip
def test_a_wrong_use(terminal: Terminal, arguments: tuple[str, ...], error: str) -> None:
    code, out, err = terminal("models", *arguments)
    assert (code, out, error in err) == (2, "", True)


@pytest.mark.part
def test_item_3_a_declared_name_is_redirected(terminal: Terminal) -> None:
    """Agents ask for fixed names."""
    terminal.out("models add gpt-5.5 --of mock@mock")
    assert terminal.out("ask -m gpt-5.5 hi") == "hi\n"
    terminal.out("models add mock --of mock --param max_tokens=9")
    rows = terminal.json("models")
    assert [row["configuration"]["of"] for row in rows if row["name"] == "mock"] == ["mock"]
    assert terminal.out("ask -m mock hi") == "hi\n"


def test_an_alias_that_is_given_parameters_is_one(terminal: Terminal) -> None:
    terminal.out("config alias fast mock")
    terminal.out("models set fast --param seed=1")
    config = read_config()
    assert config.aliases == {}
    assert config.model_configs == {"fast": ModelConfig("mock", (), {"seed": 1})}


@pytest.mark.parametrize(("arguments", "says", "hint"), [
    (("add", "x", "--of", "mok"), "unknown model 'mok'", "did you mean mock?"),
    (("add", "x", "--of", "mock", "-p", "moc"), "unknown provider 'moc'", "mock"),
    (("add", "x", "--of", "mock", "--param", "sed=1"), "does not accept parameter 'sed'", "seed"),
    (("add", "x", "--of", "mock", "--param", "seed=a"), "seed", ""),
    (("add", "a/b", "--of", "mock"), "is not a valid configuration name", "match [A-Za-z0-9]"),
    (("add", "mine", "--of", "mock"), "model configuration 'mine' already exists", "set"),
    (("set", "min", "--of", "mock"), "unknown model configuration 'min'", "did you mean mine?"),
    (("set", "mine", "--of", "yours"), "is circular: mine of yours of mine", ""),
    (("remove", "min"), "unknown model configuration 'min'", "did you mean mine?"),
])  # fmt: skip
def test_wrong_value(terminal: Terminal, arguments: tuple[str, ...], says: str, hint: str) -> None:
    terminal.out("models add mine --of mock")
    terminal.out("models add yours --of mine")
    before = read_config()
    err = terminal.error("models", *arguments)
    assert says in err
    assert hint in err
    assert read_config() == before
