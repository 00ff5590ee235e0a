"""The service that benchmarks talk to: `service.c`, built with `cc` when it is first used."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Self

ANSWER = "Hello! How can I assist you today?"
"""What it says, whole."""


class Service:
    """Runs on a free port of 127.0.0.1 while it is entered.

    url   without a slash at the end; what may stand in its path is told in `service.c`
    pid   its process
    """

    def __enter__(self) -> Self:
        self._process = subprocess.Popen([_built(), "0"], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        port = self._process.stdout.readline().split()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.pid = self._process.pid
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.terminate()
        self._process.communicate()


def _built() -> Path:
    source = Path(__file__).with_name("service.c")
    program = Path(tempfile.gettempdir()) / f"genai-host-service-{os.getuid()}"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        subprocess.run(["cc", "-O2", "-o", program, source], check=True)  # noqa: S607
    return program
