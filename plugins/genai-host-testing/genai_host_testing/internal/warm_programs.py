"""Forks in place of a slow program that many tests start as a server of standard input and output.

A process imports the program once, and forks for each start. What is started is a small client: it
hands its standard streams to the fork, and the two end together. The fork gets no arguments, and
its exit code is always 0, so this is for programs of tests alone, and not for what is tested:

    def test_it_is_called(mcp_shop): ...  # the command
"""

from __future__ import annotations

import contextlib
import importlib
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

__all__ = ["mcp_shop"]

_CLIENT = """
import os, socket, sys
with socket.socket(socket.AF_UNIX) as channel:
    channel.connect(sys.argv[1])
    socket.send_fds(channel, [b"0"], [0, 1, 2])
    os.close(0), os.close(1)
    channel.recv(1)
"""
_SERVER = """
import sys
from genai_host_testing.internal.warm_programs import serve
serve(int(sys.argv[1]), sys.argv[2])
"""


@contextlib.contextmanager
def warm(module: str) -> Iterator[tuple[str, ...]]:
    """Yield a command for the function `main` of a module."""
    if not hasattr(os, "fork"):  # Windows
        yield (sys.executable, "-m", module)
        return
    with tempfile.TemporaryDirectory(prefix="warm-") as folder:
        place = str(Path(folder, "socket"))
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(place)
            listener.listen()
            server = subprocess.Popen(
                [sys.executable, "-c", _SERVER, str(listener.fileno()), module],
                stdin=subprocess.PIPE,  # it ends with this process
                pass_fds=[listener.fileno()],
            )
        with server:
            yield (sys.executable, "-I", "-S", "-c", _CLIENT, place)
            server.communicate()


def serve(descriptor: int, module: str) -> None:
    """Fork for each connection, until the end of the standard input: the process of `warm`."""
    main = importlib.import_module(module).main
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # forks are not waited for
    with socket.socket(fileno=descriptor) as listener:
        while descriptor in select.select([0, descriptor], [], [])[0]:
            channel, _ = listener.accept()
            with channel:
                if os.fork() == 0:
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    _become_program(channel)
                    main()
                    os._exit(0)


def _become_program(channel: socket.socket) -> None:
    _, streams, _, _ = socket.recv_fds(channel, 1, 3)
    for number, each in enumerate(streams):
        os.dup2(each, number)
        os.close(each)

    def end_with_client() -> None:
        channel.recv(1)
        os._exit(1)

    threading.Thread(target=end_with_client, daemon=True).start()


@pytest.fixture(scope="session")
def mcp_shop() -> Iterator[tuple[str, ...]]:
    """Command of the server of `genai_host_testing.services.mcp`, which takes a second to start."""
    with warm("genai_host_testing.services.mcp") as command:
        yield command
