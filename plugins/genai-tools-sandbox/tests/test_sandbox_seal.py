"""What Node can do, once it is shut in: nothing. Asked by code that has all of Node.

In place of Pyodide stands a module that does what a test says with Node's own functions, as
code that has broken out of Python would.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from genai_tools_sandbox import process as process_module, supervisor
from genai_tools_sandbox.process import Bounds, Ended, Process, can_run

from genai_host.api import Cancellation
from genai_host.errors import Cancelled, ServiceUnavailable
from genai_host_testing.internal.servers import children, wait_until_ended

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not can_run(), reason="the sandbox is one of Linux"),
]

BROKEN_OUT = Path(__file__).with_name("broken_out.mjs")
BOUNDS = Bounds(memory=128, cpu=60, output=1000, files=2, file_bytes=1000, answer=1_000_000)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pyodide")
    (folder / "pyodide.mjs").write_text(BROKEN_OUT.read_text())
    return folder


@contextmanager
def _started(folder: Path) -> Iterator[Process]:
    process = Process(folder, BOUNDS, Cancellation())
    try:
        yield process
    finally:
        process.close()


@pytest.fixture
def process(folder: Path) -> Iterator[Process]:
    with _started(folder) as started:
        yield started


def _act(
    process: Process, act: str, argument: Any = None, seconds: float = 30.0
) -> tuple[bool, str]:
    """Whether it failed, and what was said."""
    request = {"code": json.dumps([act, argument]), "files": []}
    answer = process.call(request, seconds, Cancellation())
    return answer["error"], answer["text"]


def test_calls_are_answered_one_after_the_other(process: Process) -> None:
    assert _act(process, "say", "one") == (False, "one")
    assert _act(process, "say", "two\nlines \u2028 é") == (False, "two\nlines \u2028 é")
    assert _act(process, "say", "x" * 900_000 + "y")[1] == "x" * 1000


def test_files_of_the_host_cannot_be_read(process: Process, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    for path in (tmp_path / "secret", "/etc/passwd", "/proc/self/environ", "/proc/1/cmdline"):
        assert _act(process, "file", str(path)) == (True, "ERR_ACCESS_DENIED"), path
    assert _act(process, "list", "/") == (True, "ERR_ACCESS_DENIED")
    assert _act(process, "list", str(tmp_path)) == (True, "ERR_ACCESS_DENIED")


def test_nothing_can_be_written(process: Process, tmp_path: Path, folder: Path) -> None:
    for path in (tmp_path / "x", folder / "x", folder / "pyodide.mjs"):
        assert _act(process, "write", str(path)) == (True, "ERR_ACCESS_DENIED")
    assert not list(tmp_path.iterdir())


def test_nothing_of_the_host_can_be_reached(process: Process) -> None:
    denied = (True, "ERR_ACCESS_DENIED")
    assert _act(process, "env") == (False, "{}")
    assert _act(process, "globals") == (False, "[]")
    assert _act(process, "spawn") == _act(process, "worker") == denied
    assert _act(process, "code", "return 1") == (True, "EvalError")
    for other in (os.getpid(), os.getppid()):
        assert _act(process, "kill", other) == (True, "EPERM")


@pytest.mark.smoke
def test_a_folder_that_has_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(ServiceUnavailable, match="cannot start the sandbox") as caught:
        Process(tmp_path / "gone", BOUNDS, Cancellation())
    assert "sandbox pull" in str(caught.value.hint)


def test_there_is_no_network(process: Process, tmp_path: Path) -> None:
    """Node 24 would allow it: the system does not."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        failed, why = _act(process, "connect", server.getsockname()[1])
        assert failed
        assert why in ("EPERM", "ERR_ACCESS_DENIED")
    assert _act(process, "listen")[0]
    assert _act(process, "udp")[0]
    with socket.socket(socket.AF_UNIX) as local:
        local.bind(str(tmp_path / "s"))
        local.listen()
        assert _act(process, "local", str(tmp_path / "s"))[0]


@pytest.mark.parametrize(("act", "answer", "message"), [
    # who writes where answers are written does not know how one begins
    *[("forge", line, None) for line in ('{"error": false}\n', "0 {}\n", "\n", "\xff\n")],
    ("forge", "x" * 2_000_000, None),
    # Python that is broken into may give the runner anything
    *[("raw", line, None) for line in ('{"fatal": "' + "x" * 5000 + '"}', "no JSON", "")],
    # as lists, a few megabytes would be hundreds of them in the host
    *[
        ("raw", '{"error": false, "x": [' + part * 250_000 + "0]}", "it returned no result")
        for part in ("[],", "{},", "0,")
    ],
    # JavaScript that was tampered with may make the runner write any JSON
    *[
        ("json", line, "it returned no result")
        for line in ("5", '"fatal"', '["fatal"]', "null", "undefined")
    ],
], ids=range(16))  # fmt: skip
def test_invalid_answers(process: Process, act: str, answer: str, message: str | None) -> None:
    with pytest.raises(Ended, match=message) as caught:
        _act(process, act, answer)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("depth", [3000, 200_000])
def test_results_that_are_deep_are_read_or_refused(process: Process, depth: int) -> None:
    """And nothing but `Ended` is raised."""
    with suppress(Ended):
        answer = process.call(
            {"code": json.dumps(["raw", '{"images":' + "[" * depth + "]" * depth + "}"])}
            | {"files": []},
            30.0,
            Cancellation(),
        )
        assert answer["text"] == ""


