"""Readers and writers of plain values, collections and unions, for the codec.

They are strict: a value is converted only if it has the JSON type of its form.
"""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Callable, Mapping
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import attrs
import cattrs
from cattrs.cols import is_sequence, list_structure_factory

from genai_host.api.json_text import read_json
from genai_host.util.text import decode_base64, short_repr

Reader = Callable[[Any, Any], Any]

_PLAIN = (str, int, float, bool, list, dict)
_AS_TEXT = {"datetime", "decimal", "uuid"}  # modules, which are slow to import
_STRICT: Mapping[type, tuple[type, ...]] = {str: (str,), bool: (bool,)}
_NAMES = {
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "a boolean",
    list: "a list",
    dict: "an object",
    type(None): "null",
}


def name_of(kind: type) -> str:
    """The name of a type, for messages."""
    return _NAMES.get(kind, kind.__name__)


def register_values(converter: cattrs.Converter) -> None:
    """Register readers and writers of plain values and collections."""
    for kind, accepted in _STRICT.items():
        converter.register_structure_hook(kind, _exactly(kind, accepted))
    converter.register_structure_hook_func(_is_text, _read_text)
    converter.register_unstructure_hook_func(_is_text, _write_text)
    converter.register_structure_hook(int, _read_int)
    converter.register_structure_hook(float, _read_float)
    converter.register_structure_hook(bytes, _read_base64)
    converter.register_unstructure_hook(bytes, lambda data: base64.b64encode(data).decode())
    converter.register_unstructure_hook_func(_is_set, sorted)
    converter.register_structure_hook_factory(_has_number_keys, _read_number_keys)
    converter.register_structure_hook_factory(_is_collection, _read_list)
    converter.register_structure_hook_factory(_is_plain_union, _read_union)
    converter.register_structure_hook_factory(_is_named_tuple, _read_named_tuple)


def register_described(converter: cattrs.Converter) -> None:
    """Register readers and writers of classes that describe and read themselves."""
    converter.register_structure_hook_func(
        has_own_schema, lambda value, kind: kind.model_validate(value)
    )
    converter.register_unstructure_hook_func(
        lambda kind: has_own_schema(kind) and hasattr(kind, "model_dump"),
        lambda value: value.model_dump(mode="json", by_alias=True),
    )


def _exactly(kind: type, accepted: tuple[type, ...]) -> Reader:
    """Check the exact type: cattrs would convert 3.7 to an int and "no" to True."""

    def read(value: Any, _: Any) -> Any:
        if type(value) not in accepted:
            raise TypeError(f"expected {name_of(kind)}, not {name_of(type(value))}")
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
        raise TypeError(f"expected an integer, not {name_of(type(value))}")
    return value


def _read_float(value: Any, _: Any) -> float:
    if type(value) not in (int, float):
        raise TypeError(f"expected a number, not {name_of(type(value))}")
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


def has_fields(kind: Any) -> bool:
    return attrs.has(kind) or (isinstance(kind, type) and dataclasses.is_dataclass(kind))


def resolved_types(kind: Any) -> dict[str, Any]:
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


def is_json_by_name(form: Any) -> bool:
    return form is dict or (get_origin(form) in (Mapping, dict) and get_args(form)[1:] == (Any,))


def _is_set(form: Any) -> bool:
    return (get_origin(form) or form) in (set, frozenset)


def _has_number_keys(form: Any) -> bool:
    return get_origin(form) in (Mapping, dict) and get_args(form)[0] in (int, float)


def _read_number_keys(form: Any, converter: cattrs.Converter) -> Reader:
    """Read a mapping with numbers as keys, which are strings in JSON."""
    kind, values = get_args(form)

    def read(data: Any, _: Any) -> Any:
        if not isinstance(data, Mapping):
            raise TypeError(f"expected an object, not {name_of(type(data))}")
        found = converter.structure(data, dict[Any, values])  # type: ignore[valid-type]  # a variable
        return {read_key(key): value for key, value in found.items()}

    def read_key(key: Any) -> Any:
        try:
            return converter.structure(read_json(key) if type(key) is str else key, kind)
        except (TypeError, ValueError):
            raise ValueError(f"expected {name_of(kind)} as key, not {short_repr(key)}") from None

    return read


def _is_collection(form: Any) -> bool:
    plain = (get_origin(form) or form) in (list, tuple, set, frozenset)
    return plain or (get_origin(form) is not None and is_sequence(form))


def _read_list(form: Any, converter: cattrs.Converter) -> Reader:
    """Read a list; a string or mapping is not a list."""
    kind = get_origin(form) or form
    items = get_args(form) or (Any,)
    if kind is tuple and items[-1] is not Ellipsis and get_args(form):
        return _read_tuple(converter, items)
    read_items = list_structure_factory(list[items[0]], converter)  # type: ignore[valid-type]  # a variable
    make = kind if kind in (list, set, frozenset) else tuple
    return lambda value, _: make(read_items(_must_be_list(value), form))


def _read_tuple(converter: cattrs.Converter, items: tuple[Any, ...]) -> Reader:
    def read(value: Any, _: Any) -> Any:
        if len(_must_be_list(value)) != len(items):
            raise ValueError(f"expected {len(items)} items, not {len(value)}")
        return tuple(map(converter.structure, value, items))

    return read


def _must_be_list(value: Any) -> Any:
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"expected a list, not {name_of(type(value))}")
    return value


def _is_plain_union(form: Any) -> bool:
    """Whether a union has plain values, which need no tag."""
    if get_origin(form) not in (Union, UnionType):
        return False
    members = {get_origin(member) or member for member in get_args(form)} - {type(None)}
    return len(members) > 1 and any(member in _PLAIN for member in members)


def _read_union(form: Any, converter: cattrs.Converter) -> Reader:
    exchanged = ((int, float), (float, int))

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
        names = [name_of(get_origin(member) or member) for member in get_args(form)]
        raise TypeError(f"expected {' or '.join(names)}, not {name_of(type(value))}")

    return read


def _is_named_tuple(form: Any) -> bool:
    return isinstance(form, type) and issubclass(form, tuple) and hasattr(form, "_fields")


def _read_named_tuple(form: Any, converter: cattrs.Converter) -> Reader:
    """Read a named tuple from a list, as in its JSON Schema; its annotations may be strings."""
    hints = get_type_hints(form)
    read = _read_tuple(converter, tuple(hints[name] for name in form._fields))
    return lambda value, _: form(*read(value, form))
