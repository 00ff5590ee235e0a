"""Arithmetic, which is exact where it can be and bounded before it is done, and the time."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from fractions import Fraction
from typing import Any

import pytest
from genai_tools_data.calculator import MAX_CHARACTERS, MAX_DIGITS, calculate
from genai_tools_data.plain_tools import local_time, now
from hypothesis import given, strategies as st

from genai_host.errors import ValidationError


@pytest.mark.parametrize(("expression", "result"), [
    ("2 * (3 + 4)", "14"), ("0.1 + 0.2", "0.3"), ("1 / 3 * 3", "1"),
    ("1 / 3", "about 0.333333333333333"), ("-7 / 2", "-3.5"), ("-1 / 200", "-0.005"),
    ("-7 // 2", "-4"), ("7 % 3", "1"), ("2 ** 100", "1267650600228229401496703205376"),
    ("2 ** -2", "0.25"), ("2 ** 0.5", "1.4142135623731"), ("(-1) ** (10 ** 900)", "1"),
    ("0 ** 0", "1"), ("1 ** (10 ** 999)", "1"), ("+-+5", "-5"),
    ("2 \u00d7 3 \u00f7 4 \u2212 1", "0.5"), ("1_000 * 2", "2000"), ("1e3", "1000"),
    ("sqrt(16)", "4"), ("sqrt(2.25)", "1.5"), ("sqrt(2)", "1.4142135623731"),
    ("round(2.5)", "3"), ("round(-2.5)", "-3"), ("round(1.005, 2)", "1.01"),
    ("round(1234, -2)", "1200"), ("mean(1, 2, 4)", "about 2.33333333333333"),
    ("max(1, 2.5)", "2.5"), ("sum(1, 2, 3) + abs(-4) + min(5, 6)", "15"),
    ("factorial(20)", "2432902008176640000"), ("comb(5, 2)", "10"),
    ("floor(-1.5) + ceil(1.2)", "0"), ("sin(pi)", "1.22464679914735e-16"), ("log(e)", "1"),
    ("log(8, 2)", "3"), ("1" + " + 1" * 150, "151"), ("1e300 * 1e300", "1" + "0" * 600),
    ("200000 * 1.00375 ** 360", "769539.6099927"), ("1.1 ** 1000 * 3", "7.40979875401748e+41"),
])  # fmt: skip
def test_results(expression: str, result: str) -> None:
    assert calculate(expression) == result


@pytest.mark.parametrize(("expression", "message"), [
    ("", "the expression is empty"), ("1 / 0", "division by zero"),
    ("0 ** -1", "division by zero"), ("1 % 0", "division by zero"), ("9 ** 9 ** 9", "digits"),
    ("10 ** 10 ** 10", "digits"), ("2 ** (2 ** 4000)", "digits"),
    ("(1/3) ** 5000", "too small"), ("0.001 ** 400", "too small"),
    ("1/10**600 * (1/10**600)", "too small"), ("1/(0.001 ** 400)", "too small"),
    ("(1/10**600) ** -0.5", "too small"), ("1e308 ** 5", "digits"), ("1e309", "too large"),
    ("1e999999999", "too large"), ("exp(1000)", "too large"), ("2.5 ** 1e300", "too large"),
    ("2 ** 1e300", "digits"), ("factorial(100000)", "integers from 0 to 400"),
    ("factorial(-1)", "integers"), ("comb(10 ** 9, 5)", "integers"),
    ("round(1, 10 ** 9)", "up to 100"), ("sqrt(-1)", "not a real number"),
    ("(-8) ** (1 / 3)", "not a real number"), ("log(0)", "invalid arguments for log"),
    ("log(10 ** 900)", "too large"), ("1,000 + 1", "without a comma"),
    ("2 ^ 3", "a power is written 2 ** 3"), ("1 << 5", "unknown operator"),
    ("5 if 1 else 2", "is not arithmetic"), ("1 < 2", "a comparison"),
    ("x + 1", "unknown name 'x'"), ("'a' * 1000", "only numbers"), ("True + 1", "only numbers"),
    ("2j", "only numbers"), ("__import__('os')", "unknown function"),
    ("(1).__class__", "an attribute"), ("[1][0]", "an index"),
    ("abs.__call__(1)", "unknown function"), ("sum(*(1, 2))", "only positional arguments"),
    ("round(1, digits=2)", "only positional arguments"),
    ("sqrt()", "does not take 0 arguments"), ("(lambda: 1)()", "unknown function"),
    ("a := 5", "invalid expression"), ("1 +", "invalid expression"),
    ("1; 2", "invalid expression"), ("1\x00", "invalid expression"),
    ("\udcff", "invalid expression"), ("(" * 400 + "1" + ")" * 400, "invalid expression"),
    ("-" * 900 + "1", "nested"), ("1" + "+1" * 300, "nested deeper"),
    ("1" * (MAX_CHARACTERS + 1), "longer than"),
    ("(10 ** 999) * 10", f"more than {MAX_DIGITS} digits"),
])  # fmt: skip
def test_what_it_refuses_and_why(expression: str, message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        calculate(expression)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 400


NUMBERS = st.integers(0, 10**6).map(str) | st.decimals(0, 1000, places=3).map(str)


def _joined(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = st.sampled_from(["+", "-", "*", "/", "//", "%"])
    return st.tuples(parts, operators, parts).map(lambda three: f"({' '.join(three)})") | parts.map(
        lambda part: f"-{part}"
    )


@given(expression=st.recursive(NUMBERS, _joined, max_leaves=12))
def test_it_is_what_fractions_give(expression: str) -> None:
    exact = re.sub(r"[0-9.]+", lambda match: f"Fraction('{match[0]}')", expression)
    # a quotient of integers, which `//` returns, would be a float
    exact = re.sub(r"(?<!/)/(?!/)", "* Fraction(1) /", exact)
    try:
        expected = eval(exact, {"Fraction": Fraction})
    except ZeroDivisionError:
        with pytest.raises(ValidationError, match="zero"):
            calculate(expression)
        return
    result = calculate(expression)
    if result.startswith("about "):
        assert abs(Fraction(result[6:]) - expected) <= abs(expected) / 10**14
    else:
        assert Fraction(result) == expected


SIGNS = st.sampled_from([*"0123456789.+-*/%()^,e ", "**", "sqrt(", "factorial(", "9999", "pi"])


@given(expression=st.lists(SIGNS, max_size=30).map("".join) | st.text(max_size=30))
def test_any_expression_ends_with_result_or_reason(expression: str) -> None:
    try:
        result = calculate(expression)
    except ValidationError as error:
        assert str(error)
    else:
        assert len(result) <= 2 * MAX_DIGITS


@pytest.mark.parametrize(("expression", "result"), [
    ("12345678901234567.89 - 12345678901234567", "0.89"),
    ("0.12345678901234567890123 * 10 ** 23", "12345678901234567890123"),
    ("1_000.5 + 1. + .5 + 1.5E+3 + 2e-3", "2502.002"),
    ("1e-999 * 0 + 1e23", "100000000000000000000000"),
])  # fmt: skip
def test_a_decimal_number_has_all_its_digits(expression: str, result: str) -> None:
    assert calculate(expression) == result


@pytest.mark.parametrize("number", ["1e-999999999", "1e-99999999999999999999", "1e-1001"])
def test_a_number_that_would_fill_the_memory_is_refused(number: str) -> None:
    with pytest.raises(ValidationError, match="more than 1000 digits"):
        calculate(number)


CLOCK = datetime(2025, 7, 1, 12, 0, 0, 5, timezone(timedelta(hours=2), "CEST"))


def time_text(sent: Any = None, zone: str = "") -> str:
    return now({"current_time_with_timezone": sent}, zone, lambda: CLOCK)


@pytest.mark.parametrize(("sent", "zone", "expected"), [
    (None, "", "Tuesday, 2025-07-01T12:00:00+02:00 (CEST)"),
    (None, "UTC", "Tuesday, 2025-07-01T10:00:00+00:00 (UTC)"),
    (None, "America/New_York", "Tuesday, 2025-07-01T06:00:00-04:00 (America/New_York)"),
    (None, " Asia/Kathmandu ", "Tuesday, 2025-07-01T15:45:00+05:45 (Asia/Kathmandu)"),
    ("2025-01-31T23:30:00Z", "", "Friday, 2025-01-31T23:30:00+00:00 (UTC)"),
    ("2025-01-31T23:30:00Z", "Europe/Oslo", "Saturday, 2025-02-01T00:30:00+01:00 (Europe/Oslo)"),
    ("2025-01-31 23:30:00.1234567+01:00", "", "Friday, 2025-01-31T23:30:00+01:00 (UTC+01:00)"),
    ("2025-01-31T23:30:00+01:00[Europe/Oslo][u-ca=iso8601]", "",
     "Friday, 2025-01-31T23:30:00+01:00 (Europe/Oslo)"),
    ("2025-01-31T23:30:00+01:00[No/Where]", "", "Friday, 2025-01-31T23:30:00+01:00 (UTC+01:00)"),
])  # fmt: skip
def test_the_time(sent: Any, zone: str, expected: str) -> None:
    assert time_text(sent, zone) == expected


@pytest.mark.parametrize("sent", [
    *("", "now", "2025-01-31T23:30:00", 5, ["x"], {}, "0001-01-01T00:00:00+14:00", "\x00"),
    f"2025-01-31T23:30:00Z{'[x]' * 1000}!",  # which many ways lead through
])  # fmt: skip
def test_what_is_no_time_is_as_if_it_were_not_there(sent: Any) -> None:
    assert time_text(sent, "UTC") == time_text(None, "UTC")


@given(sent=st.text() | st.datetimes(timezones=st.timezones()).map(str))
def test_whatever_a_front_end_sends_there_is_a_time(sent: str) -> None:
    assert "T" in time_text(sent)
    assert time_text(sent, "Pacific/Kiritimati").endswith("(Pacific/Kiritimati)")


@pytest.mark.parametrize(("zone", "hint"), [
    ("Oslo", "did you mean Europe/Oslo?"), ("new york", "did you mean America/New_York?"),
    ("Europe/Olso", "did you mean Europe/Oslo"),
    ("../../etc/passwd", "use a name such as Europe/Oslo"),
    ("/etc/passwd", "use a name such as Europe/Oslo"), ("Europe", ""), ("x\x00", ""),
    ("\udcff", ""), ("x" * 5000, ""),
])  # fmt: skip
def test_a_zone_that_is_not_known(zone: str, hint: str) -> None:
    with pytest.raises(ValidationError) as caught:
        time_text(zone=zone)
    assert str(caught.value).startswith("unknown time zone")
    assert hint in str(caught.value)
    assert len(str(caught.value)) < 300


def test_the_machine_has_a_time_and_a_zone() -> None:
    assert local_time().tzinfo is not None
