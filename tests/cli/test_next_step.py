"""The step that helps where nothing can answer, offered at a real terminal (item 5 of "First
contact")."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest
from support import Terminal

from genai_host import Host
from genai_host.cli.app import App
from genai_host.cli.next_step import next_step
from genai_host.errors import ConfigurationError
from genai_host.testing import make_distribution

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals are POSIX")

_PLUGIN = '''
from pathlib import Path
from typing import Any

from attrs import field, frozen
from genai_host.api import *


@frozen
class Settings:
    key: Secret | None = field(default=None, metadata=about("its key"))


class Needy(Provider):
    """Answers once what it needs is there: a file, or a key."""

    serves = {"plain": DialectEndpoint()}

    def __init__(self, settings, services):
        self.settings = settings
        self.weights = services.data_dir / "weights"

    def send(self, request, limits):
        return ProviderReply(b'{"message": {"role": "assistant", "content": "it answers"}}')

    stream = send


class Keyed(Needy):
    def unavailable_reason(self):
        return None if self.settings.key else "no key: genai-host keys set keyed"


class Weighty(Needy):
    def unavailable_models(self):
        return {} if self.weights.exists() else {"w": "its weights are missing"}

    def preparation(self, model_id=""):
        if self.weights.exists():
            return None

        def run(report, limits):
            report(PreparationProgress("downloading", 500_000, 1_000_000))
            self.weights.parent.mkdir(parents=True, exist_ok=True)
            self.weights.touch()

        return Preparation("Download the weights (1 MB)", run)


@hookimpl
def genai_providers():
    yield ProviderType("keyed", Settings, Keyed)
    yield ProviderType("weighty", NoSettings, Weighty)


@hookimpl
def genai_models():
    yield Model("needs-key", ["plain"], at={"keyed": "k"})
    yield Model("needs-weights", ["plain"], at={"weighty": "w"})
'''

Ask = Callable[..., Any]  # the types of pexpect are wrong on `waitnoecho`


@pytest.fixture
def ask(tmp_path: Path, home: Path) -> Iterator[Ask]:
    """Starts `genai-host` at a terminal, with a plugin whose models need something."""
    make_distribution(tmp_path / "site", "needy", files={"needy.py": _PLUGIN})
    started: list[pexpect.spawn[str]] = []

    def start(*arguments: str) -> pexpect.spawn[str]:
        environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "TERM": "dumb"}
        program = ["-m", "genai_host", *arguments]
        child = pexpect.spawn(
            sys.executable, program, env=environment, encoding="utf-8", timeout=60, cwd="/"
        )
        started.append(child)
        return child

    yield start
    for child in started:
        child.close(force=True)


def ended(child: Any) -> tuple[int | None, str]:
    child.expect(pexpect.EOF)
    child.wait()
    return child.exitstatus, child.before or ""


@pytest.mark.process
def test_item_5_weights_are_downloaded_on_yes(ask: Ask) -> None:
    child = ask("ask", "-m", "needs-weights", "hi")
    child.expect("its weights are missing")
    child.expect(r"Download the weights \(1 MB\)\? \[y/N\]")
    child.sendline("y")
    child.expect("downloading: 0.5 of 1.0 MB")
    code, shown = ended(child)
    assert (code, "it answers" in shown) == (0, True)


@pytest.mark.process
def test_item_5_a_key_is_set_on_yes(ask: Ask) -> None:
    child = ask("ask", "-m", "needs-key", "hi")
    child.expect(r"Set the API key of keyed now\? \[y/N\]")
    child.sendline("y")
    child.expect("key of keyed: ")
    assert child.waitnoecho(60)
    child.sendline("sk-canary-0001")
    code, shown = ended(child)
    assert (code, "it answers" in shown, "canary" in shown) == (0, True, False)


@pytest.mark.process
def test_item_5_no_leaves_the_error(ask: Ask, home: Path) -> None:
    child = ask("ask", "-m", "needs-weights", "hi")
    child.expect(r"\[y/N\]")
    child.sendline("n")
    code, shown = ended(child)
    assert (code, "error: needs-weights cannot run: its weights are missing" in shown) == (1, True)
    assert not (home / "data" / "weighty").exists()


@pytest.mark.process
def test_item_5_a_misspelt_model_is_replaced_on_yes(ask: Ask) -> None:
    child = ask("ask", "-m", "mocck", "hi there")
    child.expect(r"Use mock instead\? \[y/N\]")
    child.sendline("y")
    code, shown = ended(child)
    assert (code, "hi there" in shown) == (0, True)


@pytest.mark.parametrize(
    ("name", "question"),
    [
        ("genai-vendor-openai", "Install genai-vendor-openai?"),
        ('"genai-host[starter]"', "Install genai-host[starter]?"),
        ("genai-vendor-grok", None),
    ],
)
def test_item_5_only_distributions_of_this_project_are_installed(
    host: Host, name: str, question: str | None
) -> None:
    app = App()
    app._host = host
    error = ConfigurationError("no plugin brings it", hint=f"genai-host install {name}")
    step = next_step(app, error, None, None)
    assert (step.question if step else None) == question


def test_item_5_nothing_is_asked_where_nobody_can_answer(terminal: Terminal) -> None:
    code, out, err = terminal("ask", "-m", "gpt-4o", "hi")
    assert (code, out, "[y/N]" in err) == (1, "", False)


@pytest.mark.parametrize("question", ["What is it?", "Why?", "sum it up"])
def test_item_5_a_question_needs_no_command(terminal: Terminal, question: str) -> None:
    assert terminal(question, "-m", "mock") == (0, f"{question}\n", "")


def test_item_5_a_misspelt_command_is_no_question(terminal: Terminal) -> None:
    code, _, err = terminal("modles")
    assert (code, "No such command 'modles'. Did you mean models?" in err) == (2, True)


def test_item_5_a_word_that_is_no_command_may_be_asked(terminal: Terminal) -> None:
    code, _, err = terminal("hello")
    asked = "No such command 'hello'. To ask the model: genai-host ask hello"
    assert (code, asked in err) == (2, True)
