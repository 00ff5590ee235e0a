"""`genai-host providers`, and the values of the configuration with their sources.

Of a secret, only the location is shown, never the value.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from genai_host.api.settings import Setting, describe
from genai_host.cli.app import App, pass_app
from genai_host.cli.terminal import echo, echo_rows
from genai_host.config import SetConfig
from genai_host.config.environment import overrides_in
from genai_host.config.schema import OF_NAMES, known_keys
from genai_host.errors import ConfigurationError
from genai_host.providers.limits import CallLimits
from genai_host.serializers.listings import absent_row, provider_row, provider_rows
from genai_host.tools.sources import find_key

if TYPE_CHECKING:
    from genai_host.config import Config
    from genai_host.host import Host
    from genai_host.providers.instance import ProviderInstance
    from genai_host.secrets.keys import FoundKey


HIDDEN = "***"


class ConfiguredSetting(NamedTuple):
    """A key, its value, and the source: `file`, `default`, or a description of the environment
    variable or location of a secret."""

    key: str
    value: Any
    source: str

    def shown(self) -> str:
        return self.value if isinstance(self.value, str) else json.dumps(self.value)


def configured(host: Host) -> list[ConfiguredSetting]:
    """All values, including defaults of the host and the settings of instances."""
    config = host.config
    overrides = overrides_in(os.environ)
    rows = []
    for key, known in known_keys().items():
        value = value_of(config, key)
        source = "default" if value == _plain(known.default) else "file"
        if key in overrides:
            source = f"the environment variable {overrides[key]}"
        rows.append(ConfiguredSetting(key, value, source))
    for table in OF_NAMES:
        entries = getattr(config, table)
        rows += [ConfiguredSetting(f"{table}.{name}", entries[name], "file") for name in entries]
    for name, model in config.model_configs.items():
        values = {"of": model.of, "provider_order": list(model.provider_order)}
        values.update({f"parameters.{key}": value for key, value in model.parameters.items()})
        rows += [ConfiguredSetting(f"models.{name}.{key}", values[key], "file") for key in values]
    rows += _of_tools(host)
    for name in config.providers:
        if name in host.instances:
            found = of_instance(host, host.instances[name])
            rows += [row for row in found if row.source not in ("default", "nowhere")]
        else:
            rows += _of_unknown_type(config, name)
    return rows


def of_instance(host: Host, instance: ProviderInstance) -> list[ConfiguredSetting]:
    """Values of an instance, including defaults of its type."""
    config, name = instance.config, instance.name
    where = "file" if name in host.config.providers else "default"
    enabled = ConfiguredSetting(f"providers.{name}.enabled", config.enabled, where)
    rows = [ConfiguredSetting(f"providers.{name}.type", config.type, where)]
    rows += [] if config.enabled else [enabled]
    for setting in describe(instance.type.settings):
        row = (
            _secret(instance.find_key, setting)
            if setting.secret
            else _open(config.settings, setting)
        )
        rows.append(row._replace(key=f"providers.{name}.{setting.name}"))
    unknown = config.settings.keys() - {each.name for each in describe(instance.type.settings)}
    rows += [
        ConfiguredSetting(f"providers.{name}.{each}", HIDDEN, "file") for each in sorted(unknown)
    ]
    rows += [
        ConfiguredSetting(f"providers.{name}.models.{model}", id, "file")
        for model, id in config.models.items()
    ]
    for limit in describe(CallLimits):
        row = _open(config.limits, limit)
        if row.source != "default":
            rows.append(row._replace(key=f"providers.{name}.limits.{limit.name}"))
    return [_overridden(row, config.overrides) for row in rows]


def value_of(config: Config, key: str) -> Any:
    """Value of a key that does not belong to an instance; for an alias, its model. Raises
    `ConfigurationError` for an unknown alias."""
    table, _, name = key.partition(".")
    if table == "aliases":
        if name not in config.aliases:
            raise ConfigurationError(
                f"unknown alias {name!r}", hint=f"define it: genai-host config alias {name} MODEL"
            )
        return config.aliases[name]
    return _plain(config.value(key))


def _of_tools(host: Host) -> Iterator[ConfiguredSetting]:
    """Values of each tool set, with defaults; values of unknown settings are hidden."""
    known = host.registry.tool_sets
    for name in {**known, **host.config.tools}:
        config = host.config.tools.get(name, SetConfig())
        described = describe(known[name].settings) if name in known else []
        for setting in described:
            key = f"tools.{name}.{setting.name}"
            if setting.secret:
                row = _secret(partial(find_key, host.keys, name, config), setting)
            else:
                row = _open(config.settings, setting)
            yield _overridden(row._replace(key=key), config.overrides)
        for unknown in sorted(config.settings.keys() - {each.name for each in described}):
            yield ConfiguredSetting(f"tools.{name}.{unknown}", HIDDEN, "file")


def _open(given: Mapping[str, Any], setting: Setting) -> ConfiguredSetting:
    if setting.name in given:
        return ConfiguredSetting(setting.name, given[setting.name], "file")
    for variable in setting.env:
        if os.environ.get(variable):
            source = f"the environment variable {variable}"
            return ConfiguredSetting(setting.name, os.environ[variable], source)
    return ConfiguredSetting(setting.name, setting.default, "default")


def _secret(find: Callable[[Setting], FoundKey | None], setting: Setting) -> ConfiguredSetting:
    try:
        found = find(setting)
    except ConfigurationError as error:
        return ConfiguredSetting(setting.name, HIDDEN, str(error))
    if found is None:
        return ConfiguredSetting(setting.name, "", "nowhere")
    return ConfiguredSetting(setting.name, HIDDEN, found.source)


def _overridden(row: ConfiguredSetting, overrides: Mapping[str, str]) -> ConfiguredSetting:
    """The row with an overriding environment variable. Secrets have a separate lookup."""
    setting = row.key.split(".", 2)[2]
    if setting not in overrides or row.value == HIDDEN:
        return row
    variable = overrides[setting]
    return row._replace(value=os.environ[variable], source=f"the environment variable {variable}")


def _of_unknown_type(config: Config, name: str) -> Iterator[ConfiguredSetting]:
    """Settings of an unknown type, without values, because any of them may be secret."""
    instance = config.providers[name]
    yield ConfiguredSetting(f"providers.{name}.type", instance.type, "file")
    for setting in instance.settings:
        yield ConfiguredSetting(f"providers.{name}.{setting}", HIDDEN, "file")


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


@click.command(name="providers")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_app
def command(app: App, name: str | None, as_json: bool) -> None:
    """List providers, or show the settings of one."""
    absent = app.host.instances.unknown
    if name is None:
        rows = provider_rows(app.host)
    elif name in absent:
        rows = [absent_row(name, absent[name])]
    else:
        rows = [provider_row(app.host, app.instance(name))]
    if name is not None and not as_json:
        _show(rows[0])
    else:
        echo_rows(rows, ("name", "type", "status", "dialects", "reason"), as_json)


def _show(row: dict[str, Any]) -> None:
    for key in ("name", "type", "plugin", "status", "reason"):
        if row[key]:
            echo(f"{key + ':':<10}{row[key]}")
    if row["dialects"]:
        echo(f"{'dialects:':<10}{', '.join(row['dialects'])}")
    if row["settings"]:
        echo("")
        echo_settings(row["settings"])


def echo_settings(settings: Sequence[Mapping[str, Any]], as_json: bool = False) -> None:
    """Print described settings."""
    titles = {"name": "setting", "type": "type", "default": "default", "env": "environment"}
    echo_rows(settings, {**titles, "help": "description"}, as_json)
