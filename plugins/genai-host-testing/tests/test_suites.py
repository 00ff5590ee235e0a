"""The suites find what is wrong: each wrong plugin fails the tests that it must, and no
others."""

from __future__ import annotations

import pytest

from genai_host_testing.suites import Suite

from . import (
    departures,
    wrong,
    wrong_dialects,
    wrong_features,  # noqa: F401  # which registers what is wrong
    wrong_providers,
    wrong_tool_sources,  # noqa: F401
    wrong_tools,  # noqa: F401
)
from .wrong import SUITES

for module in (wrong_dialects, wrong_providers, departures):
    SUITES.update({name: suite for name, suite in vars(module).items() if name.startswith("Test")})
QUICKLY = [
    *("-p", "no:cacheprovider"),
    *("-p", "no:unraisableexception"),  # it collects all garbage, several times
    *("-p", "no:hypothesispytest"),  # it imports all of it anew
]


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("name", SUITES)
def test_a_wrong_plugin_fails_the_right_tests(pytester: pytest.Pytester, name: str) -> None:
    suite = SUITES[name]
    only = getattr(suite, "only", "")
    pytester.makepyfile(f"import sys\nTestIt = sys.modules[{wrong.__name__!r}].SUITES[{name!r}]")
    outcome = pytester.inline_run(*QUICKLY, *(["-k", only] if only else []))
    passed, _, failed = outcome.listoutcomes()
    assert passed or failed
    assert {each.nodeid.rpartition("::")[2].partition("[")[0] for each in failed} == suite.fails


def test_departures_are_listed(pytester: pytest.Pytester) -> None:
    name = "TestDeparturesWithReasons"
    pytester.makepyfile(f"import sys\n{name} = sys.modules[{departures.__name__!r}].{name}")
    told = pytester.runpytest_inprocess(*QUICKLY, "-rA").stdout.str()
    assert (
        "TestDeparturesWithReasons departs from "
        "test_a_reply_is_read: the reply is read by somebody else; "
        "test_a_stream_that_is_cut_is_no_answer: tested in another way"
    ) in told
    assert "TestDeparturesWithReasons departs: the reply is read by somebody else" in told
    assert "::TestDeparturesWithReasons::test_a_stream_that_is_cut_is_no_answer" in told


def test_nobody_departs_from_the_test_of_departures() -> None:
    with pytest.raises(TypeError, match="departs"):
        type("TestMine", (Suite,), {"test_departures_have_reasons": None})
