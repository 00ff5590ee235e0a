"""`genai-host models`."""

from __future__ import annotations

import click

from genai_host.cli.app import App, pass_app
from genai_host.cli.terminal import echo_json, echo_table
from genai_host.serializers.listings import listed_rows, model_rows


@click.command(name="models")
@click.option("--all", "everything", is_flag=True, help="Those that cannot run, too.")
@click.option("--at", metavar="PROVIDER", help="Ask a provider which models it has.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_app
def command(app: App, everything: bool, at: str | None, as_json: bool) -> None:
    """List the models that can run, and where."""
    if at is not None:
        _list_at(app, at, as_json)
        return
    rows = [row for row in model_rows(app.host) if everything or row["runs"]]
    if as_json:
        echo_json(rows)
        return
    columns = ["name", "aliases", "for", "window", "can", "providers"]
    if everything:
        columns += ["state", "reason"]
    echo_table(columns, [[row[column] for column in columns] for row in rows])


def _list_at(app: App, provider: str, as_json: bool) -> None:
    rows = listed_rows(app.instance(provider))
    if as_json:
        echo_json(rows)
        return
    columns = ("id", "dialects", "can", "window")
    echo_table(columns, [[row[column] for column in columns] for row in rows])
