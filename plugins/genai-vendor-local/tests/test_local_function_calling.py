"""The agent, on the real model, chooses among three tools: scored over public cases.

The summary of the test run contains the score. The test checks what holds for any model, and that
this one chooses above chance. `benchmarks/function_calling.py` scores all 50 cases.
"""

from __future__ import annotations

from collections.abc import Callable

import genai_feature_agent
import pytest

from genai_host.errors import LimitExceeded
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.function_calls import WINDOW, Case, Played, Score, play, read_cases

pytestmark = [pytest.mark.weights, pytest.mark.slow]

_CASES = 6
_AT_LEAST = 4
"""Cases in which the right tool is called: 5 measured; by chance 2, and 4 in 10 % of all runs."""


@pytest.mark.timeout(1800)  # minutes where the machine does other things as well
def test_the_agent_calls_the_right_one_of_three_tools(
    make_local_host: MakeHost, record_property: Callable[[str, object], None]
) -> None:
    def played(case: Case) -> Played:
        plugins = {"agent": genai_feature_agent, "case": case.plugin()}
        with make_local_host(plugins=plugins, window=WINDOW) as host:
            return play(host, case, "smollm2")

    cases = read_cases()[:_CASES]
    results = [played(case) for case in cases]
    score = Score.of(results)
    record_property("score", f"function calling: {score}")
    for each in results:
        assert all(map(each.case.accepts, each.calls)), each.line
        assert each.ran is bool(each.calls), each.line
        assert each.error is None or isinstance(each.error, LimitExceeded), each.line
    assert score.chosen >= _AT_LEAST, "\n".join(each.line for each in results)
    # not by luck: a grammar constrains the model, and its instructions require calls
    assert score.called > len(cases) / 2, "\n".join(each.line for each in results)
