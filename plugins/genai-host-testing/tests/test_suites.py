"""The suites find what is wrong: each wrong plugin fails the tests that it must, and no others."""

from __future__ import annotations

import pytest
from _pytest.mark.expression import Expression

from genai_host_testing.suites import Suite

from . import (
    deviations,
    wrong,
    wrong_dialects,
    wrong_features,  # noqa: F401  # which registers what is wrong
    wrong_providers,
    wrong_tool_sources,  # noqa: F401
    wrong_tools,  # noqa: F401
)
from .wrong import SUITES

for module in (wrong_dialects, wrong_providers, deviations):
    SUITES.update({name: suite for name, suite in vars(module).items() if name.startswith("Test")})
QUICKLY = [
    *("-p", "no:cacheprovider"),
    *("-p", "no:unraisableexception"),  # it collects all garbage, several times
    *("-p", "no:hypothesispytest"),  # it imports all of it anew
]


_AT_ONCE = 16  # a run of pytest takes longer than the tests of a suite
_RUNS = -(-len(SUITES) // _AT_ONCE)
_GROUPS = [[*SUITES][number::_RUNS] for number in range(_RUNS)]


class Only:
    """A plugin of pytest that applies the expressions of suites, as `pytest -k` applies one."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [each for each in items if _is_chosen(each)]


def _is_chosen(item: pytest.Item) -> bool:
    only = getattr(getattr(item, "cls", None), "only", "")
    return not only or Expression.compile(only).evaluate(lambda word, /, **_: word in item.name)


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("names", _GROUPS, ids=lambda names: names[0])
def test_wrong_plugins_fail_the_right_tests(pytester: pytest.Pytester, names: list[str]) -> None:
    suites = f"sys.modules[{wrong.__name__!r}].SUITES"
    lines = [f"Test_{name} = {suites}[{name!r}]" for name in names]
    pytester.makepyfile("\n".join(["import sys", *lines]))
    passed, _, failed = pytester.inline_run(*QUICKLY, plugins=[Only()]).listoutcomes()
    ran = {_place(each)[0] for each in (*passed, *failed)}
    assert ran == {f"Test_{name}" for name in names}
    actual = {_place(each) for each in failed}
    assert actual == {(f"Test_{name}", test) for name in names for test in SUITES[name].fails}


def _place(report: pytest.CollectReport | pytest.TestReport) -> tuple[str, str]:
    """The names of the suite and of the test."""
    _, suite, test = report.nodeid.split("::", 2)
    return suite, test.partition("[")[0]


def test_deviations_are_listed(pytester: pytest.Pytester) -> None:
    name = "TestDeviationsWithReasons"
    pytester.makepyfile(f"import sys\n{name} = sys.modules[{deviations.__name__!r}].{name}")
    output = pytester.runpytest_inprocess(*QUICKLY, "-rA").stdout.str()
    assert (
        "TestDeviationsWithReasons deviates from "
        "test_a_reply_is_read: the reply is read by somebody else; "
        "test_a_stream_that_is_cut_is_no_answer: tested in another way"
    ) in output
    assert "TestDeviationsWithReasons deviates: the reply is read by somebody else" in output
    assert "::TestDeviationsWithReasons::test_a_stream_that_is_cut_is_no_answer" in output


def test_nobody_deviates_from_the_test_of_deviations() -> None:
    with pytest.raises(TypeError, match="cannot be overridden"):
        type("TestMine", (Suite,), {"test_deviations_have_reasons": None})
