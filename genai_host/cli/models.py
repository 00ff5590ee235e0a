"""`genai-host models`."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import click

from genai_host.api import Model
from genai_host.cancellation import Cancellation
from genai_host.cli.app import App, pass_app
from genai_host.cli.terminal import echo_json, echo_table
from genai_host.errors import GenaiError, NoRoute, PluginError
from genai_host.instance import Instance
from genai_host.join import Candidate


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
    found: dict[str, list[Candidate]] = {}
    for candidate in app.host.routes():
        found.setdefault(candidate.model.name, []).append(candidate)
    models = dict(app.host.catalog.models)  # where there is no provider, none is in a route
    aliases = _aliases(app)
    for name, names in aliases.items():
        if name not in models:  # what an alias passes through is declared nowhere
            models[name] = app.host.catalog.model_named(names[0])
            found[name] = app.host.catalog.explain(names[0], None, "chat")
    rows = [
        _row(app, model, found.get(name, ()), aliases.get(name, ()))
        for name, model in models.items()
    ]
    rows = [row for row in rows if everything or row["runs"]]
    if as_json:
        echo_json(rows)
        return
    columns = ("name", "aliases", "for", "window", "can", "providers")
    echo_table(columns, [[row[column] for column in columns] for row in rows])


def _aliases(app: App) -> dict[str, list[str]]:
    """The user's own names by the model that each stands for; those that stand for none
    are left to `doctor`."""
    found: dict[str, list[str]] = {}
    for name in app.host.config.aliases:
        with contextlib.suppress(NoRoute):
            found.setdefault(app.host.catalog.model_named(name).name, []).append(name)
    return found


def _row(
    app: App, model: Model, candidates: Sequence[Candidate], aliases: Sequence[str]
) -> dict[str, Any]:
    running = [candidate for candidate in candidates if candidate.runs]
    return {
        "name": model.name,
        "aliases": [*model.aliases, *aliases],
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
    rows = _listed(app.instance(provider))
    if as_json:
        echo_json(rows)
        return
    columns = ("id", "dialects", "can", "window")
    echo_table(columns, [[row[column] for column in columns] for row in rows])


def _listed(instance: Instance) -> list[dict[str, Any]]:
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
