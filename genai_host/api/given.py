"""What a client gave, read with care: each field as what it has to be, or a 400 that says where.

body = body_of(request)
body.text("model")                  # "" if it is not there
for message in body.objects("messages"):
    message.choice("role", ("user", "assistant"))
body.nothing_else()
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from genai_host.api.http_routes import RouteRequest
from genai_host.errors import InvalidData
from genai_host.telling import shown

MOST_LEVELS = 100
"""Of a body: what reads and writes a value further on may need a call for each of them."""

_HUMP = re.compile(r"_([a-z0-9])")


def body_of(request: RouteRequest, *, camel: bool = False) -> Given:
    """The object that the body of a request is.

    camel   whether `top_p` is another way to write `topP`

    Raises `InvalidData` if it is none, or nested too deeply.
    """
    value = request.json()
    if is_deep(value):
        raise InvalidData(f"the body is nested more than {MOST_LEVELS} levels deep", path="$")
    return Given(value, "$", camel=camel)


class Given:
    """An object that a client sent. A field that is null is not there.

    path    where it stands in the body, as `$.messages[0]`
    value   all of it
    read    names of the fields that were looked at so far

    All that reads a field raises `InvalidData`, with the place, for what is no such thing.
    """

    def __init__(self, value: Any, path: str, *, camel: bool = False) -> None:
        if not isinstance(value, dict):
            raise InvalidData(f"{shown(value)} is no object", path=path)
        self.path = path
        self.value: Mapping[str, Any] = value
        self._camel = camel
        self._names: dict[str, str] = {}  # as they were written
        self.read: set[str] = set()
        for written, each in value.items():
            name = _in_camel_case(written) if camel else written
            if name in self._names:
                raise InvalidData(f"{name} is there twice", path=f"{path}.{written}")
            if each is not None:
                self._names[name] = written

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def names(self) -> Iterable[tuple[str, str]]:
        """Of each field that is there: its name, and how it was written."""
        return self._names.items()

    def at(self, name: str) -> str:
        """Where a field stands, or would."""
        return f"{self.path}.{self._names.get(name, name)}"

    def raw(self, name: str) -> Any:
        """Whatever it is; None if it is not there."""
        self.read.add(name)
        return self.value[self._names[name]] if name in self._names else None

    def text(self, name: str, usual: str = "") -> str:
        value = self.raw(name)
        if value is None:
            return usual
        if not isinstance(value, str):
            raise self.wrong(name, "no text")
        return value

    def choice(self, name: str, choices: Collection[str], usual: str = "") -> str:
        """One of several words."""
        value = self.text(name, usual)
        if name in self and value not in choices:
            raise self.wrong(name, f"none of {', '.join(choices)}")
        return value

    def flag(self, name: str) -> bool | None:
        value = self.raw(name)
        if value is not None and not isinstance(value, bool):
            raise self.wrong(name, "neither true nor false")
        return value

    def whole(self, name: str) -> int | None:
        """A whole number, however it is written: `3`, `3.0`, `"3"`."""
        value = self.raw(name)
        if value is None or type(value) is int:
            return value
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value, re.ASCII):
            return int(value)
        raise self.wrong(name, "no whole number")

    def number(self, name: str) -> int | float | None:
        value = self.raw(name)
        if value is not None and type(value) not in (int, float):
            raise self.wrong(name, "no number")
        return value  # type: ignore[no-any-return]  # it was looked at

    def data(self, name: str) -> bytes:
        """What is in base64, of either alphabet."""
        return bytes_of(self.text(name), self.at(name))

    def values(self, name: str) -> Sequence[Any]:
        """Empty if it is not there."""
        value = self.raw(name)
        if value is not None and not isinstance(value, list):
            raise self.wrong(name, "no list")
        return value or ()

    def texts(self, name: str) -> Sequence[str]:
        values = self.values(name)
        for number, each in enumerate(values):
            if not isinstance(each, str):
                raise InvalidData(f"{shown(each)} is no text", path=f"{self.at(name)}[{number}]")
        return values

    def object(self, name: str) -> Given | None:
        value = self.raw(name)
        return None if value is None else Given(value, self.at(name), camel=self._camel)

    def objects(self, name: str) -> Sequence[Given]:
        return [
            Given(each, f"{self.at(name)}[{number}]", camel=self._camel)
            for number, each in enumerate(self.values(name))
        ]

    def mapping(self, name: str) -> Mapping[str, Any] | None:
        """An object whose names are not the format's."""
        value = self.raw(name)
        if value is not None and not isinstance(value, dict):
            raise self.wrong(name, "no object")
        return value

    def refuse(self, *names: str) -> None:
        """Raises `InvalidData` if one of these is there and says something: what it asks for
        is not done here."""
        for name in names:
            if self.raw(name):
                raise InvalidData(f"{name} is not supported here", path=self.at(name))

    def nothing_else(self) -> None:
        """Raises `InvalidData` if there is a field that nobody read."""
        for name, written in self._names.items():
            if name not in self.read:
                raise InvalidData(f"there is no field {shown(written)} here", path=self.path)

    def wrong(self, name: str, why: str) -> InvalidData:
        return InvalidData(f"{name}: {shown(self.raw(name))} is {why}", path=self.at(name))


def bytes_of(text: str, path: str) -> bytes:
    """What is in base64, of either alphabet. Raises `InvalidData`."""
    try:
        plain = text.translate(_PLAIN_ALPHABET).rstrip("=")
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidData(f"{shown(text)} is no base64", path=path) from error


def number_in(query: Mapping[str, str], name: str, usual: int, most: int, path: str = "") -> int:
    """A number from 1 on, from a query. Raises `InvalidData`.

    path   where it stands, for who calls that otherwise than `?name`
    """
    text = query.get(name) or str(usual)
    if not re.fullmatch("[0-9]{1,10}", text) or not 1 <= int(text) <= most:
        raise InvalidData(f"{name} is a number from 1 to {most}", path=path or f"?{name}")
    return int(text)


def is_deep(value: Any) -> bool:
    """Whether a value is nested more than `MOST_LEVELS` levels deep."""
    level = [value]
    for _ in range(MOST_LEVELS):
        level = [
            item
            for each in level
            if isinstance(each, (dict, list))
            for item in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return True


_PLAIN_ALPHABET = str.maketrans("-_", "+/")


def _in_camel_case(name: str) -> str:
    return _HUMP.sub(lambda hump: hump[1].upper(), name) if "_" in name else name
