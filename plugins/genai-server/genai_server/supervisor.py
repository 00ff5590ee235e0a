"""Several processes that serve one address: the supervisor and its workers.

    Supervisor.run → _begin → _turn: signals, lines of workers, workers that ended, workers due

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
        listens = threading.Thread(target=self._obey, args=(server,), daemon=True)

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

    def _obey(self, server: Server) -> None:
        """Run the supervisor's orders, in a thread, until the channel closes."""
        orders: Mapping[str, Callable[[], None]] = {
            DRAIN: server.drain,
            AT_ONCE: server.end_at_once,
            HAND_OVER: server.hand_over,
        }
        with contextlib.suppress(OSError), self._channel.makefile(encoding="utf-8") as lines:
            for line in lines:
                orders[line.strip()]()
        server.drain()


_PROGRAM = """
import sys
from genai_host.cli.main import run
sys.exit(run(sys.argv[1:]))
"""
_MOST = 64 * 1024  # maximum bytes of a worker's messages


class Child:
    """A worker process, started by the constructor.

    Args:
        listener: Listening socket.
        arguments: Command line arguments of the server.
        number: Number of the worker.

    Attributes:
        is_ready: Whether it accepts connections.
        is_leaving: Whether it was ordered to stop.
        error: Reported error at the start.
        began, ready_at: Times on the monotonic clock, set by the supervisor.
    """

    def __init__(self, listener: socket.socket, arguments: Sequence[str], number: int) -> None:
        self.number = number
        self.is_ready = self.is_leaving = False
        self.error: GenaiError | None = None
        self.began, self.ready_at = 0.0, math.inf
        self._unread = b""
        self._channel, theirs = socket.socketpair()
        with theirs:
            handed = (listener.fileno(), theirs.fileno())
            place = ",".join(map(str, handed))
            self._process = subprocess.Popen(
                interpreter_command(_PROGRAM, *arguments, "--worker", place),
                stdin=subprocess.DEVNULL,
                pass_fds=handed,
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
        self.is_leaving = True
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
            piece = self._channel.recv(_MOST)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self._unread += piece
        *lines, self._unread = self._unread.split(b"\n")
        for line in lines:
            self._take(line.decode(errors="replace"))
        return bool(piece) and len(self._unread) < _MOST

    def close(self) -> None:
        """Wait until the process has ended, and read its last messages."""
        self._process.wait()
        self.receive()
        self._channel.close()

    def why(self) -> GenaiError:
        """Return an error that describes why the process ended."""
        if self.error is not None:
            return self.error
        code = self._process.returncode
        how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        return PluginError(f"a worker exited unexpectedly: {how}", hint="see its output")

    def _take(self, line: str) -> None:
        kind, _, rest = line.partition(" ")
        if kind == READY:
            self.is_ready = True
        elif kind == FAILED:
            with contextlib.suppress(ValueError, LookupError, TypeError):  # malformed message
                failure = json.loads(rest)
                self.error = ConfigurationError(failure["message"], hint=failure["hint"])


_TRIES = 3  # failed starts in a row before giving up, if no worker serves
_SOON = 5.0  # seconds: a worker that ends sooner counts as a failed start
_PAUSE, _LONGEST_PAUSE = 0.5, 30.0  # seconds before the next start, doubled each time
_START = 120.0  # timeout of a start in seconds
_HURRY = 3.0  # timeout of an immediate stop in seconds

Start = Callable[[int], Child]
"""Starts the worker of the given number."""


def must_share() -> None:
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
        say: Prints a line about an event.
        clock: Source of time; None for real time.
    """

    def __init__(
        self,
        listener: socket.socket,
        count: int,
        start: Start,
        say: Callable[[str], None],
        *,
        clock: Clock | None = None,
    ) -> None:
        self._listener = listener
        self._count = count
        self._start = start
        self._say = say
        self._clock = clock or SystemClock()
        self._children: list[Child] = []
        self._selector = selectors.DefaultSelector()
        self._failures = [0] * count
        self._due: dict[int, float] = {}
        self._to_renew: list[int] = []
        self._renewing: tuple[Child | None, Child] | None = None  # the old and the new worker
        self._has_begun = self._is_ending = False
        self._killed_at: float | None = None
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
                self._begin(number)
            try:
                while self._children or not self._is_ending:
                    self._turn(signals, listening)
            finally:
                for child in self._children:
                    child.kill()
                    child.close()
        if self._failure is not None:
            raise self._failure

    def _begin(self, number: int) -> Child:
        child = self._start(number)
        child.began = self._clock.monotonic()
        self._children.append(child)
        self._selector.register(child, selectors.EVENT_READ)
        self._due.pop(number, None)
        return child

    def _turn(self, signals: socket.socket, listening: Callable[[], None]) -> None:
        for key, _ in self._selector.select(self._patience()):
            if key.fileobj is signals:
                for each in signals.recv(256):
                    self._heed(each)
            elif isinstance(key.fileobj, Child):
                self._receive(key.fileobj)
        for child in [child for child in self._children if child.has_ended]:
            self._lay_out(child)
        if not self._has_begun and all(self._serving(n) for n in range(self._count)):
            self._has_begun = True
            listening()
        self._do_what_is_due()

    def _heed(self, number: int) -> None:
        if number == signal.SIGHUP:
            self._to_renew = list(range(self._count))
        elif number in (signal.SIGINT, signal.SIGTERM):
            self._end(AT_ONCE if self._is_ending else DRAIN)

    def _receive(self, child: Child) -> None:
        was_ready = child.is_ready
        if not child.receive():
            self._selector.unregister(child)
        if child.is_ready and not was_ready:
            child.ready_at = self._clock.monotonic()
            self._replace(child)

    def _replace(self, new: Child) -> None:
        """A worker is ready: stop the one that it replaces."""
        if self._renewing is None or self._renewing[1] is not new:
            return
        old = self._renewing[0]
        if old is None:
            self._renewing = None
        else:
            old.send(HAND_OVER)

    def _lay_out(self, child: Child) -> None:
        """Remove a worker that has ended, and start another if it should still run."""
        if child.fileno() in self._selector.get_map():
            self._selector.unregister(child)
        child.close()
        self._children.remove(child)
        renewing = self._renewing
        if renewing is not None and child is renewing[0]:
            self._renewing = None if renewing[1].is_ready else (None, renewing[1])
        if child.is_leaving or self._is_ending:
            return
        if renewing is not None and child is renewing[1] and not child.is_ready:
            self._renewing, self._to_renew = None, []
            self._say(f"warning: the workers were not replaced: {child.why()}")
            if renewing[0] in self._children:
                return
        self._miss(child)

    def _miss(self, child: Child) -> None:
        """Schedule a replacement, delayed after repeated failures."""
        number = child.number
        has_served = self._clock.monotonic() - child.ready_at > _SOON
        self._failures[number] = 0 if has_served else self._failures[number] + 1
        failures = self._failures[number]
        is_hopeless = failures >= _TRIES or (child.error is not None and not self._has_begun)
        if is_hopeless and not any(each.is_ready for each in self._children):
            self._failure = child.why()
            self._end(DRAIN)
            return
        pause = min(_PAUSE * 2 ** (failures - 1), _LONGEST_PAUSE) if failures else 0.0
        when = f"in {pause:g} s" if pause else "now"
        self._say(f"warning: {child.why()}; starting another {when}")
        self._due[number] = self._clock.monotonic() + pause

    def _do_what_is_due(self) -> None:
        now = self._clock.monotonic()
        if self._is_ending:
            if self._killed_at is not None and now >= self._killed_at:
                for child in self._children:
                    child.kill()
            return
        for child in self._children:
            if not child.is_ready and now - child.began > _START:
                child.kill()
        for number in [number for number, due in self._due.items() if now >= due]:
            self._begin(number)
        if self._to_renew and self._renewing is None and self._has_begun:
            number = self._to_renew.pop(0)
            old = self._serving(number)
            self._renewing = (old, self._begin(number))

    def _end(self, order: str) -> None:
        self._is_ending = True
        self._to_renew, self._renewing = [], None
        self._due.clear()
        self._listener.close()
        if order == AT_ONCE:
            self._killed_at = self._clock.monotonic() + _HURRY
        for child in self._children:
            child.send(order)

    def _serving(self, number: int) -> Child | None:
        """The ready worker with a number."""
        for child in self._children:
            if child.number == number and child.is_ready and not child.is_leaving:
                return child
        return None

    def _patience(self) -> float | None:
        """Seconds until the next scheduled action; None without one."""
        dues = list(self._due.values())
        if self._killed_at is not None:
            dues.append(self._killed_at)
        dues += [child.began + _START for child in self._children if not child.is_ready]
        return max(0.0, min(dues) - self._clock.monotonic()) + 0.01 if dues else None

    @contextlib.contextmanager
    def _signals(self) -> Iterator[socket.socket]:
        """Handle signals, and yield a socket from which their numbers can be read."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.setblocking(False)
            wakes = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
            numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)
            before = {each: signal.signal(each, lambda *_: None) for each in numbers}
            try:
                yield ours
            finally:
                signal.set_wakeup_fd(wakes)
                for each, handler in before.items():
                    signal.signal(each, handler)
