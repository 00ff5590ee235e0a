"""`genai-host assistants`: list assistants, and run one.

The commands call the Assistants API in this process, over the host and the store of the command
line. Text is printed as it arrives; the complete answer is known when the run ends.

Names, answers and files are untrusted: `commands` replaces their control characters at a terminal.
"""

from __future__ import annotations

import contextlib
import mimetypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import define, field
from genai_wire_openai.server.files import MAX_BYTES
from genai_wire_openai.server.objects import Object, ObjectStore, shown

from genai_host import commands
from genai_host.api import Cancellation, RouteRequest, RouteResponse, read_json, write_json
from genai_host.errors import (
    Cancelled,
    GenaiError,
    GenerationError,
    NotFound,
    ProviderTimeout,
    ValidationError,
)

if TYPE_CHECKING:
    from genai_feature_assistants.service import AssistantsService
    from genai_host.api import CommandState, HostServices

_USER = "genai_feature_assistants.user"
_FOR_FILES = ("file_search", "code_interpreter")
_MAX_NAMED = 5


@click.group()
@click.option(
    "--user",
    metavar="NAME",
    default="",
    help="User of the server whose assistants are used.  [server owner]",
)
@click.pass_context
def assistants(ctx: click.Context, user: str) -> None:
    """List assistants, and run one.

    `genai-host serve` serves the same assistants at /v1/assistants, and on its page. Create,
    change and delete them there.
    """
    ctx.meta[_USER] = user


@assistants.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: a list of objects of the API.")
@click.pass_context
def list_command(ctx: click.Context, as_json: bool) -> None:
    """List assistants, newest first."""
    every = list(reversed(list(ObjectStore(_host(ctx), _user(ctx), "assistant").all())))
    if as_json:
        commands.echo_json([shown(each) for each in every])
    elif every:
        commands.echo_table(["id", "name", "model", "tools", "created"], map(_row, every))
    else:
        commands.note(
            "no assistants: create one on the page of `genai-host serve`, or with its API"
        )


def _row(assistant: Object) -> list[str]:
    tools = [
        tool["function"]["name"] if tool["type"] == "function" else tool["type"]
        for tool in assistant["tools"]
    ]
    created = datetime.fromtimestamp(assistant["created_at"], UTC).astimezone()
    id, name, model = assistant["id"], assistant["name"] or "-", assistant["model"]
    return [id, name, model, ", ".join(tools) or "-", f"{created:%Y-%m-%d %H:%M}"]


