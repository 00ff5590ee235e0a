"""`genai-host tools`: the tools that models can call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from genai_host.api import Image, Text, Tool
from genai_host.cli.app import App, pass_app
from genai_host.cli.options import named_values, read_object
from genai_host.cli.reactions import images_option, show_reactions
from genai_host.cli.terminal import echo, echo_json, echo_table, note
from genai_host.errors import ValidationError
from genai_host.tools.sources import of_source


@click.group(name="tools", invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, including the parameters.")
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List the tools that models can call; `call` calls one.

    A tool that is not offered is denied by `approvals`, has an invalid schema, or is
    unavailable without the context of a conversation.
    """
    if ctx.invoked_subcommand is not None:
        return
    app = ctx.ensure_object(App)
    tools = list(app.host.tools().values())
    if as_json:
        echo_json([_row(app, tool) for tool in tools])
        return
    echo_table(
        ("name", "plugin", "approval", "offered", "description"),
        [
            [
                tool.name,
                _plugin(app, tool),
                tool.approval,
                f"no: {reason_not_offered}"
                if (reason_not_offered := _why_not(app, tool))
                else "yes",
                tool.description.split("\n")[0],
            ]
            for tool in tools
        ],
    )


@command.command("show")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_app
def show(app: App, name: str, as_json: bool) -> None:
    """Show a tool's description, parameters and approval rule."""
    row = _row(app, app.host.tool(name))
    if as_json:
        echo_json(row)
        return
    parameters = row["parameters"] or {}
    required = parameters.get("required", ())
    echo(f"{row['name']} (of {row['plugin']})\n\n{row['description']}\n")
    for parameter, schema in parameters.get("properties", {}).items():
        echo(_parameter(parameter, schema, parameter in required))
    echo(f"approval: {row['approval']}")
    echo(f"offered: {'yes' if row['offered'] else 'no: ' + row['why_not']}")
    echo(f"idempotent: {'yes' if row['idempotent'] else 'no'}")
    echo(f"seconds: {row['seconds']:g}")
    for each in row["unenforced"]:
        echo(f"note: {each}")
    if row["fault"]:
        note(f"warning: the tool cannot be called: {row['fault']}", fg="yellow")


@command.command("call")
@click.argument("name")
@click.argument("arguments", nargs=-1)
@click.option("--context", metavar="JSON", help="Context for the tool, as a JSON object.")
@images_option
@click.option("--json", "as_json", is_flag=True, help="Print the whole output as JSON.")
@click.pass_context
def call(
    ctx: click.Context,
    name: str,
    arguments: tuple[str, ...],
    context: str | None,
    save_images: str | None,
    as_json: bool,
) -> None:
    """Call a tool. ARGUMENTS are NAME=VALUE pairs, or one JSON object.

    Tables and charts for the user are printed below the output for the model. A tool that
    needs approval runs without asking. The exit code is 1 if the tool failed.

    \b
    genai-host tools call roll sides=6
    genai-host tools call roll '{"sides": 6}'
    """
    app = ctx.ensure_object(App)
    tool = app.host.tool(name)
    output = app.host.call_tool(
        name,
        _arguments(app, tool, arguments),
        context={} if context is None else read_object(context, "--context"),
        approved=True,
    )
    if as_json:
        echo_json(app.host.codec.to_json(output))
    elif output.error:
        note(f"error: {output.text}", fg="red")
    else:
        for part in output.content:
            if isinstance(part, Text):
                echo(part.text)
    pictures = [part for part in output.content if isinstance(part, Image)]
    show = None if as_json else echo
    show_reactions(app, output.reactions, pictures, save_images, output.text, show=show)
    ctx.exit(1 if output.error else 0)


def _plugin(app: App, tool: Tool) -> str:
    registry = app.host.registry
    source = registry.owner("source of tools", of_source(tool.name))
    return registry.owner("tool", tool.name) or source


def _why_not(app: App, tool: Tool) -> str:
    """Why a tool is not offered; empty if it is."""
    from genai_host.api.cancellation import Cancellation

    try:
        app.host.toolbox.schema(tool)
    except ValidationError as error:
        return str(error)
    return app.host.toolbox.reason_not_offered(tool, {}, Cancellation())


def _row(app: App, tool: Tool) -> dict[str, Any]:
    parameters, fault, unenforced = None, "", list[str]()
    reason_not_offered = _why_not(app, tool)
    try:
        parameters = dict(app.host.toolbox.schema(tool).parameters)
        unenforced = app.host.toolbox.unenforced(tool)
    except ValidationError as error:
        fault = str(error)
    return {
        "name": tool.name,
        "plugin": _plugin(app, tool),
        "approval": tool.approval,
        "offered": not reason_not_offered,
        "why_not": reason_not_offered,
        "description": tool.description,
        "parameters": parameters,
        "idempotent": tool.idempotent,
        "seconds": tool.timeout,
        "fault": fault,
        "unenforced": unenforced,
    }


def _parameter(name: str, schema: Any, required: bool) -> str:
    """One line that describes a parameter, as far as possible."""
    keywords = schema if isinstance(schema, Mapping) else {}
    parts = [name, str(keywords.get("type", ""))]
    parts.append("required" if required else f"default {keywords.get('default')!r}")
    line = ", ".join(filter(None, parts))
    return f"  {line}: {keywords['description']}" if keywords.get("description") else f"  {line}"


def _arguments(app: App, tool: Tool, given: tuple[str, ...]) -> dict[str, Any]:
    if len(given) == 1 and given[0].lstrip().startswith("{"):
        return read_object(given[0], "ARGUMENTS")
    arguments = named_values(given, "ARGUMENTS")
    parameters = _row(app, tool)["parameters"]
    texts = {name: text for name, _, text in (pair.partition("=") for pair in given)}
    # text may look like JSON
    return {**arguments, **{name: texts[name] for name in texts if _is_text(parameters, name)}}


def _is_text(parameters: Any, name: str) -> bool:
    properties = (parameters or {}).get("properties", {})
    schema = properties.get(name) if isinstance(properties, Mapping) else None
    return isinstance(schema, Mapping) and schema.get("type") == "string"
