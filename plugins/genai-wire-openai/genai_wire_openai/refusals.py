"""Refusals of a model: chat completions and responses have them apart from texts.

A refusal is a `Text` with a mark in `extra`, so that other formats show it. The answer has the
finish reason `content_filter`; in these two formats it is complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import evolve

from genai_host.api import Completion, Delta, Part, Text, read_finish

MARKED: Mapping[str, Any] = {"openai-refusal": True}
"""`extra` of a refusal, of its chunks, and of an answer whose whole text is one."""


def is_refusal(each: Part | Delta | Completion) -> bool:
    return each.extra is not None and each.extra.keys() >= MARKED.keys()


def refusals_in(parts: Iterable[Part]) -> str:
    """The text of the refusals among parts."""
    return "".join(part.text for part in parts if isinstance(part, Text) and is_refusal(part))


def with_own_finish(completion: Completion) -> Completion:
    """The completion with its finish reason in these formats: that of the service, if the model
    refused."""
    if not refusals_in(completion.message.content):
        return completion
    return evolve(completion, finish=read_finish(completion.vendor_finish))
