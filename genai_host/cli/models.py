"""`genai-host models`: the list of models, and the user's model configurations."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from genai_host.cli.app import App, pass_app
from genai_host.cli.config import check_configuration
from genai_host.cli.options import RenamedOption, model_parameters
from genai_host.cli.terminal import echo_json, echo_rows, note
from genai_host.config import edit_config, must_be_writable
from genai_host.serializers.listings import configuration_row, listed_rows, model_rows

if TYPE_CHECKING:
    from genai_host.config import ModelConfig

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group(name="models", invoke_without_command=True)
@click.option("--all", "everything", is_flag=True, help="Also list models that cannot run.")
@click.option(
    "--provider",
    "-p",
    cls=RenamedOption,
    former="--at",
    metavar="PROVIDER",
    help="Query this provider for its models.",
)
@_JSON
@click.pass_context
def command(ctx: click.Context, everything: bool, provider: str | None, as_json: bool) -> None:
    """List available models and their providers, or manage model configurations.

    A model configuration is a name for a model with parameters and preferred providers. It can be
    used wherever a model name is accepted. A configuration with the name of a model redirects
    that name.

    \b
    genai-host models add precise --of smollm2 --param temperature=0
    genai-host models add name-that-an-agent-asks-for --of smollm2@local
    genai-host ask -m precise "What is the capital of France?"
    """
    if ctx.invoked_subcommand is None:
        _list(ctx.ensure_object(App), everything, provider, as_json)
    elif everything or provider is not None or as_json:
        raise click.UsageError(f"options of {ctx.invoked_subcommand} come after it")


@command.command("list")
@_JSON
@pass_app
def list_configurations(app: App, as_json: bool) -> None:
    """List the model configurations, including aliases, which have no parameters."""
    rows = [
        {
            "name": name,
            "of": config.of,
            "provider_order": list(config.provider_order),
            "parameters": dict(config.parameters),
        }
        for name, config in app.host.config.configurations.items()
    ]
    if not as_json:
        rows = [{**row, "parameters": json.dumps(row["parameters"])} for row in rows]
    titles = {"provider_order": "providers", "parameters": "parameters"}
    echo_rows(rows, {"name": "name", "of": "of", **titles}, as_json)


_ORDER = click.option(
    "--provider",
    "-p",
    "providers",
    multiple=True,
    metavar="NAME",
    help="Prefer this provider; repeat it to name several, best first.",
)
_PARAMETERS = click.option(
    "--param",
    "params",
    multiple=True,
    metavar="NAME=VALUE",
    help="Default value of a model parameter, such as temperature=0.",
)


@command.command("add")
@click.argument("name")
@click.option("--of", required=True, metavar="MODEL", help="The model, as listed by `models`.")
@_ORDER
@_PARAMETERS
@_JSON
@pass_app
def add(
    app: App, name: str, of: str, providers: tuple[str, ...], params: tuple[str, ...], as_json: bool
) -> None:
    """Add a model configuration called NAME, which can be the name of a model."""
    from genai_host.providers.config_edits import add_model

    must_be_writable()
    with edit_config() as document:
        config = add_model(document, name, of, providers, model_parameters(params))
        check_configuration(app, name, config)
    _report(app, "added", name, config, as_json)


@command.command("set")
@click.argument("name")
@click.option("--of", metavar="MODEL", help="Another model.")
@_ORDER
@_PARAMETERS
@_JSON
@pass_app
def set_configuration(
    app: App,
    name: str,
    of: str | None,
    providers: tuple[str, ...],
    params: tuple[str, ...],
    as_json: bool,
) -> None:
    """Change a model configuration. Omitted options keep their values.

    Providers replace the previous ones. A parameter set to null is removed.
    """
    from genai_host.providers.config_edits import set_model

    must_be_writable()
    if not (of or providers or params):
        raise click.UsageError("nothing to change: use --of, --provider or --param")
    with edit_config() as document:
        values = model_parameters(params)
        config = set_model(document, name, of, providers or None, values)
        check_configuration(app, name, config)
    _report(app, "set", name, config, as_json)


@command.command("remove")
@click.argument("name")
@pass_app
def remove(app: App, name: str) -> None:
    """Remove a model configuration. Conversations that use it are not changed."""
    from genai_host.providers.config_edits import remove_model

    with edit_config() as document:
        remove_model(document, name)
    note(f"removed: {name}")


def _report(app: App, done: str, name: str, config: ModelConfig, as_json: bool) -> None:
    if as_json:
        host = app.host
        configs = {**host.config.model_configs, name: config}
        host.reconfigure(host.config._replace(model_configs=configs))
        echo_json(configuration_row(host, name))
    else:
        note(f"{done}: {name}")


def _list(app: App, everything: bool, provider: str | None, as_json: bool) -> None:
    if provider is not None:
        rows = listed_rows(app.instance(provider))
        echo_rows(rows, ("id", "dialects", "can", "window"), as_json)
        return
    rows = [row for row in model_rows(app.host) if everything or row["runs"]]
    columns = ["name", "aliases", "for", "window", "can", "providers"]
    if everything:
        columns += ["state", "reason"]
    echo_rows(rows, columns, as_json)
