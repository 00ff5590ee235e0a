"""`genai-host features`."""

from __future__ import annotations

import click

from genai_host.cli.app import App, pass_app
from genai_host.cli.terminal import echo_rows
from genai_host.serializers.listings import feature_row


@click.command(name="features")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_app
def command(app: App, as_json: bool) -> None:
    """List features with their roles and settings."""
    rows = [feature_row(app.host, each) for each in app.host.registry.features.values()]
    if not as_json:
        rows = [{**row, "settings": [each["name"] for each in row["settings"]]} for row in rows]
    columns = {"name": "name", "roles": "roles", "settings": "settings", "help": "description"}
    echo_rows(rows, columns, as_json)
