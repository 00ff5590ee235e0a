"""Checks of the types of arguments of the methods of `Host`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar

from genai_host.api import File, Message, Prompt, ToolSchema
from genai_host.api.dropped import DroppedFields
from genai_host.api.services import TurnLimits
from genai_host.calls.retry import RetryPolicy
from genai_host.config import Config
from genai_host.conversations.record import InMemoryRecord
from genai_host.errors import ValidationError
from genai_host.util.text import short_repr

P = ParamSpec("P")
R = TypeVar("R")


class _Type(NamedTuple):
    """A description of valid values, for errors, and whether a value is valid."""

    be: str
    is_so: Callable[[Any], bool]


def _a(*types: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, types)


def _has(*methods: str) -> Callable[[Any], bool]:
    """Protocols are checked by a few of their methods."""
    return lambda value: all(callable(getattr(value, each, None)) for each in methods)


def _by_name(is_so: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, Mapping)
        and all(isinstance(name, str) and is_so(each) for name, each in value.items())
    )


def _several(is_so: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Items are checked unless that would use up an iterator."""
    return lambda value: (
        isinstance(value, Iterable)
        and not isinstance(value, (str, bytes, Mapping))
        and (not isinstance(value, (list, tuple)) or all(map(is_so, value)))
    )


def _any(value: Any) -> bool:
    return True


def _is_text_or_tokens(value: Any) -> bool:
    return isinstance(value, str) or (
        isinstance(value, (list, tuple)) and all(type(each) is int for each in value)
    )


_is_text = _a(str)
_are_texts = _several(_is_text_or_tokens)
_are_messages = _several(_a(Message))
_TEXT = _Type("a string", _is_text)
_FLAG = _Type("True or False", _a(bool))
_TEXTS = _Type("a list of strings, or of lists of token IDs", _are_texts)
_ANY_BY_NAME = _Type("a mapping with strings for keys", _by_name(_any))

_PURPOSES = ("query", "document")

TYPES: Mapping[str, _Type] = {
    "after": _TEXT,
    "audio": _Type("a File", _a(File)),
    "clock": _Type("a Clock", _has("monotonic", "now")),
    "complete.prompt": _Type(
        "a string, or a list of strings or of lists of token IDs",
        lambda value: _is_text(value) or _are_texts(value),
    ),
    "config": _Type("a Config", _a(Config)),
    "conversation.models": _Type(
        "a mapping of roles to names of models or None",
        _by_name(lambda value: value is None or _is_text(value)),
    ),
    "conversation.record": _FLAG,
    "count_tokens.tools": _Type("a list of tools", _several(_a(ToolSchema))),
    "discovery": _Type("a Discovery", _has("find", "deferred")),
    "dropped": _Type("DroppedFields", _a(DroppedFields)),
    "feature": _TEXT,
    "history": _Type("a list of messages", _are_messages),
    "id": _TEXT,
    "keys": _Type("a SecretStore", _has("find", "set")),
    "limit": _Type("an integer", lambda value: type(value) is int),
    "limits": _Type("a CancelToken", _has("check", "on_cancel")),
    "messages": _Type(
        "a string or a list of messages", lambda value: _is_text(value) or _are_messages(value)
    ),
    "model": _TEXT,
    "models": _Type("a mapping of roles to names of models", _by_name(_is_text)),
    "owner": _TEXT,
    "parameters": _ANY_BY_NAME,
    "persisted": _FLAG,
    "prices": _Type("a price list", _has("price")),
    "prompt": _Type("a Prompt", _a(Prompt)),
    "provider": _TEXT,
    "purpose": _Type(f"one of {', '.join(_PURPOSES)}", lambda value: value in _PURPOSES),
    "record": _Type(
        "True, False or a recorder", lambda value: isinstance(value, bool) or _has("append")(value)
    ),
    "reopen.record": _Type("an InMemoryRecord", _a(InMemoryRecord)),
    "retry_policy": _Type("a RetryPolicy", _a(RetryPolicy)),
    "schema": _ANY_BY_NAME,
    "settings": _ANY_BY_NAME,
    "store": _Type("a Store", _has("record", "conversations")),
    "stream": _FLAG,
    "suffix": _TEXT,
    "text": _TEXT,
    "texts": _TEXTS,
    "tools": _Type(
        "a list of names of tools", lambda value: _is_text(value) or _several(_is_text)(value)
    ),
    "turn_limits": _Type("TurnLimits", _a(TurnLimits)),
}
"""By name of the argument, after that of the method if other methods have another type."""


def checked(method: Callable[P, R]) -> Callable[P, R]:
    """Let a method check the types of its arguments, also if it is a generator.

    A default of None is valid, too. The method then also raises `ValidationError`, whose `path` is
    the name of the argument.
    """
    parameters = inspect.signature(method).parameters
    types = {name: TYPES.get(f"{method.__name__}.{name}", TYPES.get(name)) for name in parameters}
    optional = {name for name, each in parameters.items() if each.default is None}

    def check(name: str, value: Any) -> None:
        must = types.get(name)
        if must is None or must.is_so(value) or (value is None and name in optional):
            return
        raise ValidationError(f"{name} must be {must.be}, not {short_repr(value)}", path=name)

    @wraps(method)
    def checking(*given: P.args, **named: P.kwargs) -> R:
        for name, value in (*zip(parameters, given, strict=False), *named.items()):
            check(name, value)
        return method(*given, **named)

    return checking
