"""Options shared by commands, and the last used ones.

With `defaults.remember`, the last choices of a user are stored in a separate file. The
configuration changes only on request.
"""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import click
from click.shell_completion import CompletionItem

from genai_host.api import SchemaValidator
from genai_host.api.json_text import read_json
from genai_host.api.models import EXTRA_BODY, merged_parameters
from genai_host.cli.app import App, show_log
from genai_host.cli.terminal import can_ask, note
from genai_host.errors import ConfigurationError, ValidationError
from genai_host.util import paths
from genai_host.util.files import MAX_BYTES, read_bytes, read_text, write_text

if TYPE_CHECKING:
    from genai_host.conversations.conversation import Conversation
    from genai_host.prompts.templates import Template


_log = logging.getLogger(__name__)


class RenamedOption(click.Option):
    """An option that is also accepted under a former name, which the help does not show."""

    def __init__(self, *args: Any, former: str, **attrs: Any) -> None:
        super().__init__(*args, **attrs)
        self.former = former

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        shown = self.opts
        self.opts = [*shown, self.former]
        try:
            super().add_to_parser(parser, ctx)
        finally:
            self.opts = shown


class FiniteRange(click.FloatRange):
    """A number in a range, excluding `nan`, which click accepts in every range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        return number


class Chosen(NamedTuple):
    """Names given by the user; None for omitted ones."""

    feature: str | None = None
    model: str | None = None
    provider: str | None = None

    def over(self, last: Chosen) -> Chosen:
        """These names, completed with earlier ones. A model and its provider are replaced
        together."""
        feature = self.feature or last.feature
        if self.model or self.provider:
            return self._replace(feature=feature)
        return last._replace(feature=feature)


class LastUsed:
    """Last used names in a file. Read and write errors are ignored, since no answer depends on it.

    Args:
        file: Path of the file; None for the default.
    """

    def __init__(self, file: str | None = None) -> None:
        self._file = file or os.path.join(paths.state_dir(), "last-used.json")

    def read(self) -> Chosen:
        try:
            data = json.loads(read_text(self._file) or "{}")
            names = [data.get(name) or None for name in Chosen._fields]
            if all(name is None or isinstance(name, str) for name in names):
                return Chosen(*names)
        except (ConfigurationError, ValueError, AttributeError, RecursionError) as error:
            _log.info("cannot read the last used names: %s", error)
        return Chosen()

    def write(self, chosen: Chosen) -> None:
        try:
            os.makedirs(os.path.dirname(self._file), mode=0o700, exist_ok=True)
            write_text(self._file, json.dumps(chosen._asdict()))
        except OSError as error:
            _log.info("cannot save the last used names: %s", error)


F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def _names(
    kind: Literal["models", "providers", "features"],
) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    def complete(ctx: click.Context, param: click.Parameter, typed: str) -> list[CompletionItem]:
        host = ctx.ensure_object(App).host
        names: Iterable[str]
        if kind == "models":
            runnable = {each.model.name for each in host.catalog.matrix() if each.runs}
            names = runnable.union(host.config.configurations)
        elif kind == "providers":
            names = (instance.name for instance in host.instances)
        else:
            names = host.registry.features
        return [CompletionItem(name) for name in sorted(names) if name.startswith(typed)]

    return complete


_MODEL = (
    click.option(
        "--model",
        "-m",
        metavar="NAME",
        help="Model name; see `genai-host models`.",
        shell_complete=_names("models"),
    ),
    click.option(
        "--provider",
        "-p",
        metavar="NAME",
        help="Provider to use; see `genai-host providers`.",
        shell_complete=_names("providers"),
    ),
)
_OPTIONS = (
    *_MODEL,
    click.option(
        "--feature",
        "-f",
        metavar="NAME",
        help="Feature to use; see `genai-host features`.",
        shell_complete=_names("features"),
    ),
    click.option(
        "--role",
        "roles",
        multiple=True,
        metavar="ROLE=MODEL",
        help="Model for a role of the feature, for example support=smollm2.",
    ),
    click.option("--system", "-s", metavar="TEXT", help="System prompt."),
    click.option(
        "--param",
        "params",
        multiple=True,
        metavar="NAME=VALUE",
        help="Model parameter, for example temperature=0.2. extra_body.NAME=VALUE adds a field "
        "to the body of the request.",
    ),
    click.option(
        "--setting",
        "settings",
        cls=RenamedOption,
        former="--set",
        multiple=True,
        metavar="NAME=VALUE",
        help="Feature setting, for example history_turns=3.",
    ),
    click.option(
        "--tools",
        "-T",
        multiple=True,
        metavar="NAMES",
        help="Comma-separated tools to allow, for example calculate,git__*.",
    ),
    click.option("--no-tools", is_flag=True, help="Disable tools."),
    click.option(
        "--max-cost",
        type=FiniteRange(min=0, min_open=True),
        metavar="DOLLARS",
        help="Maximum cost of a turn in US dollars. No model call starts after it is reached.",
    ),
    click.option(
        "--verbose",
        "-v",
        count=True,
        expose_value=False,
        callback=show_log,
        help="Show which model is used and why, and other log messages; -vv for more.",
    ),
)


def _template_names(ctx: click.Context, param: click.Parameter, typed: str) -> list[CompletionItem]:
    from genai_host.prompts.templates import template_names

    return [CompletionItem(name) for name in template_names() if name.startswith(typed)]


_TEMPLATE = (
    click.option(
        "--template",
        "-t",
        metavar="NAME",
        help="Template to use; other options override it.",
        shell_complete=_template_names,
    ),
    click.option(
        "--var",
        "variables",
        multiple=True,
        metavar="NAME=VALUE",
        help="Variable of the template, for example language=French.",
    ),
)


def with_options(function: F, options: Sequence[Callable[[F], F]]) -> F:
    """Add options to a command, in their order."""
    for option in reversed(options):
        function = option(function)
    return function


def model_options(function: F) -> F:
    """Add `model` and `provider` to a command."""
    return with_options(function, _MODEL)


def conversation_options(function: F) -> F:
    """Add conversation options to a command, by name."""
    return with_options(function, _OPTIONS)


def template_options(function: F) -> F:
    """Add `template` and `variables` to a command, for `chosen_template`."""
    return with_options(function, _TEMPLATE)


def chosen_template(name: str | None, variables: tuple[str, ...]) -> Template | None:
    """The template with this name, with values for its variables."""
    values = named_texts(variables, "--var")
    if name is None:
        if values:
            raise click.UsageError("--var requires --template")
        return None
    from genai_host.prompts.templates import read_template

    return read_template(name).with_variables(values)


def fragment_option(sources: str, help: str) -> Callable[[F], F]:
    """The option `fragments` of a command: its sources and help text."""
    return click.option("--fragment", "-F", "fragments", multiple=True, metavar=sources, help=help)


def attach_option(sources: str, help: str) -> Callable[[F], F]:
    """The option `attach` of a command: its sources and help text."""
    return click.option("--attach", "-a", "attach", multiple=True, metavar=sources, help=help)


def open_conversation(app: App, *, record: bool = True, **chosen: Any) -> Conversation:
    """Open a conversation according to the options (see `changes`), completed with the last used
    ones if configured."""
    from genai_host.conversations.record import InMemoryRecord

    host = app.host
    wanted = changes(**chosen)

    def open_with(names: Chosen) -> Conversation:
        return host.open(**{**wanted, **names._asdict()}, record=record or InMemoryRecord())

    while True:
        given = Chosen(wanted["feature"], wanted["model"], wanted["provider"])
        try:
            return with_last_used(app, given, open_with)
        except ConfigurationError as error:
            if not can_ask():
                raise
            wanted.update(_step_taken(app, error, wanted))


def _step_taken(
    app: App, error: ConfigurationError, wanted: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Options changed by the step that the user agreed to. Raises the error if there is no step, or
    the user declines it."""
    from genai_host.cli.next_step import next_step

    step = next_step(app, error, wanted["model"], wanted["provider"])
    if step is None:
        raise error
    note(f"{error}", fg="yellow")
    if not click.confirm(step.question, default=False, err=True):
        raise error
    return step.take()


