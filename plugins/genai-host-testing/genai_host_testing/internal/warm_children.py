"""Forks in place of the processes that `run_in_child` starts.

A new Python process takes a quarter of a second, most of it for imports. A fork of a process that
has imported the same modules takes a hundredth. Where processes cannot be forked, `run_in_child`
starts them as usual, and so do the tests of `run_in_child` itself.

A test module that calls a tool many times names what its processes import:

    pytestmark = pytest.mark.usefixtures("warm_children")
    warmed = ("my_plugin.parsing",)
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from genai_host.api import child_process

__all__ = ["warm_children"]

_MAIN = """
import sys
from genai_host_testing.internal.warm_children import serve
serve(int(sys.argv[1]), sys.argv[2:])
"""
_NUMBER = struct.Struct("i")
_MAX_SIZE = 2**17  # bytes of a request: the environment and the path


class _Server:
    """A process that has imported modules, and forks."""

    def __init__(self, modules: Sequence[str], start: Any) -> None:
        self._channel, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            self._process = start(
                [sys.executable, "-P", "-c", _MAIN, str(other.fileno()), *modules],
                pass_fds=[other.fileno()],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )

    def fork(self, path: Sequence[str], environment: Mapping[str, str]) -> _Fork:
        request = json.dumps([path, dict(environment)]).encode()
        theirs_in, stdin = os.pipe()
        stdout, theirs_out = os.pipe()
        socket.send_fds(self._channel, [request], [theirs_in, theirs_out])
        (pid,) = _NUMBER.unpack(self._channel.recv(_NUMBER.size))
        os.close(theirs_in)
        os.close(theirs_out)
        return _Fork(pid, stdin, stdout)

    def close(self) -> None:
        self._channel.close()
        self._process.wait()


class _Fork:
    """The part of `subprocess.Popen` that `run_in_child` uses."""

    def __init__(self, pid: int, stdin: int, stdout: int) -> None:
        self._pid = pid
        self.stdin = open(stdin, "wb")  # noqa: SIM115 - until the exit of this one
        self.stdout = open(stdout, "rb")  # noqa: SIM115 - as before

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)

    def __enter__(self) -> _Fork:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stdout.close()
        with contextlib.suppress(OSError):  # it was killed
            self.stdin.close()
        with contextlib.suppress(ProcessLookupError):  # it has ended, and the server has seen it
            process = os.pidfd_open(self._pid)
            select.select([process], [], [])
            os.close(process)


def serve(descriptor: int, modules: Sequence[str]) -> None:
    """Fork for each request, until the other end is closed: the process of `_Server`."""
    for name in modules:
        importlib.import_module(name)
    with socket.socket(fileno=descriptor) as channel:
        while True:
            request, streams, _, _ = socket.recv_fds(channel, _MAX_SIZE, 2)
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG if request else 0)[0]:
                    pass
            if not request:
                return
            pid = os.fork()
            if pid == 0:
                channel.close()
                _become_child(streams, *json.loads(request))
            for each in streams:
                os.close(each)
            channel.send(_NUMBER.pack(pid))


def _become_child(
    streams: Sequence[int], path: Sequence[str], environment: Mapping[str, str]
) -> None:
    try:
        for number, each in enumerate([*streams, os.open(os.devnull, os.O_WRONLY)]):
            os.dup2(each, number)
            os.close(each)
        sys.path[:] = path
        os.environ.clear()
        os.environ.update(environment)
        child_process.main()
    finally:
        os._exit(1)


@pytest.fixture(scope="module")
def warm_children(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fork the processes of `run_in_child` from one that has imported `warmed` of the module."""
    start, marker = subprocess.Popen, child_process._MAIN
    lock, servers = threading.Lock(), list[_Server]()

    def popen(command: Any, *arguments: Any, **options: Any) -> Any:
        if marker not in command:
            return start(command, *arguments, **options)
        with lock:
            if not servers:
                servers.append(_Server(request.module.warmed, start))
            path = command[command.index(marker) + 1 :]
            return servers[0].fork(path, options["env"])

    with pytest.MonkeyPatch.context() as patch:
        if hasattr(os, "fork") and hasattr(os, "pidfd_open"):  # Linux
            patch.setattr(subprocess, "Popen", popen)
        yield
    for each in servers:
        each.close()
