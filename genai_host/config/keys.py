"""The keys that the configuration may have. Those of provider instances and of sets of tools
are their plugins' own, and not known here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from genai_host.errors import ConfigurationError
from genai_host.telling import nearest

TABLES = (
    "defaults",
    "plugins",
    "conversations",
    "server",
    "budgets",
    "aliases",
    "approvals",
    "tools",
    "providers",
)
OF_NAMES = ("aliases", "approvals")
"""Tables of strings by names that are the user's choice."""

APPROVALS = ("allow", "ask", "deny")
"""What may be said of a tool; see `genai_host.api.Approval`."""

OF_INSTANCES = ("type", "enabled", "models", "calls")

OF_SERVER = ("token", "users")
"""What the table of the server has that is no value by itself."""

OF_BUDGETS = ("total", "user", "users")
"""What the table of budgets has that is no value by itself."""

_CHOICES = {"budgets.unknown": ("allow", "refuse")}

_WORDS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


_MOST = 1e15  # that may be spent, of dollars or of tokens: what a database counts exactly
_NUMBERS = {int: "whole number", float: "number"}


class Key(NamedTuple):
    """A key whose values are of a kind: `str`, `bool`, `int`, `float` or `list` of strings."""

    kind: type
    default: Any
    help: str


KEYS: dict[str, Key] = {
    "read_only": Key(bool, False, "whether no command may change anything"),
    "defaults.feature": Key(str, "chat", "what is conversed with where none is named"),
    "defaults.model": Key(str, "", "the model for chat where none is named"),
    "defaults.embed": Key(str, "", "the model for embeddings"),
    "defaults.moderate": Key(str, "", "the model that judges texts"),
    "defaults.prefer": Key(list, (), "provider instances, best first, where several have a model"),
    "defaults.remember": Key(bool, False, "whether what was used last is used again"),
    "plugins.disabled": Key(list, (), "plugins not to load: NAME, or DISTRIBUTION:NAME"),
    "plugins.allowed": Key(list, None, "the only plugins to load; all if it is not set"),
    "plugins.strict": Key(bool, False, "whether a broken plugin is an error"),
    "conversations.record": Key(bool, True, "whether the command line keeps conversations"),
    "conversations.store": Key(
        str, "", "where: a file, or postgresql://user@host/database; the usual file if not set"
    ),
    "server.host": Key(str, "127.0.0.1", "the address to listen at"),
    "server.port": Key(int, 8642, "the port to listen at; 0 for any that is free"),
    "server.hosts": Key(list, (), "names that clients may ask for it by; * for any"),
    "server.cors": Key(list, (), "origins whose pages may use it, as https://app.example"),
    "server.root_path": Key(str, "", "what stands before all paths behind a proxy"),
    "server.record": Key(bool, False, "whether what is asked of models is kept, too"),
    "server.at_once": Key(int, 64, "requests that are answered at once"),
    "server.waiting": Key(int, None, "requests that wait; twice as many if it is not set"),
    "server.rate": Key(int, None, "requests a minute of one user; any if it is not set"),
    "server.workers": Key(int, 1, "processes that serve"),
    "server.pin": Key(bool, False, "whether each of them is kept on a core"),
    "server.drain": Key(float, 10.0, "seconds that requests may go on once it is to end"),
    "server.log": Key(bool, False, "whether each request is logged"),
    "server.log_json": Key(bool, False, "whether the log is lines of JSON"),
    "server.certfile": Key(str, "", "certificates in PEM, for https"),
    "server.keyfile": Key(str, "", "the key of the certificate in PEM"),
    "budgets.run": Key(float, None, "US dollars that a turn may cost; any if it is not set"),
    "budgets.unknown": Key(
        str, "allow", "calls whose cost is not known, where there is a budget: allow or refuse"
    ),
}
"""By their place in the file, with a dot between table and name."""

MODELS = {"model": "chat", "embed": "embed", "moderate": "moderate"}
"""Default models: the name in the file, and the operation."""


def names_in(table: str) -> list[str]:
    """The names that a table may have, or the file itself."""
    if not table:
        return ["version", *(key for key in KEYS if "." not in key), *TABLES]
    names = [key.removeprefix(f"{table}.") for key in KEYS if key.startswith(f"{table}.")]
    return [*names, *{"server": OF_SERVER, "budgets": OF_BUDGETS}.get(table, ())]


def hint_for(name: str, known: Iterable[str]) -> str:
    """What may have been meant by an unknown name."""
    known = list(known)
    near = nearest(name, known)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"


def wrong_with(key: str, value: Any) -> str:
    """What is wrong with the value of a key, which is of its kind; empty if it may be."""
    choices = _CHOICES.get(key)
    if choices is not None and value not in choices:
        return f"is none of {', '.join(choices)}"
    return wrong_with_amount(value) if key == "budgets.run" and value is not None else ""


def wrong_with_amount(value: float) -> str:
    """The same for what may be spent."""
    return "" if 0 <= value <= _MOST else "is no amount"


def wrong_with_store(place: str) -> tuple[str, str]:
    """Why conversations cannot be kept there, and what to do; empty if they can. What is
    wrong is not said in the words of the user: it may be a password."""
    if not place:
        return "", ""
    import os
    import re
    from urllib.parse import parse_qsl

    if "://" not in place:
        is_whole = os.path.isabs(os.path.expanduser(place))
        return ("", "") if is_whole else ("is no whole path", "begin it with / or ~")
    asked = {name.lower() for name, _ in parse_qsl(place.partition("?")[2])}
    # as SQLAlchemy reads it: a password may have any character but @
    if re.match("[^/]*://[^:/]*:[^@]*@", place) or asked & {"password", "sslpassword"}:
        return "has a password in it", "leave it out: PGPASSWORD is to have it, or ~/.pgpass"
    return "", ""


def read_value(owner: str, text: str, kind: type) -> Any:
    """A value of a kind from text: several of a list have commas between them. Raises
    `ConfigurationError`; the owner is what has the text, in words."""
    if kind is list:
        return tuple(item for item in (item.strip() for item in text.split(",")) if item)
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            raise ConfigurationError(f"{owner} is no {_NUMBERS[kind]}") from None
    if kind is not bool:
        return text
    try:
        return _WORDS[text.strip().lower()]
    except KeyError:
        raise ConfigurationError(f"{owner} is neither true nor false") from None
