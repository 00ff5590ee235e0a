"""Regular expressions of JSON Schemas (ECMA-262), with limits on time and repetitions.

    Pattern.matches → _translated (to the syntax of `regex`) → regex.compile → search

Source: JSON Schema 2020-12 Core, 6.4 "Regular Expressions"; ECMA-262, 22.2 "RegExp Objects", with
the flag `u`. Syntax that is an error there but valid in Python, for example `(?i)`, `\\A` or
`(?P<n>)`, has its meaning in Python.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from genai_host.errors import ValidationError

_SECONDS = 0.2
_SIZE = 100_000
_DIGITS = 9  # digits of a repetition count; more are too many in any case
_PART = re.compile(r"\\u\{[^}]*\}|\\.|\[(?:\\.|[^\]\\])*\]|\{(\d+)(?:,(\d*))?\}|.", re.DOTALL)

_SPACE = r"\t-\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_WORD = "A-Za-z0-9_"
_SETS = {
    r"\d": "0-9",
    r"\D": r"\x00-/:-\U0010ffff",
    r"\w": _WORD,
    r"\W": r"\x00-/:-@\[-\^`{-\U0010ffff",
    r"\s": _SPACE,
}
"""Expansion of these classes inside brackets; in Python they include all of Unicode."""

_OUTSIDE = {
    **{name: f"[{inner}]" for name, inner in _SETS.items()},
    r"\S": f"[^{_SPACE}]",
    r"\b": f"(?:(?<=[{_WORD}])(?![{_WORD}])|(?<![{_WORD}])(?=[{_WORD}]))",
    r"\B": f"(?:(?<=[{_WORD}])(?=[{_WORD}])|(?<![{_WORD}])(?![{_WORD}]))",
    r"\z": r"\Z",
    "[]": "(?!)",
    "[^]": r"[\s\S]",
}
_BY_FLAGS = {".": r"[^\n\r\u2028\u2029]", "$": r"\Z"}
"""Characters whose meaning depends on flags in the pattern."""

_FLAGS = re.compile(r"\(\?[a-zA-Z-]+[:)]")
_TOKEN = re.compile(
    r"""
    \\u(?P<high>[dD][89abAB][0-9a-fA-F]{2})\\u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2})
    | \\u\{0*(?P<code>[0-9a-fA-F]{1,6})\}
    | \\c(?P<control>[a-zA-Z])
    | \\k<(?P<group>[^>]*)>
    | \\[pP]\{[^}]*\}
    | \\.
    | \[\^?\]?
    | .
    """,
    re.DOTALL | re.VERBOSE,
)


class Pattern:
    """A regular expression, compiled on first use. Thread-safe.

    Attributes:
        fault: Why it cannot be compiled; empty if it can.
    """

    def __init__(self, written: str) -> None:
        self.written = written

    def matches(self, text: str) -> bool:
        """Whether it occurs in a text; only if it can be compiled.

        Raises:
            ValidationError: It repeats too much, or takes too long on this text.
        """
        if self._is_too_large:
            raise ValidationError(f"the pattern {self.written!r} repeats too much")
        try:
            return self._compiled.search(text, timeout=_SECONDS) is not None
        except TimeoutError as error:
            raise ValidationError(f"the pattern {self.written!r} takes too long") from error

    @property
    def fault(self) -> str:
        if self._is_too_large or not isinstance(self._compiled, Exception):
            return ""
        return str(getattr(self._compiled, "msg", self._compiled))

    @cached_property
    def _is_too_large(self) -> bool:
        return _written_out(self.written) > _SIZE

    @cached_property
    def _compiled(self) -> Any:
        """The compiled pattern, or the error."""
        import regex

        try:
            return regex.compile(_translated(self.written), cache_pattern=False)
        except (regex.error, ArithmeticError, LookupError, RecursionError, ValueError) as error:
            return error.with_traceback(None)


def _translated(pattern: str) -> str:
    """The pattern in the syntax of the package `regex`."""
    outside = _OUTSIDE if _FLAGS.search(pattern) else {**_OUTSIDE, **_BY_FLAGS}
    tokens = _TOKEN.finditer(pattern)
    return "".join(piece for token in tokens for piece in _pieces(token, tokens, outside))


def _pieces(
    token: re.Match[str], tokens: Iterator[re.Match[str]], outside: dict[str, str]
) -> Iterator[str]:
    text = token[0]
    if text in outside:
        yield outside[text]
    elif token["group"] is not None:
        yield f"(?P={token['group']})"
    elif text.startswith("["):
        yield text
        yield from _inside(tokens)
    else:
        yield _character(token) or text


def _inside(tokens: Iterator[re.Match[str]]) -> Iterator[str]:
    """The rest of a bracket expression. A `-` next to a class is a literal."""
    after_set = False
    dash = ""
    for token in tokens:
        text = token[0]
        if text == "]":
            yield f"{dash}]"
            return
        is_set = text in _SETS or text[:2] in (r"\p", r"\P", r"\S")
        if dash:
            yield r"\-" if after_set or is_set else dash
            dash = ""
        elif text == "-":
            dash = "-"
            continue
        after_set = is_set
        if text.startswith("["):  # a literal there
            yield r"\["
            if text.endswith("]"):
                yield r"\^]" if "^" in text else "]"
                return
            yield r"\^" if text.endswith("^") else ""
        elif text == r"\b":
            yield r"\x08"
        else:
            yield _SETS.get(text) or _character(token) or text
    yield dash


def _character(token: re.Match[str]) -> str:
    """The character of an escape sequence, escaped for Python; empty if it is another escape."""
    if token["high"]:
        high, low = int(token["high"], 16), int(token["low"], 16)
        return rf"\U{0x10000 + ((high & 0x3FF) << 10) + (low & 0x3FF):08x}"
    if token["code"]:
        return rf"\U{int(token['code'], 16):08x}"
    if token["control"]:
        return rf"\x{ord(token['control']) % 32:02x}"
    return ""


def _written_out(pattern: str) -> int:
    """Approximate number of characters after counted repetitions are expanded, as `regex` does when
    it compiles: `(a{1000}){1000}` is a million."""
    sizes = [0]
    last = 0
    for token in _PART.finditer(pattern):
        if token[1] is not None:
            times = int((token[2] or token[1])[:_DIGITS])
            sizes[-1] += last * max(times - 1, 0)
            last *= max(times, 1)
        elif token[0] == "(":
            sizes.append(0)
        elif token[0] == ")" and len(sizes) > 1:
            last = sizes.pop()
            sizes[-1] += last
        else:
            last = 1
            sizes[-1] += 1
    return sum(sizes)
