"""What `-v` shows: the host's log, and what caused an error, on standard error."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable

from genai_host.cli.terminal import note
from genai_host.errors import ProviderError

_log = logging.getLogger(__name__)


def show_log(verbose: int) -> Callable[[], None]:
    """Show the host's log from now on, and give what ends that.

    verbose   1 for what happens, 2 or more for all
    """
    logger = logging.getLogger("genai_host")
    level = logger.level
    notes = _Notes()
    notes.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    logger.addHandler(notes)
    logger.setLevel(logging.INFO if verbose == 1 else logging.DEBUG)

    def end() -> None:
        logger.removeHandler(notes)
        logger.setLevel(level)

    return end


class _Notes(logging.Handler):
    """They drive no terminal: what is logged may be what a model or a plugin said."""

    def emit(self, record: logging.LogRecord) -> None:
        note(self.format(record))


def log_error(error: BaseException) -> None:
    """Log where an error came from."""
    _log.info("where it failed", exc_info=error)


def log_cause(error: BaseException) -> None:
    """Log what caused an error, and where. On the way to a service it goes without what
    libraries say: they quote addresses and headers whole, and keys stand in those."""
    cause = error.__cause__
    if cause is None:
        return
    if isinstance(error, ProviderError):
        _log.info("what caused it\n%s", _without_messages(cause))
    else:
        _log.info("what caused it", exc_info=cause)


def _without_messages(error: BaseException) -> str:
    """A traceback, the deepest cause first, with no more of each than its class."""
    text = ""
    cause: BaseException | None = error
    while cause is not None:
        frames = "".join(traceback.format_tb(cause.__traceback__))
        text = f"Traceback (most recent call last):\n{frames}{type(cause).__name__}\n{text}"
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return text.rstrip()
