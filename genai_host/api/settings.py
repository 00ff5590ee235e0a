"""Settings of providers, features and tools: attrs classes with descriptions.

    @frozen
    class Settings:
        endpoint: str = setting("https://...", "address of the service")
        api_key: Secret | None = setting(None, "key", env="X_API_KEY")

Help, forms and errors are generated from the class. A field of type `Secret` is never in the
configuration file: it comes from the environment, the keyring or a file of secrets.
"""

from __future__ import annotations

import hmac
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NoReturn, TypeVar, get_args

import attrs
from attrs import frozen

from genai_host.api.codec import default_codec
from genai_host.api.schema import schema_of, schemas_of
from genai_host.api.validators import Must, strings
from genai_host.errors import ConfigurationError, ValidationError
from genai_host.util.text import did_you_mean

S = TypeVar("S")

_ABOUT = "genai_host"
_MODULE = re.compile(r"\b(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_])")


class Secret:
    """A string that is not shown in reprs, logs, errors or pickles.

    Args:
        value: The string.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The string."""
        return self._value

    def __repr__(self) -> str:
        return "Secret('***')"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        mine, other_value = (
            value.encode("utf-8", "surrogatepass") for value in (self._value, other._value)
        )
        return hmac.compare_digest(mine, other_value)

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret is not pickled")


@frozen
class NoSettings:
    """Settings class without fields."""


def about(help: str, *, env: str | Sequence[str] = ()) -> dict[str, Any]:
    """Metadata of a settings field.

    Args:
        help: One line for help and forms.
        env: Environment variables with the value, used if none is configured; the first that is
            set.
    """
    if not isinstance(help, str):
        raise TypeError(f"help is a string, not {type(help).__name__}")
    return {_ABOUT: (help, (env,) if isinstance(env, str) else strings(env))}


def setting(
    default: Any, help: str, *, env: str | Sequence[str] = (), validator: Any = None
) -> Any:
    """A field of a settings class: an attrs field with a default and a description.

    Args:
        default: Default of the setting.
        help: See `about`.
        env: See `about`.
        validator: Validators of attrs.
    """
    return attrs.field(default=default, validator=validator, metadata=about(help, env=env))


@frozen
class Setting:
    """A field of a settings class, for help and forms.

    Attributes:
        name: Name of the field.
        type: Annotation, for example `float | None`.
        help: One line.
        env: Environment variables with the value.
        secret: Whether it is a secret.
        required: Whether it has no default.
        default: JSON, or a text for other values; None if it is required or computed.
    """

    name: str
    type: str
    help: str
    env: tuple[str, ...]
    secret: bool
    required: bool
    default: Any


def describe(settings: type[Any]) -> list[Setting]:
    """The fields of a settings class, in order."""
    return [about for _, about in _fields_of(settings)]


def settings_schema(settings: type[Any]) -> dict[str, Any]:
    """The JSON Schema of a settings class, for forms.

    A secret is a write-only string without a default. A field that msgspec cannot describe has no
    type.
    """
    fields = {field.name: field.type for field in _fields(settings)}
    properties, definitions = schemas_of(
        {name: kind for name, kind in fields.items() if _has_schema(kind)}
    )
    found = {}
    for each in describe(settings):
        one = dict(properties.get(each.name, {}))
        if each.secret:
            one = {"type": "string", "writeOnly": True, "format": "password"}
        elif not each.required and each.default is not None:
            one["default"] = each.default
        if each.help:
            one["description"] = each.help
        found[each.name] = one
    return {
        **({"$defs": definitions} if definitions else {}),
        "type": "object",
        "properties": found,
        "required": [each.name for each in describe(settings) if each.required],
        "additionalProperties": False,
    }


def _has_schema(kind: Any) -> bool:
    """Whether a type can be described: if it cannot, like `Secret`, the other fields still are."""
    if _is_secret(kind):
        return False
    try:
        schema_of(kind)
    except ValidationError:
        return False
    return True


def _describes_itself(settings: Any) -> bool:
    """Raise the error of a class whose fields cannot be described."""
    return isinstance(settings, type) and attrs.has(settings) and describe(settings) is not None


SETTINGS = Must("an attrs class", _describes_itself)
"""Validator of `attrs` fields that contain a settings class."""


def _fields(settings: type[Any]) -> Iterable[attrs.Attribute[Any]]:
    return (field for field in attrs.fields(attrs.resolve_types(settings)) if field.init)


def _fields_of(settings: type[Any]) -> list[tuple[attrs.Attribute[Any], Setting]]:
    """The fields of a settings class with their descriptions, in order."""
    return _described(settings)  # type: ignore[arg-type]  # a class is hashable


