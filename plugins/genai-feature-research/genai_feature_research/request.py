"""What a caller of the microservice sends, as it is checked before anything is asked.

Source: Assistant microservice, "Inputs".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import fields, frozen

from genai_feature_research.memory import Memory
from genai_feature_research.settings import Settings
from genai_feature_research.tables import ENTRY_COLUMNS, FACT_COLUMNS, Table
from genai_host.api.settings import read_settings
from genai_host.errors import ConfigurationError, ValidationError

_KEYS = (
    *("input_text", "conversation_history", "search_history", "region"),
    *("additional_searches", "settings", "keep_entries", "model"),
)
_ARCHETYPE = ("setting_name", "mood", "warn_assistant")
_HOSTS = ("search", "reader", "results", "input_characters", "prompt_characters")
"""Settings that are the host's to choose: which tools there are, and how much is too much."""

_NAMED = (*_ARCHETYPE, "region", "additional_searches")  # which stand elsewhere in a request

LoadEntries = Callable[[Sequence[str], str], Sequence[Mapping[str, Any]]]
"""Rows from ids of entries, and the place where these stand."""


@frozen(eq=False)
class AssistantRequest:
    """
    settings       of the feature, by name
    entries        the conversation's table; that of the entries, where ids were given
    entry_ids      of these entries; None where there is a table
    keep_entries   whether new entries are to be kept, and ids to come back
    model          a name of the host's user for the one that is to answer; None for the usual
    """

    input_text: str
    entries: Table
    facts: Table
    memory: Memory
    settings: Mapping[str, Any]
    entry_ids: tuple[str, ...] | None = None
    keep_entries: bool = False
    model: str | None = None


def read_request(
    given: Any, load: LoadEntries, aliases: Mapping[str, str], settings: Mapping[str, Any]
) -> AssistantRequest:
    """
    load       finds entries by id
    aliases    names of models that may be asked for
    settings   what holds where the request does not say

    Raises `ValidationError`, with the place, for what is no request.
    """
    if not isinstance(given, Mapping):
        raise ValidationError("a request is an object", path="$")
    for name in given:
        if name not in _KEYS:
            known = f"there is no such key; there are {', '.join(_KEYS)}"
            raise ValidationError(known, path=f"$.{str(name)[:40]}")
    keep = _flag(given.get("keep_entries"), "$.keep_entries")
    history = given.get("conversation_history")
    ids = _ids(history)
    rows = history if ids is None else load(ids, "$.conversation_history")
    entries = Table.read(rows, ENTRY_COLUMNS, "$.conversation_history")
    facts = Table.read(given.get("search_history"), FACT_COLUMNS, "$.search_history")
    memory = Memory(
        tuple(entries.checked_texts()), entries.vectors(), facts.facts(), facts.vectors()
    )
    return AssistantRequest(
        _input_text(given.get("input_text")),
        entries,
        facts,
        memory,
        {**settings, **_settings(given)},
        ids,
        keep or ids is not None,
        _alias(given.get("model"), aliases),
    )


def _input_text(given: Any) -> str:
    if not isinstance(given, str) or not given.strip():
        raise ValidationError(
            "the user says something: a string, and not blank", path="$.input_text"
        )
    return given


def _ids(history: Any) -> tuple[str, ...] | None:
    if not isinstance(history, (list, tuple)) or not history:
        return None
    if not isinstance(history[0], str):
        return None
    for number, each in enumerate(history):
        if not isinstance(each, str):
            raise ValidationError("it is no id", path=f"$.conversation_history[{number}]")
    return tuple(history)


def _settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the request, under the names that the feature has for them."""
    found: dict[str, Any] = {}
    for name in ("region", "additional_searches"):
        _take(found, name, given.get(name), f"$.{name}")
    settings = _object(given.get("settings"), "$.settings")
    archetype = _object(settings.get("archetype"), "$.settings.archetype")
    names = [each.name for each in fields(Settings)]
    usual = [name for name in names if name not in (*_HOSTS, *_NAMED)]
    _must_be_of(settings, (*usual, "archetype"), "$.settings")
    _must_be_of(archetype, _ARCHETYPE, "$.settings.archetype")
    for name in usual:
        _take(found, name, settings.get(name), f"$.settings.{name}")
    for name in _ARCHETYPE:
        _take(found, name, archetype.get(name), f"$.settings.archetype.{name}")
    return found


def _object(value: Any, path: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValidationError("it is no object", path=path)
    return value


def _must_be_of(given: Mapping[str, Any], known: Sequence[str], path: str) -> None:
    for name in given:
        if name not in known:
            why = f"there is no such setting; there are {', '.join(known)}"
            raise ValidationError(why, path=f"{path}.{str(name)[:40]}")


def _take(found: dict[str, Any], name: str, value: Any, path: str) -> None:
    """Each by itself, so that what is wrong has its place."""
    if value is None:
        return
    try:
        read_settings(Settings, {name: value}, owner=name)
    except ConfigurationError as error:
        raise ValidationError(error.message, path=path, hint=error.hint) from error
    found[name] = value


def _flag(value: Any, path: str) -> bool:
    if value is not None and not isinstance(value, bool):
        raise ValidationError("it is true or false", path=path)
    return bool(value)


def _alias(given: Any, aliases: Mapping[str, str]) -> str | None:
    """What a caller may name: what the user of the host has a name for."""
    if given is None or (isinstance(given, str) and given in aliases):
        return given
    raise ValidationError(
        "the model is none that may be asked for here",
        path="$.model",
        hint=f"leave it out, or name one of: {', '.join(aliases) or 'none'}",
    )
