"""Words for what strangers' code does, whatever it says of itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from genai_host.util.text import (
    close_matches,
    describe_exception,
    did_you_mean,
    docstring,
    message_of,
    short_repr,
    shorten,
)


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError

    __repr__ = __str__


class Deadly(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)

    __repr__ = __str__


class Wrong(Exception):
    def __str__(self) -> str:
        return 5  # type: ignore[return-value]  # so does a stranger


@pytest.mark.parametrize(("error", "text"), [
    (ValueError("no"), "ValueError: no"),
    (ValueError(), "ValueError"),
    (ValueError("a\n\n  b\t"), "ValueError: a b"),
    (SystemExit(3), "SystemExit: 3"),
    (Mute(), "Mute: its message cannot be read (str() failed)"),
    (Deadly(), "Deadly: its message cannot be read (str() failed)"),
    (Wrong(), "Wrong: its message cannot be read (str() failed)"),
])  # fmt: skip
def test_an_exception_is_told_in_one_line(error: BaseException, text: str) -> None:
    assert describe_exception(error) == text


def test_what_it_says_goes_without_its_class() -> None:
    assert message_of(ValueError("no\nway")) == "no way"
    assert message_of(Mute()) == "its message cannot be read (str() failed)"


def test_a_value_is_shown_shortened_even_if_it_cannot_be() -> None:
    assert short_repr(["plain"]) == "['plain']"
    assert len(short_repr("x" * 10_000_000)) < 200
    assert len(short_repr([["x" * 1000] * 1000] * 1000)) <= 300
    assert "Mute" in short_repr(Mute())
    assert "Mute" in short_repr([Mute()])
    assert short_repr(Deadly()) == "a Deadly"


@pytest.mark.parametrize(("name", "near"), [
    ("mok", "mock"),
    ("OpenAI", "openai"),
    ("opnai", "openai"),
    ("nope", ""),
    ("mock", ""),  # it is known, so it failed for another reason
    ("", ""),
])  # fmt: skip
def test_item_6_what_may_be_meant(name: str, near: str) -> None:
    assert did_you_mean(name, ["openai", "mock"]) == (near and f"did you mean {near}?")
    assert close_matches(name, ["openai", "mock"]) == [near] * bool(near)


def test_a_line_is_one_and_not_long() -> None:
    assert shorten(" a\r\nb ") == "a b"
    assert len(shorten("word " * 1000)) == 300
    assert shorten("word " * 1000).endswith(" ...")
    assert len(shorten("x" * 10_000_000)) == 300


class Documented:
    def method(self) -> None:
        """Do

        something.
        """


def function() -> None:
    """Return nothing."""


@pytest.mark.parametrize(
    ("documented", "text"),
    [(function, "Return nothing."), (Documented().method, "Do\n\nsomething."), (len, "")],
)
def test_dropped_docstring(monkeypatch: pytest.MonkeyPatch, documented: Any, text: str) -> None:
    """As with `python -OO`."""
    monkeypatch.setattr("inspect.getdoc", lambda function: None)
    assert docstring(documented) == ""
    monkeypatch.setattr(
        "genai_host.util.text.sys", SimpleNamespace(flags=SimpleNamespace(optimize=2))
    )
    assert docstring(documented) == text
