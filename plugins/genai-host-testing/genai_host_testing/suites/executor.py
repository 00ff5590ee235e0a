"""Suite for executors: they run jobs, return their results, and close."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, wait
from pathlib import Path
from typing import Any

import pytest

from genai_host.api import ExecutorType
from genai_host.api.settings import read_settings
from genai_host.errors import GenaiError, RateLimited
from genai_host_testing.suites.base import PluginSuite, in_background

_MANY = 200
_AT_ONCE = 4


class ExecutorSuite(PluginSuite):
    """Suite for an `ExecutorType`.

        class TestCluster(ExecutorSuite):
            plugin = genai_cluster
            executor = "cluster"
            settings = {"workers": 1}

    For values from fixtures, use an autouse fixture: `self.settings = ...`.

    Attributes:
        executor: Name of the executor.
        settings: Settings for at least four parallel jobs on this machine.
    """

    executor: str
    settings: Mapping[str, Any] = {}

    @pytest.fixture
    def opened(self) -> Iterator[Executor]:
        executor = self.open()
        yield executor
        executor.shutdown(wait=False, cancel_futures=True)

    def found(self) -> ExecutorType[Any]:
        return next(each for each in self.declared().executors if each.name == self.executor)

    def open(self) -> Executor:
        found = self.found()
        return found.open(read_settings(found.settings, self.settings, owner=self.executor))

    def test_results_match_their_calls(self, opened: Executor) -> None:
        """Each result belongs to its call, although all calls use the same function, some with the
        same arguments."""
        futures = [opened.submit(divmod, number // 2, 3) for number in range(_MANY)]
        found = [future.result(self.patience) for future in futures]
        assert found == [divmod(number // 2, 3) for number in range(_MANY)]

    def test_equal_calls_run_separately(self, opened: Executor, tmp_path: Path) -> None:
        for future in [opened.submit(_note, str(tmp_path / "all")) for _ in range(_AT_ONCE)]:
            future.result(self.patience)
        assert (tmp_path / "all").read_text() == "." * _AT_ONCE

    def test_calls_run_concurrently(self, opened: Executor, tmp_path: Path) -> None:
        """Each call waits until all of them have started."""
        futures = [
            opened.submit(_meet, str(tmp_path), number, _AT_ONCE, self.patience)
            for number in range(_AT_ONCE)
        ]
        assert [future.result(2 * self.patience) for future in futures] == [True] * _AT_ONCE

    def test_exceptions_are_returned(self, opened: Executor) -> None:
        with pytest.raises(ZeroDivisionError):
            opened.submit(divmod, 1, 0).result(self.patience)
        with pytest.raises(RateLimited) as raised:
            opened.submit(_refuse).result(self.patience)
        assert (raised.value.message, raised.value.retry_after) == ("too many", 7.0)
        assert opened.submit(divmod, 7, 2).result(self.patience) == (3, 1)

    def test_shutdown_waits_for_running_calls(self) -> None:
        executor = self.open()
        futures = [executor.submit(divmod, number, 3) for number in range(_AT_ONCE)]
        assert self.ended(in_background(executor.shutdown)) is None
        assert [future.result(0) for future in futures] == [divmod(n, 3) for n in range(_AT_ONCE)]
        with pytest.raises(RuntimeError):
            executor.submit(divmod, 1, 1)

    def test_shutdown_without_wait_returns_immediately(self, tmp_path: Path) -> None:
        executor = self.open()
        future = executor.submit(_meet, str(tmp_path), 0, 2, self.patience)  # never meets another
        until = time.monotonic() + self.patience
        while not any(tmp_path.iterdir()):
            assert time.monotonic() < until
            time.sleep(0.01)
        closing = in_background(lambda: executor.shutdown(wait=False, cancel_futures=True))
        try:
            assert self.ended(closing) is None
        finally:
            (tmp_path / "1").touch()
        assert wait([future], self.patience).done

    def test_second_shutdown_has_no_effect(self) -> None:
        executor = self.open()
        executor.shutdown()
        executor.shutdown(wait=False, cancel_futures=True)


def _note(path: str) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.write(".")


def _meet(folder: str, number: int, all: int, patience: float) -> bool:
    """Whether all calls have started, in any process."""
    Path(folder, str(number)).touch()
    until = time.monotonic() + patience
    while len(os.listdir(folder)) < all:
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def _refuse() -> None:
    error: GenaiError = RateLimited("too many", retry_after=7.0)
    raise error
