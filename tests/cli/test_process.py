"""The command line as a process: pipes, signals, terminals and imports."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

from genai_host_testing import make_distribution

pytestmark = pytest.mark.process

_RUN = [sys.executable, "-m", "genai_host"]
_HEAVY = (
    "attr pluggy importlib_metadata requests rich cattrs jsonschema regex msgspec tomlkit "
    "sqlalchemy"
)
_DECLARING = """
    genai_feature_agent.reactions genai_feature_chat.chat genai_feature_chat.chat_model
    genai_otel.telemetry genai_tools_data.plain_tools genai_tools_data.reactions
    genai_vendor_bedrock.converse genai_vendor_bedrock.failures genai_vendor_bedrock.form
    genai_vendor_mock.provider
"""
"""Modules of plugins that a call of the model `mock` imports: declarations, and the mock itself."""
_SETTLED = os.path.abspath(os.sep)  # on `sys.path`, and nobody writes there
_posix = pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals are POSIX")


def genai_host(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*_RUN, *arguments], input=stdin, capture_output=True, text=True, check=False, cwd=_SETTLED
    )


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=_SETTLED
    )


def after(arguments: list[str], expression: str) -> str:
    """The value of an expression, where a command has run."""
    return python(
        f"import sys\nfrom genai_host.cli.main import run\nrun({arguments!r})\n"
        f"print({expression}, file=sys.stderr)"
    ).stderr.strip()


_LOUD = """
import os, subprocess, sys
from genai_host.api import hookimpl

print("loud")

@hookimpl
def genai_tools():
    print("louder", flush=True)
    os.write(1, b"loudest\\n")
    subprocess.run([sys.executable, "-c", "print('a child')"])
    return []
"""


@_posix
def test_item_a_bytes_that_are_not_utf_8_spoil_no_history() -> None:
    """Python makes lone surrogates of those in arguments; standard input is Windows-1252."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONIOENCODING"}
    for command in (b"ask -p mock Stra\xdfe", b"conversations list", b"conversations search mixed"):
        done = subprocess.run(
            [*_RUN, *command.split()],
            input="mixed Größe".encode("latin-1") if command.startswith(b"ask") else b"",
            env={**environ, "LC_ALL": "C.UTF-8"},
            capture_output=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        assert "Stra\ufffde" in done.stdout.decode()
        assert "mixed Größe" in done.stdout.decode()


def test_what_plugins_print_is_no_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_distribution(tmp_path, "zz-loud", files={"zz_loud.py": _LOUD})
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    for command in ("features", "doctor", "plugins check"):
        done = genai_host(*command.split(), "--json")
        assert json.loads(done.stdout)
        assert "loud\nlouder\nloudest\na child\n" in done.stderr.replace("\r\n", "\n")


@_posix
@pytest.mark.parametrize(("wait", "who"), [
    ("threading.Thread(target=wait).start()", "plugin zz-waits"),
    ("threading.Thread(target=threading.Event().wait, name='x').start()", "thread 'x'"),
    ("atexit.register(wait)", "plugin zz-waits"),
])  # fmt: skip
def test_it_exits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait: str, who: str) -> None:
    source = f"import atexit, threading\ndef wait(): threading.Event().wait()\n{wait}\n"
    make_distribution(tmp_path, "zz-waits", files={"zz_waits.py": source})
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    code = (
        "from genai_host.cli import main\nmain.EXIT_SECONDS = (0.0, {})\n"
        "main.main(['plugins', 'check', 'mock', '--json'])"
    )
    done = python(code.format(0))
    assert done.returncode == 0
    assert json.loads(done.stdout)
    command = [sys.executable, "-c", code.format(600)]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=_SETTLED
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == f"warning: {who} keeps the process from exiting\n"
        process.terminate()


