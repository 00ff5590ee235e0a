"""What calls cost, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from genai_host.api import Cost

_FRACTION = 4  # digits after the point of what is a cent at least


def cost_text(cost: Cost) -> str:
    """In US dollars, on a few digits: `$0.0125`, or `at least $0.0125`."""
    text = f"${dollars_text(cost.dollars)}"
    return f"at least {text}" if cost.unknown else text


def dollars_text(dollars: float) -> str:
    """An amount without its sign. What is less than a cent has three digits that count."""
    if dollars >= 0.01:
        return f"{dollars:.{_FRACTION}f}"
    digits, _, exponent = f"{dollars:.2e}".partition("e")
    decimals = len(digits.partition(".")[2]) - int(exponent)
    return f"{dollars:.{decimals}f}".rstrip("0").rstrip(".")
