"""Approvals from process to process: one asks, another decides, and one that is killed in
between leaves what the next one goes on with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

from genai_host_testing.environments import make_distribution

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(os.name != "posix", reason="kills and terminals of POSIX"),
]

_PLUGIN = '''
"""Two tools that leave a trace in a file, and a model that asks for both; where DIE says so,
the process is killed at that point of the first call of a tool."""

import os
import signal

from genai_host.api import Completion, Message, Tool, ToolCall
from genai_host.conversations.record import StepEnded, StepStarted
from genai_host.store.store import StoredRecord
from genai_host_testing import FakeModel, InlinePlugin

DIE = os.environ.get("DIE")


def die(point):
    if DIE == point:
        os.kill(os.getpid(), signal.SIGKILL)


def leaves_a_trace(name):
    def run(arguments, run):
        die("before its effect")
        with open(os.environ["TRACE"], "a") as file:
            file.write(f"{name} {arguments['what']}\\n")
        die("after its effect")
        return f"{name} is done"

    return run


def says(heard):
    results = [part for each in heard.messages if each.role == "tool" for part in each.content]
    if results:
        return "; ".join(part.content[0].text.split("\\n")[1] for part in results)
    asked = [ToolCall(f"c-{name}", name, {"what": "all"}) for name in ("once", "twice")]
    return Completion(Message("assistant", asked), "tool_calls")


append = StoredRecord.append


def append_or_die(record, entry):
    is_call = isinstance(entry, StepStarted) and entry.step == "call_tool"
    if is_call:
        die("before its start is recorded")
    append(record, entry)
    if is_call:
        die("after its start is recorded")
    if isinstance(entry, StepEnded) and len(entry.path) == 2:
        die("after its end is recorded")


StoredRecord.append = append_or_die
what = {"properties": {"what": {"type": "string"}}}
tools = InlinePlugin(
    tools=[
        Tool("once", "is done", leaves_a_trace("once"), what, approval="ask"),
        Tool("twice", "is done", leaves_a_trace("twice"), what, approval="ask", idempotent=True),
    ]
)
model = FakeModel(says)
'''
_PROMPT = r">(\x08\x1b\[2C| )"  # as prompt_toolkit draws it


class Processes:
    """Processes of the command line with the plugin.

    trace   what the tools have done
    """

    def __init__(self, site: Path, trace: Path) -> None:
        self._site = site
        self._trace = trace

    @property
    def trace(self) -> Counter[str]:
        return Counter(self._trace.read_text().split("\n")[:-1] if self._trace.exists() else ())

    def environment(self, die: str = "") -> dict[str, str]:
        more = {"PYTHONPATH": str(self._site), "TRACE": str(self._trace), "DIE": die}
        return {**os.environ, **more}

    def __call__(self, *arguments: str, die: str = "") -> subprocess.CompletedProcess[str]:
        return self.run("-m", "genai_host", *arguments, die=die)

    def run(self, *arguments: str, die: str = "") -> subprocess.CompletedProcess[str]:
        """Run Python with the plugin."""
        return subprocess.run(
            [sys.executable, *arguments],
            env=self.environment(die),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def ask(self) -> str:
        """Ask, in a process that ends; the id of the conversation, which waits."""
        done = self("ask", "-f", "agent", "-m", "fake", "go", "--json")
        assert done.returncode == 3, done.stderr
        id: str = json.loads(done.stdout)["conversation"]
        return id


@pytest.fixture
def processes(tmp_path: Path, home: Path) -> Processes:
    site = tmp_path / "site"
    site.mkdir()
    make_distribution(
        site,
        "zz-office",
        files={"zz_office.py": _PLUGIN},
        entry_points={"zz-tools": "zz_office:tools", "zz-model": "zz_office:model"},
    )
    return Processes(site, tmp_path / "trace")


def test_another_process_lists_and_decides(processes: Processes) -> None:
    id = processes.ask()
    assert processes.trace == {}
    [waits] = json.loads(processes("conversations", "paused", "--json").stdout)
    assert waits["conversation"] == id
    assert waits["payload"]["calls"] == [
        {"id": "c-once", "tool": "once", "arguments": {"what": "all"}},
        {"id": "c-twice", "tool": "twice", "arguments": {"what": "all"}},
    ]
    assert processes("conversations", "resume", id).returncode == 3  # it waits on
    done = processes("conversations", "resume", id, "--approve", "c-once")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("once is done; the user did not approve")
    assert processes.trace == {"once all": 1}
    assert processes("conversations", "resume", id, "--yes").returncode == 2
    assert processes.trace == {"once all": 1}


def test_another_process_decides_in_python(processes: Processes) -> None:
    id = processes.ask()
    code = (
        "from genai_host import Host\n"
        "from genai_host.store import Store\n"
        "with Store() as store, Host(store=store) as host:\n"
        "    [kept] = host.conversations()\n"
        f"    assert (kept.id, kept.status) == ({id!r}, 'paused')\n"
        "    conversation = host.conversation(kept.id)\n"
        "    calls = conversation.current_pause.payload['calls']\n"
        "    decided = {call['id']: call['tool'] == 'twice' for call in calls}\n"
        "    print(conversation.resume(decided).text)\n"
        "    print(host.conversations()[0].status)\n"
    )
    done = processes.run("-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].endswith("twice is done")
    assert done.stdout.splitlines()[1] == "idle"
    assert processes.trace == {"twice all": 1}


MAY_HAVE = "was interrupted and may have completed"


@pytest.mark.slow
@pytest.mark.parametrize(("call", "point", "at_first", "in_the_end", "message"), [
    ("once", "before its start is recorded", 0, 1, "once is done"),
    ("once", "after its start is recorded", 0, 0, MAY_HAVE),
    ("once", "before its effect", 0, 0, MAY_HAVE),
    ("once", "after its effect", 1, 1, MAY_HAVE),
    ("once", "after its end is recorded", 1, 1, "once is done"),
    ("twice", "before its start is recorded", 0, 1, "twice is done"),
    ("twice", "before its effect", 0, 1, "twice is done"),
    ("twice", "after its effect", 1, 2, "twice is done"),
    ("twice", "after its end is recorded", 1, 1, "twice is done"),
])  # fmt: skip
def test_what_is_killed_after_an_approval_is_not_asked_for_again(
    processes: Processes, call: str, point: str, at_first: int, in_the_end: int, message: str
) -> None:
    id = processes.ask()
    killed = processes("conversations", "resume", id, "--approve", f"c-{call}", die=point)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert processes.trace[f"{call} all"] == at_first
    [conversation] = json.loads(processes("conversations", "list", "--json").stdout)
    assert conversation["status"] == "interrupted"
    done = processes("conversations", "resume", id)
    assert done.returncode == 0, done.stderr
    assert message in done.stdout
    assert processes.trace == Counter({f"{call} all": in_the_end})  # and the other call never ran


@pytest.fixture
def spawn(processes: Processes) -> Iterator[Callable[..., Any]]:
    """Starts the command line at a terminal of its own."""
    started: list[pexpect.spawn[str]] = []

    def start(*arguments: str) -> pexpect.spawn[str]:
        environment = {
            **processes.environment(), "TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1",
        }  # fmt: skip
        child = pexpect.spawn(
            sys.executable, ["-m", "genai_host", *arguments],
            env=environment, encoding="utf-8", timeout=60, dimensions=(40, 120),
        )  # fmt: skip
        started.append(child)
        return child

    yield start
    for child in started:
        child.close(force=True)


def interrupt(child: Any, expected: str) -> None:
    """Press Ctrl-C, until it is heard: what comes just before Python's `input` waits for a key
    is not looked at before there is one."""
    for _ in range(6):
        child.sendintr()
        if child.expect([expected, pexpect.TIMEOUT], timeout=10) == 0:
            return
    raise AssertionError(f"no {expected}, but {child.before!r}")


def decide(child: Any, *answers: str) -> None:
    for answer in answers:
        child.expect("May it run")
        child.sendline(answer)


class TestTerminal:
    def test_it_is_asked_right_there(self, spawn: Any, processes: Processes) -> None:
        child = spawn("ask", "-f", "agent", "-m", "fake", "go")
        child.expect("once .c-once.")
        child.expect('{"what": "all"}')
        child.expect("May it run")
        assert processes.trace == {}
        child.sendline("y")
        child.expect("twice .c-twice.")
        decide(child, "")  # which is no
        child.expect("once is done; the user did not approve")
        child.expect(pexpect.EOF)
        child.wait()
        assert child.exitstatus == 0
        assert processes.trace == {"once all": 1}

    def test_interrupted_approval_is_asked_again(self, spawn: Any, processes: Processes) -> None:
        child = spawn("ask", "-f", "agent", "-m", "fake", "go")
        decide(child, "y")
        child.expect("May it run")
        interrupt(child, "resume [0-9a-z-]+ --approve-all")
        child.expect(pexpect.EOF)
        child.wait()
        assert child.exitstatus == 3
        assert processes.trace == {}
        child = spawn("conversations", "resume", "last")
        decide(child, *"ny")
        child.expect("twice is done")
        child.expect(pexpect.EOF)
        assert processes.trace == {"twice all": 1}

    def test_a_chat_left_waiting_asks_when_told(self, spawn: Any, processes: Processes) -> None:
        processes.ask()
        child = spawn("chat", "-c")
        child.expect("once .c-once.")
        child.expect("decide: /resume")
        child.expect(_PROMPT)
        child.send("/resume\r")
        child.expect("May it run")
        interrupt(child, "decide: /resume")
        child.expect(_PROMPT)
        child.send("/resume\r")
        decide(child, *"yy")
        child.expect("once is done; twice is done")
        child.expect(_PROMPT)
        child.send("/quit\r")
        child.expect(pexpect.EOF)
        assert processes.trace == {"once all": 1, "twice all": 1}
