"""Connection to a server that runs as a child process. Messages are lines on its standard streams.

    StdioConnection.request → _outbox → _write (thread) → stdin
                   stdout → _read (thread) → Lines → _take → the waiting caller
                   stderr → _read_errors (thread) → its end, for error messages

The server is untrusted. Regardless of its output, and even if it reads nothing, no call exceeds its
limits, and memory use stays below the constants in this module.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import logging
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Any

from genai_host.api import CancelToken
from genai_host.errors import (
    ConfigurationError,
    MalformedReply,
    ServiceUnavailable,
    ValidationError,
)
from genai_mcp import rpc
from genai_mcp.client.servers import McpServer, filled
from genai_mcp.rpc import CANCELLED, CHANGED, HEARD, LARGEST, MODERN, Lines, one_line

MOST_UNASKED = 100_000
"""Maximum number of unsolicited lines from a server."""

GRACE = 2.0
"""Seconds for a server to exit after its input is closed, and again after it is terminated."""

_MOST_WAITING = 1000  # messages that the server has not read yet
_MOST_ERRORS = 4000  # bytes of stderr to store
_BLOCK = 1 << 16

# the same variables as in the official SDKs; none of them has secrets
_PASSED_ON = (
    "APPDATA HOMEDRIVE HOMEPATH LOCALAPPDATA PATH PATHEXT PROCESSOR_ARCHITECTURE SYSTEMDRIVE "
    "SYSTEMROOT TEMP USERNAME USERPROFILE"
    if sys.platform == "win32"
    else "HOME LANG LC_ALL LOGNAME PATH SHELL TERM TMPDIR USER"
).split()

_log = logging.getLogger(__name__)


class _Waiting:
    """A caller that waits for an answer."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.answer: rpc.RpcAnswer | None = None


