#!/usr/bin/env python3
"""Compare the server as a gateway with a minimal one, LiteLLM and Portkey.

    python benchmarks/gateway.py [--rounds 7] [--seconds 3] [--starts 3] [--core N]
                                 [--workers N] [--litellm PATH] [--portkey PATH]

All gateways forward the same chat completions to the same service on this machine (`service.c`),
and alternate in each round; figures are medians of the rounds. CPU time is that of the processes
of a gateway, so requests per second and core do not depend on other load of the machine.

With `--core`, each gateway runs on that core only (on Linux): when threads of Python move between
cores, a request can take up to twice the CPU time. With `--workers`, the server and LiteLLM are
also measured with that number of processes; memory and CPU time are those of all processes.

Needs wrk (`apt-get install wrk`). `--litellm` is the path of the program `litellm` in a separate
environment with `litellm[proxy]`; `--portkey` is the path of `build/start-server.js` of
`@portkey-ai/gateway`, which needs node.
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

from processes import ChildProcess, busy_seconds, cpu_seconds, free_port, memory_kb
from serve_command import MODEL, serve_command
from service import ANSWER, Service
from thresholds import check
from timing import median_ratio

_PATH = "/v1/chat/completions"
_HEADERS = {"Content-Type": "application/json", "Authorization": "Bearer no-key-at-all"}
_WORDS = "".join(f" w{number:04}" for number in range(2000))  # text of a stream of the service
_START_TIMEOUT = 120.0  # seconds

Command = tuple[Sequence[str], Mapping[str, str]]
"""A command, and its environment variables."""


class Load(NamedTuple):
    """Results of a load test. Latencies and CPU time per request are in microseconds."""

    rate: float
    p50: float
    p99: float
    cpu: float
    errors: int


class StreamCost(NamedTuple):
    """Time per streamed chunk, in microseconds."""

    cpu: float
    wall: float


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=7, help="number of rounds")
    parser.add_argument("--seconds", type=int, default=3, help="duration of a load test")
    parser.add_argument("--starts", type=int, default=3, help="measured starts")
    parser.add_argument("--core", type=int, metavar="N", help="core to run each gateway on")
    parser.add_argument("--workers", type=int, metavar="N", help="also measure N processes")
    parser.add_argument("--litellm", metavar="PATH", help="program litellm")
    parser.add_argument("--portkey", metavar="PATH", help="build/start-server.js of Portkey")
    options = parser.parse_args()
    if shutil.which("wrk") is None:
        parser.exit(2, "wrk is required: apt-get install wrk, or brew install wrk\n")
    os.environ["NO_PROXY"] = "*"
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="genai-host-")))
        service = stack.enter_context(Service())
        commands = _commands(
            service.url, directory, options.litellm, options.portkey, options.workers
        )
        direct = Subject("direct", directory, int(service.url.rsplit(":", 1)[1]), service.pid)
        subjects = [direct]
        for name, command in commands.items():
            gateway = Gateway(
                name, directory, command, None if _has_several_workers(name) else options.core
            )
            if name == "portkey":
                gateway.add_headers(_portkey_headers(service.url))
            stack.callback(gateway.stop)
            gateway.start(options.starts)
            subjects.append(gateway)
        other_cores = [
            _run_round(subjects, number, options.seconds) for number in range(options.rounds + 1)
        ]
        for subject in subjects:
            subject.discard_warm_up()
            subject.memory_after = memory_kb(subject.pid)
        print(f"medians of {options.rounds} rounds, in microseconds unless noted")
        print(f"other processes used {statistics.median(other_cores[1:]):.2f} cores")
        _print_table(subjects)
        _check_thresholds({subject.name: subject for subject in subjects})


def _commands(
    url: str, directory: Path, litellm: str | None, portkey: str | None, workers: int | None
) -> dict[str, Callable[[int], Command]]:
    thin = str(Path(__file__).with_name("thin_gateway.py"))
    commands: dict[str, Callable[[int], Command]] = {
        "genai-host": lambda port: serve_command(port, f"{url}/v1", directory),
        "thin": lambda port: ([sys.executable, thin, str(port), url], {}),
    }
    if litellm:
        commands["litellm"] = lambda port: _litellm_command(litellm, port, url, directory)
    if portkey:
        commands["portkey"] = lambda port: _portkey_command(portkey, port)
    if workers:
        name = f"{workers} workers"
        options = ["--workers", str(workers)]
        commands[name] = partial(_several_command, url, directory / name, options)
        if litellm:
            commands[f"litellm, {workers}"] = lambda port: _litellm_command(
                litellm, port, url, directory, workers
            )
    return commands


def _several_command(url: str, directory: Path, options: Sequence[str], port: int) -> Command:
    return serve_command(port, f"{url}/v1", directory, options=options)


def _has_several_workers(name: str) -> bool:
    return name[-1].isdigit() or name[0].isdigit()


def _portkey_command(file: str, port: int) -> Command:
    return ["node", file, f"--port={port}", "--headless"], {"NODE_ENV": "production"}


def _portkey_headers(url: str) -> dict[str, str]:
    """Return the headers that select the service."""
    return {"x-portkey-provider": "openai", "x-portkey-custom-host": f"{url}/v1"}


def _litellm_command(
    program: str, port: int, url: str, directory: Path, workers: int = 1
) -> Command:
    """Return a command without a database or keys, with the options recommended for production."""
    parameters = {"model": f"openai/{MODEL}", "api_base": f"{url}/v1", "api_key": "no-key-at-all"}
    config = {
        "model_list": [{"model_name": MODEL, "litellm_params": parameters}],
        "litellm_settings": {"set_verbose": False, "json_logs": False},
        "general_settings": {"disable_spend_logs": True},
    }
    file = directory / "litellm.yaml"
    file.write_text(json.dumps(config), encoding="utf-8")  # JSON is valid YAML
    command = [program, "--config", str(file), "--host", "127.0.0.1", "--port", str(port)]
    return [*command, "--num_workers", str(workers), "--telemetry", "False"], {
        "LITELLM_MODE": "PRODUCTION",
        "LITELLM_LOG": "ERROR",
        "LITELLM_LOCALMODEL_COST_MAP": "True",
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
    }


class Subject:
    """A server, and its results in each round.

    Attributes:
        starts: Seconds to the first reply.
        memory_idle: Memory before the load, in kB.
        memory_after: Memory after the load, in kB.
        single: Results with one connection.
        concurrent: Results with 32 connections.
        streams: Results of streams.
    """

    def __init__(self, name: str, directory: Path, port: int, pid: int) -> None:
        self.name = name
        self.pid = pid
        self.port = port
        self.starts: list[float] = []
        self.memory_idle = self.memory_after = 0
        self.single: list[Load] = []
        self.concurrent: list[Load] = []
        self.streams: list[StreamCost] = []
        self._script = directory / f"{name}.lua"
        self._headers = dict(_HEADERS)
        self.add_headers({})

    def measure(self, seconds: int) -> None:
        """Run all load tests."""
        self.single.append(self._load(1, seconds))
        self.concurrent.append(self._load(32, seconds))
        self.streams.append(self._measure_streams(5))

    def add_headers(self, headers: Mapping[str, str]) -> None:
        """Add headers to all requests."""
        self._headers.update(headers)
        self._script.write_text(_wrk_script(self._headers), encoding="utf-8")

    def discard_warm_up(self) -> None:
        """Discard the results of the first round."""
        del self.single[0], self.concurrent[0], self.streams[0]

    def send_request(self) -> None:
        """Send a request and check the reply.

        Raises:
            OSError: The server does not accept connections.
        """
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
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        cpu = cpu_seconds(self.pid) - before
        match = re.search(r"^result (\d+) (\d+) ([\d.]+) ([\d.]+) (\d+)$", output, re.MULTILINE)
        assert match is not None, output
        count, micros, p50, p99, errors = map(float, match.groups())
        return Load(count * 1e6 / micros, p50, p99, cpu * 1e6 / max(count, 1), int(errors))

    def _measure_streams(self, times: int) -> StreamCost:
        before, started = cpu_seconds(self.pid), time.perf_counter()
        for _ in range(times):
            with self._reply(stream=True) as reply:
                lines = reply.read().splitlines()
            if reply.status != 200:
                print(f"{self.name} does not stream: {reply.status} {lines[:1]}", file=sys.stderr)
                return StreamCost(math.nan, math.nan)
            events = [json.loads(line[6:]) for line in lines if line.startswith(b"data: {")]
            deltas = [event["choices"][0]["delta"] for event in events if event.get("choices")]
            text = "".join(delta.get("content") or "" for delta in deltas)
            assert text == _WORDS, f"{self.name}: {len(text)} of {len(_WORDS)} characters"
            assert b"data: [DONE]" in lines, self.name
        chunks = times * len(_WORDS) / 6
        wall, cpu = time.perf_counter() - started, cpu_seconds(self.pid) - before
        return StreamCost(cpu * 1e6 / chunks, wall * 1e6 / chunks)

    @contextmanager
    def _reply(self, *, stream: bool) -> Iterator[http.client.HTTPResponse]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("POST", _PATH, _body(stream=stream), self._headers)
            yield connection.getresponse()
        finally:
            connection.close()


class Gateway(Subject):
    """A gateway in a child process."""

    def __init__(
        self,
        name: str,
        directory: Path,
        command: Callable[[int], Command],
        core: int | None = None,
    ) -> None:
        super().__init__(name, directory, 0, 0)
        self._command = command
        self._core = core
        self._log = directory / f"{name}.log"
        self._process: ChildProcess | None = None

    def start(self, times: int) -> None:
        """Start the gateway repeatedly, and leave the last process running.

        The first start is not counted: it may compile modules.
        """
        for _ in range(times + 1):
            self.stop()
            self.starts.append(self._start())
        del self.starts[0]
        self.memory_idle = memory_kb(self.pid)

    def stop(self) -> None:
        """Stop the gateway, if it is running."""
        if self._process is not None:
            self._process.stop()

    def _start(self) -> float:
        """Start the gateway; returns the seconds to the first reply."""
        self.port = free_port()
        started = time.perf_counter()
        self._process = ChildProcess(*self._command(self.port), self._log, self._core)
        self.pid = self._process.pid
        while True:
            try:
                self.send_request()
                return time.perf_counter() - started
            except OSError as error:
                timed_out = time.perf_counter() - started > _START_TIMEOUT
                if timed_out or self._process.has_exited:
                    raise RuntimeError(f"{self.name}: {self._log.read_text()[-2000:]}") from error
            time.sleep(0.005)


def _run_round(subjects: Sequence[Subject], number: int, seconds: int) -> float:
    """Measure all subjects, in a different order in each round.

    Returns:
        The number of cores that were busy with other processes.
    """
    first = number % len(subjects)
    before, started = busy_seconds() - _measured_seconds(subjects), time.perf_counter()
    for subject in (*subjects[first:], *subjects[:first]):
        subject.measure(seconds if number else 1)
    busy = busy_seconds() - _measured_seconds(subjects) - before
    return max(busy / (time.perf_counter() - started), 0.0)


def _measured_seconds(subjects: Sequence[Subject]) -> float:
    """CPU time of this process, of wrk, and of the subjects."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    own = sum(usage.ru_utime + usage.ru_stime for usage in usages)
    return own + sum(cpu_seconds(subject.pid) for subject in subjects)