def with_last_used(app: App, given: Chosen, use: Callable[[Chosen], T], *, keep: bool = True) -> T:
    """Call `use` with the given names, completed with the last used ones if configured, and save
    them if `keep`. Last used names that are no longer valid are ignored."""
    if not app.host.config.remember:
        return use(given)

    last = LastUsed()
    names = given.over(last.read())
    try:
        used = use(names)
    except ConfigurationError as error:
        if names == given:
            raise
        note(f"the last used model is skipped: {error}", fg="yellow")
        names = given
        used = use(names)
    if keep and not app.host.config.read_only:
        last.write(names)
    return used


def changes(
    *,
    model: str | None,
    provider: str | None,
    feature: str | None,
    roles: tuple[str, ...],
    system: str | None,
    params: tuple[str, ...],
    settings: tuple[str, ...],
    tools: tuple[str, ...] = (),
    no_tools: bool = False,
    max_cost: float | None = None,
    template: Template | None = None,
) -> dict[str, Any]:
    """Arguments of `Host.open` from the options, completed by the template."""
    from genai_host.api.services import TurnLimits

    chosen = named_values(settings, "--setting")
    if system is not None:
        chosen["system_prompt"] = system
    models = named_texts(roles, "--role")
    parameters = model_parameters(params)
    if template is not None:
        usual = dict(template.settings)
        if template.system:
            usual["system_prompt"] = template.system_text()
        chosen = usual | chosen
        models = {**template.roles, **models}
        parameters = merged_parameters(template.parameters, parameters)
        feature = feature or template.feature or None
        model = model or template.model or None
        provider = provider or template.provider or None
    return {
        "feature": feature,
        "model": model,
        "provider": provider,
        "models": models,
        "parameters": parameters,
        "settings": chosen,
        "tools": _tool_names(tools, no_tools),
        "turn_limits": None if max_cost is None else TurnLimits(cost=max_cost),
    }


