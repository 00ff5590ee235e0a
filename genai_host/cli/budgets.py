"""`genai-host budgets`: budgets and current spending."""

from __future__ import annotations

import click

from genai_host.cli.app import App, pass_app
from genai_host.cli.terminal import echo_json, echo_table, note
from genai_host.serializers.conversations import budget_row


@click.command(name="budgets")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_app
def command(app: App, as_json: bool) -> None:
    """Show budgets, current spending, and when each budget resets.

    \b
    genai-host config set budgets.per_turn=0.5
    """
    host = app.recording_host
    config = host.config.budgets
    found = host.budgets.states() if config.are_kept else []
    if as_json:
        echo_json({"run": config.per_turn, "data": [budget_row(budget) for budget in found]})
        return
    if config.per_turn is not None:
        note(f"limit per turn: ${config.per_turn:g}")
    if not found and config.per_turn is None:
        note("no budgets; set one: genai-host config set budgets.per_turn=0.5")
    echo_table(
        ("budget", "spent", "of", "", "resets"),
        [
            [
                budget.name,
                f"{budget.spent:.4g}{'+' * bool(budget.unknown and budget.unit == 'dollars')}",
                f"{budget.most:g}",
                budget.unit,
                budget.renews.strftime("%Y-%m-%d %H:%M UTC"),
            ]
            for budget in found
        ],
    )
