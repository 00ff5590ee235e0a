"""The suites find what is wrong: each wrong plugin fails the tests that it must, and no
others."""

from __future__ import annotations

from types import ModuleType

import departures
import pytest
import wrong_dialects
import wrong_features
import wrong_providers
import wrong_tool_sources
import wrong_tools

from genai_host.testing.suites import Suite

MODULES = [
    wrong_dialects,
    wrong_providers,
    wrong_features,
    wrong_tools,
    wrong_tool_sources,
    departures,
]
SUITES = [(each, name) for each in MODULES for name in vars(each) if name.startswith("Test")]
QUICKLY = [
    *("-p", "no:cacheprovider"),
    *("-p", "no:unraisableexception"),  # it collects all garbage, several times
    *("-p", "no:hypothesispytest"),  # it imports all of it anew
]


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize(("module", "name"), SUITES, ids=[name for _, name in SUITES])
def test_a_wrong_plugin_fails_the_right_tests(
    pytester: pytest.Pytester, module: ModuleType, name: str
) -> None:
    suite = getattr(module, name)
    only = getattr(suite, "only", "")
    pytester.makepyfile(f"from {module.__name__} import {name}")
    outcome = pytester.inline_run(*QUICKLY, *(["-k", only] if only else []))
    passed, _, failed = outcome.listoutcomes()
    assert passed or failed
    assert {each.nodeid.rpartition("::")[2].partition("[")[0] for each in failed} == suite.fails


def test_departures_are_listed(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("from departures import TestDeparturesWithReasons")
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
