"""Descriptions of errors and values of plugins, whose `repr` and messages may raise exceptions."""

from __future__ import annotations

import contextlib
import reprlib
import sys
from collections.abc import Iterable
from typing import Any

_MOST = 300

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 100


def describe_exception(error: BaseException) -> str:
    """`ValueError: message`, on one line; only the class if the message fails."""
    return shorten(f"{type(error).__name__}: {message_of(error)}").strip(": ")


def message_of(error: BaseException) -> str:
    """The message of an exception on one line, without its class."""
    try:
        return shorten(str(error))
    except BaseException:  # noqa: BLE001 - may run any code, even raise `SystemExit`
        return "it cannot say what is wrong"


def describe_with_hint(error: BaseException) -> str:
    """The message of an exception with its hint; the class only if it is unexpected."""
    hint = getattr(error, "hint", None)
    if not isinstance(hint, str):
        return describe_exception(error)
    return f"{message_of(error)}; {shorten(hint)}" if hint else message_of(error)


def short_repr(value: object) -> str:
    """A truncated repr for error messages."""
    try:
        return shorten(_short.repr(value))
    except BaseException:  # noqa: BLE001 - may run any code, even raise `SystemExit`
        return f"a {type(value).__name__}"


def docstring(function: Any) -> str:
    """The docstring of a function; from its source if Python runs with `-OO`."""
    import inspect

    text = inspect.getdoc(function)
    if text is None and sys.flags.optimize > 1:
        import ast
        import textwrap

        with contextlib.suppress(OSError, TypeError, SyntaxError):  # no source
            source = inspect.getsource(getattr(function, "__func__", function))
            found = ast.parse(textwrap.dedent(source)).body[0]
            if isinstance(found, (ast.FunctionDef, ast.AsyncFunctionDef)):
                text = ast.get_docstring(found)
    return text or ""


def shorten(text: str) -> str:
    """A text in one line, cut after some words."""
    line = " ".join(text[: 10 * _MOST].split())
    return line if len(line) <= _MOST else line[: _MOST - 4] + " ..."


_LIKENESS = 0.7  # accepts `mok` for `mock` (0.86), but not `nope` for `openai` (0.6)


def close_matches(name: str, known: Iterable[str], most: int = 1) -> list[str]:
    """The known names that are most similar to an unknown one."""
    import difflib

    by_fold = {each.casefold(): each for each in known if each != name}
    near = difflib.get_close_matches(name.casefold(), by_fold, most, _LIKENESS)
    return [by_fold[each] for each in near]


def did_you_mean(name: str, known: Iterable[str], most: int = 1) -> str:
    """A hint with similar names; empty if there are none. Not for commands that remove
    something."""
    near = close_matches(name, known, most)
    return f"did you mean {' or '.join(near)}?" if near else ""