def _print_table(subjects: Sequence[Subject]) -> None:
    direct = subjects[0]
    rows = [["", *(subject.name for subject in subjects)]]

    def row(title: str, value: Callable[[Subject], float], digits: int = 0) -> None:
        rows.append([title, *(f"{value(subject):,.{digits}f}" for subject in subjects)])

    row("requests/s, 1 connection", lambda subject: _median(subject.single, "rate"))
    row("p50", lambda subject: _median(subject.single, "p50"))
    row("p99", lambda subject: _median(subject.single, "p99"))
    row("added p50", lambda subject: _added(subject.single, direct.single, "p50"))
    row("added p99", lambda subject: _added(subject.single, direct.single, "p99"))
    row("requests/s, 32 connections", lambda subject: _median(subject.concurrent, "rate"))
    row("p50", lambda subject: _median(subject.concurrent, "p50"))
    row("p99", lambda subject: _median(subject.concurrent, "p99"))
    row("added p50", lambda subject: _added(subject.concurrent, direct.concurrent, "p50"))
    row("added p99", lambda subject: _added(subject.concurrent, direct.concurrent, "p99"))
    row("CPU per request", lambda subject: _median(subject.concurrent, "cpu"))
    row("requests/s and core", lambda subject: 1e6 / _median(subject.concurrent, "cpu"))
    row("CPU per streamed chunk", lambda subject: _median(subject.streams, "cpu"), 1)
    row("time per streamed chunk", lambda subject: _median(subject.streams, "wall"), 1)
    row("memory before, MB", lambda subject: subject.memory_idle / 1e3)
    row("memory after, MB", lambda subject: subject.memory_after / 1e3)
    row("start to first reply, s", lambda subject: statistics.median(subject.starts or [0.0]), 2)
    row(
        "errors",
        lambda subject: sum(load.errors for load in (*subject.single, *subject.concurrent)),
    )
    for title, *values in rows:
        print(f"{title:28}" + "".join(f"{value:>13}" for value in values))


