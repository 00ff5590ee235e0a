"""The servers and the database that `capacity.py` measures."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
from processes import Started, busy_seconds, cpu_seconds, free_port
from serve_command import serve_command
from service import Service

HEADERS = {"Content-Type": "application/json"}
_ENTRY = 1200  # bytes of an entry that is committed separately

Figures = dict[str, Any]


class Place:
    """Starts servers.

    Attributes:
        database: Database for their conversations; None for none.
    """

    def __init__(self, folder: Path, service: Service) -> None:
        self.folder = folder
        self.service = service
        self.database: Database | None = None

    @contextlib.contextmanager
    def server(
        self, workers: int = 1, knobs: str = "", at_once: int = 64, *, pin: bool = False
    ) -> Iterator[Server]:
        port = free_port()
        store = self.database.address if self.database is not None else ""
        options = ["--workers", str(workers)] if workers > 1 else []
        command, environment = serve_command(
            port, f"{self.service.url}{knobs}/v1", self.folder, at_once, options, store=store
        )
        if pin:
            command = ["taskset", "--cpu-list", str(max(os.sched_getaffinity(0))), *command]
        started = Started(command, environment, self.folder / "log")
        try:
            server = Server(started, port, self)
            server.wait()
            yield server
        finally:
            started.stop()


class Server:
    def __init__(self, started: Started, port: int, place: Place) -> None:
        self.pid = started.pid
        self.port = port
        self._started = started
        self._place = place

    def wait(self) -> None:
        """Wait until it is ready."""
        until = time.monotonic() + 60
        while True:
            with contextlib.suppress(OSError):
                if self.ask("/ready", method="GET")[0] == 200:
                    return
            if self._started.has_ended or time.monotonic() > until:
                raise RuntimeError(self._started.log.read_text()[-2000:])
            time.sleep(0.02)

    def ask(self, path: str, body: object = None, method: str = "POST") -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            sent = None if body is None else json.dumps(body)
            connection.request(method, path, sent, HEADERS)
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()

    def load(
        self,
        clients: int,
        seconds: int,
        body: object,
        paths: Sequence[str],
        meanwhile: Callable[[], None] = lambda: None,
    ) -> Figures:
        """Send requests from a number of clients, each with its own paths."""
        script = self._place.folder / "load.lua"
        script.write_text(_script(json.dumps(body), paths, clients), encoding="utf-8")
        service, database = self._place.service.pid, self._place.database
        before = cpu_seconds(self.pid), cpu_seconds(service), _children_seconds()
        stored = database.cpu() if database is not None else 0.0
        begun, busy = time.perf_counter(), busy_seconds()
        options = [f"-t{clients}", f"-c{clients}", f"-d{seconds}s", "-s", str(script)]
        command = ["wrk", *options, f"http://127.0.0.1:{self.port}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as wrk:
            meanwhile()
            printed = wrk.communicate()[0]
        took, busy = time.perf_counter() - begun, busy_seconds() - busy
        found = re.search(
            r"^found ([1-9]\d*) (\d+) ([\d.]+) ([\d.]+) (\d+)$", printed, re.MULTILINE
        )
        assert found is not None, printed
        count, micros, p50, p99, errors = map(float, found.groups())
        assert not errors, f"{errors:.0f} of {count:.0f} requests failed"
        after = cpu_seconds(self.pid), cpu_seconds(service), _children_seconds()
        spent = [(late - early) / count for early, late in zip(before, after, strict=True)]
        kept = (database.cpu() - stored) / count if database is not None else 0.0
        costs = {"cpu": spent[0], "service": spent[1], "client": spent[2], "database": kept}
        others = {"other_cores": max(0.0, (busy - count * (sum(spent) + kept)) / took)}
        times = {"rate": count / micros * 1e6, "p50": p50 / 1e6, "p99": p99 / 1e6}
        return {"clients": clients, "count": count, **times, **costs, **others}


class Database:
    """A running PostgreSQL, with a new database.

    Attributes:
        address: Address of the new database.
    """

    def __init__(self, address: str) -> None:
        self._folder = Path(address.split("host=", 1)[1])
        self._pid = int((self._folder / "data" / "postmaster.pid").read_text().split()[0])
        self._other = address.format(database="postgres")
        with psycopg.connect(self._other, autocommit=True) as connection:
            connection.execute("CREATE DATABASE bench")
        self.address = address.format(database="bench")

    def cpu(self) -> float:
        while True:
            try:
                return cpu_seconds(self._pid)
            except (FileNotFoundError, ProcessLookupError):  # one of its processes has just ended
                continue

    def value_of(self, query: str) -> Any:
        """The value that a query returns."""
        with psycopg.connect(self.address, autocommit=True) as connection:
            row = connection.execute(query).fetchone()
            return row[0] if row is not None else None

    def connections(self) -> int:
        """Number of connections of other processes."""
        found = "SELECT count(*) - 1 FROM pg_stat_activity WHERE datname = 'bench'"
        return int(self.value_of(found))

    def counters(self) -> Figures:
        """Counters of the work done so far. They are complete while no server is connected."""
        done = "FROM pg_stat_database WHERE datname = 'bench'"
        return {
            "transactions": self.value_of(f"SELECT xact_commit {done}"),
            "commits": self.value_of(
                "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
            ),
            "rows": self.value_of(f"SELECT tup_inserted {done}"),
            "wal": int(self.value_of("SELECT pg_current_wal_insert_lsn() - '0/0'")),
            "disk": self.value_of("SELECT pg_database_size('bench')"),
            "database": self.cpu(),
        }

    def commits(self, clients: int, seconds: int) -> Figures:
        """Commit single rows from concurrent clients."""
        made = "CREATE TABLE IF NOT EXISTS alone (id bigserial PRIMARY KEY, body text)"
        with psycopg.connect(self._other, autocommit=True) as connection:
            connection.execute(made)
        with tempfile.TemporaryDirectory(prefix="genai-host-") as folder:
            script = Path(folder) / "script"
            script.write_text(f"INSERT INTO alone (body) VALUES (repeat('x', {_ENTRY}));")  # noqa: S608
            options = ["-n", "-l", f"--log-prefix={folder}/log", f"-T{seconds}", f"-c{clients}"]
            program = self._programs() / "pgbench"
            busy, client = self.cpu(), _children_seconds()
            subprocess.run(
                [program, *options, "-f", script, self._other], check=True, capture_output=True
            )
            busy, client = self.cpu() - busy, _children_seconds() - client
            lines = [line for file in Path(folder).glob("log*") for line in file.open()]
        times = sorted(int(line.split()[2]) / 1e6 for line in lines)
        quantiles = {"p50": statistics.median(times), "p99": times[len(times) * 99 // 100]}
        rate = {"rate": len(times) / seconds, "cpu": busy / len(times)}
        rate["client"] = client / len(times)
        return {"clients": clients, **rate, "mean": statistics.fmean(times), **quantiles}

    def _programs(self) -> Path:
        return Path(os.readlink(f"/proc/{self._pid}/exe")).parent


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _script(body: str, paths: Sequence[str], clients: int) -> str:
    """A script for wrk: each of its threads has one connection, and its own part of the paths."""
    listed = ", ".join(f"'{path}'" for path in paths)
    return f"""
local paths = {{{listed}}}
local threads = 0
function setup(thread) thread:set('own', threads); threads = threads + 1 end
local made = 0
function request()
  local path = paths[(own + made * {clients}) % #paths + 1]
  made = made + 1
  return wrk.format('POST', path, {{['Content-Type'] = 'application/json'}}, [==[{body}]==])
end
function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format('found %d %d %f %f %d\\n', summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99),
    e.connect + e.read + e.write + e.status + e.timeout))
end
"""
