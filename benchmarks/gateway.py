#!/usr/bin/env python3
"""The server in front of a service, beside a thin one with plain requests, LiteLLM's, and
Portkey's.

    python benchmarks/gateway.py [--rounds 7] [--seconds 3] [--starts 3] [--core N]
                                 [--workers N] [--litellm PATH] [--portkey PATH]

All pass on the same chat completions to the same service on this machine (`service.c`),
turn by turn in each round; figures are medians of the rounds. CPU is that of the gateway's
processes, so that a million over the microseconds of a request is how many one core does,
whatever else the machine has to do. With `--core` each has that core alone (on Linux): where
threads of Python wander among cores, a request takes up to twice as much, as luck has it.
With `--workers`, the server is also measured with that number of processes, and
LiteLLM's and Portkey's with as many, where they have an option for it; memory and CPU are then
those of all processes.
wrk makes the requests (`apt-get install wrk`). The paths are those of the program `litellm` of an
environment of its own, with `litellm[proxy]` in it, and of the file `build/start-server.js` of
`@portkey-ai/gateway`, which node runs.
"""

from __future__ import annotations

import argparse
import http.client
import json
import math
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bars import bar
from processes import Started, busy_seconds, cpu_seconds, free_port, memory_kb
from serve_command import MODEL, serve_command
from service import ANSWER, Service

_PATH = "/v1/chat/completions"
_HEADERS = {"Content-Type": "application/json", "Authorization": "Bearer no-key-at-all"}
_WORDS = "".join(f" w{number:04}" for number in range(2000))  # what the service streams
_PATIENCE = 120.0  # seconds until the first reply

Command = tuple[Sequence[str], Mapping[str, str]]
"""A command, and the environment that it adds to this one."""


class Load(NamedTuple):
    """What came of some seconds of requests; times in microseconds."""

    a_second: float
    p50: float
    p99: float
    cpu: float
    errors: int


class Burst(NamedTuple):
    """What a chunk of a stream took, in microseconds."""

    cpu: float
    wall: float


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--core", type=int, metavar="N", help="the only one of each gateway")
    parser.add_argument("--workers", type=int, metavar="N", help="processes of one server")
    parser.add_argument("--litellm", metavar="PATH", help="the program `litellm`")
    parser.add_argument("--portkey", metavar="PATH", help="its build/start-server.js")
    given = parser.parse_args()
    if shutil.which("wrk") is None:
        parser.exit(2, "the requests are made by wrk: apt-get install wrk, or brew install wrk\n")
    os.environ["NO_PROXY"] = "*"
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="genai-host-")))
        service = stack.enter_context(Service())
        commands = _commands(service.url, folder, given.litellm, given.portkey, given.workers)
        direct = Subject("direct", folder, int(service.url.rsplit(":", 1)[1]), service.pid)
        subjects = [direct]
        for name, command in commands.items():
            gateway = Gateway(name, folder, command, None if _is_several(name) else given.core)
            if name == "portkey":
                gateway.add_headers(_portkey_headers(service.url))
            stack.callback(gateway.stop)
            gateway.start(given.starts)
            subjects.append(gateway)
        others = [_round(subjects, number, given.seconds) for number in range(given.rounds + 1)]
        for subject in subjects:
            subject.forget_the_first_round()
            subject.memory_after = memory_kb(subject.pid)
        print(f"medians of {given.rounds} rounds; microseconds where nothing else is said")
        print(f"others had {statistics.median(others[1:]):.2f} cores busy meanwhile")
        _show(subjects)
        _judge({subject.name: subject for subject in subjects})


