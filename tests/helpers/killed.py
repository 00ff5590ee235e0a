"""Processes that tests start and kill, and what they do until then.

`python killed.py STORE` forks a process for each `Life` that it reads as a line of JSON, because
imports take longer than the work until a kill. The process writes to its pipe what it has
acknowledged.

Each message asks for one call of `mail`, which must not run twice and appends the message to a log.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import genai_feature_agent
import genai_feature_assistants
from attrs import asdict, frozen
from genai_batch.batch import Batch
from genai_batch.work import Task
from genai_server import Server

from genai_host import Config, Host, StaticPlugins
from genai_host.api import Completion, Message, Tool, ToolCall, ToolContext
from genai_host.store import Store
from genai_host.util.clock import SystemClock
from genai_host_testing import FakeModel, InlinePlugin, RecordedPrompt, installed_wires


@frozen
class Life:
    """What one process does.

    Attributes:
        work: Name of a function of `WORKS`.
        store: Location of the store.
        log: File of the calls of `mail`.
        pipe: Named pipe for what is acknowledged.
        number: Number of processes before it. Each starts a minute after the last, when the leases
            of a killed process have expired.
        rows: File of rows, for a batch.
    """

    work: str
    store: str
    log: str
    pipe: str = ""
    number: int = 0
    rows: str = ""

    def to_line(self) -> str:
        return json.dumps(asdict(self)) + "\n"


class LaterClock(SystemClock):
    """A system clock that is some minutes fast."""

    def __init__(self, minutes: int) -> None:
        super().__init__()
        self._fast = timedelta(minutes=minutes)

    def now(self) -> datetime:
        return super().now() + self._fast


def answer(prompt: RecordedPrompt) -> str | Completion:
    text = next(each.text for each in reversed(prompt.messages) if each.role == "user")
    if prompt.messages[-1].role == "tool" or "mail" not in prompt.tools:
        return f"sent {text}"
    call = ToolCall("1", "mail", {"text": text})
    return Completion(Message("assistant", [call]), finish="tool_calls")


def host_of(store: Store, log: str = os.devnull, clock: SystemClock | None = None) -> Host:
    def mail(arguments: Mapping[str, Any], run: ToolContext) -> str:
        with open(log, "a", encoding="utf-8") as file:
            file.write(f"{arguments['text']}\n")
        return "sent"

    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    plugins = {
        **installed_wires(),
        "fake": FakeModel(answer),
        "agent": genai_feature_agent,
        "assistants": genai_feature_assistants,
        "mail": InlinePlugin(tools=[Tool("mail", "Sends a mail.", mail, schema)]),
    }
    discovery = StaticPlugins(plugins)
    return Host(config=Config(), discovery=discovery, store=store, clock=clock)


def tell(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def start_lives(place: str) -> None:
    """Start a process for each line. What the processes import is imported here, once."""
    with suppress(ImportError):
        import psycopg  # noqa: F401
    with Store(place) as store, host_of(store) as host, Server(host, port=0):
        host.open("agent", "fake").say("hello")
    for thread in threading.enumerate():  # forks follow
        if thread is not threading.current_thread():
            thread.join(10)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        process = os.fork()
        if process == 0:
            life = Life(**json.loads(line))
            sys.stdout = open(life.pipe, "w", encoding="utf-8")  # noqa: SIM115 - until it is killed
            live(life)
            os._exit(0)
        tell(process)


def live(life: Life) -> None:
    clock = LaterClock(life.number)
    with Store(life.store, patience=60.0) as store, host_of(store, life.log, clock) as host:
        WORKS[life.work](life, host)


def take_turns(life: Life, host: Host) -> None:
    """Take two turns in each conversation, until killed."""
    number = 0
    while True:
        conversation = host.open("agent", "fake")
        for _ in range(2):
            text = f"{os.getpid()}-{number}"
            assert conversation.say(text).text == f"sent {text}"
            assert conversation.record_error is None, conversation.record_error
            tell(conversation.id, text)
            number += 1


def serve(life: Life, host: Host) -> None:
    """Serve HTTP until killed."""
    with Server(host, port=0) as server:
        tell(server.url)
        signal.pause()


def run_batch(life: Life, host: Host) -> None:
    """Run a recorded batch."""
    task = Task("agent", "fake", record=True)
    output = f"{life.rows}.answers"
    batch = Batch(
        host, life.rows, output, task, concurrency=4, on_progress=lambda done: tell(done.done)
    )
    batch.run()
    tell("ended")


WORKS = {"turns": take_turns, "jobs": serve, "batches": run_batch}


if __name__ == "__main__":
    start_lives(sys.argv[1])
