"""Keys of version 1 of the configuration, and their names in version 2.

Files and environment variables with old names are read, with a warning. `genai-host config migrate`
rewrites a file, and so does every command that changes it. Comments and layout stay.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

RENAMED: Mapping[str, str] = {
    "server.hosts": "allowed_hosts",
    "server.cors": "cors_origins",
    "server.record": "record_api_calls",
    "server.at_once": "max_concurrency",
    "server.waiting": "queue_size",
    "server.rate": "rate_limit",
    "server.drain": "graceful_timeout",
    "server.log": "access_log",
    "server.log_json": "log_format",
    "defaults.embed": "embedding_model",
    "defaults.moderate": "moderation_model",
    "defaults.prefer": "provider_order",
    "plugins.allowed": "allowlist",
    "conversations.store": "database",
    "budgets.run": "per_turn",
    "budgets.unknown": "unknown_cost",
    "providers.*.calls": "limits",
    "providers.*.calls.connect": "connect_timeout",
    "providers.*.calls.first_token": "first_token_timeout",
    "providers.*.calls.idle": "read_timeout",
    "providers.*.calls.total": "timeout",
    "providers.*.calls.at_once": "max_concurrency",
    "providers.*.calls.line": "queue_size",
    "providers.*.calls.failures": "breaker_threshold",
    "providers.*.calls.pause": "breaker_reset",
}
"""Old keys, with `*` for a provider name, to their new names in the same table."""

VALUES: Mapping[str, Mapping[bool, str]] = {"server.log_json": {True: "json", False: "text"}}
"""Old keys with changed values, to the new values."""

KeyPath = tuple[str, ...]


def pattern_of(path: Sequence[str]) -> str:
    """Return a path in the form of `RENAMED`."""
    names = ["*" if at == 1 and path[0] == "providers" else name for at, name in enumerate(path)]
    return ".".join(names)


def new_key(old: str) -> str:
    """Return the current name of a key, with its tables."""
    path = old.split(".")
    parents = (path[:depth] for depth in range(1, len(path) + 1))
    return ".".join(RENAMED.get(pattern_of(each), each[-1]) for each in parents)


def upgraded(
    data: Mapping[str, Any], table: KeyPath = ()
) -> tuple[dict[str, Any], dict[KeyPath, KeyPath]]:
    """Return a table with the new names, and a mapping from the old keys found to the new ones.

    An old key remains, and is reported as unknown, if its new name is set as well.
    """
    changed: dict[str, Any] = {}
    found: dict[KeyPath, KeyPath] = {}
    for name, value in data.items():
        old = pattern_of((*table, name))
        new = RENAMED.get(old, name)
        new = name if new in data else new
        if new != name:
            found[*table, name] = (*table, new)
        if isinstance(value, dict) and any(each.startswith(f"{old}.") for each in RENAMED):
            value, inner = upgraded(value, (*table, name))
            found.update({path: (*table, new, *to[len(table) + 1 :]) for path, to in inner.items()})
        elif old in VALUES and type(value) is bool:
            value = VALUES[old][value]
        changed[new] = value
    return changed, found


def migrated(
    statement: str, paths: Sequence[KeyPath], table: KeyPath, found: Mapping[KeyPath, KeyPath]
) -> str:
    """Return a statement of a file with the new names. `paths` are the keys that it sets, with
    their tables, or the table of a header; `found` are the old keys, see `upgraded`."""
    prefixes = {path[:depth] for path in paths for depth in range(len(table) + 1, len(path) + 1)}
    for path in sorted(prefixes & found.keys(), key=len):
        parent = re.escape(found.get(path[:-1], path[:-1])[-1]) if len(path) > 1 else ""
        before = rf"(^\s*|[{{,]\s*|(?<![\w-]){parent}[\"']?\s*\.\s*)" if parent else r"(^\s*)"
        key = rf"{before}([\"']?){re.escape(path[-1])}\2(?=\s*[=.\]])"
        new = found[path][-1]
        statement = re.sub(key, rf"\g<1>{new}", statement, count=1, flags=re.MULTILINE)
        for value, text in VALUES.get(pattern_of(path), {}).items():
            old = rf"({new}\s*=\s*){str(value).lower()}\b"
            statement = re.sub(old, rf'\g<1>"{text}"', statement, count=1)
    if ("version",) in paths:
        statement = re.sub(r"=\s*1\b", "= 2", statement, count=1)
    return statement