class TestImports:
    """Help is fast because it imports very little."""

    @pytest.mark.parametrize(
        "arguments", [["--version"], ["--help"], ["plugins"], ["plugins", "--json"]]
    )
    def test_looking_imports_nothing_heavy_and_no_plugin(self, arguments: list[str]) -> None:
        genai_host("plugins")  # the index is made
        heavy = f"[name for name in {_HEAVY.split()!r} if name in sys.modules]"
        ours = "('genai_vendor', 'genai_feature', 'genai_models', 'genai_host.cli.scaffold')"
        imported = f"[name for name in sys.modules if name.startswith({ours})]"
        assert after(arguments, f"{heavy} + {imported}") == "[]"

    @pytest.mark.parametrize(
        "arguments", [["models"], ["conversations", "--help"], ["ask", "-p", "mock", "-h"],
                      ["ask", "-p", "mock", "--no-record", "hi"]],
    )  # fmt: skip
    def test_what_keeps_nothing_imports_no_database(self, arguments: list[str]) -> None:
        assert after(arguments, "'sqlalchemy' in sys.modules") == "False"

    def test_a_new_conversation_is_recorded_without_sqlalchemy(self) -> None:
        genai_host("ask", "-p", "mock", "the first one makes the store")
        assert after(["ask", "-p", "mock", "hi"], "'sqlalchemy' in sys.modules") == "False"
        listed = json.loads(genai_host("conversations", "list", "--json").stdout)
        assert [each["title"] for each in listed][:1] == ["hi"]

    def test_a_call_opens_only_the_provider_of_its_model(self) -> None:
        genai_host("ask", "-p", "mock", "the first one makes the store")
        names = (
            "*(name for name in sys.modules if '.' in name and name.startswith('genai_')"
            " and not name.startswith(('genai_host', 'genai_wire_')))"
        )
        imported = after(["ask", "--model", "mock", "hi"], names).split()
        assert set(imported) - set(_DECLARING.split()) == set()

    @pytest.mark.smoke
    def test_importing_the_package_imports_nothing(self) -> None:
        done = python(
            "import sys; before = set(sys.modules); import genai_host\n"
            "names = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
            "print(names - sys.stdlib_module_names)"
        )
        assert done.stdout == "{'genai_host'}\n"


