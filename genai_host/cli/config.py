"""`genai-host config`: the configuration file and its provider instances."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import click

from genai_host.cli.app import App, pass_app
from genai_host.cli.terminal import echo, echo_json, echo_rows, echo_table, note
from genai_host.config import edit_config, must_be_writable, read_config
from genai_host.config.environment import overrides_in
from genai_host.config.schema import MODELS, REMOVED, ModelConfig
from genai_host.errors import GenaiError
from genai_host.util import paths

if TYPE_CHECKING:
    from genai_host.api import Operation
    from genai_host.config import ModelConfig

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group(name="config")
def command() -> None:
    """Show and edit the configuration, including its providers.

    A KEY is a path in the file, with dots: defaults.model, aliases.NAME, approvals.TOOL,
    tools.NAME.SETTING, providers.NAME.SETTING, providers.NAME.models.MODEL,
    providers.NAME.limits.LIMIT.
    """


@command.command("path")
def path() -> None:
    """Print the path of the configuration file."""
    echo(paths.config_file())


@command.command("migrate")
def migrate() -> None:
    """Rename the keys of an earlier version in the file, and delete removed ones.

    Comments and layout stay, and the previous file is saved as config.toml.bak.
    """
    from genai_host.util.files import read_text

    path = paths.config_file()
    if not os.path.exists(path):
        note(f"no configuration file at {path}")
        return
    before = read_text(path)
    with edit_config() as document:
        for key in REMOVED:
            table, _, name = key.partition(".")
            document.get(table, {}).pop(name, None)
    is_changed = read_text(path) != before
    note(f"migrated: {path}" if is_changed else f"nothing to migrate: {path}")


@command.command("list")
@_JSON
def list_instances(as_json: bool) -> None:
    """List configured providers."""
    rows = [
        {
            "name": name,
            "type": instance.type,
            "enabled": instance.enabled,
            "models": dict(instance.models),
        }
        for name, instance in read_config().providers.items()
    ]
    if not as_json:
        rows = [{**row, "enabled": "yes" if row["enabled"] else "no"} for row in rows]
    echo_rows(rows, ("name", "type", "enabled", "models"), as_json)


@command.command("show")
@click.argument("name", required=False)
@_JSON
@pass_app
def show(app: App, name: str | None, as_json: bool) -> None:
    """Show all settings, or those of a provider, and where each value comes from."""
    from genai_host.cli.providers import configured, of_instance

    rows = configured(app.host) if name is None else of_instance(app.host, app.instance(name))
    if as_json:
        echo_json([row._asdict() for row in rows])
    else:
        echo_table(("key", "value", "from"), [[row.key, row.shown(), row.source] for row in rows])


@command.command("types")
@click.argument("type", required=False)
@_JSON
@pass_app
def types(app: App, type: str | None, as_json: bool) -> None:
    """List provider types, or the settings of one TYPE."""
    import attrs

    from genai_host.api.settings import describe
    from genai_host.cli.providers import echo_settings
    from genai_host.providers.config_edits import type_named
    from genai_host.providers.limits import CallLimits

    known = app.host.registry.providers
    if type is None:
        rows = [
            {"name": name, "plugin": app.host.registry.owner("provider", name)} for name in known
        ]
        echo_rows(rows, {"name": "type", "plugin": "plugin"}, as_json)
        return
    settings = describe(type_named(known, type).settings)
    limits = [attrs.evolve(each, name=f"limits.{each.name}") for each in describe(CallLimits)]
    described = [attrs.asdict(each) for each in (*settings, *limits)]
    echo_settings(described, as_json)


@command.command("add")
@click.argument("name")
@click.argument("type")
@click.argument("values", nargs=-1, metavar="[SETTING=VALUE]...")
@pass_app
def add(app: App, name: str, type: str, values: tuple[str, ...]) -> None:
    """Add a provider of TYPE called NAME.

    SETTING is a setting of the type (`config types TYPE` lists them), models.MODEL (its value
    is the id of the model at the provider), or limits.LIMIT.

    \b
    genai-host config add groq openai-compatible base_url=https://api.groq.com/openai/v1
    genai-host keys set groq
    genai-host ask -p groq -m llama-3.3-70b-versatile hi
    """
    from genai_host.providers.config_edits import add_instance

    must_be_writable()
    types = app.host.registry.providers
    settings = _pairs(values)
    with edit_config() as document:
        add_instance(document, types, name, type, settings)
    note(f"added: {name}")
    _warn_of_invalid(app, name)
    _show_next_step(app, name, type, settings)


@command.command("set")
@click.argument("values", nargs=-1, required=True, metavar="KEY=VALUE...")
@pass_app
def set_values(app: App, values: tuple[str, ...]) -> None:
    """Set one or more keys. If a value is invalid, nothing is changed.

    Separate the items of a list with commas. Write other values as JSON or as text.

    \b
    genai-host config set defaults.model=smollm2 defaults.provider_order=local,groq
    genai-host config set providers.groq.limits.first_token_timeout=120
    """
    _set(app, _pairs(values))


@command.command("unset")
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
def unset(keys: tuple[str, ...]) -> None:
    """Remove keys from the file, restoring their defaults."""
    from genai_host.providers.config_edits import unset_keys

    with edit_config() as document:
        unset_keys(document, keys)
    note(f"unset: {', '.join(keys)}")


@command.command("default")
@click.argument("what", type=click.Choice(["feature", "model", "embed", "moderate", "transcribe"]))
@click.argument("name", required=False)
@click.option("--remove", is_flag=True, help="Remove the default.")
@pass_app
def default(app: App, what: str, name: str | None, remove: bool) -> None:
    """Show or set the default feature or model: `config default model smollm2`.

    Without NAME, print the default. `embed` is the model for embeddings, `moderate` the model for
    moderation, and `transcribe` the model for speech to text.
    """
    last = {operation: key for key, operation in MODELS.items()}.get(what, what)
    _set_or_print(app, f"defaults.{last}", name, remove)


@command.command("alias")
@click.argument("name")
@click.argument("model", required=False)
@click.option("--remove", is_flag=True, help="Remove the alias.")
@pass_app
def alias(app: App, name: str, model: str | None, remove: bool) -> None:
    """Define, show or remove a model alias: `config alias fast smollm2@local`.

    An alias can be used wherever a model name is accepted. Without MODEL, print the model of
    the alias. An alias is a model configuration without parameters: see `models add`.
    """
    _set_or_print(app, f"aliases.{name}", model, remove)


@command.command("remove")
@click.argument("name")
def remove(name: str) -> None:
    """Remove a provider. Stored keys are not deleted; see `keys remove`."""
    from genai_host.providers.config_edits import remove_instance

    with edit_config() as document:
        remove_instance(document, name)
    note(f"removed: {name}")


@command.command("enable")
@click.argument("name")
@pass_app
def enable(app: App, name: str) -> None:
    """Enable a disabled provider."""
    _enable(app, name, enabled=True)


@command.command("disable")
@click.argument("name")
@pass_app
def disable(app: App, name: str) -> None:
    """Disable a provider without removing it."""
    _enable(app, name, enabled=False)


def _enable(app: App, name: str, *, enabled: bool) -> None:
    from genai_host.providers.config_edits import enable_instance

    must_be_writable()
    # only an instance that is not configured yet needs the plugins
    types = {} if name in read_config().providers else app.host.registry.providers
    with edit_config() as document:
        enable_instance(document, types, name, enabled=enabled)
    note(f"{'enabled' if enabled else 'disabled'}: {name}")


def _set_or_print(app: App, key: str, value: str | None, remove: bool) -> None:
    from genai_host.providers.config_edits import unset_keys

    if remove:
        with edit_config() as document:
            unset_keys(document, [key])
        note(f"unset: {key}")
    elif value is not None:
        _set(app, {key: value})
    else:
        from genai_host.cli.providers import value_of

        echo(value_of(read_config(), key))


def _set(app: App, values: Mapping[str, str]) -> None:
    from genai_host.providers.config_edits import set_keys, split_key

    must_be_writable()
    keys = [split_key(key) for key in values]
    tables = {key[0] for key in keys}
    types = app.host.registry.providers if "providers" in tables else {}
    sets = app.host.registry.tool_sets if "tools" in tables else {}
    for key, value in zip(keys, values.values(), strict=True):
        _check_name(app, key, value)
    with edit_config() as document:
        set_keys(document, types, values, sets)
    note(f"set: {', '.join(values)}")
    for name in dict.fromkeys(key[1] for key in keys if key[0] == "providers"):
        _warn_of_invalid(app, name)
    for variable in _overriding(values):
        note(f"the environment variable {variable} overrides it", fg="yellow")


def _check_name(app: App, key: tuple[str, ...], value: str) -> None:
    """Check that the feature, model or provider named by a value exists."""
    if key == ("defaults", "feature"):
        app.host.feature(value)
    elif key[0] == "aliases":
        check_configuration(app, key[1], ModelConfig(value))
    elif key[0] == "approvals":
        if not key[1].endswith("*"):
            app.host.tool(key[1])
    elif key[0] == "defaults" and key[-1] in MODELS:
        _check_model(app, value, cast("Operation", MODELS[key[-1]]))
    elif key == ("defaults", "provider_order"):
        for name in filter(None, (each.strip() for each in value.split(","))):
            app.instance(name)


def check_configuration(app: App, name: str, config: ModelConfig) -> None:
    """Check a model configuration. A model without a usable route is accepted, because its key may
    be added later."""
    reason = app.host.check_configuration(name, config)
    if reason:
        note(f"warning: {name} cannot run now: {reason}", fg="yellow")
    declared = app.host.catalog.names.get(name)
    if declared is not None:
        note(f"{name} is a name of the model {declared.name}, and now redirects it")


def _check_model(app: App, name: str, operation: Operation | None) -> None:
    """Check a model. A model without a usable route is accepted, because its key may be added
    later."""
    catalog = app.host.catalog
    found = catalog.explain(name, None, operation or catalog.model_named(name).operation)
    if not any(candidate.runs for candidate in found):
        reasons = "; ".join(dict.fromkeys(reason for each in found for reason in each.reasons))
        note(f"warning: {name} cannot run now: {reasons}", fg="yellow")


def _overriding(values: Mapping[str, str]) -> list[str]:
    overrides = overrides_in(os.environ)
    return [overrides[key] for key in values if key in overrides]


def _show_next_step(app: App, name: str, type: str, given: Mapping[str, str]) -> None:
    from genai_host.api.settings import describe

    settings = describe(app.host.registry.providers[type].settings)
    secrets = [each.name for each in settings if each.secret]
    if secrets and not any(secret in given for secret in secrets):
        note(f"if it needs a key: genai-host keys set {name}")


def _warn_of_invalid(app: App, name: str) -> None:
    """Warn of settings that only the provider itself can check. Its secrets may be set later."""
    from genai_host.api.settings import describe

    app.host.instances.configure(name, read_config().providers[name])
    instance = app.host.instances[name]
    try:
        _ = instance.config.enabled and instance.provider
    except GenaiError as error:
        secrets = [each.name for each in describe(instance.type.settings) if each.secret]
        if getattr(error, "setting", None) not in secrets:
            note(f"warning: {name} cannot run: {error}", fg="yellow")
            if error.hint:
                note(f"  {error.hint}")


def _pairs(given: tuple[str, ...]) -> dict[str, str]:
    pairs: dict[str, Any] = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise click.UsageError(f"expected KEY=VALUE, not {pair!r}")
        if name in pairs:
            raise click.UsageError(f"duplicate key {name}")
        pairs[name] = value
    return pairs
