"""Conversion between objects and JSON: attrs classes with cattrs, in strict mode.

The JSON form of the public classes is stable. The tag of a message part is in `type`, the code of
an error in `code`. Bytes are base64. Fields with their default value are omitted. An unknown field
or tag is an error.
"""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import attrs
import cattrs
from cattrs.cols import is_sequence, list_structure_factory
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override
from cattrs.v import format_exception

from genai_host.api.json_text import read_json, write_json
from genai_host.api.messages import FORMER_USAGE, PARTS, Message, Part, Text, Usage
from genai_host.errors import GenaiError, ValidationError
from genai_host.util.text import decode_base64, message_of, short_repr

_PLAIN = (str, int, float, bool, list, dict)
_SCALARS = frozenset({str, int, float, bool, type(None)})
_AS_TEXT = {"datetime", "decimal", "uuid"}  # modules, which are slow to import
_STRICT: Mapping[type, tuple[type, ...]] = {str: (str,), bool: (bool,)}


class Codec:
    """Converts objects to JSON values and back.

    Args:
        parts: Kinds of message part.
    """

    def __init__(self, parts: Iterable[type[Part]] = PARTS) -> None:
        self._converter = cattrs.Converter(forbid_extra_keys=True, omit_if_default=True)
        self._parts = {part.type: part for part in parts}
        self._tags: dict[Any, list[str]] = {}  # of the parts that a type accepts
        self._part_readers: dict[str, Callable[[Any, Any], Any]] = {}
        self._part_writers: dict[type[Part], Callable[[Part], dict[str, Any]]] = {}
        self._register_plain_values()
        self._register_parts()
        self._register_errors()

    def to_json(self, value: Any) -> Any:
        """Convert an object to a JSON value: dicts, lists, strings, numbers, booleans and None."""
        return self._converter.unstructure(value)

    def from_json(self, data: Any, form: Any) -> Any:
        """Convert a JSON value to an object.

        Args:
            data: The JSON value.
            form: A class, or a type such as `list[int]`.

        Raises:
            ValidationError: The value does not match; `path` has the location.
        """
        try:
            return self._converter.structure(data, form)
        except Exception as error:  # cattrs wraps whatever a class raises
            raise _explain(error, form) from error

    def from_text(self, text: str, form: Any) -> Any:
        """Convert a string from the environment or the command line: JSON if it matches, else the
        string itself.

        Args:
            text: The string.
            form: A class, or a type such as `list[int]`.

        Raises:
            ValidationError: The string does not match.
        """
        return self.from_json(self.json_of_text(text, form), form)

    def json_of_text(self, text: str, form: Any) -> Any:
        """The JSON value of such a string.

        Args:
            text: The string.
            form: A class, or a type such as `list[int]`.

        Raises:
            ValidationError: The string does not match.
        """
        if _takes_text(form):
            return text
        try:
            value = read_json(text)
        except ValueError:
            value = text
        try:
            self.from_json(value, form)
        except ValidationError as error:
            try:
                self.from_json(text, form)
            except ValidationError:
                raise error from None
            return text
        return value

    def _register_plain_values(self) -> None:
        converter = self._converter
        for kind, accepted in _STRICT.items():
            converter.register_structure_hook(kind, _exactly(kind, accepted))
        converter.register_structure_hook_func(_is_text, _read_text)
        converter.register_unstructure_hook_func(_is_text, _write_text)
        converter.register_structure_hook(int, _read_int)
        converter.register_structure_hook(float, _read_float)
        converter.register_structure_hook(bytes, _read_base64)
        converter.register_unstructure_hook(bytes, lambda data: base64.b64encode(data).decode())
        converter.register_unstructure_hook_func(_is_set, sorted)
        converter.register_unstructure_hook_func(_is_json_by_name, self._write_json)
        converter.register_structure_hook_factory(_has_number_keys, _read_number_keys(converter))
        converter.register_structure_hook_factory(_is_collection, _read_list(converter))
        converter.register_structure_hook_factory(_is_plain_union, _read_union(converter))
        converter.register_structure_hook_factory(_is_named_tuple, _read_named_tuple(converter))
        converter.register_structure_hook_factory(_has_fields, self._reader_of)
        converter.register_unstructure_hook_factory(_has_unresolved_types, self._write_resolved)
        converter.register_structure_hook_func(has_own_schema, _read_as_described)
        converter.register_unstructure_hook_func(
            lambda kind: has_own_schema(kind) and hasattr(kind, "model_dump"),
            lambda value: value.model_dump(mode="json", by_alias=True),
        )

    def _write_json(self, value: Any) -> Any:
        """Convert a value that is mostly JSON already; much faster than the converter."""
        kind = type(value)
        if kind in _SCALARS:
            return value
        write = self._write_json
        if kind is dict:
            return {
                key if type(key) is str else self._converter.unstructure(key): write(each)
                for key, each in value.items()
            }
        if kind is list:
            return [write(each) for each in value]
        return self._converter.unstructure(value)

    def _register_parts(self) -> None:
        converter = self._converter
        converter.register_unstructure_hook_func(
            _is_part_or_union, lambda part: self._writer_of(type(part))(part)
        )
        converter.register_structure_hook_func(_is_part_or_union, self._read_part)
        # parts of plugins are checked now, built-in ones compiled on first use: many codecs
        # convert no message, and few convert all parts
        self._part_readers = {
            tag: self._reader_of(part) for tag, part in self._parts.items() if part not in PARTS
        }
        converter.register_structure_hook_factory(_is_message, self._message_reader)
        converter.register_unstructure_hook_factory(_is_message, self._message_writer)

    def _message_reader(self, _: Any) -> Callable[[Any, Any], Any]:
        read_message = self._reader_of(Message)

        def read(data: Any, form: Any) -> Any:
            if isinstance(data, Mapping) and isinstance(data.get("content"), str):
                data = {**data, "content": [{"type": "text", "text": data["content"]}]}
            return read_message(data, form)

        return read

    def _message_writer(self, _: Any) -> Callable[[Message], dict[str, Any]]:
        write_message = make_dict_unstructure_fn(
            Message, self._converter, _cattrs_omit_if_default=True
        )

        def write(message: Message) -> dict[str, Any]:
            text = message.plain_text
            if text is not None and not message.citations:  # usually
                return {"role": message.role, "content": [{"type": Text.type, "text": text}]}
            return write_message(message)

        return write

    def _writer_of(self, kind: type[Part]) -> Callable[[Part], dict[str, Any]]:
        if kind not in self._part_writers:
            write = make_dict_unstructure_fn(kind, self._converter, _cattrs_omit_if_default=True)
            self._part_writers[kind] = lambda part: {"type": kind.type, **write(part)}
        return self._part_writers[kind]

    def _reader_of(self, kind: type[Any]) -> Callable[[Any, Any], Any]:
        read_fields = make_dict_structure_fn(
            kind,
            self._converter,
            _cattrs_forbid_extra_keys=True,
            **{name: self._read_as(form) for name, form in _resolved_types(kind).items()},
        )
        former = FORMER_USAGE if kind is Usage else {}

        def read(data: Any, _: Any) -> Any:
            if not isinstance(data, Mapping):
                raise TypeError(f"expected an object, not {_name(type(data))}")
            if former:
                data = {former.get(name, name): value for name, value in data.items()}
            return read_fields(data, kind)

        return read

    def _read_as(self, form: Any) -> Any:
        return override(struct_hook=lambda value, _: self._converter.structure(value, form))

    def _write_resolved(self, kind: type[Any]) -> Callable[[Any], dict[str, Any]]:
        """Write the fields of `_resolved_types` by their values."""
        writer: Any = override(unstruct_hook=self._converter.unstructure, omit_if_default=True)
        writers = dict.fromkeys(_resolved_types(kind), writer)
        return make_dict_unstructure_fn(
            kind, self._converter, _cattrs_omit_if_default=True, **writers
        )

    def _read_part(self, data: Any, form: Any) -> Any:
        if not isinstance(data, Mapping):
            raise TypeError(f"expected an object, not {_name(type(data))}")
        tag = data.get("type")
        known = self._tags.get(form)
        if known is None:
            kinds = get_args(form) or form
            known = [tag for tag, part in self._parts.items() if issubclass(part, kinds)]
            self._tags[form] = known
        if tag not in known:
            raise ValidationError(f"unknown part {tag!r}: known are {', '.join(known)}")
        fields = {name: value for name, value in data.items() if name != "type"}
        if tag not in self._part_readers:
            self._part_readers[tag] = self._reader_of(self._parts[tag])
        return self._part_readers[tag](fields, form)

    def _register_errors(self) -> None:
        self._converter.register_unstructure_hook_func(
            lambda kind: isinstance(kind, type) and issubclass(kind, GenaiError),
            lambda error: {"code": error.code, "message": error.message, **error.fields()},
        )
        self._converter.register_structure_hook(GenaiError, _read_error)


