"""`genai-host templates`, and the options of `ask --save-template` as a template."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import click

from genai_host.api.models import merged_parameters
from genai_host.cli.options import model_parameters, named_texts, named_values
from genai_host.cli.terminal import echo, echo_json, echo_rows, note
from genai_host.errors import ConfigurationError


def save_as_template(
    name: str,
    template: str | None,
    variables: tuple[str, ...],
    asked: str,
    *,
    fragments: tuple[str, ...],
    attach: tuple[str, ...],
    schema: Mapping[str, Any] | None,
    model: str | None,
    provider: str | None,
    feature: str | None,
    roles: tuple[str, ...],
    system: str | None,
    params: tuple[str, ...],
    settings: tuple[str, ...],
) -> str:
    """Save options of `ask` as a template, based on another template, and return its file. Files
    are stored as absolute paths, since templates are used in any directory."""
    from genai_host.prompts.templates import NO_TEMPLATE, Template, read_template, save_template

    base = NO_TEMPLATE if template is None else read_template(template)
    made = Template(
        prompt=asked or base.prompt,
        system=base.system if system is None else system,
        model=model or base.model,
        provider=provider or base.provider,
        feature=feature or base.feature,
        fragments=(*base.fragments, *_whole(fragments)),
        attachments=(*base.attachments, *_whole(attach)),
        schema=base.schema if schema is None else schema,
        variables={**base.variables, **named_texts(variables, "--var")},
        roles={**base.roles, **named_texts(roles, "--role")},
        parameters=merged_parameters(base.parameters, model_parameters(params)),
        settings={**base.settings, **named_values(settings, "--setting")},
    )
    if made == NO_TEMPLATE:
        raise click.UsageError('nothing to save: genai-host ask --save-template NAME "..."')
    return save_template(name, made)


def _whole(sources: Sequence[str]) -> list[str]:
    from genai_host.prompts.attachments import PIPED, is_address

    return [
        each if each == PIPED or is_address(each) else os.path.abspath(os.path.expanduser(each))
        for each in sources
    ]


@click.group(name="templates")
def command() -> None:
    """List, show and remove templates.

    `ask --save-template NAME` saves a template; `ask -t NAME` and `chat -t NAME` use it. Templates
    are files that you can edit; `templates path` prints their directory.
    """


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_command(as_json: bool) -> None:
    """List templates with their variables."""
    from genai_host.prompts.templates import template_names

    rows = [_row(name) for name in template_names()]
    echo_rows(rows, ("name", "variables", "model", "says"), as_json)
    for row in rows:
        if row["problem"] and not as_json:
            note(f"warning: {row['problem']}", fg="yellow")


@command.command("show")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(name: str, as_json: bool) -> None:
    """Print a template."""
    from genai_host.prompts.templates import read_template, template_source

    if as_json:
        echo_json({"name": name, **read_template(name)._asdict()})
    else:
        echo(template_source(name), end="")


@command.command("remove")
@click.argument("names", nargs=-1, required=True)
def remove(names: tuple[str, ...]) -> None:
    """Remove templates."""
    from genai_host.prompts.templates import remove_template

    for name in dict.fromkeys(names):
        remove_template(name)
        note(f"removed: {name}")


@command.command("path")
@click.argument("name", required=False)
def path(name: str | None) -> None:
    """Print the directory of templates, or the path of one."""
    from genai_host.prompts.templates import template_file
    from genai_host.util import paths

    echo(paths.templates_dir() if name is None else template_file(name))


def _row(name: str) -> dict[str, Any]:
    from genai_host.prompts.templates import NO_TEMPLATE, read_template, template_file

    problem = ""
    template = NO_TEMPLATE
    try:
        template = read_template(name)
    except ConfigurationError as error:
        problem = str(error)
    text = template.prompt or template.system
    return {
        "name": name,
        "file": template_file(name),
        "variables": template.needs,
        "model": template.model,
        "says": next(iter(text.strip().splitlines()), ""),
        "problem": problem,
    }
