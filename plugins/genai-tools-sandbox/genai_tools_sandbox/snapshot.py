"""Saves the memory of a started Python: a session starts from it in a fraction of the time."""

from __future__ import annotations

import base64
import contextlib
import os
from pathlib import Path

from filelock import FileLock

from genai_host.api import CancelToken
from genai_host.errors import ServiceUnavailable
from genai_tools_sandbox.process import Bounds, Ended, Process, snapshot_of

_BOUNDS = Bounds(memory=512, cpu=60, output=0, files=0, file_bytes=0, answer=2**27)


def save_snapshot(folder: Path, limits: CancelToken) -> None:
    """Save the memory of a started Pyodide beside its files, unless that has been done.

    Raises:
        ServiceUnavailable: It does not start, or the system cannot confine it.
        GenaiError: The call ended.
    """
    file = snapshot_of(folder)
    with FileLock(f"{folder}.lock"):
        if file.exists():
            return
        try:
            process = Process(folder, _BOUNDS, limits, makes_snapshot=True)
        except Ended as error:
            raise ServiceUnavailable(f"cannot start Pyodide: {error}") from error
        process.close()
        for earlier in folder.glob("snapshot-*"):
            earlier.unlink()
        unfinished = folder / "snapshot-unfinished"
        unfinished.write_bytes(base64.b64decode(process.ready["snapshot"]))
        os.replace(unfinished, file)


def started(folder: Path, bounds: Bounds, limits: CancelToken) -> Process:
    """Start a process, from the snapshot if there is one. A damaged snapshot is made again.

    Raises:
        Ended: It does not start.
        ServiceUnavailable: The system cannot start or confine it.
        GenaiError: The call ended.
    """
    snapshot = snapshot_of(folder)
    try:
        return Process(folder, bounds, limits)
    except Ended:
        if not snapshot.exists():
            raise
    process = Process(folder, bounds, limits, uses_snapshot=False)
    try:
        with contextlib.suppress(OSError, ServiceUnavailable):  # for example, a directory of root
            snapshot.unlink(missing_ok=True)
            save_snapshot(folder, limits)
    except BaseException:
        process.close()
        raise
    return process