def _is_message(form: Any) -> bool:
    return form is Message


@cache
def default_codec() -> Codec:
    """The codec without parts of plugins; cached, since creating one takes milliseconds."""
    return Codec()


_NAMES = {
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "a boolean",
    list: "a list",
    dict: "an object",
    type(None): "null",
}


def _name(kind: type) -> str:
    return _NAMES.get(kind, kind.__name__)


def _exactly(kind: type, accepted: tuple[type, ...]) -> Callable[[Any, Any], Any]:
    """Check the exact type: cattrs would convert 3.7 to an int and "no" to True."""

    def read(value: Any, _: Any) -> Any:
        if type(value) not in accepted:
            raise TypeError(f"expected {_name(kind)}, not {_name(type(value))}")
        return value

    return read


def _is_text(form: Any) -> bool:
    return isinstance(form, type) and form.__module__ in _AS_TEXT


def _read_text(value: Any, kind: Any) -> Any:
    """Read a value in the form of its JSON Schema, which msgspec makes."""
    import msgspec

    return msgspec.convert(value, kind)


def _write_text(value: Any) -> Any:
    import msgspec

    return msgspec.to_builtins(value)


def _read_int(value: Any, _: Any) -> int:
    """Read an integer; in JSON Schema, 3.0 is one, too."""
    if type(value) is float and value.is_integer():
        return int(value)
    if type(value) is not int:
        raise TypeError(f"expected an integer, not {_name(type(value))}")
    return value


