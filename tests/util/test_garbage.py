"""The garbage collector while a command starts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from genai_host.util import interpreter


class Collector:
    """The functions of `gc` that are used, and the calls of them."""

    def __init__(self) -> None:
        self.enabled = True
        self.calls: list[str] = []

    def isenabled(self) -> bool:
        return self.enabled

    def __getattr__(self, name: str) -> Callable[[], None]:
        def call() -> None:
            self.calls.append(name)
            self.enabled = {"enable": True, "disable": False}.get(name, self.enabled)

        return call


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Collector:
    collector = Collector()
    monkeypatch.setattr(interpreter, "gc", collector)
    return collector


def test_objects_of_the_start_are_not_searched(collector: Collector) -> None:
    interpreter.resume_collection()
    assert collector.calls == []  # one that runs is left alone
    interpreter.pause_collection()
    assert not collector.enabled
    interpreter.resume_collection()
    interpreter.resume_collection()
    assert collector.calls == ["disable", "freeze", "enable"]
