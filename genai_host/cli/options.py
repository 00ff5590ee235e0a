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
from genai_host.cli.terminal import note
from genai_host.errors import ConfigurationError, InvalidData, NoRoute
from genai_host.last_used import Chosen

if TYPE_CHECKING:
    from genai_host.conversation import Conversation

F = TypeVar("F", bound=Callable[..., Any])


def _names(kind: str) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    def complete(ctx: click.Context, param: click.Parameter, typed: str) -> list[CompletionItem]:
        host = ctx.ensure_object(App).host
        names: Mapping[str, list[str]] = {
            "models": sorted(
                {each.model.name for each in host.routes() if each.runs} | {*host.config.aliases}
            ),
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


def open_conversation(
    app: App,
    *,
    model: str | None,
    provider: str | None,
    feature: str | None,
    roles: tuple[str, ...],
    system: str | None,
    params: tuple[str, ...],
    settings: tuple[str, ...],
) -> Conversation:
    """The conversation that the options ask for, or what was used last where they say
    nothing and the configuration asks for that."""
    chosen = named_values(settings, "--set")
    if system is not None:
        chosen["system_prompt"] = system
    host = app.host

    def open_with(names: Chosen) -> Conversation:
        return host.open(
            names.feature,
            names.model,
            provider=names.provider,
            models={role: str(name) for role, name in named_values(roles, "--role").items()},
            parameters=named_values(params, "--param"),
            settings=chosen,
        )

    given = Chosen(feature, model, provider)
    if not host.config.remember:
        return open_with(given)
    return _open_remembering(given, open_with, read_only=host.config.read_only)


def _open_remembering(
    given: Chosen, open_with: Callable[[Chosen], Conversation], *, read_only: bool
) -> Conversation:
    """What was used last may be gone: then it is as if it had not been."""
    from genai_host.last_used import LastUsed

    last = LastUsed()
    names = given.over(last.read())
    try:
        conversation = open_with(names)
    except (NoRoute, ConfigurationError) as error:
        if names == given:
            raise
        note(f"what was used last is left out: {error}", fg="yellow")
        names = given
        conversation = open_with(names)
    if not read_only:
        last.write(names)
    return conversation


def named_values(given: tuple[str, ...], option: str) -> dict[str, Any]:
    """`NAME=VALUE` pairs; a value is JSON where it can be, else a string."""
    values: dict[str, Any] = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{pair!r} is not NAME=VALUE", param_hint=option)
        try:
            values[name] = read_json(value)
        except ValueError:
            values[name] = value
    return values


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
