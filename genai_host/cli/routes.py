"""`genai-host routes`: routes from models to providers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import get_args

import click

from genai_host.api import Operation
from genai_host.catalog.join import Candidate
from genai_host.cli.app import App, pass_app
from genai_host.cli.options import RenamedOption
from genai_host.cli.terminal import echo_json, echo_table, is_terminal, note
from genai_host.serializers.listings import route_row


@click.group(name="routes", invoke_without_command=True)
@click.option("--all", "everything", is_flag=True, help="Also list models that no provider offers.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON: all models and providers, with reasons."
)
@click.pass_context
def command(ctx: click.Context, everything: bool, as_json: bool) -> None:
    """Show which models run at which providers; `explain` shows why not."""
    if ctx.invoked_subcommand is not None:
        return
    candidates = ctx.ensure_object(App).host.probe().matrix()
    if as_json:
        echo_json([route_row(candidate) for candidate in candidates])
        return
    if not is_terminal(sys.stdout):
        echo_table((), [_line(candidate) for candidate in candidates if candidate.id])
        return
    offered = {each.model.name for each in candidates if each.id}
    shown = [each for each in candidates if everything or each.model.name in offered]
    _show_matrix(shown)
    if len(shown) < len(candidates):
        note("models without a provider are not shown; show them: --all", dim=True)


@command.command("explain")
@click.argument("name")
@click.option("--provider", "-p", help="Only this provider.")
@click.option(
    "--operation",
    cls=RenamedOption,
    former="--for",
    type=click.Choice(get_args(Operation)),
    default="chat",
    show_default=True,
    help="Operation that the model must support.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_app
def explain(app: App, name: str, provider: str | None, operation: Operation, as_json: bool) -> None:
    """Explain where a model can run, best route first, and why not elsewhere."""
    candidates = app.host.probe().explain(name, provider, operation)
    if as_json:
        echo_json([route_row(candidate) for candidate in candidates])
        return
    columns = ("model", "provider", "dialect", "id", "state", "reason")
    echo_table(columns, [_line(candidate) for candidate in candidates])


def _line(candidate: Candidate) -> list[str]:
    return [
        candidate.model.name,
        candidate.provider,
        candidate.dialect or "-",
        candidate.id or "-",
        candidate.state,
        "; ".join(candidate.reasons),
    ]


def _show_matrix(candidates: Sequence[Candidate]) -> None:
    """Print a row per model and a column per provider, with dialects as cells."""
    providers = list(dict.fromkeys(candidate.provider for candidate in candidates))
    cells: dict[str, dict[str, list[str]]] = {}
    for candidate in candidates:
        cell = cells.setdefault(candidate.model.name, {}).setdefault(candidate.provider, [])
        if candidate.runs:
            cell.append(candidate.dialect)
        elif candidate.id:
            cell.append(f"({candidate.state})")
    rows = [
        [model, *(", ".join(row.get(provider, ())) or "-" for provider in providers)]
        for model, row in cells.items()
    ]
    echo_table(("model", *providers), rows)
