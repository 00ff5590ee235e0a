#!/usr/bin/env python3
"""Compare HTTP calls through the whole host with plain requests and the openai SDK.

    python benchmarks/calls.py [--rounds 11] [--seconds 2]

All clients call the same service on this machine (`service.c`, built with `cc` on first use), and
alternate in each round. Figures are medians of the rounds; ratios are relative to
`requests.Session.post` in the same round. The host has ten further plugins, an observer, timeouts,
circuit breakers and retries. It is measured without an event log, with an event log in memory, and
with a store.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from service import ANSWER, Service
from timing import median_ratio

_TEXT = "The quick brown fox jumps over the lazy dog while the host routes one more turn. "
_MODEL = "gpt-4o-mini"
_KEY = "no-key-at-all"
_CHUNKS = 2000

Messages = list[dict[str, str]]


class Subject(Protocol):
    """A client to measure."""

    name: str

    @staticmethod
    def is_available() -> bool: ...

    def short(self) -> str:
        """Send one message."""

    def history(self) -> str:
        """Send one message after a stored history of 200 messages."""

    def rebuilt(self) -> str:
        """Send one message after a history that is built for this call."""

    def stream(self) -> int:
        """Read a stream; returns the number of chunks."""

    def call_for_thread(self) -> Callable[[], object]:
        """Return a short call that one thread can use."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=11, help="number of rounds")
    parser.add_argument("--seconds", type=float, default=2.0, help="duration of a throughput test")
    parser.add_argument("--memory", metavar="CLIENT", help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.environ["NO_PROXY"] = "*"
    with Service() as service:
        if options.memory:
            _measure_memory(options.memory, service.url)
            return
        subjects = [subject(service.url) for subject in _subject_types() if subject.is_available()]
        _compare(subjects, options.rounds)
        _throughput(subjects, options.rounds, options.seconds)
    for subject in subjects:
        command = [sys.executable, __file__, "--memory", subject.name]
        print(subprocess.run(command, capture_output=True, text=True, check=True).stdout, end="")


def _subject_types() -> tuple[Any, ...]:
    return (Requests, Host, Recorded, Stored, OpenAI)


def _compare(subjects: list[Any], rounds: int) -> None:
    for kind, times in (("short", 200), ("history", 60), ("rebuilt", 60), ("stream", 3)):
        times_of: dict[str, list[float]] = {subject.name: [] for subject in subjects}
        for number in range(rounds + 1):
            for subject in subjects[number % len(subjects) :] + subjects[: number % len(subjects)]:
                call = getattr(subject, kind)
                median = statistics.median(_timed(call) for _ in range(times))
                if number:  # the first round is a warm-up
                    times_of[subject.name].append(median)
        for name, seconds in times_of.items():
            ratio = median_ratio(seconds, times_of["requests"])
            unit = _CHUNKS if kind == "stream" else 1
            micros = statistics.median(seconds) * 1e6 / unit
            print(f"{kind:10} {name:10} {micros:9.1f} us   {ratio:5.2f} x requests")


def _timed(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def _throughput(subjects: list[Any], rounds: int, seconds: float) -> None:
    rates: dict[str, list[float]] = {subject.name: [] for subject in subjects}
    for _ in range(max(rounds // 3, 1)):
        for subject in subjects:
            rates[subject.name].append(_rate(subject, seconds))
    for name, values in rates.items():
        ratio = median_ratio(values, rates["requests"])
        rate = statistics.median(values)
        print(f"{'32 threads':10} {name:10} {rate:9.0f} /s   {ratio:5.2f} x requests")


def _rate(subject: Any, seconds: float, threads: int = 32) -> float:
    counts = [0] * threads
    ready, stop = threading.Barrier(threads + 1), threading.Event()

    def run(number: int) -> None:
        call = subject.call_for_thread()
        call()
        ready.wait()
        while not stop.is_set():
            call()
            counts[number] += 1

    running = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    ready.wait()
    started = time.perf_counter()
    time.sleep(seconds)
    completed, elapsed = sum(counts), time.perf_counter() - started
    stop.set()
    for thread in running:
        thread.join()
    return completed / elapsed


def _measure_memory(name: str, url: str) -> None:
    subject = next(kind for kind in _subject_types() if kind.name == name)(url)
    for _ in range(100):
        subject.short()
    before = _resident_mb()
    for _ in range(1000):
        subject.short()
    after = _resident_mb()
    print(f"{'memory':10} {name:10} {after:9.1f} MB   {after - before:+.2f} MB in 1,000 calls")


def _resident_mb() -> float:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize() / 1e6
    except FileNotFoundError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def _messages(count: int) -> Messages:
    return [{"role": "user" if n % 2 == 0 else "assistant", "content": _TEXT} for n in range(count)]


class Requests:
    """The baseline: a session of requests."""

    name = "requests"

    def __init__(self, url: str) -> None:
        import requests

        self._session = requests.Session()
        self._session.headers["Authorization"] = f"Bearer {_KEY}"
        self._session.mount("http://", requests.adapters.HTTPAdapter(pool_maxsize=64))
        self._url = f"{url}/v1/chat/completions"
        self._short = _messages(1)
        self._long = _messages(201)

    @staticmethod
    def is_available() -> bool:
        return True

    def short(self) -> str:
        return self._send(self._short)

    def history(self) -> str:
        return self._send(self._long)

    rebuilt = history

    def stream(self) -> int:
        body = {"model": _MODEL, "messages": self._short, "stream": True}
        chunks = 0
        with self._session.post(self._url, json=body, timeout=60, stream=True) as reply:
            for line in reply.iter_lines():
                if line.startswith(b"data: ") and line != b"data: [DONE]":
                    choices = json.loads(line[6:])["choices"]
                    chunks += bool(choices and choices[0]["delta"].get("content"))
        return _check_count(chunks)

    def call_for_thread(self) -> Callable[[], object]:
        return self.short

    def _send(self, messages: Messages) -> str:
        body = {"model": _MODEL, "messages": messages}
        reply = self._session.post(self._url, json=body, timeout=60)
        reply.raise_for_status()
        return _check_answer(reply.json()["choices"][0]["message"]["content"])


class Host:
    """The host, without an event log."""

    name = "genai-host"
    record = False

    def __init__(self, url: str, store: Any = None) -> None:
        import genai_host

        self._host = genai_host.Host(
            config=genai_host.Config(), discovery=_plugins(url), store=store
        )
        self._with_history = self._open(history=self._messages(200))
        self._without_history = self._open(settings={"keep_history": False})

    @staticmethod
    def is_available() -> bool:
        return True

    def short(self) -> str:
        return _check_answer(self._without_history.say(_TEXT).text)

    def history(self) -> str:
        text = self._with_history.say(_TEXT).text
        self._with_history.undo()
        return _check_answer(text)

    def rebuilt(self) -> str:
        return _check_answer(self._open(history=self._messages(200)).say(_TEXT).text)

    def stream(self) -> int:
        chunks = 0
        for event in self._without_history.stream(_TEXT):
            chunks += bool(event.text)
        return _check_count(chunks)

    def call_for_thread(self) -> Callable[[], object]:
        conversation = self._open(settings={"keep_history": False})
        return lambda: conversation.say(_TEXT)

    def _open(self, **options: Any) -> Any:
        return self._host.open("chat", _MODEL, record=self.record, **options)

    def _messages(self, count: int) -> list[Any]:
        from genai_host import Message

        return [Message("user" if n % 2 == 0 else "assistant", _TEXT) for n in range(count)]


class Recorded(Host):
    """The host, with an event log in memory."""

    name = "recorded"
    record = True


class Stored(Host):
    """The host, with a store: a SQLite file that stays open until the process ends."""

    name = "stored"
    record = True

    def __init__(self, url: str) -> None:
        from genai_host.store import Store

        self._directory = tempfile.TemporaryDirectory(prefix="genai-host-")
        super().__init__(url, store=Store(os.path.join(self._directory.name, "conversations.db")))


class OpenAI:
    """The official SDK, if it is installed."""

    name = "openai"

    def __init__(self, url: str) -> None:
        openai: Any = importlib.import_module("openai")
        self._client = openai.OpenAI(base_url=f"{url}/v1", api_key=_KEY)
        self._short: Any = _messages(1)
        self._long: Any = _messages(201)

    @staticmethod
    def is_available() -> bool:
        return importlib.util.find_spec("openai") is not None

    def short(self) -> str:
        return self._send(self._short)

    def history(self) -> str:
        return self._send(self._long)

    rebuilt = history

    def stream(self) -> int:
        create = self._client.chat.completions.create
        chunks = 0
        for chunk in create(model=_MODEL, messages=self._short, stream=True):
            chunks += bool(chunk.choices and chunk.choices[0].delta.content)
        return _check_count(chunks)

    def call_for_thread(self) -> Callable[[], object]:
        return self.short

    def _send(self, messages: Any) -> str:
        reply = self._client.chat.completions.create(model=_MODEL, messages=messages)
        return _check_answer(reply.choices[0].message.content)


def _plugins(url: str) -> Any:
    import genai_feature_chat

    from genai_host import StaticPlugins
    from genai_host.api import DialectEndpoint, Feature, Model, NoSettings, hookimpl, http_provider
    from genai_host_testing import installed_wires

    os.environ["SERVICE_KEY"] = _KEY

    class Vendor:
        @hookimpl
        def genai_providers(self) -> Any:
            serves = {"openai-chat": DialectEndpoint()}
            yield http_provider("service", f"{url}/v1", serves, key="SERVICE_KEY")

        @hookimpl
        def genai_models(self) -> Any:
            yield Model(_MODEL, dialects=["openai-chat"], at={"service": _MODEL})

    class Observer:
        @hookimpl
        def genai_on_call_end(self, id: str, result: Any, error: Any, seconds: float) -> None:
            pass

    class FurtherPlugin:
        def __init__(self, number: int) -> None:
            self._number = number

        @hookimpl
        def genai_features(self) -> Any:
            yield Feature(f"more-{self._number}", NoSettings, _no_steps)

    return StaticPlugins(
        {
            **installed_wires(),
            "chat": genai_feature_chat,
            "vendor": Vendor(),
            "observer": Observer(),
            **{f"more-{number}": FurtherPlugin(number) for number in range(10)},
        }
    )


def _no_steps(turn: Any) -> Any:
    yield from ()


def _check_answer(text: Any) -> str:
    if text != ANSWER:
        raise AssertionError(text)
    return str(text)


def _check_count(chunks: int) -> int:
    if chunks != _CHUNKS:
        raise AssertionError(f"{chunks} of {_CHUNKS} chunks")
    return chunks


if __name__ == "__main__":
    main()
