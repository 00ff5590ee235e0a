"""JSON text according to RFC 8259; Python's `json` module also accepts invalid JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NoReturn

from attrs import frozen

from genai_host.errors import ValidationError
from genai_host.util.text import decode_unicode, encoding_of

_MIN, _MAX = -math.inf, math.inf
_Place = Any  # None for the outermost value, else the parent's path and a name or index


def read_json(text: str | bytes) -> Any:
    """Parse JSON in UTF-8, or in UTF-16 or UTF-32 as `encoding_of` detects them.

    Raises:
        ValueError: The text is not valid JSON, for example because of NaN, is nested too deeply, or
            has a number too large for a float.
    """
    read, refusal = _quick_reader()
    try:
        try:
            return read(text)
        except (refusal, UnicodeDecodeError):
            # Python's parser knows why, or accepts it, for example a lone surrogate
            text = decode_unicode(text) if isinstance(text, bytes) else text
            return _reader.decode(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


class ValueBudget:
    """Limits the number of values in the JSON of one request, because parsed values take up to 25
    times the memory of their text.

        budget = ValueBudget()
        body = budget.read(text)                # and, for JSON in a string of it,
        arguments = budget.read(body["arguments"])

    The limit is `SPARE` values, plus one for every `BYTES` bytes read.
    """

    SPARE = 8_000
    BYTES = 100

    def __init__(self) -> None:
        self._left = self.SPARE

    def read(self, text: str | bytes) -> Any:
        """Parse JSON; the values are counted before they are created.

        Raises:
            ValueError: The text is not valid JSON; see `read_json`.
            ValidationError: The text has more values than are left.
        """
        if isinstance(text, bytes) and not encoding_of(text).startswith("utf-8"):
            text = decode_unicode(text)  # in which escaped quotation marks can be recognized
        self.count(text)
        return read_json(text)

    def count(self, text: str | bytes) -> None:
        """Count the values of a JSON text, as a string or in UTF-8, without parsing it.

        Raises:
            ValidationError: The text has more values than are left.
        """
        most = self._left + len(text) // self.BYTES
        self._left = most - _values_in(text, most)
        if self._left < 0:
            raise ValidationError(
                f"there are more than {most} values in {len(text)} bytes of JSON",
                hint="send fewer, in several requests",
                path="$",
            )


_SLICE = 64 * 1024
_NO_STRUCTURE = bytes(range(256)).translate(None, b'",[{')


def _values_in(text: str | bytes, most: int) -> int:
    """The number of values in a JSON text, or a larger number up to `most`: each follows a comma or
    an opening bracket. For invalid JSON, at least the number before the error."""
    if isinstance(text, str):
        text = text.encode(errors="replace")
    about = sum(map(text.count, (b",", b"[", b"{")))
    if about <= most:
        return about  # sufficient for most texts, although it counts inside strings
    unescaped = text.replace(rb"\\", b"").replace(rb"\"", b"")
    bare = unescaped.translate(None, _NO_STRUCTURE)
    count, is_string = 0, False
    for at in range(0, len(bare), _SLICE):
        pieces = bare[at : at + _SLICE].split(b'"')
        count += sum(map(len, pieces[is_string::2]))
        is_string ^= len(pieces) % 2 == 0
    return count


@cache
def _quick_reader() -> tuple[Callable[[str | bytes], Any], type[Exception]]:
    """Several times faster than Python's parser; imported on first use."""
    import msgspec

    return msgspec.json.decode, msgspec.DecodeError


def write_json(value: Any) -> bytes:
    """Write a value as compact JSON in UTF-8; lone surrogates are escaped.

    Raises:
        ValueError: The value contains NaN, infinity or itself.
        TypeError: The value has no JSON form.
    """
    return _written(value, _encode)


def write_long_json(value: Any) -> bytes:
    """Write a value as `write_json` does, in less memory and more time if it is long.

    Raises:
        ValueError, TypeError: See `write_json`.
    """
    if type(value) is str and len(value) <= _SLICE:  # as most are: each message is written
        try:
            return _writer.encode(value).encode()
        except UnicodeEncodeError:
            return _ascii_writer.encode(value).encode()
    return _written(value, _encode_in_pieces)


def _written(value: Any, encode: Callable[[Any], bytes]) -> bytes:
    try:
        return encode(value)
    except UnicodeEncodeError:
        return _ascii_writer.encode(value).encode()
    except ValueError as error:
        try:
            check_numbers(value)
        except ValidationError as wrong:
            raise ValueError(str(wrong)) from error
        raise


_ABOVE_FFFF = re.compile(rb"[\xf0-\xf4][\x80-\xbf]{3}")
_FEW = 64  # bytes of text for each such character


def json_as_text(value: Any) -> str:
    """Write a value as JSON for a text column; see `text_of_json`.

    Raises:
        ValueError, TypeError: See `write_json`.
    """
    return text_of_json(write_long_json(value))


def text_of_json(data: bytes) -> str:
    """Decode JSON. Few characters above U+FFFF in a long text are escaped, because with one of
    them, Python uses four bytes for each character."""
    if len(data) > _SLICE and 0 < sum(map(data.count, b"\xf0\xf1\xf2\xf3\xf4")) < len(data) // _FEW:
        data = _ABOVE_FFFF.sub(
            lambda each: _ascii_writer.encode(each[0].decode())[1:-1].encode(), data
        )
    return data.decode()


