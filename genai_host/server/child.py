"""A worker as its supervisor sees it: a process, and the channel to it (`worker_process`)."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

from genai_host.errors import ConfigurationError, GenaiError, PluginError
from genai_host.server.worker_process import FAILED, READY

# an interpreter of its own, that finds the modules that this one finds
_PROGRAM = """
import sys
first = sys.argv.pop(1)
if not getattr(sys.flags, "safe_path", False):
    sys.path[0] = first
from genai_host.cli.main import run_worker
sys.exit(run_worker(sys.argv[1:]))
"""
_MOST = 64 * 1024  # bytes that a worker has to say


class Child:
    """Begins with it.

    listener    the socket to listen at
    core        the only core that it may use; None for any
    arguments   of the command line that serves

    is_ready          it takes connections
    is_leaving        it has been told to end
    error             why it could not begin, as it says
    began, ready_at   on the monotonic clock
    """

    def __init__(
        self, listener: socket.socket, core: int | None, arguments: Sequence[str], number: int
    ) -> None:
        self.number = number
        self.core = core
        self.is_ready = self.is_leaving = False
        self.error: GenaiError | None = None
        self.began = self.ready_at = time.monotonic()
        self._said = b""
        self._channel, theirs = socket.socketpair()
        with theirs:
            handed = (listener.fileno(), theirs.fileno())
            place = ",".join(map(str, (*handed, "" if core is None else core)))
            command = [sys.executable, "-c", _PROGRAM, sys.path[0], place, *arguments]
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                pass_fds=handed,
                start_new_session=True,  # Ctrl-C is for the supervisor, which tells it
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

    def tell(self, order: str) -> None:
        """One that is not ready yet is not told, but ended: nothing is under way there."""
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

    def hear(self) -> bool:
        """What it says by now; whether it may say more."""
        try:
            piece = self._channel.recv(_MOST)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self._said += piece
        *lines, self._said = self._said.split(b"\n")
        for line in lines:
            self._take(line.decode(errors="replace"))
        return bool(piece) and len(self._said) < _MOST

    def close(self) -> None:
        """Wait until it has ended; what it said last is heard."""
        self._process.wait()
        self.hear()
        self._channel.close()

    def why(self) -> GenaiError:
        """Why it ended."""
        if self.error is not None:
            return self.error
        code = self._process.returncode
        how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        return PluginError(f"a worker ended by itself: {how}", hint="what it printed says why")

    def _take(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == READY:
            self.is_ready, self.ready_at = True, time.monotonic()
        elif word == FAILED:
            with contextlib.suppress(ValueError, LookupError, TypeError):  # it says nothing
                told = json.loads(rest)
                self.error = ConfigurationError(told["message"], hint=told["hint"])
