"""What is put on record of a call besides its result."""

from __future__ import annotations

from attrs import field, frozen

from genai_host.api import Clock, RouteInfo
from genai_host.errors import GenaiError


@frozen
class Try:
    """A call of a model that failed, whether it was tried again or not.

    started   seconds since 1970
    seconds   how long it took
    code      of its error
    status    HTTP status of the reply, if there was one
    """

    route: RouteInfo
    started: float
    seconds: float
    code: str
    status: int | None = None

    @property
    def was_refused(self) -> bool:
        """Whether the service answered that it did nothing, for which none charges."""
        return self.status is not None and self.status >= 400


@frozen
class Trace:
    """Filled in while a step is done.

    failed   the calls for it that failed, in their order
    pieces   text of the answer that was shown as it came
    """

    failed: list[Try] = field(factory=list)
    pieces: list[str] = field(factory=list)

    def fail(self, route: RouteInfo, started: float, clock: Clock, error: GenaiError) -> None:
        """
        started   by `clock.monotonic`
        """
        seconds = clock.monotonic() - started
        began = clock.now().timestamp() - seconds
        self.failed.append(Try(route, began, seconds, error.code, error.status))

    def text_before(self, error: GenaiError | None) -> str:
        """What had been shown when it failed, unless the error has it."""
        return "" if error is None or vars(error).get("text") else "".join(self.pieces)
