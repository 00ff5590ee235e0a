"""`genai-host models`."""

from __future__ import annotations

from typing import Any

import click

from genai_host.api.cancellation import Cancellation
from genai_host.cli.app import App, pass_app
from genai_host.cli.terminal import echo_json, echo_table
from genai_host.errors import GenaiError, PluginError
from genai_host.providers.instance import ProviderInstance
from genai_host.serializers.listings import model_rows


@click.command(name="models")
@click.option("--all", "everything", is_flag=True, help="Also list models that cannot run.")
@click.option("--at", metavar="PROVIDER", help="Query this provider for its models.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_app
def command(app: App, everything: bool, at: str | None, as_json: bool) -> None:
    """List available models and their providers."""
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
    rows = _listed(app.instance(provider))
    if as_json:
        echo_json(rows)
        return
    columns = ("id", "dialects", "can", "window")
    echo_table(columns, [[row[column] for column in columns] for row in rows])


def _listed(instance: ProviderInstance) -> list[dict[str, Any]]:
    """What a provider says it has, asked within the bounds of its calls."""
    try:
        with Cancellation() as cancellation, instance.attempt(cancellation) as attempt:
            attempt.watch.wait()
            return [
                {
                    "id": each.id,
                    "dialects": list(each.dialects or ()),
                    "can": sorted(each.capabilities or ()),
                    "window": each.window,
                }
                for each in attempt.provider.list_models(attempt.limits)
            ]
    except GenaiError as error:
        raise error.located(provider=instance.name) from error.__cause__
    except Exception as error:  # whatever a plugin does
        raise PluginError(
            f"{instance.name} cannot list its models: {type(error).__name__}: {error}",
            provider=instance.name,
            hint="this is a fault of a plugin; -v shows where",
        ) from error
