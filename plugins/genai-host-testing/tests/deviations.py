"""Deviations from a suite, with and without reasons.

`fails` are the tests that must fail, and no others; test_suites.py runs them.
"""

from __future__ import annotations

from typing import ClassVar

import pytest

from genai_host_testing.suites import Suite, recommended

from .wrong_dialects import PlainSamples


class TestADeviationWithoutAReason(PlainSamples):
    fails = {"test_deviations_have_reasons"}

    def test_a_reply_is_read(self) -> None:
        """Check nothing."""


class TestADeviationByNone(PlainSamples):
    test_a_reply_is_read = None  # type: ignore[assignment]  # the defect
    fails = {"test_deviations_have_reasons"}


class TestADeviationBySkipping(PlainSamples):
    fails = {"test_deviations_have_reasons"}

    @pytest.mark.skip(reason="no")
    def test_a_reply_is_read(self) -> None:
        """Check nothing."""


class _Sloppy:
    def test_a_reply_is_read(self) -> None:
        """Check nothing."""


class TestADeviationByAnotherBase(_Sloppy, PlainSamples):
    fails = {"test_deviations_have_reasons"}


class TestADeviationWithAnEmptyReason(PlainSamples):
    deviations = {"test_a_reply_is_read": " "}
    fails = {"test_deviations_have_reasons"}


class TestADeviationFromNothing(PlainSamples):
    deviations = {"test_no_such_thing": "it is not there"}
    fails = {"test_deviations_have_reasons"}


class TestDeviationsWithReasons(PlainSamples):
    deviations = {
        "test_a_reply_is_read": "the reply is read by somebody else",
        "test_a_stream_that_is_cut_is_no_answer": "tested in another way",
    }
    fails = set()

    def test_a_stream_that_is_cut_is_no_answer(self) -> None:
        """This test runs."""


class WithAdvice(Suite):
    """A third-party suite with an optional test."""

    @recommended
    def test_it_is_nice(self) -> None:
        raise AssertionError


class TestWhatIsRecommendedOnly(WithAdvice):
    fails: ClassVar[set[str]] = set()

    def test_it_is_nice(self) -> None:
        """This test is optional."""
