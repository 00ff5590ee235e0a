"""Shared parts of several test files."""

from __future__ import annotations

import io

import click
import pytest
from screens import Screen

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

    def interactive(self, *arguments: str, typed: str = "") -> tuple[int, str, str]:
        """Runs a command line whose standard streams are terminals, where these lines are typed,
        and returns its exit code, its output and its errors without their styles.
        """
        screen, errors = Screen(), Screen()
        with self._monkeypatch.context() as patch:
            patch.setenv("COLUMNS", "400")
            patch.setenv("TERM", "xterm")
            patch.setattr("sys.stdin", _Keyboard(io.BytesIO(typed.encode()), "utf-8"))
            patch.setattr("sys.stdout", screen)
            patch.setattr("sys.stderr", errors)
            code = run(list(arguments))
        return code, click.unstyle(screen.shown), click.unstyle(errors.shown)


class _Keyboard(io.TextIOWrapper):
    """Standard input that is a terminal."""

    def isatty(self) -> bool:
        return True