def _check_thresholds(subjects: Mapping[str, Subject]) -> None:
    ours, thin, direct = subjects["genai-host"], subjects["thin"], subjects["direct"]
    check("requests/s and core, x thin", _cpu_ratio(thin, ours), at_least=1.5)
    for name in (name for name in subjects if _has_several_workers(name) and "litellm" not in name):
        rates = ([load.rate for load in each.concurrent] for each in (subjects[name], ours))
        check(f"requests/s, {name}, x one process", median_ratio(*rates), at_least=1.0)
    portkey = subjects.get("portkey")
    if portkey is not None:
        check("requests/s and core, x portkey", _cpu_ratio(portkey, ours), at_least=2.5)
    litellm = subjects.get("litellm")
    if litellm is not None:
        check("requests/s and core, x litellm", _cpu_ratio(litellm, ours), at_least=20)
        for quantile in ("p50", "p99"):
            added = [
                _added(each.concurrent, direct.concurrent, quantile) for each in (ours, litellm)
            ]
            check(f"added {quantile}, 32 connections, x litellm", added[0] / added[1], at_most=0.1)
    check("start to first reply, s", statistics.median(ours.starts), at_most=1.0)


def _cpu_ratio(subject: Subject, baseline: Subject) -> float:
    """Ratio of the CPU time per request."""
    return median_ratio(*([load.cpu for load in each.concurrent] for each in (subject, baseline)))


def _median(results: Sequence[Any], name: str) -> float:
    return float(statistics.median(getattr(result, name) for result in results))


def _added(results: Sequence[Load], direct: Sequence[Load], name: str) -> float:
    """Median of the differences from direct requests."""
    pairs = zip(results, direct, strict=True)
    return float(
        statistics.median(getattr(result, name) - getattr(base, name) for result, base in pairs)
    )


def _body(*, stream: bool) -> str:
    messages = [{"role": "user", "content": "Say hello."}]
    streamed = {"stream": True} if stream else {}
    return json.dumps({"model": MODEL, "messages": messages, **streamed})


def _wrk_script(headers: Mapping[str, str]) -> str:
    lines = "".join(f"wrk.headers[{n!r}] = {v!r}\n" for n, v in headers.items())
    return f"""
wrk.method = 'POST'
{lines}wrk.body = [==[{_body(stream=False)}]==]
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format('result %d %d %f %f %d\\n', summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99),
    e.connect + e.read + e.write + e.status + e.timeout))
end
"""


if __name__ == "__main__":
    main()
