"""`genai-host usage`: usage of model calls."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC
from typing import TYPE_CHECKING

import click

from genai_host.cli.app import App, pass_app
from genai_host.cli.terminal import echo, echo_json, echo_table, is_terminal
from genai_host.serializers.conversations import day_in, groups_in, usage_row

if TYPE_CHECKING:
    from genai_host.store.usage import UsageRow

_BAR = 40  # characters
_PARTS = " ▏▎▍▌▋▊▉"  # eighths of a character
_PLOTS = ("calls", "tokens", "cost", "failed", "p50", "p95")


@click.command(name="usage")
@click.option(
    "--by",
    default="model",
    metavar="NAMES",
    help="Group by model, provider, feature, user or day (comma-separated).  [model]",
)
@click.option(
    "--since", default="", metavar="DAY", help="First day (UTC): YYYY-MM-DD, or an age such as 7d."
)
@click.option("--until", default="", metavar="DAY", help="Last day (UTC).")
@click.option("--user", metavar="NAME", help="Only this user; empty for the server owner.")
@click.option("--plot", type=click.Choice(_PLOTS), help="Show a bar chart of this value.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_app
def command(
    app: App, by: str, since: str, until: str, user: str | None, plot: str | None, as_json: bool
) -> None:
    """Show usage, cost and latency of model calls.

    Costs are list prices. Calls of deleted conversations are included. Days are in UTC.
    """
    now = app.host.clock.now().astimezone(UTC)
    groups = groups_in(by)
    rows = app.store.usage(
        by=groups,
        since=day_in(since, now, "--since"),
        until=day_in(until, now, "--until"),
        user=user,
    )
    if as_json:
        echo_json([usage_row(row) for row in rows])
    elif plot is not None:
        _draw(plot, groups, rows)
    else:
        _show(groups, rows)


def _show(groups: Sequence[str], rows: Sequence[UsageRow]) -> None:
    of_calls = ("calls", "failed", "input", "output", "cost")
    echo_table(
        (*groups, *of_calls, "mean s", "p50 s", "p95 s", "slowest s"),
        [
            [
                *(row.of[group] or "-" for group in groups),
                row.calls,
                sum(row.failed.values()),
                row.input_tokens,
                row.output_tokens,
                f"${row.cost.dollars:.4f}{'+' * bool(row.cost.unknown)}",  # `+`: some are unknown
                *(_seconds(each) for each in (row.mean, row.p50, row.p95, row.slowest)),
            ]
            for row in rows
        ],
    )


def _draw(what: str, groups: Sequence[str], rows: Sequence[UsageRow]) -> None:
    """Draw a bar for each group; piped, print the name and the number."""
    named = [
        (" ".join(row.of[group] or "-" for group in groups), _value(what, row)) for row in rows
    ]
    if not is_terminal(sys.stdout):
        for name, value in named:
            echo(f"{name}\t{value:g}")
        return
    width = max((len(name) for name, _ in named), default=0)
    most = max((value for _, value in named), default=0.0)
    for name, value in named:
        echo(f"{name:<{width}}  {bar(value, most):<{_BAR}}  {value:.4g}")


def bar(value: float, most: float) -> str:
    """A bar with a length proportional to the value."""
    eighths = round(8 * _BAR * value / most) if most > 0 else 0
    return "█" * (eighths // 8) + _PARTS[eighths % 8].strip()


def _value(what: str, row: UsageRow) -> float:
    if what == "tokens":
        return row.input_tokens + row.output_tokens
    if what == "cost":
        return row.cost.dollars
    if what == "failed":
        return sum(row.failed.values())
    found: float | None = getattr(row, what)
    return found or 0.0


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
