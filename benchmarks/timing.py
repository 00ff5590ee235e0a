"""Timing of callables that alternate in each round. The first round is a warm-up."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple


class Comparison(NamedTuple):
    """Median durations in milliseconds, and the median of the ratios of all rounds."""

    subject: float
    baseline: float
    ratio: float


def compare(
    subject: Callable[[], object],
    baseline: Callable[[], object],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> Comparison:
    """Compare the duration of two callables.

    Args:
        subject: Measured callable.
        baseline: Callable that it is compared with.
        rounds: Number of rounds.
        clock: Returns a time in seconds.
    """
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds + 1):
        for call, durations in zip((subject, baseline), times, strict=True):
            started = clock()
            call()
            if number:
                durations.append(1000 * (clock() - started))
    median, baseline_median = map(statistics.median, times)
    return Comparison(median, baseline_median, median_ratio(*times))


def median_cpu_times(
    calls: Sequence[Callable[[], object]], rounds: int, repeats: Sequence[int]
) -> list[float]:
    """Measure the CPU time of the process.

    Args:
        calls: Callables to measure.
        rounds: Number of rounds.
        repeats: Number of times that each of them is called in a round.

    Returns:
        The median CPU time of a call of each callable, in microseconds.
    """
    times: list[list[float]] = [[] for _ in calls]
    for number in range(rounds + 1):
        for call, count, durations in zip(calls, repeats, times, strict=True):
            started = time.process_time_ns()
            for _ in range(count):
                call()
            if number:
                durations.append((time.process_time_ns() - started) / count / 1000)
    return [statistics.median(durations) for durations in times]


def median_ratio(values: Sequence[float], baseline: Sequence[float]) -> float:
    """Median of the ratios of the same round."""
    return statistics.median(value / base for value, base in zip(values, baseline, strict=True))