class StdioConnection:
    """Starts the server and exchanges messages with it.

    Raises:
        ConfigurationError: The server cannot be started.
    """

    def __init__(self, server: McpServer) -> None:
        self.version = ""
        self.changed = False
        self._name = server.name
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._waiting: dict[rpc.Id, _Waiting] = {}
        self._listening: rpc.Id | None = None
        self._heard = False
        self._unasked = 0
        self._outbox: queue.Queue[bytes | None] = queue.Queue(_MOST_WAITING)
        self._errors = b""
        self._end: ServiceUnavailable | None = None  # why requests fail; None while the server runs
        self._closing = threading.Lock()
        self._is_gone = False
        self._process = _started(server)
        self._threads = [
            threading.Thread(target=work, name=f"{server.name} {work.__name__}", daemon=True)
            # the reader of stdout comes last, because it waits for the reader of stderr
            for work in (self._read_errors, self._write, self._read)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def alive(self) -> bool:
        return self._end is None

    @property
    def listens(self) -> bool:
        """Whether changes are reported; versions after 2025-11-25 confirm it."""
        return self._heard or self._listening is None

    def request(
        self,
        method: str,
        params: Mapping[str, Any],
        limits: CancelToken,
        headers: Mapping[str, str],
    ) -> Any:
        number, waiting = next(self._numbers), _Waiting()
        with self._lock:
            if not self.alive:
                raise self._why()
            self._waiting[number] = waiting
            self._unasked = 0
        try:
            self._send(rpc.write_request(number, method, params))
            with limits.on_cancel(waiting.done.set):
                waiting.done.wait()
        finally:
            with self._lock:
                self._waiting.pop(number, None)
        if waiting.answer is not None:
            return waiting.answer.value()
        if method != "initialize":  # `initialize` must not be cancelled
            with contextlib.suppress(ServiceUnavailable):
                self._send(rpc.write_notification(CANCELLED, {"requestId": number}))
        limits.check()
        raise self._why()

    def notify(self, method: str, params: Mapping[str, Any], limits: CancelToken) -> None:
        self._send(rpc.write_notification(method, params))

    def listen(self, method: str, params: Mapping[str, Any]) -> None:
        if method:
            self._listening, self._heard = next(self._numbers), False
            with contextlib.suppress(ServiceUnavailable):
                self._send(rpc.write_request(self._listening, method, params))

    def restart(self) -> None:
        self.version = ""

    def close(self) -> None:
        self._stop(ServiceUnavailable(f"{self._name} was closed"))
        with self._closing:
            with contextlib.suppress(queue.Full):
                self._outbox.put_nowait(None)
            if not self._has_ended():
                self._signal("SIGTERM")
                self._has_ended()
            self._kill()
            for thread in self._threads:
                thread.join(GRACE)
            for stream in (self._process.stdout, self._process.stderr):
                # a running thread means that a process outside the group holds the stream
                if stream is not None and not any(each.is_alive() for each in self._threads):
                    stream.close()

    def _send(self, message: bytes) -> None:
        if not self.alive:
            raise self._why()
        try:
            self._outbox.put_nowait(message + b"\n")
        except queue.Full:
            raise ServiceUnavailable(f"{self._name} does not read its input") from None

    def _write(self) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        with contextlib.suppress(OSError):  # it has exited; the end of its output shows that too
            while (message := self._outbox.get()) is not None:
                left = memoryview(message)
                while left:
                    left = left[stdin.write(left) or 0 :]
        with contextlib.suppress(OSError):
            stdin.close()

    def _read(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        lines = Lines(LARGEST)
        try:
            while block := stdout.read(_BLOCK):
                for line in lines.feed(block):
                    self._take(line)
            reason = ""
        except MalformedReply as error:
            reason = f": {error}"
        except Exception as error:  # noqa: BLE001 - otherwise the waiting caller would hang
            reason = f": {one_line(str(error))}"
        if self._end is None:
            if reason:
                self._signal("SIGKILL")
            reason = f"{reason or self._exit_reason()}{self._last_words()}"
            self._stop(ServiceUnavailable(f"{self._name} has ended{reason}"))
            self._kill()

    def _take(self, line: bytes) -> None:
        self._unasked += 1
        if self._unasked > MOST_UNASKED:
            raise MalformedReply("it wrote too much output")
        try:
            messages = rpc.read_messages(line)
        except ValidationError as error:
            _log.debug("%s wrote a line that is not a message: %s", self._name, error)
            return
        for message in messages:
            if isinstance(message, rpc.RpcAnswer):
                self._answered(message)
            elif isinstance(message, rpc.Notification):
                self._told(message)
            elif self.version != MODERN:  # in 2026-07-28 servers send no requests
                with contextlib.suppress(ServiceUnavailable):
                    self._send(rpc.write_answer(message))

    def _answered(self, answer: rpc.RpcAnswer) -> None:
        with self._lock:
            waiting = None if answer.id is None else self._waiting.pop(answer.id, None)
            if waiting is not None:
                self._unasked = 0
        if waiting is None:
            if answer.id is not None and answer.id == self._listening:
                self._heard, self.changed = False, True
            _log.debug("%s sent a response to an unknown request", self._name)
            return
        waiting.answer = answer
        waiting.done.set()

    def _told(self, notification: rpc.Notification) -> None:
        if notification.method == HEARD:
            self._heard = True
        elif notification.method == CHANGED:
            self.changed = True

    def _read_errors(self) -> None:
        stderr = self._process.stderr
        assert stderr is not None
        with contextlib.suppress(OSError):
            while block := stderr.read(_BLOCK):
                self._errors = (self._errors + block)[-_MOST_ERRORS:]

    def _exit_reason(self) -> str:
        """Return the reason after the output has ended, usually the exit status."""
        try:
            code = self._process.wait(GRACE)
        except subprocess.TimeoutExpired:
            return ": it closed its output"
        return f" by signal {-code}" if code < 0 else f" with exit code {code}"

    def _last_words(self) -> str:
        self._threads[0].join(GRACE)
        lines = self._errors.decode(errors="replace").strip().splitlines()
        return f"; its last output: {one_line(' / '.join(lines[-5:]))}" if lines else ""

    def _stop(self, why: ServiceUnavailable) -> None:
        """Fail all waiting and future requests."""
        with self._lock:
            if self._end is None:
                self._end = why
            waiting = list(self._waiting.values())
        for each in waiting:
            each.done.set()

    def _why(self) -> ServiceUnavailable:
        return copy.copy(self._end) if self._end else ServiceUnavailable(f"{self._name} was closed")

    def _has_ended(self) -> bool:
        try:
            self._process.wait(GRACE)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _kill(self) -> None:
        """Kill the server and its descendants, once, because the process id can be reused."""
        self._signal("SIGKILL")
        self._process.wait()
        self._is_gone = True

    def _signal(self, name: str) -> None:
        """Send a signal to the server and its descendants."""
        if self._is_gone:
            return
        if sys.platform == "win32":
            self._process.kill()
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, getattr(signal, name))


def _started(server: McpServer) -> subprocess.Popen[bytes]:
    passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    env = {**passed_on, **{name: filled(server, value) for name, value in server.env.items()}}
    command = filled(server, server.command)
    program = shutil.which(command, path=env.get("PATH")) or command
    try:
        return subprocess.Popen(
            [program, *(filled(server, each) for each in server.args)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=env,
            cwd=filled(server, server.cwd) or None,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        # the command is not shown, because it can contain secrets from variables
        reason = getattr(error, "strerror", None) or "invalid command"
        raise ConfigurationError(
            f"{server.name} cannot be started: {reason}: {one_line(server.command)}"
        ) from error
