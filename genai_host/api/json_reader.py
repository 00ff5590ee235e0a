"""A reader of the JSON bodies of requests.

`JsonReader` checks the type of each field. A wrong field is answered with a 400 that names it:

    body = body_of(request)
    body.text("model")                  # "" if it is missing
    for message in body.objects("messages"):
        message.choice("role", ("user", "assistant"))
    body.nothing_else()
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Self, TypeVar, overload

from genai_host.api.calls import OF_SERVICE
from genai_host.api.dropped import MAX_DROPPED, DroppedFields, OfService
from genai_host.api.http_routes import RouteRequest
from genai_host.errors import ValidationError
from genai_host.util.text import decode_base64, short_repr

MAX_LEVELS = 100
"""Maximum nesting of a body: later code may recurse once per level."""

N = TypeVar("N", int, float)

_AS_WRITTEN: dict[str, str] = {}
"""Names of an object without camel case, shared by its readers."""

_HUMP = re.compile(r"_([a-z0-9])")


def body_of(request: RouteRequest, *, camel: bool = False) -> JsonReader:
    """A reader for the JSON object in the body of a request.

    Args:
        request: The request.
        camel: Whether the body is in the JSON of Protocol Buffers: `top_p` is accepted for `topP`,
            and one object for a list of objects.

    Raises:
        ValidationError: The body is not a JSON object, or nested too deeply.
    """
    value = request.json()
    if is_deep(value):
        raise ValidationError(f"the body is nested more than {MAX_LEVELS} levels deep", path="$")
    return JsonReader(value, "$", camel=camel, dropped=request.dropped)


class JsonReader:
    """Reads fields of a client's JSON object and checks their types. A null field counts as
    missing.

    Methods that read a field raise `ValidationError` with its path if the type does not match.

    Attributes:
        path: Location in the body, for example `$.messages[0]`.
        value: The object.
        read: Names of the fields read so far.
        dropped: Collects the paths of ignored fields, including those of nested objects.
    """

    __slots__ = (
        "_camel",
        "_carrier",
        "_inner_objects",
        "_names",
        "dropped",
        "path",
        "read",
        "value",
    )

    def __init__(
        self, value: Any, path: str, *, camel: bool = False, dropped: DroppedFields | None = None
    ) -> None:
        if not isinstance(value, dict):
            raise ValidationError(f"{short_repr(value)} is not an object", path=path)
        self.path = path
        self.value: Mapping[str, Any] = value
        self.dropped = DroppedFields() if dropped is None else dropped
        self._camel = camel
        self._carrier: _Carrier | None = None
        self._inner_objects: dict[str, Self] | None = None  # by name; most objects have none
        self._names = {} if camel else _AS_WRITTEN  # original spelling
        self.read: set[str] = set()
        for written, each in value.items() if camel else ():
            name = _HUMP.sub(lambda hump: hump[1].upper(), written)
            if name in self._names:
                raise ValidationError(f"duplicate field {name}", path=f"{path}.{written}")
            if each is not None:
                self._names[name] = written

    def __contains__(self, name: str) -> bool:
        return self.value.get(self._names.get(name, name)) is not None

    def names(self) -> Iterable[tuple[str, str]]:
        """Name and original spelling of each field."""
        if self._camel:
            return self._names.items()
        return [(name, name) for name, value in self.value.items() if value is not None]

    def at(self, name: str) -> str:
        """Path of a field, even if it is missing."""
        return f"{self.path}.{self._names.get(name, name)}"

    def raw(self, name: str) -> Any:
        """Any value; None if it is missing."""
        self.read.add(name)
        return self.value.get(self._names.get(name, name))

    def text(self, name: str, usual: str = "") -> str:
        value = self.raw(name)
        if value is None:
            return usual
        if not isinstance(value, str):
            raise self.wrong(name, "not a string")
        return value

    def required_text(self, name: str) -> str:
        """A string that must be given, and must not be empty."""
        value = self.text(name)
        if not value:
            raise ValidationError(f"{name} is missing", path=self.at(name))
        return value

    def text_or_none(self, name: str, most: int | None = None) -> str | None:
        """A string of at most `most` characters; None if it is missing."""
        value = self.text(name)
        if most is not None and len(value) > most:
            raise ValidationError(f"{name} must have at most {most} characters", path=self.at(name))
        return value if name in self else None

    def choice(self, name: str, choices: Collection[str], usual: str = "") -> str:
        """A string out of several."""
        value = self.text(name, usual)
        if name in self and value not in choices:
            raise self.wrong(name, f"not one of {', '.join(choices)}")
        return value

    def flag(self, name: str) -> bool | None:
        value = self.raw(name)
        if value is not None and not isinstance(value, bool):
            raise self.wrong(name, "neither true nor false")
        return value

    def whole(self, name: str, least: int | None = None, most: int | None = None) -> int | None:
        """An integer in any spelling: `3`, `3.0`, `"3"`."""
        value = self.raw(name)
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value, re.ASCII):
            value = int(value)
        if type(value) is not int:
            raise self.wrong(name, "not an integer")
        return self._bounded(name, value, least, most)

    def number(
        self, name: str, least: float | None = None, most: float | None = None
    ) -> int | float | None:
        value = self.raw(name)
        if value is None:
            return None
        if type(value) not in (int, float):
            raise self.wrong(name, "not a number")
        found: int | float = self._bounded(name, value, least, most)
        return found

    def _bounded(self, name: str, value: N, least: float | None, most: float | None) -> N:
        if (least is None or value >= least) and (most is None or value <= most):
            return value
        if most is None:
            bounds = f"at least {least}"
        else:
            bounds = f"at most {most}" if least is None else f"from {least} to {most}"
        raise ValidationError(f"{name} must be {bounds}", path=self.at(name))

    def data(self, name: str) -> bytes:
        """Decoded base64, in either alphabet."""
        return bytes_of(self.text(name), self.at(name))

    def values(self, name: str) -> Sequence[Any]:
        """A list; empty if it is missing."""
        value = self.raw(name)
        if value is not None and not isinstance(value, list):
            raise self.wrong(name, "not a list")
        return value or ()

    def texts(self, name: str) -> Sequence[str]:
        values = self.values(name)
        for number, each in enumerate(values):
            if not isinstance(each, str):
                raise ValidationError(
                    f"{short_repr(each)} is not text", path=f"{self.at(name)}[{number}]"
                )
        return values

    def object(self, name: str) -> Self | None:
        value = self.raw(name)
        if value is None:
            return None
        if self._inner_objects is None:
            self._inner_objects = {}
        if name not in self._inner_objects:
            self._inner_objects[name] = self._inner(value, self.at(name))
        return self._inner_objects[name]

    def peek(self, name: str) -> Self | None:
        """An object that still counts as not read, so that `extra_fields` returns it; None if it is
        missing."""
        value = self.value.get(self._names.get(name, name))
        return None if value is None else self._inner(value, self.at(name))

    def objects(self, name: str) -> Sequence[Self]:
        """A list of objects. Each access creates a reader, since the readers of a long list would
        take more memory than the list."""
        value = self.raw(name)
        values = [value] if self._camel and isinstance(value, dict) else self.values(name)
        return _Readers(self._inner, self.at(name), values)

    def mapping(self, name: str) -> Mapping[str, Any] | None:
        """An object with arbitrary names."""
        value = self.raw(name)
        if value is not None and not isinstance(value, dict):
            raise self.wrong(name, "not an object")
        return value

    def refuse(self, *names: str) -> None:
        """Refuse fields that are not supported here.

        Raises:
            ValidationError: A field is present and has an effect.
        """
        for name in names:
            if self.raw(name):
                raise ValidationError(f"{name} is not supported here", path=self.at(name))

    def refuse_elsewhere(self, *names: str) -> None:
        """Refuse fields like `refuse`, unless the service has this format: then `extra_fields`
        returns them, and no service of another format receives the request.

        Raises:
            ValidationError: A field is present and has an effect.
        """
        carrier = self._carrier
        for name in names:
            is_wanted = self.value.get(self._names.get(name, name))
            if is_wanted and carrier is not None and carrier.is_sent():
                self.ignored_elsewhere([self.at(name)], essential=True)
            else:
                self.refuse(name)

    def drop(self, *names: str) -> None:
        """Ignore fields, if present: the reply is correct without them."""
        for name in names:
            if self.raw(name) is not None:
                self._report(self.at(name))

    def drop_this(self, kind: str) -> None:
        """Ignore this object: the reply is correct without it. `kind` names it in the report."""
        self._report(f"{self.path}.{kind}")

    def drop_elsewhere(self, kind: str, given: OfService | None = None) -> None:
        """Ignore this object like `drop_this`, unless the service has the format of the request.

        Args:
            kind: What it is, or the name of the only field that is ignored.
            given: What was read, if not all services of the format have it.
        """
        self.ignored_elsewhere([f"{self.path}.{kind}"], given)

    def ignored_elsewhere(
        self, paths: Iterable[str], given: OfService | None = None, *, essential: bool = False
    ) -> None:
        """Report paths unless the service receives what they name; see `DroppedFields`."""
        if self._carrier is not None:
            for path in paths:
                name = path.removeprefix("$.")
                self.dropped.elsewhere(name, self._carrier.dialect, given, essential=essential)

    def _report(self, path: str) -> None:
        if len(self.dropped) <= MAX_DROPPED:
            self.dropped.append(path.removeprefix("$."))

    def others(self) -> Iterator[str]:
        """Paths of the fields not read so far, also of the objects read with `object`."""
        for inner in (self._inner_objects or {}).values():
            yield from inner.others()
        yield from (self.at(name) for name, _ in self.names() if name not in self.read)

    def drop_others(self) -> None:
        """Ignore all fields not read so far, also of the objects read with `object`."""
        for path in self.others():
            self._report(path)
        self._read_all()

    def carry(
        self,
        dialect: str,
        is_sent: Callable[[], bool],
        replaced: Mapping[str, str] = MappingProxyType({}),
        has_format: Callable[[], bool] | None = None,
    ) -> None:
        """Let `extra_fields` return fields; this also applies to the objects in this one.

        Args:
            dialect: Name of the dialect of the format.
            is_sent: Whether the service has this format, so that it receives the fields.
            replaced: What replaces tools of services, by kind; see `server.service_tools`.
            has_format: Whether `fields_for_service` returns fields, if not as `is_sent`.
        """
        self._carrier = _Carrier(dialect, is_sent, replaced, has_format or is_sent)

    def replaces(self, kind: str) -> bool:
        """Whether a tool of the host replaces tools of a kind."""
        return self._replaced.get(kind, OF_SERVICE) != OF_SERVICE

    def translates(self, kind: str) -> bool:
        """Whether services of other formats receive their own tool of a kind."""
        return self._replaced.get(kind) == OF_SERVICE

    @property
    def _replaced(self) -> Mapping[str, str]:
        return {} if self._carrier is None else self._carrier.replaced

    def extra_fields(self, *neutral: str) -> Mapping[str, Any] | None:
        """The fields not read so far, also of the objects read with `object`, for `extra` of the
        part, message or tool that is read from this object. If the service has another format,
        they are ignored and reported.

        Args:
            neutral: Names of fields that mean nothing to other services: they are not reported,
                and left out if they are empty.

        Returns:
            The fields by dialect; None if there are none, or the service has another format.
        """
        if self._is_read():
            return None  # usual case
        carrier = self._carrier
        self.read.update(name for name in neutral if not self.value.get(name))
        found = self._unread()
        if not found:
            return None
        self.read.update(neutral)
        if carrier is None or not carrier.is_sent():
            self.drop_others()
            return None
        self.ignored_elsewhere(self.others())
        if self.path == "$":
            self.dropped.in_body(found, carrier.dialect)
        self._read_all()
        return {carrier.dialect: found}

    def fields_for_service(self, *names: str) -> Mapping[str, Any] | None:
        """Fields as they are, for `extra`, by dialect; None if the service has another format.

        Args:
            names: Names of the fields; all fields if none are given.
        """
        carrier = self._carrier
        if carrier is None or not carrier.has_format():
            return None
        wanted = [each for each in self.names() if not names or each[0] in names]
        self.read.update(name for name, _ in wanted)
        return {carrier.dialect: {written: self.value[written] for _, written in wanted}}

    def _is_read(self) -> bool:
        """Whether all fields were read; quick, but false if there are others that are null."""
        if not self.value.keys() <= self.read:
            return False
        return self._inner_objects is None or all(
            inner._is_read() for inner in self._inner_objects.values()
        )

    def _read_all(self) -> None:
        self.read.update(name for name, _ in self.names())
        for inner in (self._inner_objects or {}).values():
            inner._read_all()

    def _unread(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, inner in (self._inner_objects or {}).items():
            if unread := inner._unread():
                found[name] = unread  # written in this spelling
        if not self.value.keys() <= self.read:
            for name, written in self.names():
                if name not in self.read:
                    found[written] = self.value[written]
        return found

    def nothing_else(self) -> None:
        """Check that all fields were read.

        Raises:
            ValidationError: There is another field.
        """
        for name, written in self.names():
            if name not in self.read:
                raise ValidationError(f"unknown field {short_repr(written)} here", path=self.path)

    def _inner(self, value: Any, path: str) -> Self:
        inner = type(self)(value, path, camel=self._camel, dropped=self.dropped)
        inner._carrier = self._carrier
        return inner

    def wrong(self, name: str, why: str) -> ValidationError:
        return ValidationError(f"{name}: {short_repr(self.raw(name))} is {why}", path=self.at(name))


class _Carrier(NamedTuple):
    """See `JsonReader.carry`."""

    dialect: str
    is_sent: Callable[[], bool]
    replaced: Mapping[str, str]
    has_format: Callable[[], bool]


_Reader = TypeVar("_Reader", bound=JsonReader)


class _Readers(Sequence[_Reader]):
    """Readers for the objects of a list."""

    def __init__(
        self, read: Callable[[Any, str], _Reader], path: str, values: Sequence[Any]
    ) -> None:
        self._read = read
        self._path = path
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    @overload
    def __getitem__(self, index: int) -> _Reader: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[_Reader]: ...

    def __getitem__(self, index: int | slice) -> _Reader | Sequence[_Reader]:
        if isinstance(index, slice):
            return [self[number] for number in range(len(self))[index]]
        number = range(len(self))[index]
        return self._read(self._values[number], f"{self._path}[{number}]")


def bytes_of(text: str, path: str) -> bytes:
    """Decode Base64; see `decode_base64`.

    Raises:
        ValidationError: The text is not Base64.
    """
    try:
        return decode_base64(text)
    except ValueError as error:
        raise ValidationError(str(error), path=path) from error


def number_in(query: Mapping[str, str], name: str, usual: int, most: int, path: str = "") -> int:
    """A positive integer from a query.

    Args:
        query: The query parameters.
        name: Name of the parameter.
        usual: Default.
        most: Maximum.
        path: Location for the error; empty for `?name`.

    Raises:
        ValidationError: The value is not an integer from 1 to `most`.
    """
    text = query.get(name) or str(usual)
    if not re.fullmatch("[0-9]{1,10}", text) or not 1 <= int(text) <= most:
        raise ValidationError(f"{name} must be a number from 1 to {most}", path=path or f"?{name}")
    return int(text)


def is_deep(value: Any) -> bool:
    """Whether a value is nested more than `MAX_LEVELS` levels deep."""
    level = [value]
    for _ in range(MAX_LEVELS):
        level = [
            item
            for each in level
            if isinstance(each, (dict, list))
            for item in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return True
