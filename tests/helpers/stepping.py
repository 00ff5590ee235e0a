"""A feature of five steps, each with an external side effect, and processes that stop between them.

`python stepping.py` forks a process for each line of JSON, `[WORK, STORE, LOG]`, because starting
Python takes longer than the work of the process. It prints the id of the process, lets it use the
same pipes, and prints how it ended. WORK is `say`, which stops at each point between two steps,
prints the point and waits for a line; or `resume`, which resumes the stored turn and prints the
result.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Mapping
from typing import Any
from unittest import mock

import genai_host.dialects
from genai_host import Config, Host, StaticPlugins
from genai_host.api import (
    Answer,
    CallFunction,
    CallTool,
    Feature,
    FeatureSteps,
    NoSettings,
    Prompt,
    Tool,
    ToolCall,
    ToolContext,
    Turn,
)
from genai_host.conversations.record import Entry, StepEnded, StepStarted
from genai_host.errors import GenaiError
from genai_host.store import Store
from genai_host.store.store import StoredRecord
from genai_host_testing import FakeModel, InlinePlugin

STEPS = ("charge", "look", "ask", "find", "send")
REPEATABLE = ("look", "ask", "find")
POINTS = (
    "before its start is recorded",
    "after its start is recorded",
    "after its effect",
    "after its result is recorded",
)
ANSWER = "charge, look, ask, find and send were done"


def effect(log: str, step: str) -> str:
    """Write the step to the log and return it to the feature."""
    with open(log, "a", encoding="ascii") as file:
        file.write(f"{step}\n")
    return step


def respond(turn: Turn[NoSettings]) -> FeatureSteps:
    log = turn.message.text
    charged = yield from CallFunction(effect, {"log": log, "step": "charge"}, str)
    looked = yield from CallFunction(effect, {"log": log, "step": "look"}, str, idempotent=True)
    completion = yield from Prompt([turn.message])
    result = yield from CallTool(ToolCall("1", "find", {"log": log}))
    sent = yield from CallTool(ToolCall("2", "send", {"log": log}))
    results = f"{charged}, {looked}, {completion.text}, {result.text} and {sent.text}"
    return Answer(f"{results} were done")


def effect_tool(name: str) -> Tool:
    def run(arguments: Mapping[str, Any], run: ToolContext) -> str:
        return effect(arguments["log"], name)

    log = {"properties": {"log": {"type": "string"}}}
    return Tool(name, "Leaves a trace.", run, log, idempotent=name in REPEATABLE)


def host_of_steps(store: Store) -> Host:
    plugins = {
        "dialects": genai_host.dialects,
        "fake": FakeModel(lambda prompt: effect(prompt.text, "ask")),
        "steps": InlinePlugin(
            features=[Feature("steps", NoSettings, respond)],
            tools=[effect_tool("find"), effect_tool("send")],
        ),
    }
    return Host(config=Config(), discovery=StaticPlugins(plugins), store=store)


def say(file: str, log: str) -> None:
    append = StoredRecord.append

    def append_and_stop(record: StoredRecord, entry: Entry) -> None:
        if isinstance(entry, StepStarted):
            stop(entry, POINTS[0])
        elif isinstance(entry, StepEnded):
            stop(entry, POINTS[2])
        append(record, entry)
        if isinstance(entry, StepStarted):
            stop(entry, POINTS[1])
        elif isinstance(entry, StepEnded):
            stop(entry, POINTS[3])

    with (
        mock.patch.object(StoredRecord, "append", append_and_stop),
        Store(file) as store,
        host_of_steps(store) as host,
    ):
        tell(host.open("steps", "fake").say(log).text)


def stop(entry: StepStarted | StepEnded, point: str) -> None:
    tell([STEPS[entry.path[0]], point])
    sys.stdin.readline()


def resume(file: str, log: str) -> None:
    with Store(file) as store, host_of_steps(store) as host:
        (summary,) = store.conversations()
        conversation = host.conversation(summary.id)
        text, error = "", ""
        try:
            # nothing is stored for a turn whose first step has not started
            answer = conversation.resume() if summary.turns else conversation.say(log)
            text = answer.text
        except GenaiError as failure:
            error = type(failure).__name__
        history = [message.text for message in conversation.history]
        tell({"was": summary.status, "text": text, "error": error, "history": history})


def tell(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def serve() -> None:
    with Store("not-used.db") as store, host_of_steps(store) as host:
        host.explain("fake")  # imports the requirements of the processes, and starts no thread
    for line in sys.stdin:
        work, file, log = json.loads(line)
        process = os.fork()
        if process == 0:
            os._exit(live({"say": say, "resume": resume}[work], file, log))
        tell(process)
        _, status = os.waitpid(process, 0)
        tell({"ended": os.waitstatus_to_exitcode(status)})


def live(work: Any, file: str, log: str) -> int:
    try:
        work(file, log)
    except BaseException:  # noqa: BLE001 - a fork must not go on as the nursery
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    serve()
