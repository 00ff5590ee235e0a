"""A function in another Python process, within limits.

A library that parses what others wrote may take all memory, never end or crash. A thread cannot be
ended from outside; a process has limits, and can be killed.

The process reads one line of JSON, and data behind it. It writes one line of JSON.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

from attrs import asdict, frozen

from genai_host.api.calls import CancelToken
from genai_host.api.codec import default_codec
from genai_host.errors import ConfigurationError, GenaiError
from genai_host.util.interpreter import has_interpreter

if TYPE_CHECKING:
    import subprocess

_MAIN = """
import sys
sys.path[:] = sys.argv[1:]  # not the current directory: others may be able to write to it
from genai_host.api.child_process import main
main()
"""
_ENVIRONMENT = frozenset(
    {
        *("CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE"),
        *("LANG", "LC_ALL", "LC_CTYPE"),  # how paths are written
        *("DYLD_LIBRARY_PATH", "LD_LIBRARY_PATH", "PYTHONHOME", "SYSTEMROOT"),  # where Python is
    }
)
_GRACE = 10  # seconds after which a process ends itself if its parent cannot kill it any more


@frozen
class ChildLimits:
    """Resource limits of a child process.

    Memory is limited on Linux only. Windows limits `seconds` and `output` only.

    Attributes:
        memory: Address space in bytes, in addition to that in use when the function starts; None
            for no limit.
        cpu_seconds: CPU time in seconds; None for no limit.
        seconds: Seconds until it is killed; None for as long as the call lasts.
        output: Maximum number of bytes that it writes.
        may_write: Whether it may write to files.
    """

    memory: int | None = None
    cpu_seconds: int | None = None
    seconds: float | None = None
    output: int = 16 * 2**20
    may_write: bool = False


def can_run_in_child() -> bool:
    """Whether there is a Python interpreter to start; a frozen program has none."""
    return has_interpreter()


def run_in_child(
    function: str,
    *arguments: Any,
    returns: Any,
    cancel: CancelToken,
    limits: ChildLimits,
    exceeded: GenaiError,
    timeout: GenaiError | None = None,
    environment: Mapping[str, str] | None = None,
    data: bytes | None = None,
) -> Any:
    """Run a function in another Python process, and wait for it.

    Args:
        function: Module and name, for example `my_plugin.parsing:parse`.
        arguments: JSON values.
        returns: Class or type that the returned value must match, see `Codec`.
        cancel: Cancelling it kills the process.
        limits: Resource limits of the process.
        exceeded: The error to raise if the function exceeds a limit, crashes, raises an error other
            than `GenaiError` or returns a value of another type.
        timeout: The error to raise after `limits.seconds`; None for `exceeded`.
        environment: Environment variables to add. Apart from them, the process has only those that
            locate Python, its libraries and certificates, so it has no keys.
        data: One more argument, after the others; None for none.

    Returns:
        The value that the function returns.

    Raises:
        GenaiError: The error that the function raises, `exceeded`, `timeout`, or the reason of the
            cancellation.
        ConfigurationError: There is no Python interpreter to start.
    """
    import subprocess

    cancel.check()
    if not has_interpreter():
        raise ConfigurationError("there is no Python interpreter to start: this program is frozen")
    asked = {
        "function": function,
        "arguments": arguments,
        "limits": asdict(limits),
        "has_data": data is not None,
    }
    flags = ["-P", *(["-B"] * sys.dont_write_bytecode)]
    process = subprocess.Popen(
        [sys.executable, *flags, "-c", _MAIN, *filter(None, sys.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**_inherited(), **(environment or {})},
    )
    with process, cancel.on_cancel(process.kill), _killed_after(process, limits.seconds) as is_over:
        written = _exchange(
            process, json.dumps(asked).encode() + b"\n" + (data or b""), limits.output
        )
    cancel.check()
    if not written and timeout is not None and is_over():
        raise timeout
    return _read(written, returns, exceeded)


def _inherited() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.upper() in _ENVIRONMENT}


@contextlib.contextmanager
def _killed_after(
    process: subprocess.Popen[bytes], seconds: float | None
) -> Iterator[Callable[[], bool]]:
    """Kill a process after a timeout. Yields a function that returns whether it was killed."""
    over = threading.Event()
    if seconds is None:
        yield over.is_set
        return

    def end() -> None:
        over.set()
        process.kill()

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield over.is_set
    finally:
        timer.cancel()
        timer.join()


def _exchange(process: subprocess.Popen[bytes], request: bytes, most: int) -> bytes:
    """Send a request and read the answer, which is truncated to `most` bytes, and empty if the
    process was killed."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with contextlib.suppress(OSError):  # it was killed
            process.stdin.write(request)
            process.stdin.close()
        return process.stdout.read(most)
    finally:
        process.kill()


def _read(written: bytes, returns: Any, exceeded: GenaiError) -> Any:
    codec = default_codec()
    try:
        [(kind, value)] = json.loads(written).items()
        found = codec.from_json(value, GenaiError if kind == "error" else returns)
    except (ValueError, AttributeError, RecursionError, GenaiError):  # no answer, or a strange one
        raise exceeded from None
    if kind == "error":
        raise found
    return found


def main() -> None:
    """Entry point of the child process."""
    # a library that prints, in C as well, does not write into the answer
    output = os.dup(1)
    os.dup2(2, 1)
    with open(output, "wb") as stream:
        stream.write(answer(sys.stdin.buffer))
    os._exit(0)  # some libraries crash or hang when they are released


def answer(asked: BinaryIO) -> bytes:
    """Run the function that the parent requests; return its result, empty if it failed."""
    given = json.loads(asked.readline())
    arguments: Sequence[Any] = given["arguments"]
    if given["has_data"]:
        arguments = [*arguments, asked.read()]
    module, _, name = given["function"].partition(":")
    function = getattr(importlib.import_module(module), name)
    codec = default_codec()
    _limit(ChildLimits(**given["limits"]))
    try:
        try:
            found = {"value": codec.to_json(function(*arguments))}
        except GenaiError as error:
            found = {"error": codec.to_json(error)}
        return json.dumps(found).encode()
    except Exception:  # noqa: BLE001 - of a library, for what it was given; MemoryError too
        return b""


def _limit(limits: ChildLimits) -> None:
    try:
        import resource
        import signal
    except ImportError:  # Windows has none
        return
    most = {"RLIMIT_CORE": 0, "RLIMIT_CPU": limits.cpu_seconds}
    if limits.memory is not None:
        most["RLIMIT_AS"] = _addresses() + limits.memory
    if not limits.may_write:
        most["RLIMIT_FSIZE"] = 0
    if limits.seconds is not None:
        signal.alarm(math.ceil(limits.seconds) + _GRACE)  # which ends it, as nothing handles it
    for kind, value in most.items():
        if value is not None:
            with contextlib.suppress(ValueError, OSError):  # a lower one is set already
                resource.setrlimit(getattr(resource, kind), (value, value))


def _addresses() -> int:
    """Address space of this process in bytes; 1 GiB if /proc is not available."""
    try:
        with open("/proc/self/statm", encoding="ascii") as stream:
            return int(stream.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 2**30
