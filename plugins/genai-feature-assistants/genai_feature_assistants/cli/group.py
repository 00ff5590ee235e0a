"""`genai-host assistants`: make, list, show and delete assistants."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from genai_feature_assistants.cli import terminal
from genai_feature_assistants.cli.checks import why_model_cannot, why_tools_cannot
from genai_feature_assistants.cli.run import run_command
from genai_feature_assistants.cli.terminal import (
    echo,
    echo_json,
    echo_table,
    found,
    note,
    request,
    shelf_of,
    tools_of,
    value_of,
    when,
)
from genai_feature_assistants.service.indexing import shelf_of as files_of
from genai_feature_assistants.service.shelf import shown
from genai_host.api import decode_text, is_text
from genai_host.api.json_text import read_json
from genai_host.errors import GenaiError, ValidationError

if TYPE_CHECKING:
    from genai_feature_assistants.service.service import Service
    from genai_feature_assistants.service.shelf import Object

_TOOLS = ("file_search", "code_interpreter")
_MOST_DEFINITION = 8 * 2**20
_NOT_GIVEN = ("id", "object", "created_at")
"""What an assistant that was exported has, and a new one is given."""

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group()
@click.option(
    "--user",
    metavar="NAME",
    default="",
    help="User of the server whose assistants are used.  [server owner]",
)
@click.pass_context
def assistants(ctx: click.Context, user: str) -> None:
    """Create, list, show, delete and run assistants.

    `genai-host serve` serves the same assistants at /v1/assistants. ID is the id of an
    assistant, a unique prefix of it, or its name if the name is unique.
    """
    terminal.be_user(ctx, user)


assistants.add_command(run_command)


@assistants.command("create")
@click.argument("name", required=False)
@click.option("--model", "-m", metavar="NAME", help="Model name; see `genai-host models`.")
@click.option("--instructions", metavar="TEXT", help="System prompt.")
@click.option(
    "--instructions-file", metavar="FILE", type=_FILE, help="Read the system prompt from a file."
)
@click.option(
    "--tool",
    "tools",
    multiple=True,
    type=click.Choice(_TOOLS),
    help="Tool that the assistant may use (repeatable).",
)
@click.option(
    "--file",
    "files",
    multiple=True,
    metavar="PATH",
    type=_FILE,
    help="File for its tools (repeatable).",
)
@click.option(
    "--json-file",
    metavar="FILE",
    type=_FILE,
    help="Definition of the assistant, as in the API; other options override it.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the assistant as JSON.")
@click.pass_context
def create_command(
    ctx: click.Context,
    name: str | None,
    model: str | None,
    instructions: str | None,
    instructions_file: Path | None,
    tools: tuple[str, ...],
    files: tuple[Path, ...],
    json_file: Path | None,
    as_json: bool,
) -> None:
    """Create an assistant called NAME and print its id.

    Files are given to the tools of the assistant: file_search searches them, code_interpreter
    reads them.
    """
    if instructions is not None and instructions_file is not None:
        raise click.UsageError("give --instructions, or --instructions-file")
    if instructions_file is not None:
        instructions = _text_of(instructions_file)
    definition = {} if json_file is None else _definition_of(json_file)
    given = {"name": name, "model": model, "instructions": instructions}
    definition |= {name: value for name, value in given.items() if value is not None}
    if tools:
        definition["tools"] = _with_tools(definition.get("tools"), tools)
    for field in ("name", "model"):
        if not definition.get(field):
            raise click.UsageError(f"{field} is missing: assistants create NAME --model MODEL")
    with terminal.service_of(ctx) as service:
        with _kept(ctx, service, definition, files) as (wanted, store):
            made = value_of(service.assistants.create(request(ctx, wanted)))
        failed = terminal.await_files(ctx, service, store) if store else []
    if as_json:
        echo_json(made)
    else:
        echo(made["id"])
    host = ctx.obj.host
    for why in (*failed, *why_model_cannot(host, made["model"]), *why_tools_cannot(host, made)):
        note(f"warning: {why}")


def _text_of(path: Path) -> str:
    data = path.read_bytes()
    if not is_text(data):
        raise ValidationError(f"{path} is not text")
    return decode_text(data)


def _definition_of(path: Path) -> dict[str, Any]:
    with path.open("rb") as stream:
        data = stream.read(_MOST_DEFINITION + 1)
    try:
        if len(data) > _MOST_DEFINITION:
            raise ValueError(f"it is larger than {_MOST_DEFINITION >> 20} MiB")
        definition = read_json(data.removeprefix(b"\xef\xbb\xbf"))
    except ValueError as error:
        raise ValidationError(f"{path} is not JSON: {error}") from error
    if not isinstance(definition, dict):
        raise ValidationError(f"{path} is not a definition: it is not an object")
    if definition.get("object", "assistant") != "assistant":
        raise ValidationError(f"{path} is not an assistant")
    return {name: value for name, value in definition.items() if name not in _NOT_GIVEN}


def _with_tools(defined: Any, tools: Sequence[str]) -> Any:
    """A definition's tools, and more of them."""
    if not isinstance(defined, (list, type(None))):
        return defined  # it will be refused
    has = [each.get("type") for each in defined or () if isinstance(each, dict)]
    added = [{"type": tool} for tool in dict.fromkeys(tools) if tool not in has]
    return [*(defined or ()), *added]


