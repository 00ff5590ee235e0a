"""Processes that tests of the store start and kill.

With `writers`, the program starts a process for each line `STORE PIPE` that it reads. The process
takes turns and writes the acknowledged ones to PIPE. With `first STORE`, it runs once: it opens a
conversation, sends a message, and ends.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import genai_feature_chat
import genai_vendor_mock

import genai_host.dialects
from genai_host import Config, Host, StaticPlugins
from genai_host.api import Feature
from genai_host.store import Store
from genai_host.testing import InlinePlugin


def host_of(store: Store, *features: Feature[Any]) -> Host:
    plugins = {
        "dialects": genai_host.dialects,
        "mock": genai_vendor_mock,
        "chat": genai_feature_chat,
        "more": InlinePlugin(features=features),
    }
    return Host(config=Config(), discovery=StaticPlugins(plugins), store=store)


def tell(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def start_writers() -> None:
    """Start the program once, because starting Python takes longer than the work until a kill."""
    with Store("not-used.db") as store, host_of(store) as host:
        host.explain("mock")  # imports the requirements of the processes, and starts no thread
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        place, pipe = line.split()
        process = os.fork()
        if process == 0:
            sys.stdout = open(pipe, "w", encoding="utf-8")  # noqa: SIM115 - until it is killed
            take_turns(place)
        tell(process)


def take_turns(place: str) -> None:
    """Take two turns in each conversation, until killed."""
    with Store(place, patience=60.0) as store, host_of(store) as host:
        number = 0
        while True:
            conversation = host.open("chat", "mock")
            for _ in range(2):
                answer = conversation.say(f"message {number}")
                assert conversation.record_error is None, conversation.record_error
                tell(conversation.id, answer.text)
                number += 1


def run_first(place: str) -> None:
    with Store(place, patience=60.0) as store, host_of(store) as host:
        sys.stdin.readline()
        conversation = host.open("chat", "mock")
        text = conversation.say("hello").text
        assert conversation.record_error is None, conversation.record_error
        tell(conversation.id, text)


if __name__ == "__main__":
    if sys.argv[1] == "writers":
        start_writers()
    else:
        run_first(sys.argv[2])