def _read_float(value: Any, _: Any) -> float:
    if type(value) not in (int, float):
        raise TypeError(f"expected a number, not {_name(type(value))}")
    return float(value)


def _read_base64(value: Any, _: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    try:
        return decode_base64(value)
    except AttributeError as error:
        raise ValueError("expected Base64") from error


def has_own_schema(kind: Any) -> bool:
    """Whether a class describes and reads itself, as those of pydantic do."""
    return isinstance(kind, type) and hasattr(kind, "model_json_schema")


def _read_as_described(value: Any, kind: Any) -> Any:
    return kind.model_validate(value)


def _has_fields(kind: Any) -> bool:
    return attrs.has(kind) or (isinstance(kind, type) and dataclasses.is_dataclass(kind))


def _resolved_types(kind: Any) -> dict[str, Any]:
    """Types of fields that contain strings, such as `list["Node"]`, resolved; cattrs resolves only
    types that are strings."""
    fields = attrs.fields(kind) if attrs.has(kind) else dataclasses.fields(kind)
    types = {each.name: each.type for each in fields if not isinstance(each.type, (str, type))}
    try:
        hints = get_type_hints(kind, include_extras=True) if types else {}
    except (NameError, TypeError):  # cattrs reports what it needs and cannot resolve
        return {}
    return {
        name: hints[name] for name, form in types.items() if name in hints and hints[name] != form
    }


def _has_unresolved_types(kind: Any) -> bool:
    return _has_fields(kind) and bool(_resolved_types(kind))


def _is_json_by_name(form: Any) -> bool:
    return form is dict or (get_origin(form) in (Mapping, dict) and get_args(form)[1:] == (Any,))


def _is_set(form: Any) -> bool:
    return (get_origin(form) or form) in (set, frozenset)


def _has_number_keys(form: Any) -> bool:
    return get_origin(form) in (Mapping, dict) and get_args(form)[0] in (int, float)


def _read_number_keys(
    converter: cattrs.Converter,
) -> Callable[[Any], Callable[[Any, Any], Any]]:
    """Read a mapping with numbers as keys, which are strings in JSON."""

    def factory(form: Any) -> Callable[[Any, Any], Any]:
        kind, values = get_args(form)

        def read(data: Any, _: Any) -> Any:
            if not isinstance(data, Mapping):
                raise TypeError(f"expected an object, not {_name(type(data))}")
            found = converter.structure(data, dict[Any, values])  # type: ignore[valid-type]  # a variable
            return {read_key(key): value for key, value in found.items()}

        def read_key(key: Any) -> Any:
            try:
                return converter.structure(read_json(key) if type(key) is str else key, kind)
            except (TypeError, ValueError):
                raise ValueError(f"expected {_name(kind)} as key, not {short_repr(key)}") from None

        return read

    return factory


def _is_collection(form: Any) -> bool:
    plain = (get_origin(form) or form) in (list, tuple, set, frozenset)
    return plain or (get_origin(form) is not None and is_sequence(form))


def _read_list(
    converter: cattrs.Converter,
) -> Callable[[Any], Callable[[Any, Any], Any]]:
    """Read a list; a string or mapping is not a list."""

    def factory(form: Any) -> Callable[[Any, Any], Any]:
        kind = get_origin(form) or form
        items = get_args(form) or (Any,)
        if kind is tuple and items[-1] is not Ellipsis and get_args(form):
            return _read_tuple(converter, items)
        read_items = list_structure_factory(list[items[0]], converter)  # type: ignore[valid-type]  # a variable
        make = kind if kind in (list, set, frozenset) else tuple

        def read(value: Any, _: Any) -> Any:
            return make(read_items(_must_be_list(value), form))

        return read

    return factory


def _read_tuple(converter: cattrs.Converter, items: tuple[Any, ...]) -> Callable[[Any, Any], Any]:
    def read(value: Any, _: Any) -> Any:
        if len(_must_be_list(value)) != len(items):
            raise ValueError(f"expected {len(items)} items, not {len(value)}")
        return tuple(
            converter.structure(each, item) for each, item in zip(value, items, strict=True)
        )

    return read


def _must_be_list(value: Any) -> Any:
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"expected a list, not {_name(type(value))}")
    return value


