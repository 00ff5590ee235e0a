"""What is put on record of a call besides its result."""

from __future__ import annotations

from attrs import field, frozen

from genai_host.api import Clock, Completion, RouteInfo, Usage, Vectors
from genai_host.errors import GenaiError
from genai_host.observers import CallReport

_NO_USAGE = Usage()


@frozen
class Try:
    """A call of a service that failed, whether it was tried again or not.

    started   seconds since 1970
    seconds   how long it took
    code      of its error
    status    HTTP status of the reply, if there was one
    usage     tokens used, where the reply said it
    cost      US dollars; None if it is not known
    """

    route: RouteInfo
    started: float
    seconds: float
    code: str
    status: int | None = None
    usage: Usage = field(factory=Usage)
    cost: float | None = None


@frozen
class Trace:
    """Filled in while a step is done.

    parent   the id of the turn, as observers are told it; empty if there are none
    failed   the calls for it that failed, in their order
    pieces   text of the answer that was shown as it came
    """

    parent: str = ""
    failed: list[Try] = field(factory=list)
    pieces: list[str] = field(factory=list)

    def fail(self, route: RouteInfo, clock: Clock, error: GenaiError, report: CallReport) -> None:
        """A call has failed; it is none if nothing was sent."""
        call = called(route, clock, error, report)
        if call is not None:
            self.failed.append(call)

    def text_before(self, error: GenaiError | None) -> str:
        """What had been shown when it failed, unless the error has it."""
        return "" if error is None or vars(error).get("text") else "".join(self.pieces)


def called(
    route: RouteInfo, clock: Clock, error: GenaiError | None, report: CallReport
) -> Try | None:
    """A call that has just ended; None if nothing was sent. One that succeeded has no code."""
    if report.sent is None:
        return None
    seconds = clock.monotonic() - report.sent
    began = clock.now().timestamp() - seconds
    result = report.result
    usage = result.usage if isinstance(result, (Completion, Vectors)) else _NO_USAGE
    cost = 0.0 if report.refused else result.cost if result is not None else None
    code, status = ("", None) if error is None else (error.code, error.status)
    return Try(route, began, seconds, code, status, usage=usage, cost=cost)
