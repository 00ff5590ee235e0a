"""Thresholds of benchmark results."""

from __future__ import annotations


def check(
    title: str, value: float, *, at_least: float | None = None, at_most: float | None = None
) -> None:
    """Print a value, and whether it meets a threshold."""
    if at_least is not None:
        met, threshold = value >= at_least, f"at least {at_least:g}"
    else:
        assert at_most is not None
        met, threshold = value <= at_most, f"at most {at_most:g}"
    print(f"{'pass' if met else 'FAIL'}  {title}: {value:.3g}, {threshold}")
