"""What went wrong in a plugin, in words, whatever its author wrote: neither the `repr`
of what a plugin hands over, nor the text of its exceptions, is sure to be one."""

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
    """`ValueError: what it says`, on one line; an exception that cannot say it is named."""
    return one_line(f"{type(error).__name__}: {message_of(error)}").strip(": ")


def message_of(error: BaseException) -> str:
    """What an exception says, without its class, on one line."""
    try:
        return one_line(str(error))
    except BaseException:  # noqa: BLE001 - any code may stand there, `SystemExit` too
        return "it cannot say what is wrong"


def describe_with_hint(error: BaseException) -> str:
    """What is wrong, and what to do about it, if the error says that. The class of an error
    that can be expected is left out."""
    hint = getattr(error, "hint", None)
    if not isinstance(hint, str):
        return describe_exception(error)
    return f"{message_of(error)}; {one_line(hint)}" if hint else message_of(error)


def short_repr(value: object) -> str:
    """A value in an error, shortened."""
    try:
        return one_line(_short.repr(value))
    except BaseException:  # noqa: BLE001 - any code may stand there, `SystemExit` too
        return f"a {type(value).__name__}"


def docstring(function: Any) -> str:
    """The docstring of a function; from its source where Python has dropped it (`-OO`)."""
    import inspect

    text = inspect.getdoc(function)
    if text is None and sys.flags.optimize > 1:
        import ast
        import textwrap

        with contextlib.suppress(OSError, TypeError, SyntaxError):  # there is no such source
            source = inspect.getsource(getattr(function, "__func__", function))
            found = ast.parse(textwrap.dedent(source)).body[0]
            if isinstance(found, (ast.FunctionDef, ast.AsyncFunctionDef)):
                text = ast.get_docstring(found)
    return text or ""


def one_line(text: str) -> str:
    line = " ".join(text[: 10 * _MOST].split())
    return line if len(line) <= _MOST else line[: _MOST - 4] + " ..."


_LIKENESS = 0.7  # `mok` is meant to be `mock` (0.86), and `nope` no `openai` (0.6)


def close_matches(name: str, known: Iterable[str], most: int = 1) -> list[str]:
    """The known names that are most like an unknown one, which is never among them."""
    import difflib

    by_fold = {each.casefold(): each for each in known if each != name}
    near = difflib.get_close_matches(name.casefold(), by_fold, most, _LIKENESS)
    return [by_fold[each] for each in near]


def did_you_mean(name: str, known: Iterable[str], most: int = 1) -> str:
    """A hint with the names that may be meant; empty if there are none. It is not for commands
    that remove something: a guess is no reason to remove something else."""
    near = close_matches(name, known, most)
    return f"did you mean {' or '.join(near)}?" if near else ""