def _commands(
    url: str, folder: Path, litellm: str | None, portkey: str | None, workers: int | None
) -> dict[str, Callable[[int], Command]]:
    thin = str(Path(__file__).with_name("thin_gateway.py"))
    commands: dict[str, Callable[[int], Command]] = {
        "genai-host": lambda port: serve_command(port, f"{url}/v1", folder),
        "thin": lambda port: ([sys.executable, thin, str(port), url], {}),
    }
    if litellm:
        commands["litellm"] = lambda port: _litellm_command(litellm, port, url, folder)
    if portkey:
        commands["portkey"] = lambda port: _portkey_command(portkey, port)
    if workers:
        name = f"{workers} workers"
        options = ["--workers", str(workers)]
        commands[name] = partial(_several_command, url, folder / name, options)
        if litellm:
            commands[f"litellm, {workers}"] = lambda port: _litellm_command(
                litellm, port, url, folder, workers
            )
    return commands


def _several_command(url: str, folder: Path, options: Sequence[str], port: int) -> Command:
    return serve_command(port, f"{url}/v1", folder, options=options)


def _is_several(name: str) -> bool:
    return name[-1].isdigit() or name[0].isdigit()


def _portkey_command(file: str, port: int) -> Command:
    return ["node", file, f"--port={port}", "--headless"], {"NODE_ENV": "production"}


def _portkey_headers(url: str) -> dict[str, str]:
    """It is told with each request where that is to go."""
    return {"x-portkey-provider": "openai", "x-portkey-custom-host": f"{url}/v1"}


def _litellm_command(program: str, port: int, url: str, folder: Path, workers: int = 1) -> Command:
    """Without a database or keys, with the switches that its documentation advises for
    production."""
    served = {"model": f"openai/{MODEL}", "api_base": f"{url}/v1", "api_key": "no-key-at-all"}
    config = {
        "model_list": [{"model_name": MODEL, "litellm_params": served}],
        "litellm_settings": {"set_verbose": False, "json_logs": False},
        "general_settings": {"disable_spend_logs": True},
    }
    file = folder / "litellm.yaml"
    file.write_text(json.dumps(config), encoding="utf-8")  # which is YAML as well
    command = [program, "--config", str(file), "--host", "127.0.0.1", "--port", str(port)]
    return [*command, "--num_workers", str(workers), "--telemetry", "False"], {
        "LITELLM_MODE": "PRODUCTION",
        "LITELLM_LOG": "ERROR",
        "LITELLM_LOCALMODEL_COST_MAP": "True",
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
    }


class Subject:
    """What is asked at a port, and what was measured of it, a figure for each round."""

    def __init__(self, name: str, folder: Path, port: int, pid: int) -> None:
        self.name = name
        self.pid = pid
        self.port = port
        self.starts: list[float] = []
        self.memory_idle = self.memory_after = 0
        self.one: list[Load] = []
        self.many: list[Load] = []
        self.bursts: list[Burst] = []
        self._script = folder / f"{name}.lua"
        self._headers = dict(_HEADERS)
        self.add_headers({})

    def measure(self, seconds: int) -> None:
        self.one.append(self._load(1, seconds))
        self.many.append(self._load(32, seconds))
        self.bursts.append(self._burst(5))

    def add_headers(self, headers: Mapping[str, str]) -> None:
        """To each request."""
        self._headers.update(headers)
        self._script.write_text(_wrk_script(self._headers), encoding="utf-8")

    def forget_the_first_round(self) -> None:
        """It warmed up."""
        del self.one[0], self.many[0], self.bursts[0]

    def ask(self) -> None:
        """One request. Raises `OSError` if nobody listens."""
        with self._reply(stream=False) as reply:
            body = reply.read()
        if reply.status != 200:
            raise RuntimeError(f"{self.name}: {reply.status} {body[:500]!r}")
        text = json.loads(body)["choices"][0]["message"]["content"]
        assert text == ANSWER, text

    def _load(self, connections: int, seconds: int) -> Load:
        before = cpu_seconds(self.pid)
        url = f"http://127.0.0.1:{self.port}{_PATH}"
        options = ["-t1", f"-c{connections}", f"-d{seconds}s", "-s", str(self._script)]
        command = ["wrk", *options, url]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        taken = cpu_seconds(self.pid) - before
        found = re.search(r"^found (\d+) (\d+) ([\d.]+) ([\d.]+) (\d+)$", printed, re.MULTILINE)
        assert found is not None, printed
        count, micros, p50, p99, errors = map(float, found.groups())
        return Load(count * 1e6 / micros, p50, p99, taken * 1e6 / max(count, 1), int(errors))

    def _burst(self, times: int) -> Burst:
        before, started = cpu_seconds(self.pid), time.perf_counter()
        for _ in range(times):
            with self._reply(stream=True) as reply:
                lines = reply.read().splitlines()
            if reply.status != 200:
                print(f"{self.name} streams nothing: {reply.status} {lines[:1]}", file=sys.stderr)
                return Burst(math.nan, math.nan)
            events = [json.loads(line[6:]) for line in lines if line.startswith(b"data: {")]
            deltas = [event["choices"][0]["delta"] for event in events if event.get("choices")]
            text = "".join(delta.get("content") or "" for delta in deltas)
            assert text == _WORDS, f"{self.name}: {len(text)} characters of {len(_WORDS)}"
            assert b"data: [DONE]" in lines, self.name
        chunks = times * len(_WORDS) / 6
        wall, cpu = time.perf_counter() - started, cpu_seconds(self.pid) - before
        return Burst(cpu * 1e6 / chunks, wall * 1e6 / chunks)

    @contextmanager
    def _reply(self, *, stream: bool) -> Iterator[http.client.HTTPResponse]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("POST", _PATH, _body(stream=stream), self._headers)
            yield connection.getresponse()
        finally:
            connection.close()


