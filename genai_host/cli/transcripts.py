"""Text output of saved conversations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from genai_host.api import Message
from genai_host.cli.ask import show_details
from genai_host.cli.terminal import dollars_text, echo, local
from genai_host.conversations.replay import added
from genai_host.conversations.transcript import TurnSummary, content_as_markdown

if TYPE_CHECKING:
    from genai_host.store.records import SearchMatch, StoredTry, Summary

_AROUND = 40  # characters shown before the match


def title_of(summary: Summary) -> str:
    return " ".join(summary.title.split())


def show_tries(tries: Iterable[StoredTry]) -> None:
    """Print all attempts of model calls, including failed ones."""
    for each in tries:
        used = f"{each.input_tokens or 0} in, {each.output_tokens or 0} out"
        ended = used if each.code is None else f"failed: {each.code}"
        if each.cost is not None:
            ended += f", ${dollars_text(each.cost)}"
        echo(
            f"turn {each.turn}: {each.model}@{each.provider}, {each.seconds:.2f} s, {ended}",
            dim=True,
        )


def show_found(found: SearchMatch, id: str, words: str) -> None:
    """Print a search result on one line: the text around the words, which are highlighted on a
    terminal."""
    from genai_host.store.search import pattern_for

    sought = pattern_for(words)
    line = " ".join(found.text.split())
    first = sought.search(line)
    begin = max(0, (first.start() if first else 0) - _AROUND)
    excerpt = line[begin : begin + 4 * _AROUND]
    turn = "" if found.turn is None else found.turn
    echo(f"{id}\t{turn}\t{found.role}\t{'... ' if begin else ''}", end="")
    end = 0
    for hit in sought.finditer(excerpt):
        echo(excerpt[end : hit.start()], end="")
        echo(hit.group(), end="", bold=True, fg="yellow")
        end = hit.end()
    echo(excerpt[end:] + (" ..." if begin + len(excerpt) < len(line) else ""))


def show_transcript(
    began: Iterable[Message],
    turns: Iterable[TurnSummary],
    times: Mapping[int, float],
    *,
    details: bool = False,
) -> None:
    """Print a conversation: initial messages, and turns with their start in seconds since 1970."""
    _show_messages(began)
    for turn in turns:
        mark = "" if turn.outcome == "answered" else f" (turn {turn.number}, {turn.outcome})"
        _show_messages([turn.message], f", {local(times[turn.number])}{mark}")
        if turn.answer is not None:
            _show_messages(_answers(turn), mark)
            if details:
                show_details(turn.answer, echo)
        if turn.partial:
            _show_messages([Message("assistant", turn.partial)], mark)
        if turn.error is not None:
            echo(f"\nerror: {turn.error}", fg="red")


def _answers(turn: TurnSummary) -> Sequence[Message]:
    """Messages of the answer as added to the history, or else the answer itself."""
    assert turn.answer is not None  # checked by the caller
    new = [each for each in added(turn.answer, turn.message) if each.role != "user"]
    return new or [turn.answer.message]


def _show_messages(messages: Iterable[Message], mark: str = "") -> None:
    for message in messages:
        echo(f"\n## {message.role}{mark}\n", bold=True)
        echo(content_as_markdown(message))
