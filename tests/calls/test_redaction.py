"""Errors without the keys that services quote."""

from __future__ import annotations

from genai_host.api import Cancellation
from genai_host.calls.redaction import cause_of, redact
from genai_host.errors import OutputValidationError, ProviderTimeout, ServiceUnavailable


def clean(text: str) -> str:
    return text.replace("sk-1", "***")


def test_all_of_a_chain_is_clean_though_two_of_it_are_equal() -> None:
    cause = ServiceUnavailable("sk-1 is wrong")
    cause.__cause__ = ValueError("the key was sk-1", "again sk-1", 1)
    error = ServiceUnavailable("sk-1 is wrong")
    error.__cause__ = cause
    assert error == cause
    error.retry_after = 5.0

    assert redact(error, clean) is error
    assert (error.message, cause.message) == ("*** is wrong", "*** is wrong")
    assert cause.__cause__.args == ("the key was ***", "again ***", 1)
    assert error.retry_after == 5.0


def test_the_fields_of_an_error_are_clean() -> None:
    error = OutputValidationError("it is wrong", detail="a reply with sk-1")
    assert redact(error, clean).detail == "a reply with ***"


def test_a_chain_that_comes_back_to_itself_ends() -> None:
    one, two = ValueError("sk-1"), ValueError("sk-1 too")
    one.__context__, two.__context__ = two, one
    redact(one, clean)
    assert (one.args, two.args) == (("***",), ("*** too",))


def test_bytes_of_an_error_of_decoding() -> None:
    error = UnicodeDecodeError("utf-8", b"sk-1 \xff", 5, 6, "invalid start byte")
    redact(error, clean)
    assert "sk-1" not in repr(error)


def test_fields_of_the_error_of_a_service() -> None:
    fields = {"code": "x", "inner": {"sk-1": ["the key sk-1", 1, None]}}
    error = ServiceUnavailable("no").with_extra("a", fields)
    redact(error, clean)
    assert error.extra == {"a": {"code": "x", "inner": {"***": ["the key ***", 1, None]}}}


def test_the_error_of_a_cancellation_takes_precedence() -> None:
    limits, error, late = Cancellation(), ServiceUnavailable("closed"), ProviderTimeout("late")
    assert cause_of(error, limits) is error
    limits.cancel(late)
    assert cause_of(error, limits) == late
    own = ProviderTimeout("own")
    assert cause_of(own, limits) is own
