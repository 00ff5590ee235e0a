#!/usr/bin/env python3
"""Calls over HTTP, through all of the host, beside plain requests and the openai SDK.

    python benchmarks/calls.py [--rounds 11] [--seconds 2]

All talk to the same service on this machine (`service.c`, built with `cc` on first use),
turn by turn in each round; figures are medians of the rounds, and ratios are to
`requests.Session.post` in the same round. The host runs as its users run it: discovered
plugins, ten more of them, an observer, deadlines, breaker and retry; once without a record,
once with one in memory, and once with one in a store.
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

_TEXT = "The quick brown fox jumps over the lazy dog while the host routes one more turn. "
_MODEL = "gpt-4o-mini"
_KEY = "no-key-at-all"
_CHUNKS = 2000

Wire = list[dict[str, str]]


class Subject(Protocol):
    """A client: one call, whole or streamed, with this history and one more message."""

    name: str

    def short(self) -> str: ...

    def history(self) -> str: ...

    def rebuilt(self) -> str: ...

    def stream(self) -> int: ...


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--memory", metavar="CLIENT", help=argparse.SUPPRESS)
    given = parser.parse_args()
    os.environ["NO_PROXY"] = "*"
    with Service() as service:
        if given.memory:
            _measure_memory(given.memory, service.url)
            return
        subjects = [
            make(service.url)
            for make in (Requests, Host, Recorded, Stored, OpenAI)
            if make.is_there()
        ]
        _compare(subjects, given.rounds)
        _throughput(subjects, given.rounds, given.seconds)
    for subject in subjects:
        command = [sys.executable, __file__, "--memory", subject.name]
        print(subprocess.run(command, capture_output=True, text=True, check=True).stdout, end="")


def _all() -> tuple[Any, ...]:
    return (Requests, Host, Recorded, Stored, OpenAI)


def _compare(subjects: list[Any], rounds: int) -> None:
    for kind, times in (("short", 200), ("history", 60), ("rebuilt", 60), ("stream", 3)):
        walls: dict[str, list[float]] = {subject.name: [] for subject in subjects}
        for number in range(rounds + 1):
            for subject in subjects[number % len(subjects) :] + subjects[: number % len(subjects)]:
                act = getattr(subject, kind)
                found = sorted(_timed(act) for _ in range(times))
                if number:  # the first round warms up
                    walls[subject.name].append(statistics.median(found))
        floor = walls["requests"]
        for name, each in walls.items():
            ratio = statistics.median(a / b for a, b in zip(each, floor, strict=True))
            unit = _CHUNKS if kind == "stream" else 1
            micros = statistics.median(each) * 1e6 / unit
            print(f"{kind:10} {name:10} {micros:9.1f} us   {ratio:5.2f} x requests")


def _timed(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def _throughput(subjects: list[Any], rounds: int, seconds: float) -> None:
    rates: dict[str, list[float]] = {subject.name: [] for subject in subjects}
    for _ in range(max(rounds // 3, 1)):
        for subject in subjects:
            rates[subject.name].append(_rate(subject, seconds))
    floor = rates["requests"]
    for name, each in rates.items():
        ratio = statistics.median(a / b for a, b in zip(each, floor, strict=True))
        rate = statistics.median(each)
        print(f"{'32 threads':10} {name:10} {rate:9.0f} /s   {ratio:5.2f} x requests")


def _rate(subject: Any, seconds: float, threads: int = 32) -> float:
    counts = [0] * threads
    started, over = threading.Barrier(threads + 1), threading.Event()

    def run(number: int) -> None:
        act = subject.of_thread()
        act()
        started.wait()
        while not over.is_set():
            act()
            counts[number] += 1

    running = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    started.wait()
    begun = time.perf_counter()
    time.sleep(seconds)
    done, took = sum(counts), time.perf_counter() - begun
    over.set()
    for thread in running:
        thread.join()
    return done / took


def _measure_memory(name: str, url: str) -> None:
    make = next(each for each in _all() if each.name == name)
    subject = make(url)
    for _ in range(100):
        subject.short()
    before = _resident()
    for _ in range(1000):
        subject.short()
    after = _resident()
    print(
        f"{'memory':10} {name:10} {after:9.1f} MB   grew by {after - before:.2f} MB in 1,000 calls"
    )


def _resident() -> float:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize() / 1e6
    except FileNotFoundError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def _wire(count: int) -> Wire:
    return [{"role": "user" if n % 2 == 0 else "assistant", "content": _TEXT} for n in range(count)]


class Requests:
    """The floor: what one would write with requests."""

    name = "requests"

    def __init__(self, url: str) -> None:
        import requests

        self._session = requests.Session()
        self._session.headers["Authorization"] = f"Bearer {_KEY}"
        self._session.mount("http://", requests.adapters.HTTPAdapter(pool_maxsize=64))
        self._url = f"{url}/v1/chat/completions"
        self._short = _wire(1)
        self._long = _wire(201)

    @staticmethod
    def is_there() -> bool:
        return True

    def short(self) -> str:
        return self._ask(self._short)

    def history(self) -> str:
        return self._ask(self._long)

    rebuilt = history

    def stream(self) -> int:
        body = {"model": _MODEL, "messages": self._short, "stream": True}
        pieces = 0
        with self._session.post(self._url, json=body, timeout=60, stream=True) as reply:
            for line in reply.iter_lines():
                if line.startswith(b"data: ") and line != b"data: [DONE]":
                    choices = json.loads(line[6:])["choices"]
                    pieces += bool(choices and choices[0]["delta"].get("content"))
        return _all_came(pieces)

    def of_thread(self) -> Callable[[], object]:
        return self.short

    def _ask(self, messages: Wire) -> str:
        body = {"model": _MODEL, "messages": messages}
        reply = self._session.post(self._url, json=body, timeout=60)
        reply.raise_for_status()
        return _as_expected(reply.json()["choices"][0]["message"]["content"])


class Host:
    """The host, with ten more plugins and an observer; no record is kept."""

    name = "genai-host"
    record = False

    def __init__(self, url: str, store: Any = None) -> None:
        import genai_host

        self._host = genai_host.Host(
            config=genai_host.Config(), discovery=_plugins(url), store=store
        )
        self._kept = self._open(history=self._messages(200))
        self._one = self._open(settings={"keep_history": False})

    @staticmethod
    def is_there() -> bool:
        return True

    def short(self) -> str:
        return _as_expected(self._one.say(_TEXT).text)

    def history(self) -> str:
        text = self._kept.say(_TEXT).text
        self._kept.undo()
        return _as_expected(text)

    def rebuilt(self) -> str:
        return _as_expected(self._open(history=self._messages(200)).say(_TEXT).text)

    def stream(self) -> int:
        pieces = 0
        for event in self._one.stream(_TEXT):
            pieces += bool(event.text)
        return _all_came(pieces)

    def of_thread(self) -> Callable[[], object]:
        one = self._open(settings={"keep_history": False})
        return lambda: one.say(_TEXT)

    def _open(self, **given: Any) -> Any:
        return self._host.open("chat", _MODEL, record=self.record, **given)

    def _messages(self, count: int) -> list[Any]:
        from genai_host import Message

        return [Message("user" if n % 2 == 0 else "assistant", _TEXT) for n in range(count)]


class Recorded(Host):
    """The same, with a record."""

    name = "recorded"
    record = True


class Stored(Host):
    """The same, with a record in a store: SQLite in a file, closed when the process ends."""

    name = "stored"
    record = True

    def __init__(self, url: str) -> None:
        from genai_host.store import Store

        self._folder = tempfile.TemporaryDirectory(prefix="genai-host-")
        super().__init__(url, store=Store(os.path.join(self._folder.name, "conversations.db")))


class OpenAI:
    """The official SDK, where it is installed."""

    name = "openai"

    def __init__(self, url: str) -> None:
        openai: Any = importlib.import_module("openai")
        self._client = openai.OpenAI(base_url=f"{url}/v1", api_key=_KEY)
        self._short: Any = _wire(1)
        self._long: Any = _wire(201)

    @staticmethod
    def is_there() -> bool:
        return importlib.util.find_spec("openai") is not None

    def short(self) -> str:
        return self._ask(self._short)

    def history(self) -> str:
        return self._ask(self._long)

    rebuilt = history

    def stream(self) -> int:
        create = self._client.chat.completions.create
        pieces = 0
        for chunk in create(model=_MODEL, messages=self._short, stream=True):
            pieces += bool(chunk.choices and chunk.choices[0].delta.content)
        return _all_came(pieces)

    def of_thread(self) -> Callable[[], object]:
        return self.short

    def _ask(self, messages: Any) -> str:
        reply = self._client.chat.completions.create(model=_MODEL, messages=messages)
        return _as_expected(reply.choices[0].message.content)


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

    class OneMore:
        def __init__(self, number: int) -> None:
            self._number = number

        @hookimpl
        def genai_features(self) -> Any:
            yield Feature(f"more-{self._number}", NoSettings, _nothing)

    return StaticPlugins(
        {
            **installed_wires(),
            "chat": genai_feature_chat,
            "vendor": Vendor(),
            "observer": Observer(),
            **{f"more-{number}": OneMore(number) for number in range(10)},
        }
    )


def _nothing(turn: Any) -> Any:
    yield from ()


def _as_expected(text: Any) -> str:
    if text != ANSWER:
        raise AssertionError(text)
    return str(text)


def _all_came(pieces: int) -> int:
    if pieces != _CHUNKS:
        raise AssertionError(f"{pieces} pieces of {_CHUNKS}")
    return pieces


if __name__ == "__main__":
    main()
