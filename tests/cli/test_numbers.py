"""Invalid numbers: each is refused with a one-line error, and nothing is changed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support import Terminal

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
def test_item_9_a_file_with_it_is_refused(
    terminal: Terminal, table: str, head: str, name: str
) -> None:
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