def _is_plain_union(form: Any) -> bool:
    """Whether a union has plain values, which need no tag."""
    if get_origin(form) not in (Union, UnionType):
        return False
    members = {get_origin(member) or member for member in get_args(form)} - {type(None)}
    return len(members) > 1 and any(member in _PLAIN for member in members)


def _read_union(
    converter: cattrs.Converter,
) -> Callable[[Any], Callable[[Any, Any], Any]]:
    exchanged = ((int, float), (float, int))

    def factory(form: Any) -> Callable[[Any, Any], Any]:
        def read(value: Any, _: Any) -> Any:
            faults: list[Exception] = []  # of members that are objects
            for member in get_args(form):
                if member is type(None):
                    if value is None:
                        return None
                    continue
                if (member, type(value)) in exchanged and type(value) in get_args(form):
                    continue  # 3.0 is also an integer
                try:
                    return converter.structure(value, member)
                except Exception as error:  # noqa: BLE001 - try the next member
                    if attrs.has(member) or (get_origin(member) or member) in (dict, Mapping):
                        faults.append(error)
            if isinstance(value, Mapping) and len(faults) == 1:
                raise faults[0]
            names = [_name(get_origin(member) or member) for member in get_args(form)]
            raise TypeError(f"expected {' or '.join(names)}, not {_name(type(value))}")

        return read

    return factory


def _is_named_tuple(form: Any) -> bool:
    return isinstance(form, type) and issubclass(form, tuple) and hasattr(form, "_fields")


def _read_named_tuple(
    converter: cattrs.Converter,
) -> Callable[[Any], Callable[[Any, Any], Any]]:
    """Read a named tuple from a list, as in its JSON Schema; its annotations may be strings."""

    def factory(form: Any) -> Callable[[Any, Any], Any]:
        hints = get_type_hints(form)
        read = _read_tuple(converter, tuple(hints[name] for name in form._fields))
        return lambda value, _: form(*read(value, form))

    return factory


def _is_part_class(form: Any) -> bool:
    return isinstance(form, type) and issubclass(form, Part)


def _is_part_or_union(form: Any) -> bool:
    if get_origin(form) in (Union, UnionType):
        return all(_is_part_class(member) for member in get_args(form))
    return _is_part_class(form)


def _read_error(data: Any, _: Any) -> GenaiError:
    """Restore an error; if the class of a plugin is missing, as a plain `GenaiError`."""
    fields = dict(data)
    code, message = fields.pop("code"), fields.pop("message")
    if not isinstance(code, str) or not isinstance(message, str):
        raise TypeError("the code and the message of an error are strings")
    known = _error_classes().get(code)
    error = (known or GenaiError)(message)
    for name, value in fields.items():
        if hasattr(GenaiError, name) or (known is not None and name not in vars(error)):
            raise ValidationError(f"an error {code!r} has no field {name!r}")
        setattr(error, name, tuple(value) if isinstance(value, list) else value)
    return error


def _error_classes() -> dict[str, type[GenaiError]]:
    found: dict[str, type[GenaiError]] = {}
    waiting = [GenaiError]
    while waiting:
        kind = waiting.pop()
        found.setdefault(kind.code, kind)
        waiting.extend(kind.__subclasses__())
    return found


def _takes_text(form: Any) -> bool:
    members = get_args(form) if get_origin(form) in (Union, UnionType) else (form,)
    return str in members


def _explain(error: Exception, form: Any) -> ValidationError:
    if isinstance(error, ValidationError):
        return error
    if isinstance(error, RecursionError):
        return ValidationError("nested too deeply")
    first = cattrs.transform_error(error, format_exception=_phrase)[0]
    text, _, path = first.rpartition(" @ ")
    where = f" (at {path})" if path not in ("", "$") else ""
    return ValidationError(f"{text or first}{where}" if path else first, path=path)


def _phrase(error: BaseException, kind: type | None) -> str:
    """cattrs' text for a missing or an extra field, the error's own text otherwise."""
    text = format_exception(error, kind)
    return text if text.startswith(("required", "extra")) else str(error)


def json_round_trip(value: Any, codec: Codec) -> Any:
    """Convert a value to JSON and back, as an event log does.

    Raises:
        ValidationError: The value has no JSON form.
    """
    try:
        return read_json(write_json(codec.to_json(value)))
    except Exception as error:  # any exception of the class
        raise ValidationError(message_of(error)) from error