@contextlib.contextmanager
def _kept(
    ctx: click.Context, service: Service, definition: Mapping[str, Any], paths: Sequence[Path]
) -> Iterator[tuple[Mapping[str, Any], str]]:
    """A definition whose tools have files, and the id of the vector store that was made for
    them, if one was. They stay only if the assistant can be made."""
    if not paths:
        yield definition, ""
        return
    wanted = definition.get("tools")
    kinds = {each.get("type") for each in wanted or () if isinstance(each, dict)} & {*_TOOLS}
    if not kinds:
        raise click.UsageError("--file is for a tool: --tool file_search or code_interpreter")
    if definition.get("tool_resources"):
        raise click.UsageError("the definition has tool_resources: give no --file as well")
    kept: list[str] = []
    store = ""
    try:
        kept += [terminal.keep_file(ctx, service, path, "assistants") for path in paths]
        resources: dict[str, Any] = {}
        if "code_interpreter" in kinds:
            resources["code_interpreter"] = {"file_ids": kept}
        if "file_search" in kinds:
            store = service.vector_stores.make(
                terminal.user_of(ctx), kept, str(definition.get("name") or "")[:256]
            )["id"]
            resources["file_search"] = {"vector_store_ids": [store]}
        yield {**definition, "tool_resources": resources}, store
    except BaseException:
        with contextlib.suppress(GenaiError):
            if store:
                service.vector_stores.delete(request(ctx, store=store))
            for file in kept:
                service.files.delete(request(ctx, file=file))
        raise


@assistants.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: a list of objects.")
@click.pass_context
def list_command(ctx: click.Context, as_json: bool) -> None:
    """List assistants, newest first.

    JSON has the objects of the API.
    """
    every = list(reversed(list(shelf_of(ctx, "assistant").all())))
    if as_json:
        echo_json([shown(each) for each in every])
        return
    rows = [
        [
            each["id"],
            each["name"] or "-",
            each["model"],
            ", ".join(tools_of(each)) or "-",
            when(each["created_at"]),
        ]
        for each in every
    ]
    if rows:
        echo_table(["id", "name", "model", "tools", "made"], rows)
    else:
        note("there is no assistant: genai-host assistants create NAME --model MODEL")


@assistants.command("show")
@click.argument("id")
@click.option("--json", "as_json", is_flag=True, help="Print the object of the API as JSON.")
@click.pass_context
def show_command(ctx: click.Context, id: str, as_json: bool) -> None:
    """Show an assistant and its files."""
    assistant = found(ctx, id)
    if as_json:
        echo_json(shown(assistant))
        return
    for name, value in _facts(assistant):
        echo(f"{name + ':':<14}{value}")
    for line in _files_of(ctx, assistant):
        echo(f"{'file:':<14}{line}")
    if assistant["instructions"]:
        echo(f"\n{assistant['instructions']}")
    host = terminal.host_of(ctx)
    whys = (*why_model_cannot(host, assistant["model"]), *why_tools_cannot(host, assistant))
    for why in whys:
        note(f"warning: {why}")


def _facts(assistant: Object) -> Iterator[tuple[str, str]]:
    yield "id", assistant["id"]
    yield "name", assistant["name"] or "-"
    yield "model", assistant["model"]
    yield "made", when(assistant["created_at"])
    yield "tools", ", ".join(tools_of(assistant)) or "-"
    for name in ("description", "temperature", "top_p", "reasoning_effort"):
        if assistant.get(name) is not None:
            yield name, str(assistant[name])
    for name, value in assistant["metadata"].items():
        yield "metadata", f"{name} = {value}"


def _files_of(ctx: click.Context, assistant: Object) -> Iterator[str]:
    resources = assistant["tool_resources"]
    shelf = shelf_of(ctx, "file")

    def told(id: str, what: str) -> str:
        file = shelf.find(id)
        return f"{file['filename'] if file else '(deleted)'}  {id}  {what}"

    for id in resources.get("code_interpreter", {}).get("file_ids", ()):
        yield told(id, "code_interpreter")
    for store in resources.get("file_search", {}).get("vector_store_ids", ()):
        for each in files_of(terminal.host_of(ctx), terminal.user_of(ctx), store).all():
            yield told(each["id"], f"file_search in {store}, {each['status']}")


@assistants.command("delete")
@click.argument("id")
@click.pass_context
def delete_command(ctx: click.Context, id: str) -> None:
    """Delete an assistant. Its threads, vector stores and files are not deleted."""
    assistant = found(ctx, id)
    shelf_of(ctx, "assistant").delete(assistant["id"])
    note(f"deleted: {assistant['id']}")
