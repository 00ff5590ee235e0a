"""What a figure has to be."""

from __future__ import annotations


def bar(
    title: str, figure: float, *, at_least: float | None = None, at_most: float | None = None
) -> None:
    """Print whether it is that."""
    if at_least is not None:
        met, wanted = figure >= at_least, f"at least {at_least:g}"
    else:
        assert at_most is not None
        met, wanted = figure <= at_most, f"at most {at_most:g}"
    print(f"{'pass' if met else 'FAIL'}  {title}: {figure:.3g}, {wanted}")
