"""Exports that are changed before they are imported."""

from __future__ import annotations

import copy
import random
from typing import Any

_VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 2**31, 2**53, 2**63 - 1, 2**63, 2**70, 1e308, float("inf"), float("nan")),
    *("", "x" * 5000, "\ud83c", "a\0b", "opened", [], {}, [[]], ["m"], {"$blob": "0" * 64}),
)


def mutated(export: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """Return a copy of an export with one to three changes."""
    data = copy.deepcopy(export)
    for _ in range(rng.choice((1, 1, 2, 3))):
        rng.choice((_change_value, _change_value, _change_value, _change_entries))(data, rng)
    return data


def _change_value(data: dict[str, Any], rng: random.Random) -> None:
    """Replace, remove or add a value at any place."""
    containers = [each for each in _containers(data) if each]
    chosen = rng.choice(containers)
    key = rng.choice(list(chosen) if isinstance(chosen, dict) else range(len(chosen)))
    match rng.choice(("replace", "replace", "remove", "add")):
        case "replace":
            chosen[key] = copy.deepcopy(rng.choice(_VALUES))
        case "remove":
            del chosen[key]
        case "add" if isinstance(chosen, dict):
            chosen[rng.choice(("at", "turn", "path", "entry", "x"))] = rng.choice(_VALUES)
        case _:
            chosen.insert(key, rng.choice(_VALUES))


def _change_entries(data: dict[str, Any], rng: random.Random) -> None:
    """Repeat, remove or exchange entries, or move all to another turn."""
    entries = data.get("entries")
    if not isinstance(entries, list) or len(entries) < 2:
        return
    one, other = sorted(rng.sample(range(len(entries)), 2))
    match rng.choice(("repeat", "remove", "exchange", "turn")):
        case "repeat":
            entries += copy.deepcopy(entries[one : other + 1])
        case "remove":
            del entries[one:other]
        case "exchange":
            entries[one], entries[other] = entries[other], entries[one]
        case _:
            turn = rng.choice((-1, 7, 2**53, 2**63 - 1, 2**70))
            for entry in entries:
                if isinstance(entry, dict) and "turn" in entry:
                    entry["turn"] = turn


def _containers(value: Any) -> list[Any]:
    """Return all objects and lists in a value."""
    nodes: list[Any] = []
    if isinstance(value, (dict, list)):
        nodes.append(value)
        for each in value.values() if isinstance(value, dict) else value:
            nodes += _containers(each)
    return nodes
