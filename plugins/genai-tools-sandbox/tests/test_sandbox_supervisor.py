"""The walls of the system, without Node's own: another program is shut in, and tries them."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from genai_tools_sandbox import supervisor
from genai_tools_sandbox.process import can_run

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not can_run(), reason="the sandbox is one of Linux"),
]

_TRY = """
import ctypes, fcntl, json, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def called(name, *given):
    if getattr(libc, name)(*given) < 0:
        raise OSError(ctypes.get_errno(), name)
def tried(act):
    try:
        return act() and "done" or "done"
    except OSError as error:
        return type(error).__name__
    except MemoryError:
        return "MemoryError"
def connect():
    import _socket
    _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM).connect(("127.0.0.1", 9))
found, given = {}, json.loads(sys.argv[1])
found["socket"] = tried(connect)
found["fork"] = tried(lambda: os.fork() or os._exit(0))
found["exec"] = tried(lambda: os.execv("/bin/true", ["true"]))
found["kill"] = tried(lambda: os.kill(given["host"], 0))
found["chmod"] = tried(lambda: os.chmod(given["secret"], 0o777))
found["fchmod"] = tried(lambda: os.fchmod(3, 0o777))
found["chown"] = tried(lambda: os.chown(given["secret"], -1, -1))
found["utime"] = tried(lambda: os.utime(given["secret"], (1, 1)))
found["setxattr"] = tried(lambda: os.setxattr(given["secret"], "user.x", b"1"))
found["setsid"] = tried(os.setsid)
found["setpgid"] = tried(lambda: os.setpgid(0, 0))
found["outlive"] = tried(lambda: called("prctl", 1, 0, 0, 0, 0))
found["shmget"] = tried(lambda: called("shmget", 0, 0, 0))
found["semget"] = tried(lambda: called("semget", 0, 0, 0))
found["msgget"] = tried(lambda: called("msgget", 0x7E57, 0))
found["owner"] = tried(lambda: fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid()))
found["signal"] = tried(lambda: fcntl.fcntl(0, 10, 9))
found["read"] = tried(lambda: open(given["secret"]).read())
found["passwd"] = tried(lambda: open("/etc/passwd").read())
found["environ"] = tried(lambda: open(f"/proc/{os.getppid()}/environ").read())
found["write"] = tried(lambda: open(given["folder"] + "/made", "w"))
found["names"] = tried(lambda: os.listdir("/"))
found["environment"] = dict(os.environ)
found["memory"] = tried(lambda: bytearray(2**31) and None)
found["descriptors"] = [each for each in range(3, 100) if tried(lambda: os.fstat(each)) == "done"]
found["watch"] = tried(lambda: called("inotify_add_watch", libc.inotify_init1(0), b"/usr/lib", 2))
os.write(3, json.dumps(found).encode())
"""


def _run(command: list[str], **others: Any) -> tuple[int, bytes]:
    """What it exits with, and what came out."""
    base = os.path.dirname(os.path.realpath(sys.executable))
    readable = [sys.base_prefix, base, os.path.realpath(sys.executable)]
    options = {"command": command, "readable": readable, "memory": 2**28, "cpu": 20, **others}
    with subprocess.Popen(
        [sys.executable, "-I", "-S", supervisor.__file__, json.dumps(options)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={},
    ) as started:
        assert started.stdout is not None
        written = started.stdout.read()
        return started.wait(30), written


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """What became of each of the things that were tried."""
    folder = tmp_path_factory.mktemp("outside")
    (folder / "secret").write_text("secret")
    options = {"host": os.getpid(), "secret": str(folder / "secret"), "folder": str(folder)}
    program = os.path.realpath(sys.executable)
    code, written = _run([program, "-I", "-S", "-c", _TRY, json.dumps(options)])
    assert code == 0
    report: Mapping[str, Any] = json.loads(written)
    return report


_REFUSED = (
    "socket fork exec kill chmod fchmod chown utime setxattr setsid setpgid outlive shmget semget"
    " msgget watch owner signal"
)


@pytest.mark.smoke
@pytest.mark.parametrize("act", _REFUSED.split())
def test_the_filter_refuses(findings: Mapping[str, Any], act: str) -> None:
    assert findings[act] == "PermissionError"


def _has_landlock() -> bool:
    return bool(ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1) >= 1)


@pytest.mark.skipif(not can_run() or not _has_landlock(), reason="this kernel has no Landlock")
@pytest.mark.parametrize("act", ["read", "passwd", "environ", "write", "names"])
def test_landlock_refuses(findings: Mapping[str, Any], act: str) -> None:
    assert findings[act] == "PermissionError"


def test_little_is_handed_on(findings: Mapping[str, Any]) -> None:
    assert not findings["environment"].keys() - {"LC_CTYPE"}  # which Python itself sets
    assert findings["descriptors"] == [3]


def test_memory_is_bounded_by_the_system(findings: Mapping[str, Any]) -> None:
    """Beside the look that is had at it now and then."""
    assert findings["memory"] == "MemoryError"


def test_memory_is_looked_at() -> None:
    program = os.path.realpath(sys.executable)
    code, _ = _run([program, "-I", "-S", "-c", "x = b'x' * 2**29\nwhile True: pass"])
    assert code == supervisor.TOO_MUCH_MEMORY


def test_computing_is_bounded_by_the_system() -> None:
    program = os.path.realpath(sys.executable)
    code, _ = _run([program, "-I", "-S", "-c", "while True: pass"], cpu=1)
    assert code == 128 + signal.SIGXCPU


def test_it_says_how_it_ended() -> None:
    program = os.path.realpath(sys.executable)
    assert _run([program, "-I", "-S", "-c", "import os; os._exit(5)"])[0] == 5
    assert _run(["/there/is/no/such/program"])[0] == supervisor.NO_SEAL


@pytest.mark.parametrize("machine", sorted(supervisor.ARCHITECTURES))
def test_a_filter_is_one_that_the_system_takes(machine: str) -> None:
    """At most 4096 steps of 8 bytes, the last of which returns; jumps stay within."""
    steps = supervisor._instructions(machine, 0x7FFF_1234_5678, 42)
    assert len(steps) < 4096
    assert all(len(each) == 8 for each in steps)
    for at, each in enumerate(steps):
        code = int.from_bytes(each[:2], sys.byteorder)
        if code & 0x07 == 0x05:
            assert at + 1 + max(each[2], each[3]) < len(steps)
    assert int.from_bytes(steps[-1][:2], sys.byteorder) == 0x06


def test_a_machine_that_is_not_known_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert can_run()
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert not can_run()
    assert Path(supervisor.__file__).is_file()
