"""Redaction of keys in errors and replies: some services quote the key of a request."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

from attrs import evolve

from genai_host.api import ProviderReply
from genai_host.api.cancellation import Cancellation, ended_with
from genai_host.errors import GenaiError
from genai_host.providers.instance import ProviderCall

E = TypeVar("E", bound=BaseException)
Clean = Callable[[str], str]
"""Redacts keys in a text."""


def redacted(error: BaseException, attempt: ProviderCall) -> BaseException:
    """The error of an attempt, without its keys."""
    return redact(cause_of(error, attempt.limits), attempt.without_keys)


def cause_of(error: E, limits: Cancellation) -> E | GenaiError:
    """The error of the cancellation, which takes precedence over its consequences."""
    ended = ended_with(limits)
    return error if ended is None or type(error) is type(ended) else ended


def redact(error: E, clean: Clean) -> E:
    """Redact keys in an error and its causes, which are displayed with it."""
    seen: set[int] = set()  # errors are equal by value
    left: list[BaseException | None] = [error]
    while left:
        each = left.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        left += [each.__cause__, each.__context__]
        each.args = tuple(_redacted(value, clean) for value in each.args)
        for name, value in vars(each).items():
            if isinstance(value, (str, bytes, dict)):
                with contextlib.suppress(AttributeError):  # read-only
                    setattr(each, name, _redacted(value, clean))
    return error


def redacted_reply(reply: ProviderReply, clean: Clean) -> ProviderReply:
    """The reply with keys redacted. Errors quote the beginning of a reply, which may end in the
    middle of a key."""
    return evolve(reply, body=_redacted(reply.body, clean))


def _redacted(value: Any, clean: Clean) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, bytes):  # of a decoding error
        return clean(value.decode("latin-1")).encode("latin-1")
    if isinstance(value, dict):
        return {_redacted(name, clean): _redacted(each, clean) for name, each in value.items()}
    return [_redacted(each, clean) for each in value] if isinstance(value, list) else value
