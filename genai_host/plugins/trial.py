"""Loads plugins in another process first, before this process imports them.

A plugin may end the process that loads it (`os._exit`, a crash in C), never return, or raise
`KeyboardInterrupt`. In the trial, that ends only the trial process. Other exceptions are safe for
this process, which loads the plugin and reports the error.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from genai_host.plugins.index import InstalledPlugin, LoadResult, skipped_result
from genai_host.util.interpreter import has_interpreter, interpreter_command

LOAD_SECONDS = 20.0
"""Timeout for loading a plugin in the trial, in seconds."""

_START_SECONDS = 20.0  # for starting the interpreter and the host
_PROGRAM = "from genai_host.plugins.trial import main\nmain()"
_INTERRUPTS = "it raises KeyboardInterrupt when it is loaded"


class _Trial(NamedTuple):
    """Result of a trial.

    Attributes:
        began: Whether the process started.
        ended: Keys of the plugins that finished, with the reason not to load each one; empty if
            safe.
        code: Exit code, in the shell's convention; None after a timeout.
    """

    began: bool
    ended: dict[str, str]
    code: int | None


def try_plugins(
    plugins: Sequence[InstalledPlugin], seconds: float = LOAD_SECONDS
) -> dict[str, LoadResult]:
    """Load plugins in another process: all in one, and again alone after one that ends the process.
    Returns those that must not be loaded in this process, by key; none if no process can be
    started."""
    faults: dict[str, LoadResult] = {}
    waiting = list(plugins)
    while waiting:
        trial = _run(waiting, seconds)
        if not trial.began:
            break
        done = 0
        while done < len(waiting) and waiting[done].key in trial.ended:
            done += 1
        if done < len(waiting) > 1 and trial.code != _alarm_code():
            alone = _run([waiting[done]], seconds)  # the previous plugin may be the cause
            trial = alone._replace(ended=trial.ended | alone.ended)
        for found in waiting[: done + 1]:
            reason = trial.ended.get(found.key, _reason(trial.code, seconds))
            if reason:
                faults[found.key] = skipped_result(found, reason)
        waiting = waiting[done + 1 :]
    return faults


def _reason(code: int | None, seconds: float) -> str:
    if code in (None, _alarm_code()):
        return f"it takes longer than {seconds:g} s to load"
    return f"it ends the process while it is loaded (exit code {code})"


def _alarm_code() -> int:
    return 128 + getattr(signal, "SIGALRM", 14)


def _run(plugins: Sequence[InstalledPlugin], seconds: float) -> _Trial:
    entries: Sequence[object] = sys.path
    path = [entry for entry in entries if isinstance(entry, str)]
    asked = {"plugins": plugins, "path": path, "seconds": seconds}
    nothing = _Trial(began=False, ended={}, code=None)
    if not has_interpreter():
        return nothing
    try:
        process = subprocess.Popen(
            interpreter_command(_PROGRAM),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is handled by this process, which ends the trial
        )
    except OSError:
        return nothing
    code: int | None = None
    try:
        output, _ = process.communicate(
            json.dumps(asked).encode(), _START_SECONDS + (seconds + 1) * len(plugins)
        )
        code = process.returncode
    except subprocess.TimeoutExpired as over:
        output = over.output or b""
    finally:
        if code != 0:
            _kill(process)
    lines = list(_lines(output))
    ended = {line[0]: line[1] for line in lines if len(line) == 2}
    return _Trial([] in lines, ended, code if code is None or code >= 0 else 128 - code)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


def _lines(output: bytes) -> Iterable[list[str]]:
    for line in output.splitlines():
        with suppress(ValueError, RecursionError):  # truncated, or written by a plugin
            read: Any = json.loads(line)
            if isinstance(read, list) and all(isinstance(each, str) for each in read):
                yield read


def main() -> None:
    """Entry point of the trial process.

    It reads the list of plugins, and writes a line when it has started and one with the key and
    fault of each plugin that has finished.
    """
    asked: Any = json.load(sys.stdin)
    answers = os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):  # discard input and output of plugins
        os.dup2(nothing, standard)
    if hasattr(os, "register_at_fork"):  # otherwise the output ends only when child processes end
        os.register_at_fork(after_in_child=lambda: os.close(answers))
    sys.path[:] = asked["path"]
    from genai_host.plugins.discovery import load_on_trial

    os.write(answers, b"[]\n")
    for fields in asked["plugins"]:
        found = InstalledPlugin(*fields)
        _set_alarm(asked["seconds"])
        fault = ""
        try:
            load_on_trial(found)
        except KeyboardInterrupt:
            fault = _INTERRUPTS
        _set_alarm(0)
        os.write(answers, json.dumps([found.key, fault]).encode() + b"\n")
    os._exit(0)  # skip threads and exit handlers of plugins


def _set_alarm(seconds: float) -> None:
    """Let the system end the process after a timeout, even if the GIL is held."""
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds)
