"""Checks of the types of arguments of the methods of `Host`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar, get_args

from genai_host.api import File, Message, Operation, Prompt, ToolSchema
from genai_host.api.dropped import DroppedFields
from genai_host.api.services import TurnLimits
from genai_host.calls.retry import RetryPolicy
from genai_host.config import Config, ModelConfig
from genai_host.conversations.record import InMemoryRecord
from genai_host.errors import ValidationError
from genai_host.providers.instance import ProviderInstance
from genai_host.util.text import short_repr

P = ParamSpec("P")
R = TypeVar("R")


class _ArgumentType(NamedTuple):
    """A description of valid values, for errors, and whether a value is valid."""

    description: str
    is_valid: Callable[[Any], bool]


def _instance_of(*types: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, types)


def _has_methods(*methods: str) -> Callable[[Any], bool]:
    """Protocols are checked by a few of their methods."""
    return lambda value: all(callable(getattr(value, each, None)) for each in methods)


def _mapping_to(is_valid: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, Mapping)
        and all(isinstance(name, str) and is_valid(each) for name, each in value.items())
    )


def _items(is_valid: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Items are checked unless that would use up an iterator."""
    return lambda value: (
        isinstance(value, Iterable)
        and not isinstance(value, (str, bytes, Mapping))
        and (not isinstance(value, (list, tuple)) or all(map(is_valid, value)))
    )


def _any(value: Any) -> bool:
    return True


def _is_text_or_tokens(value: Any) -> bool:
    return isinstance(value, str) or (
        isinstance(value, (list, tuple)) and all(type(each) is int for each in value)
    )


_is_text = _instance_of(str)
_are_texts = _items(_is_text_or_tokens)
_are_messages = _items(_instance_of(Message))
_TEXT = _ArgumentType("a string", _is_text)
_FLAG = _ArgumentType("True or False", _instance_of(bool))
_TEXTS = _ArgumentType("a list of strings, or of lists of token IDs", _are_texts)
_MAPPING = _ArgumentType("a mapping with strings for keys", _mapping_to(_any))

_OPERATIONS = get_args(Operation)
_PURPOSES = ("query", "document")

TYPES: Mapping[str, _ArgumentType] = {
    "after": _TEXT,
    "again": _ArgumentType("a provider instance", _instance_of(ProviderInstance)),
    "approved": _FLAG,
    "arguments": _MAPPING,
    "audio": _ArgumentType("a File", _instance_of(File)),
    "check_configuration.config": _ArgumentType("a ModelConfig", _instance_of(ModelConfig)),
    "clock": _ArgumentType("a Clock", _has_methods("monotonic", "now")),
    "complete.prompt": _ArgumentType(
        "a string, or a list of strings or of lists of token IDs",
        lambda value: _is_text(value) or _are_texts(value),
    ),
    "config": _ArgumentType("a Config", _instance_of(Config)),
    "context": _MAPPING,
    "conversation.models": _ArgumentType(
        "a mapping of roles to names of models or None",
        _mapping_to(lambda value: value is None or _is_text(value)),
    ),
    "conversation.record": _FLAG,
    "count_tokens.tools": _ArgumentType("a list of tools", _items(_instance_of(ToolSchema))),
    "cut": _FLAG,
    "discovery": _ArgumentType("a Discovery", _has_methods("find", "deferred")),
    "dropped": _ArgumentType("DroppedFields", _instance_of(DroppedFields)),
    "feature": _TEXT,
    "history": _ArgumentType("a list of messages", _are_messages),
    "id": _TEXT,
    "keys": _ArgumentType("a SecretStore", _has_methods("find", "set")),
    "limit": _ArgumentType("an integer", lambda value: type(value) is int),
    "limits": _ArgumentType("a CancelToken", _has_methods("check", "on_cancel")),
    "messages": _ArgumentType(
        "a string or a list of messages", lambda value: _is_text(value) or _are_messages(value)
    ),
    "model": _TEXT,
    "models": _ArgumentType("a mapping of roles to names of models", _mapping_to(_is_text)),
    "name": _TEXT,
    "operation": _ArgumentType(
        f"one of {', '.join(_OPERATIONS)}", lambda value: value in _OPERATIONS
    ),
    "owner": _TEXT,
    "parameters": _MAPPING,
    "persisted": _FLAG,
    "prices": _ArgumentType("a price list", _has_methods("price")),
    "prompt": _ArgumentType("a Prompt", _instance_of(Prompt)),
    "provider": _TEXT,
    "purpose": _ArgumentType(f"one of {', '.join(_PURPOSES)}", lambda value: value in _PURPOSES),
    "queue": _TEXT,
    "record": _ArgumentType(
        "True, False or a recorder",
        lambda value: isinstance(value, bool) or _has_methods("append")(value),
    ),
    "reopen.record": _ArgumentType("an InMemoryRecord", _instance_of(InMemoryRecord)),
    "retry_policy": _ArgumentType("a RetryPolicy", _instance_of(RetryPolicy)),
    "schema": _MAPPING,
    "settings": _MAPPING,
    "store": _ArgumentType("a Store", _has_methods("record", "conversations")),
    "stream": _FLAG,
    "suffix": _TEXT,
    "text": _TEXT,
    "texts": _TEXTS,
    "tools": _ArgumentType("a list of names of tools", _items(_is_text)),
    "turn_limits": _ArgumentType("TurnLimits", _instance_of(TurnLimits)),
}
"""By name of the argument, after that of the method if other methods have another type."""


def checked(method: Callable[P, R]) -> Callable[P, R]:
    """Let a method check the types of its arguments, also if it is a generator.

    None is valid, too, if the annotation has it. The method then also raises `ValidationError`,
    whose `path` is the name of the argument.
    """
    parameters = inspect.signature(method).parameters
    types = {name: TYPES.get(f"{method.__name__}.{name}", TYPES.get(name)) for name in parameters}
    optional = {  # annotations are text here: some of their modules are slow to import
        name for name, each in parameters.items() if "None" in str(each.annotation).split(" | ")
    }

    def check(name: str, value: Any) -> None:
        kind = types.get(name)
        if kind is None or kind.is_valid(value) or (value is None and name in optional):
            return
        raise ValidationError(
            f"{name} must be {kind.description}, not {short_repr(value)}", path=name
        )

    @wraps(method)
    def checking(*given: P.args, **named: P.kwargs) -> R:
        for name, value in (*zip(parameters, given, strict=False), *named.items()):
            check(name, value)
        return method(*given, **named)

    return checking
