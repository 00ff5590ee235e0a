"""Replays a feature's conversation after every entry of its record."""

from __future__ import annotations

import json
from collections.abc import Callable

from attrs import evolve

from genai_host.api import Answer
from genai_host.conversations.conversation import Conversation
from genai_host.conversations.record import InMemoryRecord, StepEnded, TurnEnded, TurnStarted
from genai_host.errors import TurnPaused
from genai_host.host import Host


def replay_from_every_entry(
    host: Host, record: InMemoryRecord, *, give: Callable[[str], object] | None = None
) -> int:
    """Truncate the record of a finished conversation after each entry, as a crash would, resume the
    conversation, and compare the answers.

    Args:
        host: Host whose models answer equal prompts equally.
        record: Record of a conversation whose last turn was answered.
        give: Returns the value for a paused turn by the kind of the pause.

    Returns:
        Number of truncations within a turn; at least one per turn.

    Raises:
        AssertionError: An answer differs.
    """
    whole = json.loads(json.dumps(record.to_json(host.codec)))
    entries = record.entries
    cuts = 0
    for length in range(1, len(entries)):
        kept = InMemoryRecord.from_json(whole[:length], host.codec)
        if not _is_within_a_turn(kept):
            continue
        cuts += 1
        turn = next(each.turn for each in reversed(kept.entries) if isinstance(each, TurnStarted))
        expected = _answer_of(record, turn)
        found = _gone_on(host.reopen(kept), give)
        assert timeless(found) == timeless(expected), (
            f"cut after entry {length} of {len(entries)}: {found.text!r} is not {expected.text!r}"
        )
    return cuts


def _gone_on(conversation: Conversation, give: Callable[[str], object] | None) -> Answer:
    """Resume an unfinished turn, with one `resume` per pause, and return its answer."""
    while True:
        waiting = conversation.current_pause
        result = None
        if waiting is not None:
            if give is None:
                raise TurnPaused(f"the turn waits for {waiting.kind}", kind=waiting.kind)
            result = give(waiting.kind)
        try:
            return conversation.resume(result)
        except TurnPaused:
            continue


def _is_within_a_turn(record: InMemoryRecord) -> bool:
    for entry in reversed(record.entries):
        if isinstance(entry, TurnEnded):
            return False
        if isinstance(entry, (TurnStarted, StepEnded)):
            return True
    return False


def _answer_of(record: InMemoryRecord, turn: int) -> Answer:
    for entry in record.entries:
        if isinstance(entry, TurnEnded) and entry.turn == turn:
            assert entry.answer is not None, f"turn {turn} failed: {entry.error}"
            return entry.answer
    raise AssertionError(f"turn {turn} has not ended")


def timeless(answer: Answer) -> Answer:
    """The answer without durations, which differ between runs."""
    details = [
        evolve(each, data={key: value for key, value in each.data.items() if key != "seconds"})
        for each in answer.details
    ]
    return evolve(answer, details=tuple(details))
