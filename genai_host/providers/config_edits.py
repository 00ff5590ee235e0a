"""Changes to the configuration, validated by the declarations of plugins before they are written.

    with edit_config() as document:
        set_keys(document, types, {"providers.my-gate.base_url": "https://gate.example/v1"})

A key is a path in the file, with dots: `defaults.model`, `aliases.NAME`, `approvals.TOOL`,
`tools.NAME.SETTING`, `providers.NAME.SETTING`, `providers.NAME.models.MODEL`,
`providers.NAME.limits.LIMIT`. All values are text, as on the command line. Each function raises
`ConfigurationError` for an invalid change; then nothing is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any

import attrs

from genai_host.api import ProviderType, Secret, ToolSet
from genai_host.api.codec import default_codec
from genai_host.api.http_provider import checked_base_url
from genai_host.api.json_text import read_json
from genai_host.api.models import merged_parameters
from genai_host.api.settings import Setting, describe, read_settings
from genai_host.config import ModelConfig
from genai_host.config.key import hint_for, read_value
from genai_host.config.migration import new_key
from genai_host.config.schema import OF_INSTANCES, OF_NAMES, TABLES, known_keys, names_in, read_key
from genai_host.errors import ConfigurationError, ValidationError
from genai_host.providers.limits import CallLimits
from genai_host.util.names import PLAIN_NAME, PLAIN_NAME_RULE, unknown_name_hint
from genai_host.util.text import did_you_mean

TomlTable = MutableMapping[str, Any]
Types = Mapping[str, ProviderType[Any]]
_REFERENCES = ("env", "file", "keyring")


def split_key(key: str) -> tuple[str, ...]:
    """The parts of a key; the last one may contain dots."""
    table, *rest = key.split(".", 1)
    if key in known_keys():
        return tuple(key.split("."))
    if table in OF_NAMES and rest:
        return (table, *rest)
    if table == "tools" and rest:
        name, _, setting = rest[0].partition(".")
        if setting and "." not in setting:
            return (table, name, setting)
    if table == "providers" and rest and rest[0].count("."):
        name, setting = rest[0].split(".", 1)
        inner, *last = setting.split(".", 1)
        if setting and inner in ("models", "limits") and last and last[0]:
            return (table, name, inner, *last)
        if setting and "." not in setting and setting not in ("models", "limits"):
            return (table, name, setting)
    if table == "models":
        raise ConfigurationError(
            f"unknown configuration key {key!r}",
            hint="change model configurations: genai-host models set",
        )
    if (new := new_key(key)) != key:
        raise ConfigurationError(f"unknown configuration key {key!r}", hint=f"use {new}")
    known = [
        *known_keys(),
        "aliases.NAME",
        "approvals.TOOL",
        "tools.NAME.SETTING",
        "providers.NAME.SETTING",
    ]
    near = [each for each in known_keys() if each.startswith(f"{table}.")]
    name = rest[0].partition(".")[0] if rest else ""
    if name in names_in(table) and f"{table}.{name}" not in near:
        hint = "edit the configuration file; show its path: genai-host config path"
    elif near:
        hint = hint_for(key, near)
    else:
        hint = did_you_mean(key, known) or f"tables: {', '.join(sorted(TABLES))}"
    raise ConfigurationError(f"unknown configuration key {key!r}", hint=hint)


def add_instance(
    document: TomlTable, types: Types, name: str, kind: str, values: Mapping[str, str]
) -> None:
    """Add a provider of a type, with its settings, `models.MODEL` and `limits.LIMIT`."""
    if not re.fullmatch(PLAIN_NAME, name):
        raise ConfigurationError(f"invalid provider name {name!r}", hint=PLAIN_NAME_RULE)
    if name in document.get("providers", {}):
        raise ConfigurationError(
            f"provider {name!r} already exists",
            hint=f"change it: genai-host config set providers.{name}.SETTING=VALUE",
        )
    type_named(types, kind)
    _new_instance(document, name, kind)
    set_keys(document, types, {f"providers.{name}.{key}": value for key, value in values.items()})
    _check_instance(types, name, document["providers"][name])


def set_keys(
    document: TomlTable,
    types: Types,
    values: Mapping[str, str],
    sets: Mapping[str, ToolSet[Any]] | None = None,
) -> None:
    """Set keys. A provider that is not in the file is added, if a type has its name."""
    instances: dict[str, None] = {}
    of_sets: dict[str, ToolSet[Any]] = {}
    for key, text in values.items():
        where = split_key(key)
        if where[0] == "providers":
            instances[where[1]] = None
            _set_of_instance(document, types, key, where, text)
        elif where[0] == "tools":
            _, name, setting = where
            of_sets[name] = set_named(sets or {}, name)
            value = _value(of_sets[name].settings, key, setting, text)
            _table(document, "tools", name)[setting] = _inline(value)
        elif where[0] in OF_NAMES:
            _table(document, where[0])[where[1]] = text
        else:
            value = read_key(key, text, key)
            inner = _table(document, *where[:-1])
            inner[where[-1]] = list(value) if isinstance(value, tuple) else value
    for name in instances:
        _check_instance(types, name, document["providers"][name])
    for name, tools in of_sets.items():
        _check_set(tools, document["tools"][name])


def unset_keys(document: TomlTable, keys: Iterable[str]) -> None:
    """Remove keys, which restores their defaults."""
    for key in keys:
        *tables, last = split_key(key)
        if tables[:1] == ["providers"] and last == "type":
            raise ConfigurationError(
                "a provider must have a type",
                hint=f"remove the provider: genai-host config remove {tables[1]}",
            )
        inner: Any = document
        for table in tables:
            inner = inner.get(table, {})
        if last not in inner:
            raise ConfigurationError(f"{key} is not set")
        del inner[last]


def remove_instance(document: TomlTable, name: str) -> None:
    providers = document.get("providers", {})
    if name not in providers:
        raise ConfigurationError(
            f"provider {name!r} is not configured",
            hint="turn off a provider that a plugin adds: genai-host config disable NAME",
        )
    del providers[name]


def enable_instance(document: TomlTable, types: Types, name: str, *, enabled: bool) -> None:
    """Enable or disable a provider."""
    if not enabled and name not in types and name not in document.get("providers", {}):
        raise ConfigurationError(
            f"unknown provider {name!r}", hint="list providers: genai-host providers"
        )
    instance = _instance(document, types, name)
    if enabled:
        instance.pop("enabled", None)
    else:
        instance["enabled"] = False


def type_named(types: Types, name: str) -> ProviderType[Any]:
    """A provider type by its name. Raises `ConfigurationError` if it is unknown."""
    if name not in types:
        hint = unknown_name_hint("vendor", name, sorted(types))
        raise ConfigurationError(f"unknown provider type {name!r}", hint=hint)
    return types[name]


def add_model(
    document: TomlTable,
    name: str,
    of: str,
    provider_order: Iterable[str] = (),
    parameters: Mapping[str, Any] | None = None,
) -> ModelConfig:
    """Add a model configuration, and return it."""
    if name in {**document.get("models", {}), **document.get("aliases", {})}:
        raise ConfigurationError(
            f"model configuration {name!r} already exists",
            hint=f"change it: genai-host models set {name}",
        )
    models = _table(document, "models")
    models[name] = _inline({}) if _is_dotted(document, "models") else {}
    models[name]["of"] = of
    return set_model(document, name, None, list(provider_order) or None, parameters)


def set_model(
    document: TomlTable,
    name: str,
    of: str | None = None,
    provider_order: Iterable[str] | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> ModelConfig:
    """Change a model configuration, and return it.

    An argument that is None stays, and a parameter that is None is removed. Fields of `extra_body`
    that are not given stay. An alias becomes a model configuration.
    """
    if name in document.get("aliases", {}):
        of = of or document["aliases"].pop(name)
        document["aliases"].pop(name, None)
        add_model(document, name, of)
    model = _model(document, name)
    if of is not None:
        model["of"] = of
    if provider_order is not None:
        model["provider_order"] = _inline(list(provider_order))
    for key, value in (parameters or {}).items():
        if value is None:
            model.get("parameters", {}).pop(key, None)
        elif _has_null(value):
            raise ConfigurationError(f"parameter {key} contains null, which TOML does not support")
        else:
            table = _inline_table(model, "parameters")
            before = {key: table[key]} if key in table else {}
            table[key] = _inline(merged_parameters(before, {key: value})[key])
    for key in ("provider_order", "parameters"):
        if not model.get(key, True):
            del model[key]
    import tomlkit

    plain = tomlkit.item(model).unwrap()
    return ModelConfig(
        plain["of"], tuple(plain.get("provider_order", ())), plain.get("parameters", {})
    )


def remove_model(document: TomlTable, name: str) -> None:
    """Remove a model configuration, or an alias."""
    if name in document.get("aliases", {}):
        del document["aliases"][name]
    else:
        _model(document, name)
        del document["models"][name]


def _model(document: TomlTable, name: str) -> TomlTable:
    models = document.get("models", {})
    if name not in models:
        known = [*models, *document.get("aliases", {})]
        raise ConfigurationError(
            f"unknown model configuration {name!r}",
            hint=hint_for(name, known) if known else f"genai-host models add {name} --of MODEL",
        )
    model: TomlTable = models[name]
    return model


def set_named(sets: Mapping[str, ToolSet[Any]], name: str) -> ToolSet[Any]:
    """A set of tools by its name. Raises `ConfigurationError` if it is unknown."""
    if name not in sets:
        raise ConfigurationError(f"unknown tool set {name!r}", hint=hint_for(name, sorted(sets)))
    return sets[name]


def _set_of_instance(
    document: TomlTable, types: Types, key: str, where: tuple[str, ...], text: str
) -> None:
    _, name, setting, *inner = where
    instance = _instance(document, types, name)
    if setting == "enabled":
        instance["enabled"] = read_value(key, text, bool)
    elif setting == "type":
        instance["type"] = type_named(types, text).name
    elif setting == "models":
        _inline_table(instance, "models")[inner[0]] = text
    elif setting == "limits":
        _inline_table(instance, "limits")[inner[0]] = _value(CallLimits, key, inner[0], text)
    else:
        kind = type_named(types, instance["type"])
        instance[setting] = _inline(_value(kind.settings, key, setting, text, name))


def _instance(document: TomlTable, types: Types, name: str) -> TomlTable:
    providers = _table(document, "providers")
    if name not in providers:
        if name not in types:
            raise ConfigurationError(
                f"unknown provider {name!r}", hint=hint_for(name, sorted({*providers, *types}))
            )
        _new_instance(document, name, name)
    instance: TomlTable = document["providers"][name]
    return instance


def _new_instance(document: TomlTable, name: str, kind: str) -> None:
    providers = _table(document, "providers")
    instance = {"type": kind}
    # TOML does not allow a table among `providers.other.type = "x"`
    providers[name] = _inline(instance) if _is_dotted(document, "providers") else instance


def _is_dotted(document: TomlTable, table: str) -> bool:
    keys = (key for key, _ in getattr(document, "body", ()) if key is not None)
    return any(key.key == table and key.is_dotted() for key in keys)


def _value(settings: type[Any], key: str, name: str, text: str, instance: str = "") -> Any:
    """Parse the text of a setting to JSON for its class."""
    known = {each.name: each for each in describe(settings)}
    if name not in known:
        raise ConfigurationError(f"unknown setting {key!r}", hint=hint_for(name, known))
    if known[name].secret:
        return _reference(key, name, text, instance)
    form = {field.name: field.type for field in attrs.fields(attrs.resolve_types(settings))}[name]
    try:
        value = default_codec().json_of_text(text, form)
    except ValidationError as error:
        raise ConfigurationError(f"{key}: {error}", hint=known[name].help) from error
    if _has_null(value):
        raise ConfigurationError(
            f"{key}: TOML does not support null", hint=f"remove it: genai-host config unset {key}"
        )
    return value


def _reference(key: str, name: str, text: str, instance: str) -> Any:
    """Parse a reference to a secret."""
    try:
        value = read_json(text)
    except ValueError:
        value = None  # probably the secret itself
    if isinstance(value, dict) and len(value) == 1 and set(value) <= set(_REFERENCES):
        return value
    raise ConfigurationError(
        f"{key} is a secret and must not be in the configuration",
        setting=name,
        hint=(
            f"genai-host keys set {instance} --secret {name}"
            if instance
            else f'refer to it: {key}=\'{{"env": "VARIABLE"}}\''
        ),
    )


def _check_instance(types: Types, name: str, instance: TomlTable) -> None:
    """Validate a provider, as when it is opened."""
    import tomlkit

    plain = tomlkit.item(instance).unwrap()
    kind = type_named(types, plain["type"])
    given = {key: value for key, value in plain.items() if key not in OF_INSTANCES}
    _check_base_url(given, f"providers.{name}.base_url")
    owner = f"provider {name}"
    read_settings(kind.settings, given, owner=owner, secrets=_any_secret)
    read_settings(CallLimits, plain.get("limits", {}), owner=f"{owner}: limits")


def _check_set(tools: ToolSet[Any], table: TomlTable) -> None:
    import tomlkit

    given = tomlkit.item(table).unwrap()
    owner = f"tools.{tools.name}"
    read_settings(tools.settings, given, owner=owner, secrets=_any_secret)


def _check_base_url(given: Mapping[str, Any], key: str) -> None:
    """Check the address of a service, which only the provider checks otherwise."""
    base_url = given.get("base_url")
    if isinstance(base_url, str):
        try:
            checked_base_url(base_url)
        except ConfigurationError as error:
            raise ConfigurationError(f"{key}: {error}", hint=error.hint) from None


def _any_secret(setting: Setting, given: Any) -> Secret | None:
    """Placeholder for a required secret, which may be set later."""
    return Secret("") if setting.required else None


def _table(document: TomlTable, *names: str) -> TomlTable:
    for name in names:
        if name not in document:
            document[name] = {}
        document = document[name]
    return document


def _inline_table(document: TomlTable, name: str) -> TomlTable:
    if name not in document:
        document[name] = _inline({})
    table: TomlTable = document[name]
    return table


def _inline(value: Any) -> Any:
    """A value on one line, whatever surrounds it."""
    import tomlkit

    if isinstance(value, dict):
        table = tomlkit.inline_table()
        for name, each in value.items():
            table[name] = _inline(each)
        return table
    if isinstance(value, list):
        array = tomlkit.array()
        for each in value:
            array.append(_inline(each))
        return array
    return value


def _has_null(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_null, value.values()))
    return value is None or (isinstance(value, list) and any(map(_has_null, value)))