def _tool_names(given: tuple[str, ...], none: bool) -> list[str] | None:
    """Names of allowed tools; None for all."""
    if given and none:
        raise click.UsageError("use either --tools or --no-tools")
    names = [name.strip() for each in given for name in each.split(",")]
    return [name for name in names if name] if given or none else None


def named_texts(given: tuple[str, ...], option: str) -> dict[str, str]:
    """Parse `NAME=VALUE` pairs with text values."""
    return dict(_pair(each, option) for each in given)


def named_values(given: tuple[str, ...], option: str) -> dict[str, Any]:
    """Parse `NAME=VALUE` pairs; a value is JSON if it can be parsed, otherwise a string."""
    values: dict[str, Any] = {}
    for each in given:
        name, value = _pair(each, option)
        values[name] = json_or_text(value)
    return values


def model_parameters(given: tuple[str, ...]) -> dict[str, Any]:
    """Parse `--param` pairs; `extra_body.NAME=VALUE` is one field of `extra_body`."""
    values: dict[str, Any] = {}
    for name, value in named_values(given, "--param").items():
        outer, dot, inner = name.partition(".")
        whole = outer == EXTRA_BODY and dot and inner
        values = merged_parameters(values, {outer: {inner: value}} if whole else {name: value})
    return values


def _pair(given: str, option: str) -> tuple[str, str]:
    name, equals, value = given.partition("=")
    if not equals or not name:
        raise click.BadParameter(f"expected NAME=VALUE, not {given!r}", param_hint=option)
    return name, value


def json_or_text(value: str) -> Any:
    """Parse a value as JSON, or else return the string."""
    try:
        return read_json(value)
    except ValueError:
        return value


def read_schema(given: str) -> dict[str, Any]:
    """Read a JSON Schema from a file or from the argument itself."""
    text: str | bytes = given
    if not given.lstrip().startswith("{"):
        try:
            text = read_bytes(given, MAX_BYTES)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise click.BadParameter(
                f"cannot read {given!r}: {why}", param_hint="--schema"
            ) from error
    return checked_schema(read_object(text, "--schema"), "--schema")


def read_object(text: str | bytes, place: str) -> dict[str, Any]:
    """Parse a JSON object. Raises `click.BadParameter`, naming the place."""
    try:
        value = read_json(text)
    except ValueError as error:
        raise click.BadParameter(f"invalid JSON: {error}", param_hint=place) from error
    if not isinstance(value, dict):
        raise click.BadParameter("expected a JSON object", param_hint=place)
    return value


def checked_schema(schema: dict[str, Any], place: str) -> dict[str, Any]:
    """The schema. Raises `click.BadParameter`, naming the place, if it is invalid."""
    try:
        for each in SchemaValidator(schema).unenforced():
            note(f"note: {each}")
    except ValidationError as error:
        raise click.BadParameter(str(error), param_hint=place) from error
    return schema
