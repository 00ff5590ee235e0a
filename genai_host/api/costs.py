"""What calls of models cost."""

from __future__ import annotations

from attrs import frozen


@frozen
class Cost:
    """What calls of models cost, in US dollars; `+` adds.

    Each call counts with what the list price at the time of the call comes to.

    dollars   of the calls whose cost is known
    known     how many calls these are
    unknown   how many further calls there were: all of them cost at least `dollars`
    """

    dollars: float = 0.0
    known: int = 0
    unknown: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.dollars + other.dollars,
            self.known + other.known,
            self.unknown + other.unknown,
        )


def cost_of_call(dollars: float | None) -> Cost:
    """The cost of one call; None if it is not known."""
    return Cost(unknown=1) if dollars is None else Cost(dollars, known=1)