class TestPipes:
    @_posix
    def test_a_reader_that_goes_away_is_no_error(self, script: Any) -> None:
        script([{"text": "word " * 50_000}])
        with subprocess.Popen(
            [*_RUN, "ask", "-p", "script", "x"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.read(4) == b"word"
            process.stdout.close()
            assert process.stderr.read() == b""
            assert process.wait() == 1


@_posix
class TestStreams:
    """Closed or full standard streams: a one-line error without a traceback."""

    def shell(self, line: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command line with redirected streams."""
        return subprocess.run(
            ["sh", "-c", f'exec "$@" {line}', "sh", *_RUN, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    @pytest.mark.parametrize("command", ["ask", "chat"])
    def test_no_input_is_one_that_has_ended(self, command: str) -> None:
        words = ["hi"] if command == "ask" else []
        done = self.shell("<&-", command, "-p", "mock", *words)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == ("hi\n" if words else "")

    @pytest.mark.parametrize(
        "arguments", [["plugins"], ["plugins", "--json"], ["ask", "-p", "mock", "x"], ["doctor"]]
    )
    @pytest.mark.parametrize(
        ("line", "why"), [(">&-", "it is closed"), (">/dev/full", os.strerror(errno.ENOSPC))]
    )
    def test_output_takes_nothing(self, line: str, why: str, arguments: list[str]) -> None:
        if "full" in line and not os.path.exists("/dev/full"):
            pytest.skip("there is no /dev/full here")
        done = self.shell(line, *arguments)
        assert (done.returncode, done.stderr) == (1, f"error: standard output: {why}\n")

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
    @pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["local", "list"]])
    def test_what_click_prints_is_told_as_well(self, arguments: list[str]) -> None:
        done = self.shell(">/dev/full", *arguments)
        assert (done.returncode, done.stderr) == (1, f"error: {os.strerror(errno.ENOSPC)}\n")

    def test_nobody_need_be_told(self) -> None:
        done = self.shell("2>&-", "ask", "-p", "mock", "--details", "hi")
        assert (done.returncode, done.stdout) == (0, "hi\n")


@_posix
class TestSignals:
    def test_ctrl_c_ends_a_reply_that_does_not_come(self, script: Any) -> None:
        script([{"fault": "hang"}])
        with subprocess.Popen(
            [*_RUN, "-vv", "ask", "-p", "script", "x"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stderr is not None
            for line in process.stderr:
                if "calling mock@script" in line:
                    break
            process.send_signal(signal.SIGINT)
            _, rest = process.communicate(timeout=60)
            assert process.returncode == 130
            assert "Traceback" not in rest


@pytest.fixture
def spawn(home: Path) -> Iterator[Any]:
    """Start the command line at a separate terminal."""
    started: list[pexpect.spawn[str]] = []

    def start(*arguments: str) -> pexpect.spawn[str]:
        environment = {**os.environ, "TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1"}
        child = pexpect.spawn(
            sys.executable, ["-m", "genai_host", *arguments],
            env=environment, encoding="utf-8", timeout=30, dimensions=(40, 120),
        )  # fmt: skip
        started.append(child)
        return child

    yield start
    for child in started:
        child.close(force=True)


def shown(child: Any) -> str:
    """Return all output of the terminal."""
    child.expect(pexpect.EOF)
    child.wait()
    text: str = child.before
    return text


_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_PROMPT = r">(\x08\x1b\[2C| )"  # as prompt_toolkit draws it
_END = "\x04"


_CHARTS = '''
from genai_host.api import ToolOutput, hookimpl, tool


@tool
def sales() -> ToolOutput:
    """What was sold."""
    chart = {"type": "chart", "display-type": "bar", "title": "Sales\\x1b[2J", "label": "region"}
    data = {"columns": ["region", "price"], "rows": [["north", 4], ["south\\x1b[2J", 2]]}
    return ToolOutput("sold", reactions=[{**chart, **data, "values": ["price"], "more": False}])


@hookimpl
def genai_tools():
    return [sales]
'''


@_posix
class TestTerminal:
    def test_lists_are_tables_with_a_head(self, spawn: Any) -> None:
        text = _COLOUR.sub("", shown(spawn("plugins", "check")))
        assert re.search(r"name +distribution +version +status", text)
        assert "\t" not in text

    def test_no_control_character_of_a_model_reaches_it(self, spawn: Any, script: Any) -> None:
        script(["red \x1b[31mx\x1b]52;c;eA==\x07 \x9b2J \u202e back\rover \x08 \ttab"])
        text = shown(spawn("ask", "-p", "script", "x"))
        assert "red ␛[31mx␛]52;c;eA==␇ <009B>2J <202E> back␍over ␈ \ttab" in text

    def test_no_control_character_of_an_error_reaches_it(self, spawn: Any) -> None:
        text = _COLOUR.sub("", shown(spawn("ask", "-m", "a\x1b[2Jb", "x")))
        assert "\x1b" not in text
        assert "a\\x1b[2Jb" in text

    def test_no_control_character_of_a_conversation(self, spawn: Any, script: Any) -> None:
        script(["cat\x1b]52;c;eA==\x07\x1b[2J"])
        assert genai_host("ask", "-p", "script", "hostile\x1b[2J \u202e title").returncode == 0
        assert genai_host("conversations", "rename", "last", "a\x1b[2J\nname").returncode == 0
        for arguments in (["list"], ["show", "last"], ["show", "last", "--details"],
                          ["search", "cat"], ["export", "last"]):  # fmt: skip
            text = _COLOUR.sub("", shown(spawn("conversations", *arguments)))
            assert "\x1b" not in text, arguments
            assert ("a␛[2J name" in text) == (arguments[0] in ("list", "show")), arguments

    def test_chart(self, spawn: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        make_distribution(tmp_path, "zz-charts", files={"zz_charts.py": _CHARTS})
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        monkeypatch.delenv("COLUMNS", raising=False)  # the terminal says it
        text = shown(spawn("tools", "call", "sales"))
        assert "\x1b" not in text
        *_, title, north, south = text.splitlines()
        assert title == "Sales␛[2J"
        assert north == "north     4 " + "█" * 108  # of 120 columns
        assert south == "south␛[2J 2 " + "█" * 54

    def test_words_that_were_searched_for_are_marked(self, spawn: Any, script: Any) -> None:
        genai_host("ask", "-p", "mock", "the lazy dog")
        assert "the \x1b[33m\x1b[1mlazy\x1b[0m dog" in shown(
            spawn("conversations", "search", "LAZY")
        )

    def test_raw_output_is_exact(self, spawn: Any, script: Any) -> None:
        script(["\x1b[31mred"])
        assert "\x1b[31mred" in shown(spawn("ask", "-p", "script", "x", "--raw"))

    def test_a_key_is_asked_for_and_not_shown(self, spawn: Any, home: Path) -> None:
        child = spawn("keys", "set", "openai")
        child.expect("api_key of openai: ")
        assert child.waitnoecho(30)
        child.sendline("sk-canary-5511")
        assert "canary" not in shown(child)
        assert "sk-canary-5511" in (home / "config" / "keys.json").read_text()


def say(child: Any, *lines: str) -> None:
    """Wait for the prompt before each line, and for the end of the process."""
    for line in lines:
        child.expect(_PROMPT)
        child.send(line)
    child.expect(pexpect.EOF)
    child.wait()


@_posix
class TestChat:
    def test_a_conversation_at_a_terminal(self, spawn: Any, script: Any, home: Path) -> None:
        script(["first answer", {"text": "begun and stuck", "pace": 3600}, "third answer"])
        child = spawn("chat", "-p", "script")
        for expected, sent in (
            ("/help lists the commands", ""),
            (_PROMPT, "one\r"),
            ("first answer", ""),
            (_PROMPT, "two\r"),
            ("begun", "\x03"),  # interrupts the reply, not the chat
            ("stopped", ""),
            (_PROMPT, "three\x1b\rsecond line\r"),
            ("third answer", ""),
            (_PROMPT, "/undo\r"),
            ("removed the last message", ""),
        ):
            child.expect(expected)
            child.send(sent)
        say(child, _END)
        assert child.exitstatus == 0
        history = home / "state" / "chat.history"
        assert stat.S_IMODE(history.stat().st_mode) == 0o600
        assert "+three\n+second line\n" in history.read_text()

    def test_what_was_typed_comes_back_in_the_next_chat(self, spawn: Any, script: Any) -> None:
        script(["an answer"])
        say(spawn("chat", "-p", "script"), "remembered words\r", _END)
        child = spawn("chat", "-p", "script")
        child.expect(_PROMPT)
        up = "\x1b[A"
        child.send(up)
        while child.expect(["remembered words", pexpect.TIMEOUT], timeout=2):
            child.send(up)  # the file may not have been read when the key came
        child.send("\r")
        child.expect("an answer")
        say(child, _END)

    def test_it_goes_on_with_the_end_in_view(self, spawn: Any, script: Any) -> None:
        script(["first answer", {"status": 400}])
        genai_host("chat", "-p", "script", stdin="first question\nsecond question\n")
        script(["second answer"])
        child = spawn("chat", "-c")
        for expected in (
            *("chat with mock@script", "> first question", "first answer"),
            *("not answered: second question", "send it again: /retry"),
        ):
            child.expect(expected)
        child.expect(_PROMPT)
        child.send("/retry\r")
        child.expect("second answer")
        child.expect(_PROMPT)
        child.send("/quit\r")
        child.expect("continue: genai-host chat --conversation [0-9a-z]{18}")
        child.expect(pexpect.EOF)

    def test_history_that_cannot_be_written(self, spawn: Any, script: Any, home: Path) -> None:
        script(["an answer"])
        (home / "state").write_text("no folder")
        child = spawn("chat", "-p", "script")
        child.expect(_PROMPT)
        child.send("words\r")
        child.expect("an answer")
        say(child, "/quit\r")
        assert child.exitstatus == 0

    def test_ctrl_c_at_the_prompt_drops_what_was_typed(self, spawn: Any, script: Any) -> None:
        script(["an answer"])
        child = spawn("chat", "-p", "script")
        for expected, sent in (
            *((_PROMPT, "dropped"), ("dropped", "\x03")),
            *((_PROMPT, "kept\r"), ("an answer", "/quit\r")),
        ):
            child.expect(expected)
            child.send(sent)
        child.expect(pexpect.EOF)
