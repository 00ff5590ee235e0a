"""Servers and the database that `capacity.py` measures."""

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
from processes import ChildProcess, busy_seconds, cpu_seconds, free_port
from serve_command import serve_command
from service import Service

HEADERS = {"Content-Type": "application/json"}
_ROW_BYTES = 1200  # of a row that is committed separately

Measurements = dict[str, Any]


class ServerFactory:
    """Starts servers in front of a service.

    Attributes:
        directory: Directory for the files of the servers.
        service: The service.
        database: Database of the conversations; None for the default file.
    """

    def __init__(self, directory: Path, service: Service) -> None:
        self.directory = directory
        self.service = service
        self.database: Database | None = None

    @contextlib.contextmanager
    def server(
        self,
        workers: int = 1,
        service_options: str = "",
        max_concurrency: int = 64,
        *,
        pin: bool = False,
    ) -> Iterator[Server]:
        """Run a server until the context ends.

        Args:
            workers: Number of worker processes.
            service_options: Path segments with options for the service, see `service.c`.
            max_concurrency: Maximum number of concurrent requests.
            pin: Whether to run the server on a single core.
        """
        port = free_port()
        database = self.database.address if self.database is not None else ""
        command, environment = serve_command(
            port,
            f"{self.service.url}{service_options}/v1",
            self.directory,
            max_concurrency,
            ["--workers", str(workers)] if workers > 1 else [],
            database=database,
        )
        if pin:
            command = ["taskset", "--cpu-list", str(max(os.sched_getaffinity(0))), *command]
        process = ChildProcess(command, environment, self.directory / "log")
        try:
            server = Server(process, port, self)
            server.wait()
            yield server
        finally:
            process.stop()


