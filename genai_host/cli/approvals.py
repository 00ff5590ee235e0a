"""Calls of tools that a human is to decide on: which they are, and what is said of each.

They are what a turn waits for that waits for `approval` with the payload
`{"calls": [{"id", "tool", "arguments"}]}`; the result is `{id: true or false}`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from genai_host.cli.terminal import echo, is_terminal, note

if TYPE_CHECKING:
    from genai_host.api import Wait

KIND = "approval"
_SHOWN = 4000  # characters of the arguments of a call; all are in `conversations waiting --json`

Calls = Sequence[Mapping[str, Any]]
"""Each with an `id` of its own, a `tool` and its `arguments`."""


def calls_of(wait: Wait[Any] | None) -> Calls | None:
    """The calls that a turn waits for a decision on; None if it waits for something else."""
    payload = None if wait is None or wait.kind != KIND else wait.payload
    calls = payload.get("calls") if isinstance(payload, Mapping) else None
    if not isinstance(calls, Sequence) or isinstance(calls, str) or not calls:
        return None
    named = all(
        isinstance(call, Mapping)
        and isinstance(call.get("id"), str)
        and isinstance(call.get("tool"), str)
        for call in calls
    )
    return calls if named and len({call["id"] for call in calls}) == len(calls) else None


def may_be_asked() -> bool:
    """Whether there is somebody who sees what is asked, and can answer."""
    return is_terminal(sys.stdin) and is_terminal(sys.stderr)


def show_call(call: Mapping[str, Any]) -> None:
    """A call, on standard error: what is in it that does not show is escaped."""
    note(f"{visible(call['tool'])} ({visible(call['id'])})", bold=True)
    text = _json(call.get("arguments"))
    note(f"  {text[:_SHOWN]}")
    if len(text) > _SHOWN:
        note(f"  ... and {len(text) - _SHOWN} characters more", fg="yellow")


def show_wait(wait: Wait[Any]) -> None:
    """What a turn waits for, a line for each call; nothing is left out."""
    calls = calls_of(wait)
    if calls is None:
        echo(f"  {visible(wait.kind)}: {_json(wait.payload)}")
    for call in calls or ():
        arguments = _json(call.get("arguments"))
        echo(f"  {visible(call['id'])}  {visible(call['tool'])}  {arguments}")


def _json(value: Any) -> str:
    return visible(json.dumps(value, ensure_ascii=False))


def visible(text: str) -> str:
    """A text in which whatever has no sign of its own, or that of something else, such as
    a space of another width, is an escape of JSON."""
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)


def ask_for_each(calls: Calls) -> dict[str, bool]:
    """What the user says of each call. Raises `click.Abort` if that is nothing."""
    decided = {}
    for call in calls:
        show_call(call)
        decided[call["id"]] = click.confirm("May it run?", default=False, err=True)
    return decided


def decided_by(
    calls: Calls | None, *, yes: bool, no: bool, allowed: Sequence[str]
) -> dict[str, bool] | None:
    """What options say of each call; None if none of them is given. Raises
    `click.UsageError` for what they cannot say.

    allowed   ids; those that are not named may not run
    """
    given = yes + no + bool(allowed)
    if not given:
        return None
    if given > 1:
        raise click.UsageError("use one of --yes, --no and --allow")
    if calls is None:
        raise click.UsageError("--yes, --no and --allow are for calls that wait for an approval")
    ids = [call["id"] for call in calls]
    for id in allowed:
        if id not in ids:
            raise click.BadParameter(
                f"no call {visible(id)!r} waits; there are: {', '.join(map(visible, ids))}",
                param_hint="--allow",
            )
    return {id: yes or id in allowed for id in ids}
