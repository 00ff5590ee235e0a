"""`genai-host providers`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs
import click

from genai_host.api import Provider
from genai_host.api.settings import describe
from genai_host.cli.app import App, pass_app
from genai_host.cli.terminal import echo, echo_json, echo_table
from genai_host.instance import Instance


@click.command(name="providers")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_app
def command(app: App, name: str | None, as_json: bool) -> None:
    """List the provider instances; with NAME, the settings of one."""
    absent = app.host.instances.unknown
    if name is None:
        rows = [_row(app, instance) for instance in app.host.instances]
        rows += [_row_of_none(unknown, reason) for unknown, reason in absent.items()]
    elif name in absent:
        rows = [_row_of_none(name, absent[name])]
    else:
        rows = [_row(app, app.instance(name))]
    if as_json:
        echo_json(rows)
    elif name is not None:
        _show(rows[0])
    else:
        columns = ("name", "type", "status", "dialects", "reason")
        echo_table(columns, [[row[column] for column in columns] for row in rows])


def _row(app: App, instance: Instance) -> dict[str, Any]:
    served = app.host.catalog.served[instance.name]
    provider = instance.look()
    reason = served.missing
    return {
        "name": instance.name,
        "type": instance.type.name,
        "plugin": app.host.registry.owner("provider", instance.type.name),
        "status": "runs" if not reason else "failed",
        "reason": reason,
        "dialects": list(served.serves),
        "default_models": dict(provider.default_models) if isinstance(provider, Provider) else {},
        "settings": [attrs.asdict(setting) for setting in describe(instance.type.settings)],
    }


def _row_of_none(name: str, reason: str) -> dict[str, Any]:
    """A configured instance of a type that no plugin brings."""
    return {
        "name": name,
        "type": "",
        "plugin": "",
        "status": "failed",
        "reason": reason,
        "dialects": [],
        "default_models": {},
        "settings": [],
    }


def _show(row: dict[str, Any]) -> None:
    for key in ("name", "type", "plugin", "status", "reason"):
        if row[key]:
            echo(f"{key + ':':<10}{row[key]}")
    if row["dialects"]:
        echo(f"{'dialects:':<10}{', '.join(row['dialects'])}")
    if row["settings"]:
        echo("")
        echo_settings(row["settings"])


def echo_settings(settings: Iterable[Mapping[str, Any]]) -> None:
    """A table of described settings."""
    columns = ("setting", "type", "default", "environment", "what it is")
    keys = ("name", "type", "default", "env", "help")
    echo_table(columns, [[setting[key] for key in keys] for setting in settings])