@lru_cache(maxsize=256)  # each conversation reads the settings of its feature
def _described(settings: type[Any]) -> list[tuple[attrs.Attribute[Any], Setting]]:
    return [(field, _describe_field(field)) for field in _fields(settings)]


def _describe_field(field: attrs.Attribute[Any]) -> Setting:
    help, env = field.metadata.get(_ABOUT, ("", ()))
    made = isinstance(field.default, attrs.Factory)  # type: ignore[arg-type]  # a class at run time
    required = field.default is attrs.NOTHING
    return Setting(
        name=field.name,
        type=_as_written(field.type),
        help=help,
        env=env,
        secret=_is_secret(field.type),
        required=required,
        default=None if required or made else _as_json(field.default),
    )


def _as_json(value: Any) -> Any:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return str(value)
    return value


def _as_written(kind: Any) -> str:
    if isinstance(kind, type) and not get_args(kind):
        return kind.__name__
    return _MODULE.sub("", str(kind))


def _is_secret(kind: Any) -> bool:
    return kind is Secret or Secret in get_args(kind)


def read_settings(
    settings: type[S],
    given: Mapping[str, Any],
    *,
    environ: Mapping[str, str] | None = None,
    owner: str = "",
    overrides: Mapping[str, str] | None = None,
    secrets: Callable[[Setting, Any], Secret | None] | None = None,
) -> S:
    """Create a settings object: from given values, else the environment, else defaults.

    Args:
        settings: The settings class.
        given: Values by field name; `Secret` objects for secrets.
        environ: Environment; None for that of the process.
        owner: What the settings belong to, for errors.
        overrides: Environment variables by field, which override given values.
        secrets: Finds a secret, from the given reference; None to read secrets from the
            environment.

    Raises:
        ConfigurationError: A name is unknown or missing, a value is invalid, or a secret is given
            as plain text.
    """
    environ = os.environ if environ is None else environ
    fields = {about.name: (field, about) for field, about in _fields_of(settings)}
    overrides = overrides or {}
    for name in (*given, *overrides):
        if name not in fields:
            raise _unknown(name, fields, overrides.get(name, owner))
    values: dict[str, Any] = {}
    for name, (field, about) in fields.items():
        known = name in given and isinstance(given[name], (Secret, type(None)))
        if about.secret and secrets and not known:
            found = secrets(about, given.get(name))
            if found is not None:
                values[name] = found
            elif about.required:
                raise ConfigurationError(f"{owner}: {name} is missing", hint=about.help)
        elif name in overrides:
            variable = overrides[name]
            values[name] = _read_env(field, about, variable, environ[variable], owner)
        elif name in given:
            values[name] = _read_given(field, about, given[name], owner)
        elif from_env := next((v for v in about.env if environ.get(v)), None):
            values[name] = _read_env(field, about, from_env, environ[from_env], owner)
        elif about.required:
            raise ConfigurationError(
                f"{owner}: {name} is missing",
                hint=f"{name}: {about.help}" + (f"; or set {about.env[0]}" if about.env else ""),
            )
    try:
        return settings(**values)
    except (ValueError, TypeError, ValidationError) as error:
        why = error.args[0] if error.args else error  # attrs adds objects to its message
        raise ConfigurationError(f"{owner}: {why}") from error


def _unknown(name: str, fields: Mapping[str, Any], owner: str) -> ConfigurationError:
    hint = did_you_mean(name, fields) or f"settings: {', '.join(fields) or 'none'}"
    return ConfigurationError(f"{owner}: unknown setting {name!r}", setting=name, hint=hint)


def _read_given(field: attrs.Attribute[Any], about: Setting, value: Any, owner: str) -> Any:
    if about.secret:
        if value is None or isinstance(value, Secret):
            return value
        raise ConfigurationError(
            f"{owner}: {about.name} is a secret and is not read from here",
            setting=about.name,
            hint=f"set the environment variable {about.env[0]}" if about.env else "",
        )
    try:
        return default_codec().from_json(value, field.type)
    except ValidationError as error:
        raise ConfigurationError(
            f"{owner}: {about.name}: {error}", setting=about.name, hint=about.help
        ) from error


def _read_env(
    field: attrs.Attribute[Any], about: Setting, variable: str, text: str, owner: str
) -> Any:
    if about.secret:
        return Secret(text)
    try:
        return default_codec().from_text(text, field.type)
    except ValidationError as error:
        raise ConfigurationError(f"{owner}: {variable}: {error}", hint=about.help) from error
