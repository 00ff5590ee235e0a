"""Words, names, and text of bytes whose encoding nothing names."""

from __future__ import annotations

import base64
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from genai_host.util.names import (
    install_line,
    our_distributions,
    plugin_line,
    unknown_name_hint,
    vendors_hint,
)
from genai_host.util.text import (
    charset_of,
    close_matches,
    decode_base64,
    decode_text,
    decode_unicode,
    describe_exception,
    did_you_mean,
    docstring,
    encoding_of,
    is_text,
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


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
@given(text=st.text())
def test_what_is_utf_8_or_has_a_byte_order_mark_is_itself(encoding: str, text: str) -> None:
    if not text.startswith("\ufeff") and "\0" not in text:  # the mark, or as in other encodings
        assert decode_text(text.encode(encoding)) == text


@pytest.mark.parametrize(("head", "encoding"), [
    ("a".encode("utf-8-sig"), "utf-8-sig"),
    (b"\xff\xfea\0", "utf-16"),
    (b"\xfe\xff\0a", "utf-16"),
    (b"\xff\xfe\0\0a\0\0\0", "utf-32"),
    (b"\0\0\xfe\xff\0\0\0a", "utf-32"),
    (b"", "utf-8"),
    (b"a\xff\xfe", "utf-8"),
    ("Grüße, „Köln“\r\n".encode("utf-16-le"), "utf-16-le"),
    ("Grüße, „Köln“\r\n".encode("utf-16-be"), "utf-16-be"),
    ('{"a": 1}'.encode("utf-16-le"), "utf-16-le"),
    ("\ud83d\ude00 smile".encode("utf-16-le", "surrogatepass"), "utf-16-le"),
    (b"a\0b\0c", "utf-8"),
    (b"\1\0\2\0\3\0", "utf-8"),
    ("日本語".encode("utf-16-le"), "utf-8"),
])  # fmt: skip
def test_a_byte_order_mark_or_utf_16_names_the_encoding(head: bytes, encoding: str) -> None:
    assert encoding_of(head) == encoding


@pytest.mark.parametrize(("data", "default", "text"), [
    ("Grüße, Köln €".encode("cp1252"), "utf-8", "Grüße, Köln €"),
    ("Grüße aus Köln".encode() + b"\xff", "utf-8", "Grüße aus Köln\ufffd"),
    ("Łódź".encode("iso8859-2"), "iso8859-2", "Łódź"),
    ("Łódź".encode(), "iso8859-2", "Łódź"),  # the declaration of UTF-8 text can be old
    ("日本".encode("iso2022_jp"), "iso2022_jp", "日本"),  # bytes that are also ASCII
    (b"\x81", "utf-8", "\ufffd"),
    (b"\xff\xfea", "utf-8", "\ufffd"),
])  # fmt: skip
def test_other_text_is_windows_1252_or_the_default(data: bytes, default: str, text: str) -> None:
    assert decode_text(data, default) == text


def test_an_error_names_the_byte_and_not_the_text() -> None:
    assert decode_unicode("Köln".encode("utf-16-be")) == "Köln"
    with pytest.raises(ValueError, match=r"^not UTF-8 at byte 1$"):
        decode_unicode(b"K\xf6ln")


@pytest.mark.parametrize(("data", "expected"), [
    (b"", True),
    ("Grüße".encode("cp1252"), True),
    (b"\x07\x07", True),
    ("ü".encode() * 5000, True),  # the first 8 KiB end within a letter
    (b"\xff\xfea\0", True),
    (b"a\0", False),
    (b"\x01" * 11, False),
    (b"\x89PNG\r\n\x1a\n" + b"0" * 100, False),
])  # fmt: skip
def test_text_has_few_control_characters(data: bytes, expected: bool) -> None:
    assert is_text(data) is expected


@given(data=st.binary())
def test_base64_is_read_as_others_write_it(data: bytes) -> None:
    for written in (
        base64.encodebytes(data),
        base64.urlsafe_b64encode(data),
        base64.b64encode(data).rstrip(b"="),
        b"\r\n " + base64.b64encode(data) + b"\t\n",
    ):
        assert decode_base64(written.decode()) == data


@pytest.mark.parametrize("text", ["A", "AA*A", "é", "AA=A", "AAAA AAAA"])
def test_what_is_not_base64_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(ValueError, match=r"^expected Base64$"):
        decode_base64(text)


@pytest.mark.parametrize("label", ["", "utf-7", "unicode_escape", "no-such", "utf-8\0", "\ud800"])
def test_what_is_no_charset_of_the_web_has_no_name(label: str) -> None:
    assert charset_of(label) == ""


PLUGINS = Path(__file__).parents[2] / "plugins"


def test_item_6_the_distributions_that_are_suggested_are_those_of_this_project() -> None:
    assert our_distributions() == sorted(each.parent.name for each in PLUGINS.glob("*/setup.cfg"))


@pytest.mark.parametrize("name", ["grok", "NAME", "resarch", "", "local ", "../local"])
def test_item_6_a_name_that_nobody_owns_is_never_suggested(name: str) -> None:
    assert plugin_line("vendor", name) == plugin_line("feature", name) == ""
    assert install_line(f"genai-vendor-{name}") == install_line(name) == ""
    assert unknown_name_hint("vendor", name, ["mock"]) == "choose from mock"
    assert "NAME" not in vendors_hint()


def test_item_6_one_of_ours_is() -> None:
    assert plugin_line("vendor", "local") == "genai-host install genai-vendor-local"
    assert unknown_name_hint("feature", "agent", ["chat"]) == (
        "choose from chat; install its plugin: genai-host install genai-feature-agent"
    )
