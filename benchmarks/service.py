"""Fake OpenAI-compatible service, `service.c`, built with `cc` on first use."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Self

ANSWER = "Hello! How can I assist you today?"
"""Text of each reply that is not streamed."""


class Service:
    """Context manager that runs the service on a free port of 127.0.0.1.

    Attributes:
        url: URL without a trailing slash; options can be appended, see `service.c`.
        pid: Process ID.
    """

    def __enter__(self) -> Self:
        self._process = subprocess.Popen([_build(), "0"], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        port = self._process.stdout.readline().split()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.pid = self._process.pid
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.terminate()
        self._process.communicate()


def _build() -> Path:
    source = Path(__file__).with_name("service.c")
    program = Path(tempfile.gettempdir()) / f"genai-host-service-{os.getuid()}"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        subprocess.run(["cc", "-O2", "-o", program, source], check=True)  # noqa: S607 - cc of the PATH
    return program
