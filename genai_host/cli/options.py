"""The options that `ask` and `chat` share: what to converse with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from genai_host.api import Checker
from genai_host.api.json_text import read_json
from genai_host.cli.app import App
from genai_host.errors import InvalidData

if TYPE_CHECKING:
    from genai_host.conversation import Conversation

F = TypeVar("F", bound=Callable[..., Any])


def _names(kind: str) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    def complete(ctx: click.Context, param: click.Parameter, typed: str) -> list[CompletionItem]:
        host = ctx.ensure_object(App).host
        names: Mapping[str, list[str]] = {
            "models": sorted({each.model.name for each in host.routes() if each.runs}),
            "providers": sorted(instance.name for instance in host.instances),
            "features": sorted(host.registry.features),
        }
        return [CompletionItem(name) for name in names[kind] if name.startswith(typed)]

    return complete


_OPTIONS = (
    click.option(
        "--model", "-m", help="Which model, as `models` lists it.", shell_complete=_names("models")
    ),
    click.option("--provider", "-p", help="At which provider.", shell_complete=_names("providers")),
    click.option(
        "--feature", "-f", help="Through which feature.", shell_complete=_names("features")
    ),
    click.option(
        "--role",
        "roles",
        multiple=True,
        metavar="ROLE=MODEL",
        help="A model for another role of the feature, as support=smollm2.",
    ),
    click.option("--system", "-s", metavar="TEXT", help="What the model is told before all else."),
    click.option(
        "--param",
        "params",
        multiple=True,
        metavar="NAME=VALUE",
        help="A model parameter, as temperature=0.2.",
    ),
    click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="NAME=VALUE",
        help="A setting of the feature, as history_turns=3.",
    ),
)


def conversation_options(function: F) -> F:
    """Add them to a command, which gets them by name."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def attach_option(sources: str, help: str) -> Callable[[F], F]:
    """The option `attach` of a command: what it takes, and what it does with it."""
    return click.option("--attach", "-a", "attach", multiple=True, metavar=sources, help=help)


def open_conversation(app: App, **chosen: Any) -> Conversation:
    """The conversation that the options ask for; they are as `changes` takes them."""
    return app.host.open(**changes(**chosen))


def changes(
    *,
    model: str | None,
    provider: str | None,
    feature: str | None,
    roles: tuple[str, ...],
    system: str | None,
    params: tuple[str, ...],
    settings: tuple[str, ...],
) -> dict[str, Any]:
    """What the options ask for, as `Host.open` takes it."""
    chosen = named_values(settings, "--set")
    if system is not None:
        chosen["system_prompt"] = system
    return {
        "feature": feature,
        "model": model,
        "provider": provider,
        "models": {role: str(name) for role, name in named_values(roles, "--role").items()},
        "parameters": named_values(params, "--param"),
        "settings": chosen,
    }


def named_values(given: tuple[str, ...], option: str) -> dict[str, Any]:
    """`NAME=VALUE` pairs; a value is JSON where it can be, else a string."""
    values: dict[str, Any] = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{pair!r} is not NAME=VALUE", param_hint=option)
        values[name] = json_or_text(value)
    return values


def json_or_text(value: str) -> Any:
    """A value from the command line: JSON where it can be, else a string."""
    try:
        return read_json(value)
    except ValueError:
        return value


def read_schema(given: str) -> dict[str, Any]:
    """A JSON Schema from a file, or written out."""
    text = given
    if not given.lstrip().startswith("{"):
        try:
            text = Path(given).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise click.BadParameter(
                f"{given} cannot be read: {error}", param_hint="--schema"
            ) from error
    try:
        schema = read_json(text)
    except ValueError as error:
        raise click.BadParameter(f"it is not JSON: {error}", param_hint="--schema") from error
    if not isinstance(schema, dict):
        raise click.BadParameter("it is not a JSON object", param_hint="--schema")
    try:
        Checker(schema)
    except InvalidData as error:
        raise click.BadParameter(str(error), param_hint="--schema") from error
    return schema