@assistants.command("run")
@click.argument("id")
@click.argument("words", nargs=-1)
@click.option("--thread", metavar="ID", help="Continue this thread: its id or a unique prefix.")
@click.option(
    "--attach",
    "files",
    multiple=True,
    metavar="PATH",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Attach a file for the assistant's tools, or an image.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the complete answer as JSON.")
@click.pass_context
def run_command(
    ctx: click.Context,
    id: str,
    words: tuple[str, ...],
    thread: str | None,
    files: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Send WORDS to an assistant, and print its answer as it is streamed.

    ID is the id of the assistant, a unique prefix of it, or its name if the name is unique.
    Without WORDS, the message is piped input. Sources are printed below the answer, and the
    command that continues the thread on standard error. Ctrl-C cancels the run.

    JSON: text, citations and files (text, file_id and filename of each), assistant, thread,
    run, status, model, usage.
    """
    text = " ".join(words) or commands.piped_text().strip()
    if not text:
        raise click.UsageError('no message: genai-host assistants run ID "..."')
    assistant = _found(ctx, id, "assistant")
    known = _found(ctx, thread, "thread") if thread else None
    from genai_feature_assistants.service import AssistantsService

    with closing(AssistantsService(_host(ctx))) as service:
        with _message(ctx, service, assistant, text, files) as message:
            body = {"assistant_id": assistant["id"], "stream": True}
            if known is None:
                request = _request(ctx, {**body, "thread": {"messages": [message]}})
                reply = service.runs.create_with_thread(request)
            else:
                request = _request(
                    ctx, {**body, "additional_messages": [message]}, thread=known["id"]
                )
                reply = service.runs.create(request)
        printer = RunPrinter((lambda piece: None) if as_json else partial(commands.echo, end=""))
        try:
            _follow(ctx, service, reply, printer)
            printer.check_completed()
        finally:
            if printer.has_text and not as_json:
                with contextlib.suppress(OSError):  # the reader of the output has gone
                    commands.echo("")
            if printer.run:
                thread = printer.run["thread_id"]
                commands.note(
                    f'continue: genai-host assistants run {assistant["id"]} --thread {thread} "..."'
                )
        _print_sources(ctx, service, printer, as_json=as_json)


@contextmanager
def _message(
    ctx: click.Context,
    service: AssistantsService,
    assistant: Object,
    text: str,
    files: Sequence[Path],
) -> Iterator[Mapping[str, Any]]:
    """The message of the user. Its files are deleted again if the run cannot start."""
    tools = [{"type": tool["type"]} for tool in assistant["tools"] if tool["type"] in _FOR_FILES]
    content: list[Mapping[str, Any]] = [{"type": "text", "text": text}]
    attached, kept = [], []
    try:
        for path in files:
            is_image = (mimetypes.guess_type(path.name)[0] or "").startswith("image/")
            wanted = [each for each in tools if not is_image or each["type"] != "file_search"]
            if not is_image and not wanted:
                raise ValidationError(
                    f"cannot attach {str(path)!r}: the assistant has no tool that reads files",
                    hint="give the assistant the tool file_search or code_interpreter",
                )
            file = _upload(ctx, service, path, "vision" if is_image else "assistants")
            kept.append(file)
            if is_image:
                content.append({"type": "image_file", "image_file": {"file_id": file}})
            if wanted:
                attached.append({"file_id": file, "tools": wanted})
        yield {"role": "user", "content": content, "attachments": attached}
    except BaseException:
        for file in kept:
            with contextlib.suppress(GenaiError):
                service.files.delete(_request(ctx, file=file))
        raise


def _upload(ctx: click.Context, service: AssistantsService, path: Path, purpose: str) -> str:
    with path.open("rb") as stream:
        data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValidationError(
            f"{str(path)!r} is larger than {MAX_BYTES >> 20} MiB", hint="split it into files"
        )
    return str(service.files.keep(_user(ctx), path.name, data, purpose)["id"])


def _follow(
    ctx: click.Context, service: AssistantsService, reply: RouteResponse, printer: RunPrinter
) -> None:
    """Print the events of the run until it ends. Cancel it if it waits for its client, or if
    the command is interrupted."""

    def cancel() -> None:
        if printer.run:
            ids = {"thread": printer.run["thread_id"], "run": printer.run["id"]}
            with contextlib.suppress(GenaiError):  # it has ended
                service.runs.cancel(_request(ctx, **ids))

    stream: Any = reply.body
    with closing(stream):
        try:
            for event in stream:
                head, _, data = event.decode().partition("\n")
                if head != "event: done":
                    printer.take(
                        head.removeprefix("event: "), read_json(data.removeprefix("data: ").strip())
                    )
        except BaseException:  # Ctrl-C, or the reader of the output has gone
            cancel()
            raise
    if printer.run.get("status") == "requires_action":
        cancel()


@define
class RunPrinter:
    """Prints the events of a run.

    Attributes:
        show: Prints a piece of the answer.
        run: Last known state of the run; empty at first.
        text: Text of the completed messages, separated by empty lines.
        annotations: Annotations of the messages, in order.
        images: Ids of the images that code has created.
    """

    show: Callable[[str], None]
    run: Mapping[str, Any] = field(factory=dict)
    text: str = ""
    annotations: list[Mapping[str, Any]] = field(factory=list)
    images: list[str] = field(factory=list)
    _current: str = ""

    @property
    def has_text(self) -> bool:
        """Whether text was shown."""
        return bool(self.text or self._current)

    def take(self, name: str, value: Mapping[str, Any]) -> None:
        """Print an event of the API."""
        if name.startswith("thread.run.step."):
            self._take_step(name, value)
        elif name.startswith("thread.run."):
            self.run = value
        elif name == "thread.message.delta":
            for block in value["delta"]["content"]:
                self._add(block["text"]["value"])
        elif name in ("thread.message.completed", "thread.message.incomplete"):
            self._end_message(value)
        elif name == "error":
            commands.note(str(value["message"]))

    def _add(self, piece: str) -> None:
        if piece and not self._current and self.text:
            self.show("\n\n")
        self._current += piece
        self.show(piece)

    def _end_message(self, message: Mapping[str, Any]) -> None:
        texts = [block["text"] for block in message["content"] if block["type"] == "text"]
        whole = "".join(text["value"] for text in texts)
        if whole.startswith(self._current):
            self._add(whole[len(self._current) :])
        elif whole != self._current:  # the message was started again
            self.show(f"\n\n{whole}")
        self.annotations += [each for text in texts for each in text["annotations"]]
        self.text = "\n\n".join(filter(None, [self.text, whole]))
        self._current = ""

    def _take_step(self, name: str, step: Mapping[str, Any]) -> None:
        if name != "thread.run.step.completed" or step["type"] != "tool_calls":
            return
        for call in step["step_details"]["tool_calls"]:
            for output in call.get("code_interpreter", {}).get("outputs", ()):
                if output["type"] == "image":
                    self.images.append(output["image"]["file_id"])

    def check_completed(self) -> None:
        """Raise an error of the host unless the run has an answer."""
        run, status = self.run, self.run.get("status")
        if status == "incomplete":
            commands.note(f"the answer is incomplete: {run['incomplete_details']['reason']}")
        elif status == "cancelled":
            raise Cancelled("the run was cancelled")
        elif status == "expired":
            raise ProviderTimeout("the run took too long", hint="split the message into parts")
        elif status == "failed":
            raise GenerationError(f"the run failed: {run['last_error']['message']}")
        elif status == "requires_action":
            calls = run["required_action"]["submit_tool_outputs"]["tool_calls"]
            names = ", ".join(dict.fromkeys(call["function"]["name"] for call in calls))
            raise GenerationError(
                f"the assistant calls its function {names:.200}, which is unavailable here",
                hint="run it from the program that has the function: genai-host serve, and its "
                "OpenAI client with base_url http://127.0.0.1:8642/v1",
            )
        elif status != "completed":
            raise GenerationError("the run has not ended", hint="genai-host serve continues it")


def _print_sources(
    ctx: click.Context, service: AssistantsService, printer: RunPrinter, *, as_json: bool
) -> None:
    """Print the citations and the created files below the answer, or all of it as JSON."""

    def described(text: str, file: str) -> dict[str, str]:
        name = service.files.name(_user(ctx), file, file)
        return {"text": text, "file_id": file, "filename": name}

    def annotated(kind: str) -> list[dict[str, str]]:
        found = [each for each in printer.annotations if each["type"] == kind]
        pairs = dict.fromkeys((each["text"], each[kind]["file_id"]) for each in found)
        return [described(text, file) for text, file in pairs]

    cited, made = annotated("file_citation"), annotated("file_path")
    known = [each["file_id"] for each in made]
    made += [described("", image) for image in printer.images if image not in known]
    if as_json:
        run = printer.run
        ids = {"assistant": run["assistant_id"], "thread": run["thread_id"], "run": run["id"]}
        about = {name: run[name] for name in ("status", "model", "usage")}
        answer = {"text": printer.text, "citations": cited, "files": made}
        commands.echo_json({**answer, **ids, **about})
        return
    if cited or made:
        commands.echo("")
    for each in cited:
        commands.echo(f"{each['text']}  {each['filename']} ({each['file_id']})")
    for each in made:
        commands.echo(f"created: {each['filename']} ({each['file_id']})")


def _user(ctx: click.Context) -> str:
    return str(ctx.meta.get(_USER, ""))


def _host(ctx: click.Context) -> HostServices:
    """The host, with the store of the command line."""
    state: CommandState = ctx.obj
    return state.recording_host


def _request(ctx: click.Context, body: Any = None, **parameters: str) -> RouteRequest:
    return RouteRequest(
        "POST" if body is not None else "GET",
        "/",
        parameters=parameters,
        body=b"" if body is None else write_json(body),
        limits=Cancellation(),
        user=_user(ctx),
    )


def _found(ctx: click.Context, given: str, kind: str) -> Object:
    """Return the object with this id, unique prefix of an id, or unique name. Raises `NotFound`: no
    object matches, or several do."""
    shelf = ObjectStore(_host(ctx), _user(ctx), kind)
    exact = shelf.find(given) if given else None
    if exact is not None:
        return exact
    every = list(shelf.all()) if given else []
    chosen = [each for each in every if each.get("name") == given]
    chosen = chosen or [each for each in every if each["id"].startswith(given)]
    if len(chosen) == 1:
        return chosen[0]
    if not chosen:
        lists = "list assistants: genai-host assistants list"
        hint = lists if kind == "assistant" else "the id is printed by: genai-host assistants run"
        raise NotFound(f"unknown {kind} {given!r:.80}", hint=hint)
    ids = [each["id"] for each in chosen[:_MAX_NAMED]]
    more = " ..." if len(chosen) > _MAX_NAMED else ""
    raise NotFound(
        f"{len(chosen)} {kind}s match {given!r:.80}: {', '.join(ids)}{more}",
        hint="use a longer prefix",
    )
