"""Servers: of a host in this process (`served`), and in separate processes, in front of one service
and on one store: several workers of one server, or several servers.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import requests
import tomlkit
from attrs import frozen
from genai_server import Server

from genai_host import Host
from genai_host_testing.fake_service import FakeService

TOKEN = "a-token-of-this-test"  # noqa: S105 - of a test
HEADERS = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
_PATIENCE = 30.0


@contextlib.contextmanager
def served(host: Host, **settings: Any) -> Iterator[Server]:
    """Serve the host on a free local port: `server.url`. The arguments are those of
    `ServerSettings`. At the end it does not wait for requests in progress.
    """
    with Server(host, **{"port": 0, "graceful_timeout": 0.0, **settings}) as server:
        yield server


@frozen
class Several:
    """A server with or without workers.

    Attributes:
        pid: Process id of the supervisor.
    """

    process: subprocess.Popen[str]
    url: str

    @property
    def pid(self) -> int:
        return self.process.pid

    def workers(self) -> list[int]:
        return children(self.pid)

    def end(self, sign: int = signal.SIGTERM) -> tuple[int, str]:
        """End the server, and return its exit code and its remaining output."""
        self.process.send_signal(sign)
        _, output = self.process.communicate(timeout=60)
        return self.process.returncode, output

    @contextlib.contextmanager
    def at(self, worker: int) -> Iterator[Client]:
        """Yield a client of this worker: while it connects, the other workers are stopped."""
        others = [each for each in self.workers() if each != worker]
        with requests.Session() as session:
            session.trust_env = False
            for each in others:
                halt(each)
            try:
                assert session.get(f"{self.url}/health", timeout=30).ok
            finally:
                for each in others:
                    os.kill(each, signal.SIGCONT)
            yield Client(self.url, session)


@frozen
class Client:
    url: str
    session: requests.Session

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> requests.Response:
        data = None if body is None else json.dumps(body)
        return self.session.request(
            method, f"{self.url}{path}", data=data, headers={**HEADERS, **headers}, timeout=60
        )

    def get(self, path: str) -> Any:
        return _good(self.send("GET", path))

    def post(self, path: str, body: Any, **headers: str) -> Any:
        return _good(self.send("POST", path, body, **headers))

    def opened(self) -> str:
        """Create a conversation and return its path."""
        id = self.post("/api/v1/conversations", {"model": "remote/m"})["id"]
        return f"/api/v1/conversations/{id}"


@contextlib.contextmanager
def client_of(url: str) -> Iterator[Client]:
    with requests.Session() as session:
        session.trust_env = False
        yield Client(url, session)


@contextlib.contextmanager
def serving(*options: str, environ: Mapping[str, str] | None = None) -> Iterator[Several]:
    """Run `genai-host serve` with these options, and yield when it listens."""
    with begun(*options, environ=environ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise AssertionError(process.communicate()[1])
        yield Several(process, json.loads(line)["url"])


@contextlib.contextmanager
def begun(
    *options: str, environ: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    chosen = () if "--port" in options else ("--port", "0")
    command = [sys.executable, "-m", "genai_host", "serve", "--json", *chosen, *options]
    settings = {"GENAI_HOST_SERVER_TOKEN": TOKEN, "NO_PROXY": "*", **(environ or {})}
    with subprocess.Popen(
        command,
        env={**os.environ, **settings},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def configure(home: Path, service: FakeService, **tables: Any) -> Path:
    """Configure this service for the servers of a test, and return the file."""
    instance = {"type": "openai-compatible", "base_url": f"{service.url}/v1"}
    file = home / "config" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    config = {"providers": {"remote": instance}, **tables}
    file.write_text(tomlkit.dumps(config), encoding="utf-8")
    return file


def children(pid: int) -> list[int]:
    """Return the children of a process on Linux."""
    pids = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(each) for each in pids.split()]


def halt(pid: int) -> None:
    """Stop a process, and wait until it has stopped."""
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: _state(pid) == "T")


def is_alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return _state(pid) != "Z"
    return False


def wait_until_ended(pid: int) -> None:
    wait_until(lambda: not is_alive(pid), f"process {pid} to end")


def _state(pid: int) -> str:
    """Return the state, for example `R`, `S` or `T`: see proc(5)."""
    return Path(f"/proc/{pid}/stat").read_text("utf-8").rsplit(")", 1)[1].split()[0]


def wait_until(true: Callable[[], object], what: str = "") -> None:
    """Wait for an action of a process that it does not report; the error says for what."""
    until = time.monotonic() + _PATIENCE
    while not true():
        assert time.monotonic() < until, f"waited for {what or true}"
        time.sleep(0.02)


def _good(reply: requests.Response) -> Any:
    assert reply.ok, reply.text
    return reply.json()


def user_texts(turns: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the user's messages in the answered turns of a conversation."""
    return [
        "".join(part["text"] for part in turn["message"]["content"])
        for turn in turns
        if turn["status"] == "answered"
    ]