class Gateway(Subject):
    """One that is started for this, as a process of its own."""

    def __init__(
        self,
        name: str,
        folder: Path,
        command: Callable[[int], Command],
        core: int | None = None,
    ) -> None:
        super().__init__(name, folder, 0, 0)
        self._command = command
        self._core = core
        self._log = folder / f"{name}.log"
        self._started: Started | None = None

    def start(self, times: int) -> None:
        """More than once, to see how long that takes; the last stays. That before them is
        not counted: it may have to compile what it imports."""
        for _ in range(times + 1):
            self.stop()
            self.starts.append(self._start())
        del self.starts[0]
        self.memory_idle = memory_kb(self.pid)

    def stop(self) -> None:
        if self._started is not None:
            self._started.stop()

    def _start(self) -> float:
        """Seconds until the first reply."""
        self.port = free_port()
        begun = time.perf_counter()
        self._started = Started(*self._command(self.port), self._log, self._core)
        self.pid = self._started.pid
        while True:
            try:
                self.ask()
                return time.perf_counter() - begun
            except OSError as error:
                late = time.perf_counter() - begun > _PATIENCE
                if late or self._started.has_ended:
                    raise RuntimeError(f"{self.name}: {self._log.read_text()[-2000:]}") from error
            time.sleep(0.005)


def _round(subjects: Sequence[Subject], number: int, seconds: int) -> float:
    """Measure all, each time beginning with another; the cores that others had busy."""
    first = number % len(subjects)
    before, started = busy_seconds() - _own_seconds(subjects), time.perf_counter()
    for subject in (*subjects[first:], *subjects[:first]):
        subject.measure(seconds if number else 1)
    spent = busy_seconds() - _own_seconds(subjects) - before
    return max(spent / (time.perf_counter() - started), 0.0)


