"""Conversion between objects and JSON: attrs classes with cattrs, in strict mode.

The JSON form of the public classes is stable. The tag of a message part is in `type`, the code of
an error in `code`. Bytes are base64. Fields with their default value are omitted. An unknown field
or tag is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin

import cattrs
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override
from cattrs.v import format_exception

from genai_host.api.codec_values import (
    Reader,
    has_fields,
    is_json_by_name,
    name_of,
    register_described,
    register_values,
    resolved_types,
)
from genai_host.api.json_text import read_json, write_json
from genai_host.api.messages import FORMER_USAGE, PARTS, Message, Part, Text, Usage
from genai_host.errors import GenaiError, ValidationError
from genai_host.util.text import message_of

_SCALARS = frozenset({str, int, float, bool, type(None)})


class Codec:
    """Converts objects to JSON values and back.

    Args:
        parts: Kinds of message part.
    """

    def __init__(self, parts: Iterable[type[Part]] = PARTS) -> None:
        self._converter = cattrs.Converter(forbid_extra_keys=True, omit_if_default=True)
        self._parts = {part.type: part for part in parts}
        self._tags: dict[Any, list[str]] = {}  # of the parts that a type accepts
        self._part_readers: dict[str, Reader] = {}
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
        register_values(converter)
        converter.register_unstructure_hook_func(is_json_by_name, self._write_json)
        converter.register_structure_hook_factory(has_fields, self._reader_of)
        converter.register_unstructure_hook_factory(
            lambda kind: has_fields(kind) and bool(resolved_types(kind)), self._write_resolved
        )
        # last, since classes with their own schema may have fields
        register_described(converter)

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

    def _message_reader(self, _: Any) -> Reader:
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

    def _reader_of(self, kind: type[Any]) -> Reader:
        read_fields = make_dict_structure_fn(
            kind,
            self._converter,
            _cattrs_forbid_extra_keys=True,
            **{name: self._read_as(form) for name, form in resolved_types(kind).items()},
        )
        former = FORMER_USAGE if kind is Usage else {}

        def read(data: Any, _: Any) -> Any:
            if not isinstance(data, Mapping):
                raise TypeError(f"expected an object, not {name_of(type(data))}")
            if former:
                data = {former.get(name, name): value for name, value in data.items()}
            return read_fields(data, kind)

        return read

    def _read_as(self, form: Any) -> Any:
        return override(struct_hook=lambda value, _: self._converter.structure(value, form))

    def _write_resolved(self, kind: type[Any]) -> Callable[[Any], dict[str, Any]]:
        """Write the fields of `resolved_types` by their values."""
        writer: Any = override(unstruct_hook=self._converter.unstructure, omit_if_default=True)
        writers = dict.fromkeys(resolved_types(kind), writer)
        return make_dict_unstructure_fn(
            kind, self._converter, _cattrs_omit_if_default=True, **writers
        )

    def _read_part(self, data: Any, form: Any) -> Any:
        if not isinstance(data, Mapping):
            raise TypeError(f"expected an object, not {name_of(type(data))}")
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
