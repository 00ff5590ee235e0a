"""Answers, and what a turn waits for in place of one."""

from __future__ import annotations

from typing import Any

import attrs

from genai_host.api import Answer, Codec, Wait
from genai_host.rows.costs import cost_row


def answer_row(answer: Answer, codec: Codec) -> dict[str, Any]:
    """An answer in JSON."""
    return {
        "text": answer.text,
        "data": codec.to_json(answer.data),
        "reactions": codec.to_json(answer.reactions),
        "usage": attrs.asdict(answer.usage),
        "cost": cost_row(answer.cost),
        "details": codec.to_json(answer.details),
    }


def wait_row(wait: Wait[Any] | None, **named: str) -> dict[str, Any]:
    """What a turn waits for, in JSON.

    named   what comes before it
    """
    asks = {} if wait is None else {"kind": wait.kind, "payload": wait.payload}
    return {**named, **asks}
