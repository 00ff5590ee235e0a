"""What became of what was to be imported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from attrs import define, field, frozen

What = Literal["imported", "replaced", "left alone", "failed"]


@frozen
class Outcome:
    """Of one object.

    kind   as the API calls it: `assistant`, `thread`, `thread.message`, `vector_store`,
           `vector_store.file`, `file`; whatever it said of itself if it could not be read
    id     empty if it could not be read
    what   `left alone` for what was there already
    why    it failed; empty if it did not
    at     where it stood, as `threads.jsonl:3` or `list.json[7]`
    """

    kind: str
    id: str
    what: What
    why: str = ""
    at: str = ""

    def line(self) -> str:
        """For people."""
        return f"{self.at}: {' '.join(filter(None, [self.kind, self.id]))}: {self.why}"


@define
class Report:
    """
    outcomes   one for each object
    """

    outcomes: list[Outcome] = field(factory=list)
    _warnings: dict[str, None] = field(factory=dict)

    @property
    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """By kind, how many have come to what."""
        counts: dict[str, dict[str, int]] = {}
        for each in self.outcomes:
            of = counts.setdefault(each.kind, {})
            of[each.what] = of.get(each.what, 0) + 1
        return counts

    @property
    def failed(self) -> Sequence[Outcome]:
        return [each for each in self.outcomes if each.what == "failed"]

    @property
    def warnings(self) -> list[str]:
        """What was imported, and will not run as it did: each a line."""
        return list(self._warnings)

    def warn(self, text: str) -> None:
        """Once."""
        self._warnings[text] = None
