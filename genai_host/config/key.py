"""One key of the configuration: its help, the limits of its values, and values from text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from genai_host.errors import ConfigurationError
from genai_host.util.text import did_you_mean, short_repr

MAX = 1e15
"""Largest number; databases store dollars or tokens up to it exactly."""

ANY = "*"
"""Host name that matches any host."""

# compiled when they are used, since each start imports this module
_HOST = r"(?i)(?!-)[a-z0-9.-]{1,253}|\[[0-9a-f:.]+\]"
# any port, and any host of a scheme for apps, whose hosts may change with each start
_ORIGIN = (
    r"(?i)[a-z][a-z0-9+.-]*://([a-z0-9.-]+|\[[0-9a-f:.]+\])(:([0-9]{1,5}|\*))?"
    r"|(?!(https?|file|data|javascript):)[a-z][a-z0-9+.-]*://\*"
)
_ROOT = r"(/(?!\.{1,2}(/|$))[A-Za-z0-9._~-]+)*/?"
_CREDENTIALS = r"[^/]*://[^:/]*:[^@]*@"  # as SQLAlchemy reads it: any character but @


class ConfigKey(NamedTuple):
    """A key: its help, the limits of its values, and its option of `genai-host serve`.

    Attributes:
        help: One line for help and documentation.
        name: The key, with its table. If empty, it is the name of the field in its table.
        least: Smallest number.
        most: Largest number.
        choices: Accepted values, if not all.
        check: Returns the error of a value, and a hint; both empty if it is valid. It must not
            quote a value that may be a secret.
        option: Option of `genai-host serve`, for a key of the table `server`: None for none; if
            empty, it is the name of the key.
        metavar: Placeholder for the value of the option.
        kind: `str`, `bool`, `int`, `float` or `list` of strings.
        default: Value of an unset key.
    """

    help: str
    name: str = ""
    least: float | None = None
    most: float = MAX
    choices: Sequence[str] = ()
    check: Callable[[Any], tuple[str, str]] | None = None
    option: str | None = ""
    metavar: str = ""
    field: str = ""
    kind: type = str
    default: Any = None

    def wrong(self, value: Any) -> tuple[str, str]:
        """Return the error of a value of the right type, and a hint; both empty if it is valid."""
        if value is None:
            return "", ""
        if self.choices and value not in self.choices:
            return f"must be one of {', '.join(self.choices)}, not {short_repr(value)}", ""
        if self.least is not None and not self.least <= value <= self.most:
            is_small = self.most == MAX and not value > MAX
            limits = f"{self.least} or more" if is_small else f"{self.least} to {self.most:.0f}"
            return f"must be {limits}, not {short_repr(value)}", ""
        return self.check(value) if self.check is not None else ("", "")


def wrong_hosts(names: Iterable[str]) -> tuple[str, str]:
    bad = [name for name in names if name != ANY and not re.fullmatch(_HOST, name)]
    return _invalid("host name", bad, "host.example")


def wrong_origins(origins: Iterable[str]) -> tuple[str, str]:
    bad = [origin for origin in origins if not re.fullmatch(_ORIGIN, origin)]
    return _invalid("origin", bad, "https://app.example")


def wrong_root(path: str) -> tuple[str, str]:
    return _invalid("path", [] if re.fullmatch(_ROOT, path) else [path], "/host")


def _invalid(what: str, bad: Sequence[str], example: str) -> tuple[str, str]:
    if not bad:
        return "", ""
    return f"has an invalid {what} {short_repr(bad[0])}", f"for example {example}"


def wrong_store(place: str) -> tuple[str, str]:
    """Return the error of a database location, and a hint. The value is not quoted, because it may
    contain a password."""
    if not place:
        return "", ""
    import os
    from urllib.parse import parse_qsl

    if "://" not in place:
        is_whole = os.path.isabs(os.path.expanduser(place))
        return ("", "") if is_whole else ("must be an absolute path", "begin it with / or ~")
    fields = {field.lower() for field, _ in parse_qsl(place.partition("?")[2])}
    if re.match(_CREDENTIALS, place) or fields & {"password", "sslpassword"}:
        return "must not contain a password", "remove it, and use PGPASSWORD or ~/.pgpass"
    return "", ""


_BOOLEANS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_NUMBERS = {int: "an integer", float: "a number"}


def hint_for(name: str, known: Iterable[str]) -> str:
    """Return a hint with the most similar known name."""
    known = list(known)
    return did_you_mean(name, known) or f"choose from {', '.join(known)}"


def read_value(owner: str, text: str, kind: type) -> Any:
    """Parse a value of a kind (see `ConfigKey.kind`) from text; errors name its owner, an option or
    a variable. Items of a list are separated by commas. Raises `ConfigurationError` if the text is
    not a valid value."""
    if kind is list:
        return tuple(item for item in (item.strip() for item in text.split(",")) if item)
    if kind is bool:
        value = _BOOLEANS.get(text.strip().lower())
        wanted = "true or false"
    elif kind is str:
        return text
    else:
        wanted = _NUMBERS[kind]
        try:
            value = kind(text)
        except ValueError:
            value = None
    if value is None:
        raise ConfigurationError(f"{owner} must be {wanted}, not {short_repr(text)}")
    return value
