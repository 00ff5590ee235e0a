"""Shared parts of several test files."""

from __future__ import annotations

import io
import json
import shlex
from pathlib import Path
from typing import Any

import click
import pytest
from screens import Screen

from genai_host.cli.main import run


class Terminal:
    """Runs a command line in this process, with piped output, and returns its exit code, its output
    and its errors.

    The first argument is split as a shell does it; the others are given as they are. Paths are
    among the others, since a shell takes the backslashes of Windows for escapes.
    """

    def __init__(
        self, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.config = home / "config" / "config.toml"
        self._capsys = capsys
        self.monkeypatch = monkeypatch

    def configure(self, text: str) -> None:
        """Write the configuration file."""
        self.config.parent.mkdir(parents=True, exist_ok=True)
        self.config.write_text(text, encoding="utf-8")

    def __call__(self, line: str, *arguments: str, stdin: str | bytes = "") -> tuple[int, str, str]:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        self.monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data), "utf-8"))
        code = run([*shlex.split(line), *arguments])
        captured = self._capsys.readouterr()
        return code, captured.out, captured.err

    def out(self, line: str, *arguments: str, stdin: str | bytes = "") -> str:
        """The output of a command line that succeeds."""
        code, out, err = self(line, *arguments, stdin=stdin)
        assert code == 0, err
        return out

    def json(self, line: str, *arguments: str) -> Any:
        """What a command line prints with `--json`."""
        out = self.out(line, *arguments, "--json")
        assert out.isascii()
        return json.loads(out)

    def error(self, line: str, *arguments: str, code: int = 1, stdin: str | bytes = "") -> str:
        """The errors of a command line that fails with this exit code, and prints nothing else."""
        ended, out, err = self(line, *arguments, stdin=stdin)
        assert (ended, out) == (code, ""), err
        assert "Traceback" not in err
        return err

    def interactive(self, line: str, *arguments: str, typed: str = "") -> tuple[int, str, str]:
        """Runs a command line whose standard streams are terminals, where these lines are typed,
        and returns its exit code, its output and its errors without their styles.
        """
        screen, errors = Screen(), Screen()
        with self.monkeypatch.context() as patch:
            patch.setenv("COLUMNS", "400")
            patch.setenv("TERM", "xterm")
            patch.setattr("sys.stdin", _Keyboard(io.BytesIO(typed.encode()), "utf-8"))
            patch.setattr("sys.stdout", screen)
            patch.setattr("sys.stderr", errors)
            code = run([*shlex.split(line), *arguments])
        return code, click.unstyle(screen.shown), click.unstyle(errors.shown)


class _Keyboard(io.TextIOWrapper):
    """Standard input that is a terminal."""

    def isatty(self) -> bool:
        return True
