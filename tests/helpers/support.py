"""Shared parts of several test files."""

from __future__ import annotations

import io

import pytest

from genai_host.cli.main import run


class Terminal:
    """Runs a command line in this process, with piped output, and returns its exit code, its output
    and its errors.
    """

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def __call__(self, *arguments: str, stdin: str | bytes = "") -> tuple[int, str, str]:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        self._monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data), "utf-8"))
        code = run(list(arguments))
        captured = self._capsys.readouterr()
        return code, captured.out, captured.err
