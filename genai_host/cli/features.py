"""`genai-host features`."""

from __future__ import annotations

import click

from genai_host.cli.app import App, pass_app
from genai_host.cli.terminal import echo_json, echo_table
from genai_host.serializers.listings import feature_row


@click.command(name="features")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_app
def command(app: App, as_json: bool) -> None:
    """List features with their roles and settings."""
    rows = [feature_row(app.host, each) for each in app.host.registry.features.values()]
    if as_json:
        echo_json(rows)
        return
    echo_table(
        ("name", "roles", "settings", "description"),
        [
            [
                row["name"],
                row["roles"],
                [setting["name"] for setting in row["settings"]],
                row["help"],
            ]
            for row in rows
        ],
    )
