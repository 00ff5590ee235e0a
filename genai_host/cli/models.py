"""`genai-host models`."""

from __future__ import annotations

from typing import Any

import click

from genai_host.cancellation import Cancellation
from genai_host.cli.app import App, pass_app
from genai_host.cli.terminal import echo_json, echo_table
from genai_host.resolution import Candidate


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
    by_model: dict[str, list[Candidate]] = {}
    for candidate in app.host.routes():
        by_model.setdefault(candidate.model.name, []).append(candidate)
    rows = [_row(app, candidates) for candidates in by_model.values()]
    rows = [row for row in rows if everything or row["runs"]]
    if as_json:
        echo_json(rows)
        return
    columns = ("name", "aliases", "for", "window", "can", "providers")
    echo_table(columns, [[row[column] for column in columns] for row in rows])


def _row(app: App, candidates: list[Candidate]) -> dict[str, Any]:
    model = candidates[0].model
    running = [candidate for candidate in candidates if candidate.runs]
    return {
        "name": model.name,
        "aliases": list(model.aliases),
        "plugin": app.host.registry.owner("model", model.name),
        "for": model.operation,
        "window": model.window,
        "can": sorted(model.capabilities),
        "dialects": list(model.dialects),
        "runs": bool(running),
        "providers": sorted({candidate.provider for candidate in running}),
        "parameters": sorted({name for each in running for name in each.parameters}),
    }


def _list_at(app: App, provider: str, as_json: bool) -> None:
    listed = app.host.instances[provider].provider.list_models(Cancellation())
    rows = [
        {
            "id": each.id,
            "dialects": list(each.dialects or ()),
            "can": sorted(each.capabilities or ()),
            "window": each.window,
        }
        for each in listed
    ]
    if as_json:
        echo_json(rows)
        return
    columns = ("id", "dialects", "can", "window")
    echo_table(columns, [[row[column] for column in columns] for row in rows])