class Server:
    """A running server.

    Attributes:
        pid: Process ID.
        port: Port on 127.0.0.1.
    """

    def __init__(self, process: ChildProcess, port: int, factory: ServerFactory) -> None:
        self.pid = process.pid
        self.port = port
        self._process = process
        self._factory = factory

    def wait(self) -> None:
        """Wait until the server is ready."""
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(OSError):
                if self.request("/ready", method="GET")[0] == 200:
                    return
            if self._process.has_exited or time.monotonic() > deadline:
                raise RuntimeError(self._process.log.read_text()[-2000:])
            time.sleep(0.02)

    def request(self, path: str, body: object = None, method: str = "POST") -> tuple[int, bytes]:
        """Send a request; returns the status and the body of the response."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, HEADERS)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def load(
        self,
        clients: int,
        seconds: int,
        body: object,
        paths: Sequence[str],
        during: Callable[[], None] = lambda: None,
    ) -> Measurements:
        """Generate load with wrk.

        Args:
            clients: Number of concurrent clients; each uses its own part of the paths.
            seconds: Duration.
            body: Body of all requests.
            paths: Paths of the requests.
            during: Called while the load runs.

        Returns:
            Rate per second, latencies in seconds, and CPU seconds per request of the server
            (`cpu`) and of the other processes. `other_cores` is the number of cores that were busy
            with other processes.
        """
        script = self._factory.directory / "load.lua"
        script.write_text(_script(json.dumps(body), paths, clients), encoding="utf-8")
        service, database = self._factory.service.pid, self._factory.database
        before = cpu_seconds(self.pid), cpu_seconds(service), _children_seconds()
        database_before = database.cpu() if database is not None else 0.0
        started, busy = time.perf_counter(), busy_seconds()
        options = [f"-t{clients}", f"-c{clients}", f"-d{seconds}s", "-s", str(script)]
        command = ["wrk", *options, f"http://127.0.0.1:{self.port}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as wrk:
            during()
            output = wrk.communicate()[0]
        elapsed, busy = time.perf_counter() - started, busy_seconds() - busy
        match = re.search(
            r"^result ([1-9]\d*) (\d+) ([\d.]+) ([\d.]+) (\d+)$", output, re.MULTILINE
        )
        assert match is not None, output
        count, micros, p50, p99, errors = map(float, match.groups())
        assert not errors, f"{errors:.0f} of {count:.0f} requests failed"
        after = cpu_seconds(self.pid), cpu_seconds(service), _children_seconds()
        costs = [(end - start) / count for start, end in zip(before, after, strict=True)]
        costs.append((database.cpu() - database_before) / count if database is not None else 0.0)
        return {
            "clients": clients,
            "count": count,
            "rate": count / micros * 1e6,
            "p50": p50 / 1e6,
            "p99": p99 / 1e6,
            **dict(zip(("cpu", "service", "client", "database"), costs, strict=True)),
            "other_cores": max(0.0, (busy - count * sum(costs)) / elapsed),
        }


class Database:
    """A new database of a running PostgreSQL server.

    Attributes:
        address: Address of the new database.
    """

    def __init__(self, address: str) -> None:
        directory = Path(address.split("host=", 1)[1])
        self._pid = int((directory / "data" / "postmaster.pid").read_text().split()[0])
        self._maintenance = address.format(database="postgres")
        with psycopg.connect(self._maintenance, autocommit=True) as connection:
            connection.execute("CREATE DATABASE bench")
        self.address = address.format(database="bench")

    def cpu(self) -> float:
        """CPU time of all processes of the server, in seconds."""
        while True:
            try:
                return cpu_seconds(self._pid)
            except (FileNotFoundError, ProcessLookupError):  # one of the processes has exited
                continue

    def value_of(self, query: str) -> Any:
        """Return the first value of the first row of a query."""
        with psycopg.connect(self.address, autocommit=True) as connection:
            row = connection.execute(query).fetchone()
            return row[0] if row is not None else None

    def connections(self) -> int:
        """Number of connections of other processes."""
        query = "SELECT count(*) - 1 FROM pg_stat_activity WHERE datname = 'bench'"
        return int(self.value_of(query))

    def counters(self) -> Measurements:
        """Counters of the work done so far; complete only while no server is connected."""
        source = "FROM pg_stat_database WHERE datname = 'bench'"
        return {
            "transactions": self.value_of(f"SELECT xact_commit {source}"),
            "commits": self.value_of(
                "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
            ),
            "rows": self.value_of(f"SELECT tup_inserted {source}"),
            "wal": int(self.value_of("SELECT pg_current_wal_insert_lsn() - '0/0'")),
            "disk": self.value_of("SELECT pg_database_size('bench')"),
            "database": self.cpu(),
        }

    def commits(self, clients: int, seconds: int) -> Measurements:
        """Commit single rows from concurrent clients, with pgbench."""
        table = "CREATE TABLE IF NOT EXISTS alone (id bigserial PRIMARY KEY, body text)"
        with psycopg.connect(self._maintenance, autocommit=True) as connection:
            connection.execute(table)
        with tempfile.TemporaryDirectory(prefix="genai-host-") as directory:
            script = Path(directory) / "script"
            insert = f"INSERT INTO alone (body) VALUES (repeat('x', {_ROW_BYTES}));"  # noqa: S608 - a number
            script.write_text(insert)
            options = ["-n", "-l", f"--log-prefix={directory}/log", f"-T{seconds}", f"-c{clients}"]
            program = self._programs() / "pgbench"
            cpu, client = self.cpu(), _children_seconds()
            subprocess.run(
                [program, *options, "-f", script, self._maintenance],
                check=True,
                capture_output=True,
            )
            cpu, client = self.cpu() - cpu, _children_seconds() - client
            lines = [line for file in Path(directory).glob("log*") for line in file.open()]
        latencies = sorted(int(line.split()[2]) / 1e6 for line in lines)
        return {
            "clients": clients,
            "rate": len(latencies) / seconds,
            "cpu": cpu / len(latencies),
            "client": client / len(latencies),
            "mean": statistics.fmean(latencies),
            "p50": statistics.median(latencies),
            "p99": latencies[len(latencies) * 99 // 100],
        }

    def _programs(self) -> Path:
        return Path(os.readlink(f"/proc/{self._pid}/exe")).parent


def _children_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _script(body: str, paths: Sequence[str], clients: int) -> str:
    """Script for wrk: each thread has one connection and its own part of the paths."""
    quoted_paths = ", ".join(f"'{path}'" for path in paths)
    return f"""
local paths = {{{quoted_paths}}}
local threads = 0
function setup(thread) thread:set('index', threads); threads = threads + 1 end
local count = 0
function request()
  local path = paths[(index + count * {clients}) % #paths + 1]
  count = count + 1
  return wrk.format('POST', path, {{['Content-Type'] = 'application/json'}}, [==[{body}]==])
end
function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format('result %d %d %f %f %d\\n', summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99),
    e.connect + e.read + e.write + e.status + e.timeout))
end
"""
