"""`genai-host providers`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import click

from genai_host.cli.app import App, pass_app
from genai_host.cli.terminal import echo, echo_json, echo_table
from genai_host.rows.providers import absent_row, provider_row, provider_rows


@click.command(name="providers")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_app
def command(app: App, name: str | None, as_json: bool) -> None:
    """List the provider instances; with NAME, the settings of one."""
    absent = app.host.instances.unknown
    if name is None:
        rows = provider_rows(app.host)
    elif name in absent:
        rows = [absent_row(name, absent[name])]
    else:
        rows = [provider_row(app.host, app.instance(name))]
    if as_json:
        echo_json(rows)
    elif name is not None:
        _show(rows[0])
    else:
        columns = ("name", "type", "status", "dialects", "reason")
        echo_table(columns, [[row[column] for column in columns] for row in rows])


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
