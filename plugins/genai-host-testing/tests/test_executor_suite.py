"""The suite of executors, on those of the standard library."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

import pytest

from genai_host.api import ExecutorType, NoSettings
from genai_host_testing import InlinePlugin
from genai_host_testing.suites import ExecutorSuite


def brings(open: Callable[[Any], Executor]) -> InlinePlugin:
    return InlinePlugin(executors=[ExecutorType("threads", NoSettings, open)])


@pytest.mark.part
class TestThreads(ExecutorSuite):
    plugin = brings(lambda settings: ThreadPoolExecutor(4))
    executor = "threads"


class Forgetful(ThreadPoolExecutor):
    """It does what it has been asked for only once, and begins nothing beside anything else."""

    def __init__(self) -> None:
        super().__init__(1)
        self._known: dict[Any, Any] = {}

    def submit(self, function: Any, /, *given: Any, **named: Any) -> Any:
        if (function, given) not in self._known:
            self._known[function, given] = super().submit(function, *given, **named)
        return self._known[function, given]


class Broken(ExecutorSuite):
    """No class of tests, by its name: it is not collected."""

    plugin = brings(lambda settings: Forgetful())
    executor = "threads"
    patience = 0.2


@pytest.mark.part
def test_the_suite_finds_what_is_wrong(tmp_path: Any) -> None:
    suite = Broken()
    executor = suite.open()
    with pytest.raises(AssertionError):
        suite.test_what_has_the_same_arguments_is_done_each_time(executor, tmp_path)
    (tmp_path / "all").unlink()
    with pytest.raises(AssertionError):
        suite.test_several_are_done_at_once(executor, tmp_path)
    executor.shutdown()