@pytest.mark.parametrize(("act", "seconds", "message"), [
    ("spin", 0.2, "it ran longer"), ("wait", 0.2, "it ran longer"),
    ("nothing", 30, "nothing is left"), ("heap", 30, "memory limit"),
    ("memory", 30, "memory limit"), ("exit", 30, "the Python process ended"),
])  # fmt: skip
def test_what_ends_the_process(process: Process, act: str, seconds: float, message: str) -> None:
    node = _node_of(process)
    with pytest.raises(Ended, match=message):
        _act(process, act, seconds=seconds)
    wait_until_ended(node)


def test_a_call_ends_when_it_is_cancelled(process: Process, background: Any) -> None:
    limits = Cancellation()
    request = {"code": json.dumps(["spin", None]), "files": []}
    ended: Future[Any] = background(process.call, request, 60.0, limits)
    limits.cancel()
    with pytest.raises(Cancelled):
        ended.result(30)


def test_a_request_that_is_not_read_ends_with_its_time(process: Process) -> None:
    os.kill(_node_of(process), signal.SIGSTOP)
    request = {"code": json.dumps(["say", "x" * 4_000_000]), "files": []}
    with pytest.raises(Ended, match="longer"):
        process.call(request, 0.2, Cancellation())


def test_the_process_is_bounded_by_the_system(process: Process) -> None:
    node = _node_of(process)
    status = Path(f"/proc/{node}/status").read_text()
    fields = dict(line.split(":\t", 1) for line in status.splitlines())
    assert fields["NoNewPrivs"] == "1"
    assert fields["Seccomp"] == "2"
    limits = Path(f"/proc/{node}/limits").read_text()
    [size] = [line for line in limits.splitlines() if line.startswith("Max file size")]
    assert size.split()[3:5] == ["0", "0"]
    assert not any(
        os.readlink(each).startswith("socket:") for each in Path(f"/proc/{node}/fd").iterdir()
    )


def test_nothing_is_left_of_it_where_the_host_is_the_first_process(folder: Path) -> None:
    """As in a container: the host becomes the parent of orphaned processes and must reap them."""
    code = (
        "import ctypes, sys\nfrom pathlib import Path\n"
        "from genai_host.api import Cancellation\n"
        "from genai_tools_sandbox.process import Bounds, Ended, Process\n"
        "ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)\n"  # PR_SET_CHILD_SUBREAPER
        "def start():\n"
        f"    return Process(Path({str(folder)!r}), {BOUNDS!r}, Cancellation())\n"
        "start().close()\n"
        "late = start()\n"
        "try:\n"
        "    late.call({'code': '[\"spin\", null]', 'files': []}, 0.2, Cancellation())\n"
        "except Ended: late.close()\n"
        "print(open('/proc/thread-self/children').read().split())\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert result.stdout == b"[]\n"


def test_it_ends_where_its_supervisor_does_not_answer(process: Process) -> None:
    node = _node_of(process)
    os.kill(process._popen.pid, signal.SIGSTOP)
    process.close()
    wait_until_ended(node)


def _supervisor_of(folder: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> None:
    """From here on supervisors are those of a system that lacks something."""
    text = Path(supervisor.__file__).read_text()
    assert text.count(old) == 1
    (folder / "supervisor.py").write_text(text.replace(old, new))
    monkeypatch.setattr(process_module, "_HERE", folder)


def test_no_filter_no_run(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _supervisor_of(tmp_path, monkeypatch, "_FILTER = 2", "_FILTER = 99")
    with pytest.raises(ServiceUnavailable, match="cannot isolate a process") as caught:
        Process(folder, BOUNDS, Cancellation())
    assert "seccomp" in str(caught.value.hint)


def test_no_landlock(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _supervisor_of(tmp_path, monkeypatch, "if version < 1:", "if version:")
    with _started(folder) as process:
        assert _act(process, "file", "/etc/passwd") == (True, "ERR_ACCESS_DENIED")
        assert _act(process, "udp")[0]


def test_closing_ends_all(folder: Path) -> None:
    with _started(folder) as process:
        node = _node_of(process)
    wait_until_ended(node)
    process.kill()  # again, and that does nothing


def test_it_ends_with_a_host_that_is_killed(folder: Path) -> None:
    """However it ends: nobody is left to end it."""
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from genai_host.api import Cancellation\n"
        "from genai_tools_sandbox.process import Bounds, Process\n"
        f"process = Process(Path({str(folder)!r}), {BOUNDS!r}, Cancellation())\n"
        "print(process._popen.pid, flush=True)\n"
        "process.call({'code': '[\"spin\", null]', 'files': []}, 600, Cancellation())\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as host:
        assert host.stdout is not None
        parent = int(host.stdout.readline())
        [node] = children(parent)
        host.kill()
    wait_until_ended(node)
    wait_until_ended(parent)


def test_without_pidfd_open(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those do that were made with the headers of an old kernel."""
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    with _started(folder) as process:
        assert _act(process, "say", "one") == (False, "one")
        with pytest.raises(Ended, match="memory limit"):
            _act(process, "memory")


def test_it_ends_with_its_supervisor(process: Process) -> None:
    node = _node_of(process)
    os.kill(process._popen.pid, signal.SIGKILL)
    wait_until_ended(node)


def _node_of(process: Process) -> int:
    [node] = children(process._popen.pid)
    return node