def _encode(value: Any) -> bytes:
    return _writer.encode(value).encode()


def _encode_in_pieces(value: Any) -> bytes:
    try:
        return b"".join(_pieces(value)) if _is_long(value) else _encode(value)
    except RecursionError:
        return _encode(value)  # it reports a value that contains itself


def _pieces(value: Any) -> Iterator[bytes]:
    """Encode a value, in pieces if it is long: one character above U+FFFF makes Python store a
    complete text with four bytes for each character, and encoding needs several copies of it."""
    if not _is_long(value):
        yield _encode(value)
    elif isinstance(value, str):
        yield b'"'
        for at in range(0, len(value), _SLICE):
            yield _encode(value[at : at + _SLICE])[1:-1]
        yield b'"'
    elif type(value) is dict:
        yield b"{"
        yield from _members([*value.items()], dict)
        yield b"}"
    else:
        yield b"["
        yield from _members(value, list)
        yield b"]"


def _members(members: Sequence[Any], kind: type[Any]) -> Iterator[bytes]:
    """Encode the values of a list or the items of an object, without brackets."""
    middle = len(members) // 2
    if not _is_long(members):
        yield _encode(kind(members))[1:-1]
    elif middle:
        yield from _members(members[:middle], kind)
        yield b","
        yield from _members(members[middle:], kind)
    elif kind is list:
        yield from _pieces(members[0])
    else:
        [(name, value)] = members
        is_text = isinstance(name, str)
        yield from _pieces(name) if is_text else [_encode({name: 0})[1:-3]]
        yield b":"
        yield from _pieces(value)


def _is_long(value: Any) -> bool:
    """Whether a value is estimated to have more than `_SLICE` characters."""
    if type(value) is str:
        return len(value) > _SLICE
    left = _SLICE
    pending = [value]
    for each in pending:  # it grows
        kind = type(each)
        if kind is str:
            left -= len(each)
        elif kind is dict:
            pending += each
            pending += each.values()
        elif kind is list or kind is tuple:
            pending += each
        left -= 1
        if left < 0:
            return True
    return False


def well_formed(text: str) -> str:
    """Replace lone surrogates, which cannot be written to files and which services refuse.

    Those that represent bytes (PEP 383) are decoded as UTF-8, for example in arguments that Python
    took for ASCII. A high and a low one are joined. Others become U+FFFD, for example those of JSON
    such as `"\\ud83c"`.
    """
    if not isinstance(text, str):
        return text  # type: ignore[unreachable]  # plugins may give anything: a validator reports it
    if text.isascii():
        return text
    try:
        for at in range(0, len(text), _SLICE):  # encoding takes four bytes for each character
            text[at : at + _SLICE].encode()
        return text
    except UnicodeEncodeError:
        pass
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    except UnicodeEncodeError:  # some do not represent bytes
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def well_formed_object(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Apply `well_formed` to all texts and names of a JSON object. Returns the same object if
    nothing changes."""
    try:
        _encode_in_pieces(value)
    except UnicodeEncodeError:
        mended: Mapping[str, Any] = _mended(value)
        return mended
    except (TypeError, ValueError, RecursionError):
        pass  # the validation of the value reports it
    return value


def _mended(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_mended(name): _mended(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_mended(each) for each in value]
    return well_formed(value)


def check_numbers(value: Any) -> None:
    """Check that a value contains no NaN or infinity, at any depth.

    It is checked where the value is passed in; the encoder cannot name its source.

    Raises:
        ValidationError: It contains one; the message has its path.
    """
    pending: list[tuple[Any, _Place]] = [(value, None)]
    seen: set[int] = set()  # ids of containers, which may contain themselves
    while pending:
        value, place = pending.pop()
        if isinstance(value, float):
            if not math.isfinite(value):
                path = _path(place)
                raise ValidationError(f"{json.dumps(value)} is not JSON (at {path})", path=path)
        elif isinstance(value, (Mapping, list, tuple)) and id(value) not in seen:
            seen.add(id(value))
            items = value.items() if isinstance(value, Mapping) else enumerate(value)
            pending += (
                (item, (place, key))
                for key, item in items
                if isinstance(item, (float, Mapping, list, tuple))
            )


def _path(place: _Place) -> str:
    keys: list[Any] = []
    while place is not None:
        place, key = place
        keys.append(f"[{key}]" if isinstance(key, int) else f".{key}")
    return "$" + "".join(reversed(keys))


def _as_plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _finite(number: str) -> float:
    value = float(number)
    if _MIN < value < _MAX:
        return value
    raise ValueError(f"{number[:20]} is too large a number")


def _no_json(literal: str) -> NoReturn:
    raise ValueError(f"{literal} is not JSON")


# `json.loads` and `json.dumps` would create these for each call
_reader = json.JSONDecoder(parse_constant=_no_json, parse_float=_finite)
_writer = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_as_plain
)
_ascii_writer = json.JSONEncoder(allow_nan=False, separators=(",", ":"), default=_as_plain)


@frozen
class EncodedJson:
    """Encoded JSON (UTF-8) that is copied into a request body.

    It can be a value of the body or an item of a list there. Several JSON values joined by commas
    are several items of that list.
    """

    data: bytes
