"""Processes that are measured from outside, by what Linux tells in /proc."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")


class Started:
    """A program and its children, until it is stopped; what it prints goes to a file.

    core   the only one that they may use; None for any
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        core: int | None = None,
    ) -> None:
        self.log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.pid = self._process.pid
        if core is not None:
            os.sched_setaffinity(self.pid, {core})  # before it has threads

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def stop(self) -> None:
        """As one should; after ten seconds, as one can."""
        for sign in (signal.SIGTERM, signal.SIGKILL):
            if self.has_ended:
                return
            os.killpg(self.pid, sign)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                continue


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and its children, with those that have ended and
    were waited for."""
    return sum(map(_own_cpu_seconds, family(pid)))


def memory_kb(pid: int) -> int:
    """Resident memory of a process and its children; what is shared with others in part."""
    return sum(map(_own_memory_kb, family(pid)))


def threads(pid: int) -> int:
    """Threads of one process."""
    return len(os.listdir(f"/proc/{pid}/task"))


def descriptors(pid: int, but: str = "") -> int:
    """Open files and sockets of one process.

    but   what the names of those have in them that are not counted
    """
    folder = f"/proc/{pid}/fd"
    return sum(not but or but not in _name_of(f"{folder}/{each}") for each in os.listdir(folder))


def _name_of(descriptor: str) -> str:
    try:
        return os.readlink(descriptor)
    except OSError:  # closed meanwhile
        return ""


def busy_seconds() -> float:
    """How long the processors of this machine have been busy, for whomever."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _, _, irq, softirq = map(int, file.readline().split()[1:8])
    return (user + nice + system + irq + softirq) / _TICK


def family(pid: int) -> Iterator[int]:
    """A process and its children."""
    yield pid
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = file.read_text(encoding="ascii").split()
        except OSError:  # the thread has ended
            continue
        for child in children:
            yield from family(int(child))


def _own_cpu_seconds(pid: int) -> float:
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        after_name = file.read().rsplit(")", 1)[1].split()
    return sum(map(int, after_name[11:15])) / _TICK


def _own_memory_kb(pid: int) -> int:
    with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pss:"))
