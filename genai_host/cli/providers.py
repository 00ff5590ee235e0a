"""`genai-host providers`."""

from __future__ import annotations

from typing import Any

import attrs
import click

from genai_host.api import Provider
from genai_host.api.settings import describe
from genai_host.cli.app import App, pass_app
from genai_host.cli.terminal import echo, echo_json, echo_table
from genai_host.errors import NoRoute
from genai_host.instances import Instance


@click.command(name="providers")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_app
def command(app: App, name: str | None, as_json: bool) -> None:
    """List the provider instances; with NAME, the settings of one."""
    instances = list(app.host.instances)
    if name is not None:
        instances = [instance for instance in instances if instance.name == name]
        if not instances:
            known = ", ".join(sorted(each.name for each in app.host.instances)) or "none"
            raise NoRoute(f"there is no provider {name!r}", hint=f"there are: {known}")
    rows = [_row(app, instance) for instance in instances]
    rows += [
        {"name": absent, "type": "", "status": "failed", "reason": reason}
        for absent, reason in app.host.instances.unknown.items()
        if name in (None, absent)
    ]
    if as_json:
        echo_json(rows)
    elif name is not None:
        _show(rows[0])
    else:
        columns = ("name", "type", "status", "dialects", "reason")
        echo_table(columns, [[row.get(column) for column in columns] for row in rows])


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


def _show(row: dict[str, Any]) -> None:
    for key in ("name", "type", "plugin", "status", "reason"):
        if row.get(key):
            echo(f"{key + ':':<10}{row[key]}")
    echo(f"{'dialects:':<10}{', '.join(row['dialects'])}")
    echo("")
    columns = ("setting", "type", "default", "environment", "what it is")
    settings = row["settings"]
    echo_table(
        columns,
        [[s["name"], s["type"], s["default"], s["env"], s["help"]] for s in settings],
    )
