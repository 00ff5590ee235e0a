"""`genai-host templates`: what the user asks again and again."""

from __future__ import annotations

from typing import Any

import click

from genai_host.cli.terminal import echo, echo_json, echo_table, note


@click.group(name="templates")
def command() -> None:
    """List, show and remove your templates.

    `ask --save NAME` writes one; `ask -t NAME` and `chat -t NAME` use it. They are files
    that you can edit: `templates path` says where.
    """


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_command(as_json: bool) -> None:
    """List them, with the variables that they take."""
    from genai_host.templates import template_names

    rows = [_row(name) for name in template_names()]
    if as_json:
        echo_json(rows)
        return
    columns = ("name", "variables", "model", "says")
    echo_table(columns, [[row[column] for column in columns] for row in rows])
    for row in rows:
        if row["problem"]:
            note(f"warning: {row['problem']}", fg="yellow")


@command.command("show")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(name: str, as_json: bool) -> None:
    """Print what a template says."""
    from genai_host.templates import read_template, template_source

    if as_json:
        echo_json({"name": name, **read_template(name)._asdict()})
    else:
        echo(template_source(name), end="")


@command.command("remove")
@click.argument("names", nargs=-1, required=True)
def remove(names: tuple[str, ...]) -> None:
    """Remove templates."""
    from genai_host.templates import remove_template

    for name in dict.fromkeys(names):
        remove_template(name)
        note(f"removed: {name}")


@command.command("path")
@click.argument("name", required=False)
def path(name: str | None) -> None:
    """Print where they are, or where one is."""
    from genai_host import paths
    from genai_host.templates import template_file

    echo(paths.templates_dir() if name is None else template_file(name))


def _row(name: str) -> dict[str, Any]:
    from genai_host.errors import ConfigurationError
    from genai_host.templates import NO_TEMPLATE, read_template, template_file

    problem = ""
    template = NO_TEMPLATE
    try:
        template = read_template(name)
    except ConfigurationError as error:
        problem = str(error)
    said = template.prompt or template.system
    return {
        "name": name,
        "file": template_file(name),
        "variables": template.needs,
        "model": template.model,
        "says": next(iter(said.strip().splitlines()), ""),
        "problem": problem,
    }
