"""Child processes, and their resource usage from /proc on Linux."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")


class ChildProcess:
    """A running program with its own process group.

    Attributes:
        pid: Process ID.
        log: File with the output of the program.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        core: int | None = None,
    ) -> None:
        """Start the program.

        Args:
            command: Program and its arguments.
            environment: Variables to add to those of this process.
            log: File for the output.
            core: Core to run on; None for all.
        """
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
            os.sched_setaffinity(self.pid, {core})  # before it starts threads

    @property
    def has_exited(self) -> bool:
        return self._process.poll() is not None

    def stop(self) -> None:
        """Send SIGTERM to the process group, and SIGKILL after 10 seconds."""
        for signal_number in (signal.SIGTERM, signal.SIGKILL):
            if self.has_exited:
                return
            os.killpg(self.pid, signal_number)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                continue


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and its children, including children that have exited."""
    return sum(map(_cpu_seconds_of_one, process_tree(pid)))


def memory_kb(pid: int) -> int:
    """Proportional set size (PSS) of a process and its children."""
    return sum(map(_memory_kb_of_one, process_tree(pid)))


def threads(pid: int) -> int:
    """Number of threads of one process."""
    return len(os.listdir(f"/proc/{pid}/task"))


def descriptors(pid: int, exclude: str = "") -> int:
    """Number of open files and sockets of one process.

    Args:
        pid: Process ID.
        exclude: Part of the names of files that are not counted.
    """
    directory = f"/proc/{pid}/fd"
    names = (_target(f"{directory}/{number}") for number in os.listdir(directory))
    return sum(not exclude or exclude not in name for name in names)


def _target(descriptor: str) -> str:
    try:
        return os.readlink(descriptor)
    except OSError:  # it was closed
        return ""


def busy_seconds() -> float:
    """CPU time of all processes of this machine."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _, _, irq, softirq = map(int, file.readline().split()[1:8])
    return (user + nice + system + irq + softirq) / _TICK


def process_tree(pid: int) -> Iterator[int]:
    """Process IDs of a process and its descendants."""
    yield pid
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = file.read_text(encoding="ascii").split()
        except OSError:  # the thread has exited
            continue
        for child in children:
            yield from process_tree(int(child))


def _cpu_seconds_of_one(pid: int) -> float:
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        after_name = file.read().rsplit(")", 1)[1].split()
    return sum(map(int, after_name[11:15])) / _TICK


def _memory_kb_of_one(pid: int) -> int:
    with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pss:"))
