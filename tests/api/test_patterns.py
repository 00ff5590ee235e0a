"""Regular expressions of JSON Schemas: those of ECMA-262, within a bound."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from genai_host.api.patterns import Pattern
from genai_host.errors import ValidationError


@pytest.mark.parametrize(("pattern", "matching", "others"), [
    (r"^[\p{L}\p{N}_-]+$", ["é1_-"], ["a b", ""]),
    (r"^\p{Script=Greek}+$", ["λ"], ["l"]),
    (r"^\P{L}$", ["1"], ["é"]),
    (r"^(?<year>\d{4})-\k<year>$", ["1999-1999"], ["1999-2000"]),
    (r"^\d+$", ["12"], ["٣", "x"]),
    (r"^\D$", ["x", "٣"], ["1"]),
    (r"^\w+$", ["aZ_9"], ["é", "-"]),
    (r"^\W$", ["é", "-"], ["a", "_"]),
    (r"^\s$", [" ", "\u00a0", "\ufeff", "\t", "\n"], ["x", "\x1c", "\x85"]),
    (r"^\S$", ["x", "\x1c"], [" ", "\ufeff"]),
    (r"^a\b.", ["a ", "aé"], ["ab"]),
    (r"^a\B.", ["ab"], ["a ", "aé"]),
    (r"^\cA\cj$", ["\x01\n"], ["cA"]),
    (r"^[\cA-\cC]$", ["\x02"], ["c", "A"]),
    (r"^[^]$", ["a", "\n", "😀"], ["", "ab"]),
    (r"a[]", [], ["a", "a[]"]),
    (r"^[[]$", ["["], ["]"]),
    (r"^[a[^]$", ["a", "[", "^"], ["b"]),
    (r"^[[:alpha:]]$", ["[]", ":]", "h]"], ["x", "b"]),
    (r"^\/a\/$", ["/a/"], ["a"]),
    (r"^[\/\-\]]$", ["/", "-", "]"], ["\\"]),
    (r"^\u{1F600}$", ["😀"], ["u"]),
    (r"^\u{0041}\u0042\x43$", ["ABC"], ["abc"]),
    (r"^\uD83D\uDE00$", ["😀"], ["x"]),
    (r"^[\uD83D\uDE00-\uD83D\uDE4F]$", ["😅"], ["\ud83d", "x"]),
    (r"^[\u{1F600}-\u{1F64F}]$", ["😅"], ["u", "x"]),
    (r"^[\w-.]+$", ["a-b.c"], ["a/b"]),
    (r"^[+-\d]+$", ["+-1"], [",", "."]),
    (r"^[\d-x]$", ["1", "-", "x"], ["a"]),
    (r"^[-a]$", ["-", "a"], ["b"]),
    (r"^[a-]$", ["-", "a"], ["b"]),
    (r"^[+--]$", ["+", ",", "-"], ["."]),
    (r"^[^\d-]$", ["a"], ["1", "-"]),
    (r"^[^\W\d]$", ["a", "_"], ["1", "é"]),
    (r"^[\b]$", ["\b"], ["b"]),
    (r"^a.$", ["ab"], ["a\n", "a\r", "a\u2028", "ab\n"]),
    (r"^(a|b$)", ["a", "b"], ["b\n"]),
    (r"(?<=\$)\d", ["$1"], ["1"]),
    (r"^x{2,3}?$", ["xx"], ["x"]),
])  # fmt: skip
def test_it_means_what_ecma_262_says(pattern: str, matching: list[str], others: list[str]) -> None:
    read = Pattern(pattern)
    assert not read.fault
    assert [text for text in [*matching, *others] if read.matches(text)] == matching


@pytest.mark.parametrize(("pattern", "matching", "others"), [
    (r"(?i)^abc$", ["ABC", "abc"], ["x"]),
    (r"(?s)^a.$", ["a\n"], ["a"]),
    (r"(?m)^a$", ["a\nb"], ["b"]),
    (r"\A(?P<n>a)(?P=n)\Z", ["aa"], ["a", "aa\n"]),
    (r"\Aa\z", ["a"], ["a\n"]),
])  # fmt: skip
def test_what_only_python_has_is_kept(pattern: str, matching: list[str], others: list[str]) -> None:
    read = Pattern(pattern)
    assert [text for text in [*matching, *others] if read.matches(text)] == matching


@pytest.mark.timeout(10, method="signal")
def test_one_that_takes_too_long_is_an_error() -> None:
    with pytest.raises(ValidationError, match="takes too long"):
        Pattern(r"^(a|a)*$").matches("a" * 60 + "1")


@given(st.text("()[]{}\\^$.*+?|-,<>=!:kpPuUxcdDwWsSbBaAzZ019", max_size=30), st.text(max_size=5))
def test_any_text_is_a_pattern_or_has_a_fault(pattern: str, text: str) -> None:
    read = Pattern(pattern)
    if not read.fault:
        try:
            read.matches(text)
        except ValidationError as error:
            assert "the pattern" in str(error)
