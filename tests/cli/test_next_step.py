"""The step that helps where nothing can answer, offered at a real terminal (item 5 of "First
contact")."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pexpect
import pytest
from support import Terminal

from genai_host import Config, Host
from genai_host.cli.app import App
from genai_host.cli.next_step import next_step
from genai_host.errors import ConfigurationError
from genai_host.plugins.index import PluginIndex
from genai_host.util.names import COMMANDS_OF_PLUGINS
from genai_host_testing import make_distribution

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
    default_models = {"chat": "needs-key"}

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


@pytest.fixture
def needy(
    tmp_path: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Terminal]:
    """Runs commands in this process, with the same plugin, and a key of `keyed` that does not make
    it the default."""
    terminal.configure("[plugins]\ndisabled = ['local']\n")
    make_distribution(tmp_path / "site", "needy", files={"needy.py": _PLUGIN})
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert terminal("keys set keyed", stdin="sk-canary-0001")[0] == 0
    yield terminal
    sys.modules.pop("needy", None)


@pytest.mark.part
@pytest.mark.parametrize(("options", "default", "question", "answer"), [
    (["-m", "needs-weights"], "", "Download the weights (1 MB)?", "it answers"),
    (["-m", "mocck"], "", "Use mock instead?", "hi"),
    (["-m", "nonsense"], "mock", "Use mock instead?", "hi"),
    (["-p", "weighty", "-m", "needs-key"], "mock", "Use mock instead?", "hi"),
    ([], "", "Use needs-key@keyed this time? Calls may cost money.", "it answers"),
    (["-m", "nonsense"], "", None, None),
    (["-m", "nonsense"], "needs-weights", None, None),
    (["-p", "keyed", "-m", "needs-weights"], "", None, None),
])  # fmt: skip
def test_item_5_the_step_is_taken_on_yes_alone(
    needy: Terminal, options: list[str], default: str, question: str | None, answer: str | None
) -> None:
    if default:
        assert needy("config set", f"defaults.model={default}")[0] == 0
    for typed, expected in (("n", (1, "")), ("y", (0, answer) if answer else (1, ""))):
        code, out, err = needy.interactive("ask", *options, "hi", typed=f"{typed}\n")
        assert (code, out.strip()) == expected
        assert (f"{question} [y/N]" in err) == (question is not None)
        assert ("error: " in err) == (code == 1)


@pytest.mark.parametrize("exit_code", [0, 1])
def test_item_5_the_command_runs_again_once_installed(terminal: Terminal, exit_code: int) -> None:
    """With neither a real installer nor a new process."""
    started: list[list[str]] = []

    def install(command: list[str]) -> subprocess.CompletedProcess[str]:
        started.append(command[1:])
        return subprocess.CompletedProcess(command, exit_code)

    def restart(program: str, command: list[str]) -> None:
        started.append(command[1:])
        raise click.exceptions.Exit(0)  # the call does not return

    terminal.monkeypatch.setattr("genai_host.cli.next_step.subprocess.run", install)
    terminal.monkeypatch.setattr("os.execv", restart)
    command = ["ask", "-f", "research", "hi"]
    terminal.monkeypatch.setenv("GENAI_HOST_PLUGINS__DISABLED", "research")
    code, _, err = terminal.interactive(*command, typed="y\n")
    assert "Install genai-feature-research? [y/N]" in err
    program = ["-m", "genai_host"]
    assert started[0] == [*program, "install", "genai-feature-research"]
    assert started[1:] == ([] if exit_code else [[*program, *command]])
    assert code == exit_code


@pytest.mark.parametrize(("name", "question"), [
    ("genai-vendor-openai", "Install genai-vendor-openai?"),
    ('"genai-host[starter]"', "Install genai-host[starter]?"),
    ("genai-vendor-grok", None),
])  # fmt: skip
def test_item_5_only_ours_are_installed(host: Host, name: str, question: str | None) -> None:
    app = App()
    app._host = host
    error = ConfigurationError("no plugin brings it", hint=f"genai-host install {name}")
    step = next_step(app, error, None, None)
    assert (step.question if step else None) == question


@pytest.mark.parametrize(("command", "code", "message"), [
    ("ask -m gpt-4o hi", 1, "error: "),
    ("modles", 2, "No such command 'modles'. Did you mean models?"),
    ("hello", 2, "No such command 'hello'. To ask the model: genai-host ask hello"),
])  # fmt: skip
def test_item_5_nobody_is_asked(terminal: Terminal, command: str, code: int, message: str) -> None:
    err = terminal.error(command, code=code)
    assert (message in err, "[y/N]" in err) == (True, False)


@pytest.mark.parametrize("question", ["What is it?", "Why?", "sum it up"])
def test_item_5_a_question_needs_no_command(terminal: Terminal, question: str) -> None:
    assert terminal(shlex.quote(question), "-m", "mock") == (0, f"{question}\n", "")


@pytest.mark.parametrize(("is_installed", "hint"), [
    (False, "Install its plugin: genai-host install genai-batch"),
    (True, "Its plugin, genai-batch, is disabled or broken: genai-host plugins"),
])  # fmt: skip
def test_item_5_command_of_a_plugin(terminal: Terminal, is_installed: bool, hint: str) -> None:
    terminal.configure('[plugins]\ndisabled = ["batch"]\n')
    if not is_installed:
        plugins = PluginIndex.plugins

        def without_batch(index: PluginIndex) -> Any:
            return [each for each in plugins(index) if each.name != "batch"]

        terminal.monkeypatch.setattr(PluginIndex, "plugins", without_batch)
    assert f"No such command 'batch'. {hint}\n" in terminal.error("batch run x", code=2)


def test_the_commands_of_our_plugins_are_known() -> None:
    with Host(config=Config()) as host:
        owners = {name: host.registry.owner("command", name) for name in host.registry.commands}
        places = {each.name: each.distribution for each in PluginIndex().plugins()}
    assert {name: places[owner] for name, owner in owners.items()} == COMMANDS_OF_PLUGINS
