"""Several processes that serve one address: the supervisor and its workers.

    Supervisor.run → _start_worker, then _handle_events: signals, messages and ends of workers

The supervisor loads no host and forwards no requests: each worker accepts connections itself. A
`Child` is a worker in the supervisor, and a `WorkerProcess` is the worker itself. They exchange
lines over a channel:

    supervisor   drain | at once | hand over
    worker       ready | failed {"message": ..., "hint": ...}

The channel closes when the supervisor ends for any reason; its workers then drain.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import selectors
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from genai_host.api import Clock
from genai_host.errors import ConfigurationError, GenaiError, PluginError
from genai_host.util.clock import SystemClock
from genai_host.util.interpreter import interpreter_command
from genai_server.listener import SharedListener

if TYPE_CHECKING:
    from genai_server import Server


DRAIN, AT_ONCE, HAND_OVER = "drain", "at once", "hand over"
READY, FAILED = "ready", "failed"


class WorkerProcess:
    """A worker's socket and its channel to the supervisor, inherited from it.

    Args:
        listener: Descriptor of the listening socket.
        channel: Descriptor of the worker's end of the channel.
    """

    def __init__(self, listener: int, channel: int) -> None:
        self.listener = SharedListener(listener)
        self._channel = socket.socket(fileno=channel)
        self._channel.set_inheritable(False)

    def run(self, server: Server) -> None:
        """Serve until the supervisor sends an order to stop, or ends. Raises an error if the
        host could not be loaded."""
        # a service manager may send SIGHUP to all processes of a service
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        listens = threading.Thread(target=self._follow_orders, args=(server,), daemon=True)

        def ready() -> None:
            self._send(READY)
            listens.start()

        server.run(ready)

    def fail(self, error: GenaiError) -> None:
        """Report an error at the start to the supervisor."""
        self._send(f"{FAILED} {json.dumps({'message': error.message, 'hint': error.hint})}")

    def close(self) -> None:
        self.listener.close()
        self._channel.close()

    def _send(self, line: str) -> None:
        with contextlib.suppress(OSError):  # the supervisor has ended
            self._channel.sendall(f"{line}\n".encode())

    def _follow_orders(self, server: Server) -> None:
        """Run the supervisor's orders, in a thread, until the channel closes."""
        orders: Mapping[str, Callable[[], None]] = {
            DRAIN: server.drain,
            AT_ONCE: server.stop_immediately,
            HAND_OVER: server.hand_over,
        }
        with contextlib.suppress(OSError), self._channel.makefile(encoding="utf-8") as lines:
            for line in lines:
                orders[line.strip()]()
        server.drain()


_WORKER_PROGRAM = """
import sys
from genai_host.cli.main import run
sys.exit(run(sys.argv[1:]))
"""
_MAX_MESSAGES = 64 * 1024  # maximum bytes of a worker's messages