def _own_seconds(subjects: Sequence[Subject]) -> float:
    """CPU time of this process, of wrk, and of what is measured."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    own = sum(each.ru_utime + each.ru_stime for each in used)
    return own + sum(cpu_seconds(subject.pid) for subject in subjects)


def _show(subjects: Sequence[Subject]) -> None:
    direct = subjects[0]
    rows = [["", *(subject.name for subject in subjects)]]

    def row(title: str, figure: Callable[[Subject], float], digits: int = 0) -> None:
        rows.append([title, *(f"{figure(subject):,.{digits}f}" for subject in subjects)])

    row("requests/s, 1 connection", lambda each: _median(each.one, "a_second"))
    row("p50", lambda each: _median(each.one, "p50"))
    row("p99", lambda each: _median(each.one, "p99"))
    row("added p50", lambda each: _added(each.one, direct.one, "p50"))
    row("added p99", lambda each: _added(each.one, direct.one, "p99"))
    row("requests/s, 32 connections", lambda each: _median(each.many, "a_second"))
    row("p50", lambda each: _median(each.many, "p50"))
    row("p99", lambda each: _median(each.many, "p99"))
    row("added p50", lambda each: _added(each.many, direct.many, "p50"))
    row("added p99", lambda each: _added(each.many, direct.many, "p99"))
    row("CPU of a request", lambda each: _median(each.many, "cpu"))
    row("requests/s and core", lambda each: 1e6 / _median(each.many, "cpu"))
    row("CPU of a streamed chunk", lambda each: _median(each.bursts, "cpu"), 1)
    row("a streamed chunk, in all", lambda each: _median(each.bursts, "wall"), 1)
    row("memory before, MB", lambda each: each.memory_idle / 1e3)
    row("memory after, MB", lambda each: each.memory_after / 1e3)
    row("start to first reply, s", lambda each: statistics.median(each.starts or [0.0]), 2)
    row("errors", lambda each: sum(load.errors for load in (*each.one, *each.many)))
    for title, *figures in rows:
        print(f"{title:28}" + "".join(f"{figure:>13}" for figure in figures))


def _judge(subjects: Mapping[str, Subject]) -> None:
    ours, thin, direct = subjects["genai-host"], subjects["thin"], subjects["direct"]
    bar("requests/s and core, x thin", _ratio(thin, ours), at_least=1.5)
    for name in (name for name in subjects if _is_several(name) and "litellm" not in name):
        pairs = zip(subjects[name].many, ours.many, strict=True)
        times = statistics.median(several.a_second / one.a_second for several, one in pairs)
        bar(f"requests/s, {name}, x one process", times, at_least=1.0)
    portkey = subjects.get("portkey")
    if portkey is not None:
        bar("requests/s and core, x portkey", _ratio(portkey, ours), at_least=2.5)
    litellm = subjects.get("litellm")
    if litellm is not None:
        bar("requests/s and core, x litellm", _ratio(litellm, ours), at_least=20)
        for figure in ("p50", "p99"):
            added = [_added(each.many, direct.many, figure) for each in (ours, litellm)]
            bar(f"added {figure}, 32 connections, x litellm", added[0] / added[1], at_most=0.1)
    bar("start to first reply, s", statistics.median(ours.starts), at_most=1.0)


def _ratio(others: Subject, ours: Subject) -> float:
    """Of the CPU that requests take, round by round."""
    pairs = zip(others.many, ours.many, strict=True)
    return statistics.median(other.cpu / own.cpu for other, own in pairs)


def _median(measured: Sequence[Any], name: str) -> float:
    return float(statistics.median(getattr(each, name) for each in measured))


def _added(measured: Sequence[Load], direct: Sequence[Load], name: str) -> float:
    pairs = zip(measured, direct, strict=True)
    return float(
        statistics.median(getattr(each, name) - getattr(floor, name) for each, floor in pairs)
    )


def _body(*, stream: bool) -> str:
    messages = [{"role": "user", "content": "Say hello."}]
    streamed = {"stream": True} if stream else {}
    return json.dumps({"model": MODEL, "messages": messages, **streamed})


def _wrk_script(sent: Mapping[str, str]) -> str:
    headers = "".join(f"wrk.headers[{n!r}] = {v!r}\n" for n, v in sent.items())
    return f"""
wrk.method = 'POST'
{headers}wrk.body = [==[{_body(stream=False)}]==]
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format('found %d %d %f %f %d\\n', summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99),
    e.connect + e.read + e.write + e.status + e.timeout))
end
"""


if __name__ == "__main__":
    main()
