"""A property that is made once."""

from __future__ import annotations

import threading

import pytest

from genai_host.util.lazy_property import lazy_property


class Thing:
    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.made = 0

    @lazy_property
    def part(self) -> list[int]:
        """What it is."""
        self.made += 1
        return [self.made]

    @lazy_property
    def nothing(self) -> None:
        self.made += 1

    @lazy_property
    def outer(self) -> list[int]:
        return [*self.part, 2]

    @lazy_property
    def failing(self) -> int:
        self.made += 1
        raise LookupError


def test_it_is_made_when_it_is_looked_at_and_then_kept() -> None:
    thing = Thing()
    assert thing.made == 0
    assert thing.part is thing.part
    assert thing.made == 1
    assert (thing.nothing, thing.nothing) == (None, None)
    assert thing.made == 2
    assert Thing().outer == [1, 2]


def test_what_failed_is_tried_again() -> None:
    thing = Thing()
    for _ in range(2):
        with pytest.raises(LookupError):
            _ = thing.failing
    assert thing.made == 2


def test_each_instance_has_its_own_and_the_class_has_what_it_is() -> None:
    assert Thing().part is not Thing().part
    assert Thing.part.__doc__ == "What it is."


def test_threads_that_look_at_once_get_the_same() -> None:
    thing = Thing()
    start = threading.Barrier(20)
    seen: list[list[int]] = []

    def look() -> None:
        start.wait(30)
        seen.append(thing.part)

    threads = [threading.Thread(target=look) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert seen == [[1]] * 20
    assert thing.made == 1