class Child:
    """A worker process, started by the constructor.

    Args:
        listener: Listening socket.
        arguments: Command line arguments of the server.
        number: Number of the worker.

    Attributes:
        is_ready: Whether it accepts connections.
        is_stopping: Whether it was ordered to stop.
        error: Reported error at the start.
        started_at, ready_at: Times on the monotonic clock, set by the supervisor.
    """

    def __init__(self, listener: socket.socket, arguments: Sequence[str], number: int) -> None:
        self.number = number
        self.is_ready = self.is_stopping = False
        self.error: GenaiError | None = None
        self.started_at, self.ready_at = 0.0, math.inf
        self._unread = b""
        self._channel, remote = socket.socketpair()
        with remote:
            descriptors = (listener.fileno(), remote.fileno())
            argument = ",".join(map(str, descriptors))
            self._process = subprocess.Popen(
                interpreter_command(_WORKER_PROGRAM, *arguments, "--worker", argument),
                stdin=subprocess.DEVNULL,
                pass_fds=descriptors,
                start_new_session=True,  # Ctrl-C is for the supervisor, which informs it
            )
        self._channel.setblocking(False)

    @property
    def pid(self) -> int:
        return self._process.pid

    def fileno(self) -> int:
        return self._channel.fileno()

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def send(self, order: str) -> None:
        """Send an order. A worker that is not ready is terminated instead: it has no requests."""
        self.is_stopping = True
        if not self.is_ready:
            with contextlib.suppress(OSError):
                self._process.terminate()
            return
        with contextlib.suppress(OSError):  # it has ended
            self._channel.send(f"{order}\n".encode())

    def kill(self) -> None:
        with contextlib.suppress(OSError):
            self._process.kill()

    def receive(self) -> bool:
        """Read the available messages, and return whether more can follow."""
        try:
            piece = self._channel.recv(_MAX_MESSAGES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self._unread += piece
        *lines, self._unread = self._unread.split(b"\n")
        for line in lines:
            self._read_message(line.decode(errors="replace"))
        return bool(piece) and len(self._unread) < _MAX_MESSAGES

    def close(self) -> None:
        """Wait until the process has ended, and read its last messages."""
        self._process.wait()
        self.receive()
        self._channel.close()

    def exit_error(self) -> GenaiError:
        """Return an error that describes why the process ended."""
        if self.error is not None:
            return self.error
        code = self._process.returncode
        how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        return PluginError(f"a worker exited unexpectedly: {how}", hint="see its output")

    def _read_message(self, line: str) -> None:
        kind, _, rest = line.partition(" ")
        if kind == READY:
            self.is_ready = True
        elif kind == FAILED:
            with contextlib.suppress(ValueError, LookupError, TypeError):  # malformed message
                failure = json.loads(rest)
                self.error = ConfigurationError(failure["message"], hint=failure["hint"])


_MAX_FAILED_STARTS = 3  # failed starts in a row before giving up, if no worker serves
_STABLE_AFTER = 5.0  # seconds: a worker that ends sooner counts as a failed start
_RESTART_DELAY, _MAX_RESTART_DELAY = 0.5, 30.0  # seconds before the next start, doubled each time
_START_TIMEOUT = 120.0  # timeout of a start in seconds
_KILL_TIMEOUT = 3.0  # timeout of an immediate stop in seconds

Start = Callable[[int], Child]
"""Starts the worker of the given number."""


def check_platform() -> None:
    """Check that processes can share a socket on this system. Raises `ConfigurationError` if they
    cannot."""
    if os.name != "posix":
        raise ConfigurationError(
            "this system does not support several workers at one port",
            hint="use one worker, or several servers at separate ports behind a proxy",
        )


class Supervisor:
    """Starts, replaces and stops the workers.

    Args:
        listener: Shared listening socket; closed at the end.
        count: Number of workers.
        start: Starts a worker.
        report: Prints a line about an event.
        clock: Source of time; None for real time.
    """

    def __init__(
        self,
        listener: socket.socket,
        count: int,
        start: Start,
        report: Callable[[str], None],
        *,
        clock: Clock | None = None,
    ) -> None:
        self._listener = listener
        self._count = count
        self._make_worker = start
        self._report = report
        self._clock = clock or SystemClock()
        self._children: list[Child] = []
        self._selector = selectors.DefaultSelector()
        self._failures = [0] * count
        self._restart_at: dict[int, float] = {}
        self._to_replace: list[int] = []
        self._replacing: tuple[Child | None, Child] | None = None  # the old and the new worker
        self._is_serving = self._is_stopping = False
        self._kill_at: float | None = None
        self._failure: GenaiError | None = None

    def run(self, listening: Callable[[], None]) -> None:
        """Run the workers until SIGINT or SIGTERM, then drain. A second signal stops immediately.

        SIGHUP replaces the workers one by one.

        Raises:
            GenaiError: A worker could not start, and no other serves.
        """
        with self._listener, self._selector, self._signals() as signals:
            self._selector.register(signals, selectors.EVENT_READ)
            for number in range(self._count):
                self._start_worker(number)
            try:
                while self._children or not self._is_stopping:
                    self._handle_events(signals, listening)
            finally:
                for child in self._children:
                    child.kill()
                    child.close()
        if self._failure is not None:
            raise self._failure

    def _start_worker(self, number: int) -> Child:
        child = self._make_worker(number)
        child.started_at = self._clock.monotonic()
        self._children.append(child)
        self._selector.register(child, selectors.EVENT_READ)
        self._restart_at.pop(number, None)
        return child

    def _handle_events(self, signals: socket.socket, listening: Callable[[], None]) -> None:
        for key, _ in self._selector.select(self._timeout()):
            if key.fileobj is signals:
                for each in signals.recv(256):
                    self._handle_signal(each)
            elif isinstance(key.fileobj, Child):
                self._receive(key.fileobj)
        for child in [child for child in self._children if child.has_ended]:
            self._remove(child)
        if not self._is_serving and all(self._ready_worker(n) for n in range(self._count)):
            self._is_serving = True
            listening()
        self._run_scheduled()

    def _handle_signal(self, number: int) -> None:
        if number == signal.SIGHUP:
            self._to_replace = list(range(self._count))
        elif number in (signal.SIGINT, signal.SIGTERM):
            self._stop(AT_ONCE if self._is_stopping else DRAIN)

    def _receive(self, child: Child) -> None:
        was_ready = child.is_ready
        if not child.receive():
            self._selector.unregister(child)
        if child.is_ready and not was_ready:
            child.ready_at = self._clock.monotonic()
            self._stop_replaced(child)

    def _stop_replaced(self, new: Child) -> None:
        """A worker is ready: stop the one that it replaces."""
        if self._replacing is None or self._replacing[1] is not new:
            return
        old = self._replacing[0]
        if old is None:
            self._replacing = None
        else:
            old.send(HAND_OVER)

    def _remove(self, child: Child) -> None:
        """Remove a worker that has ended, and start another if it should still run."""
        if child.fileno() in self._selector.get_map():
            self._selector.unregister(child)
        child.close()
        self._children.remove(child)
        replacing = self._replacing
        if replacing is not None and child is replacing[0]:
            self._replacing = None if replacing[1].is_ready else (None, replacing[1])
        if child.is_stopping or self._is_stopping:
            return
        if replacing is not None and child is replacing[1] and not child.is_ready:
            self._replacing, self._to_replace = None, []
            self._report(f"warning: the workers were not replaced: {child.exit_error()}")
            if replacing[0] in self._children:
                return
        self._schedule_restart(child)

    def _schedule_restart(self, child: Child) -> None:
        """Schedule a replacement, delayed after repeated failures."""
        number = child.number
        has_served = self._clock.monotonic() - child.ready_at > _STABLE_AFTER
        self._failures[number] = 0 if has_served else self._failures[number] + 1
        failures = self._failures[number]
        gives_up = failures >= _MAX_FAILED_STARTS or (
            child.error is not None and not self._is_serving
        )
        if gives_up and not any(each.is_ready for each in self._children):
            self._failure = child.exit_error()
            self._stop(DRAIN)
            return
        pause = min(_RESTART_DELAY * 2 ** (failures - 1), _MAX_RESTART_DELAY) if failures else 0.0
        when = f"in {pause:g} s" if pause else "now"
        self._report(f"warning: {child.exit_error()}; starting another {when}")
        self._restart_at[number] = self._clock.monotonic() + pause

    def _run_scheduled(self) -> None:
        now = self._clock.monotonic()
        if self._is_stopping:
            if self._kill_at is not None and now >= self._kill_at:
                for child in self._children:
                    child.kill()
            return
        for child in self._children:
            if not child.is_ready and now - child.started_at > _START_TIMEOUT:
                child.kill()
        for number in [number for number, due in self._restart_at.items() if now >= due]:
            self._start_worker(number)
        if self._to_replace and self._replacing is None and self._is_serving:
            number = self._to_replace.pop(0)
            old = self._ready_worker(number)
            self._replacing = (old, self._start_worker(number))

    def _stop(self, order: str) -> None:
        self._is_stopping = True
        self._to_replace, self._replacing = [], None
        self._restart_at.clear()
        self._listener.close()
        if order == AT_ONCE:
            self._kill_at = self._clock.monotonic() + _KILL_TIMEOUT
        for child in self._children:
            child.send(order)

    def _ready_worker(self, number: int) -> Child | None:
        """The ready worker with a number."""
        for child in self._children:
            if child.number == number and child.is_ready and not child.is_stopping:
                return child
        return None

    def _timeout(self) -> float | None:
        """Seconds until the next scheduled action; None without one."""
        dues = list(self._restart_at.values())
        if self._kill_at is not None:
            dues.append(self._kill_at)
        dues += [
            child.started_at + _START_TIMEOUT for child in self._children if not child.is_ready
        ]
        return max(0.0, min(dues) - self._clock.monotonic()) + 0.01 if dues else None

    @contextlib.contextmanager
    def _signals(self) -> Iterator[socket.socket]:
        """Handle signals, and yield a socket from which their numbers can be read."""
        ours, remote = socket.socketpair()
        with ours, remote:
            remote.setblocking(False)
            previous_fd = signal.set_wakeup_fd(remote.fileno(), warn_on_full_buffer=False)
            numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)
            before = {each: signal.signal(each, lambda *_: None) for each in numbers}
            try:
                yield ours
            finally:
                signal.set_wakeup_fd(previous_fd)
                for each, handler in before.items():
                    signal.signal(each, handler)
