"""`genai-host assistants run`: send a message to an assistant, and print its answer.

`Heard` collects the events of the run. Text is printed as it arrives; the whole answer is known
when the run ends.
"""

from __future__ import annotations

import contextlib
import mimetypes
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import define, field

from genai_feature_assistants.cli.terminal import (
    echo,
    echo_json,
    found,
    keep_file,
    note,
    request,
    service_of,
    user_of,
)
from genai_host.api import RouteResponse
from genai_host.api.json_text import read_json
from genai_host.errors import (
    Cancelled,
    GenaiError,
    GenerationError,
    NotFound,
    ProviderTimeout,
    ValidationError,
)

if TYPE_CHECKING:
    from genai_feature_assistants.service.service import Service
    from genai_feature_assistants.service.shelf import Object


def events_in(reply: RouteResponse) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The events of a reply that is a stream of them, but for the last, `done`."""
    pieces = reply.body
    assert not isinstance(pieces, bytes)
    for piece in pieces:
        head, _, data = piece.decode().partition("\n")
        name = head.removeprefix("event: ")
        if name != "done":
            yield name, read_json(data.removeprefix("data: ").strip())


@define
class Heard:
    """
    show     prints a piece of an answer
    run      how the run was when it was heard of last; empty at first
    text     what was said, messages apart by an empty line
    cited    annotations of the messages, in order
    images   ids of the pictures that code has made
    """

    show: Callable[[str], None]
    run: Mapping[str, Any] = field(factory=dict)
    text: str = ""
    cited: list[Mapping[str, Any]] = field(factory=list)
    images: list[str] = field(factory=list)
    _now: str = ""

    @property
    def has_said(self) -> bool:
        """Whether anything was shown."""
        return bool(self.text or self._now)

    def take(self, name: str, value: Mapping[str, Any]) -> None:
        """An event."""
        if name.startswith("thread.run.step."):
            self._take_step(name, value)
        elif name.startswith("thread.run."):
            self.run = value
        elif name == "thread.message.delta":
            for block in value["delta"]["content"]:
                self._say(block["text"]["value"])
        elif name in ("thread.message.completed", "thread.message.incomplete"):
            self._end_message(value)
        elif name == "error":
            note(str(value["message"]))

    def _say(self, piece: str) -> None:
        if piece and not self._now and self.text:
            self.show("\n\n")
        self._now += piece
        self.show(piece)

    def _end_message(self, message: Mapping[str, Any]) -> None:
        texts = [block["text"] for block in message["content"] if block["type"] == "text"]
        whole = "".join(text["value"] for text in texts)
        if whole.startswith(self._now):
            self._say(whole[len(self._now) :])
        elif whole != self._now:  # it was begun anew
            self.show(f"\n\n{whole}")
        self.cited += [each for text in texts for each in text["annotations"]]
        self.text = "\n\n".join(filter(None, [self.text, whole]))
        self._now = ""

    def _take_step(self, name: str, step: Mapping[str, Any]) -> None:
        if name != "thread.run.step.completed" or step["type"] != "tool_calls":
            return
        for call in step["step_details"]["tool_calls"]:
            for output in call.get("code_interpreter", {}).get("outputs", ()):
                if output["type"] == "image":
                    self.images.append(output["image"]["file_id"])

    def must_be_answered(self) -> None:
        """Raises an error of the host that says why there is no answer; what ends it early is
        noted."""
        status = self.run.get("status")
        if status == "incomplete":
            note(f"the answer ends early: {self.run['incomplete_details']['reason']}")
        elif status != "completed":
            raise _error(self.run)


def _error(run: Mapping[str, Any]) -> GenaiError:
    status = run.get("status")
    if status == "cancelled":
        return Cancelled("the run was cancelled")
    if status == "expired":
        return ProviderTimeout("the run took longer than it may", hint="say it again, in parts")
    if status == "failed":
        told = run["last_error"]["message"]
        return GenerationError(f"the run failed: {told}")
    if status == "requires_action":
        calls = run["required_action"]["submit_tool_outputs"]["tool_calls"]
        names = ", ".join(dict.fromkeys(call["function"]["name"] for call in calls))
        return GenerationError(
            f"the assistant asks for its function {names:.200}, which cannot be called from here",
            hint="run it from the program that has the function: genai-host serve, and its "
            "OpenAI client with base_url http://127.0.0.1:8642/v1",
        )
    return GenerationError("the run has not ended", hint="genai-host serve goes on with it")


_MOST_PIPED = 20 * 2**20  # letters
_FOR_FILES = ("file_search", "code_interpreter")


@click.command("run")
@click.argument("id")
@click.argument("words", nargs=-1)
@click.option("--thread", metavar="ID", help="Continue this thread: its id or a unique prefix.")
@click.option(
    "--file",
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

    ID is the id of the assistant, a unique prefix of it, or its name. Without WORDS, the
    message is piped input. Sources are printed below the answer, and the command that continues
    the thread on standard error. Ctrl-C cancels the run.

    JSON: text, citations and files (text, file_id and filename of each), assistant, thread,
    run, status, model, usage.
    """
    said = _said(words)
    assistant = found(ctx, id)
    known = found(ctx, thread, "thread") if thread else None
    with service_of(ctx) as service:
        with _message(ctx, service, assistant, said, files) as message:
            reply = _begin(ctx, service, assistant, known, message)
        heard = Heard(_silent if as_json else _show)
        try:
            _hear(ctx, service, reply, heard)
            heard.must_be_answered()
        finally:
            if heard.has_said and not as_json:
                with contextlib.suppress(OSError):  # nobody reads it any more
                    echo("")
            if heard.run:
                _tell_thread(assistant, heard.run["thread_id"])
        _print(ctx, service, heard, as_json)


def _said(words: tuple[str, ...]) -> str:
    said = " ".join(words)
    if not said and sys.stdin is not None and not sys.stdin.isatty():
        said = sys.stdin.read(_MOST_PIPED).strip()
    if not said:
        raise click.UsageError('there is nothing to say: genai-host assistants run ID "..."')
    return said


@contextlib.contextmanager
def _message(
    ctx: click.Context, service: Service, assistant: Object, said: str, files: Sequence[Path]
) -> Iterator[Mapping[str, Any]]:
    """What the user says, with files that are kept only if it could be said."""
    tools = [{"type": tool["type"]} for tool in assistant["tools"] if tool["type"] in _FOR_FILES]
    content: list[Mapping[str, Any]] = [{"type": "text", "text": said}]
    attached, kept = [], []
    try:
        for path in files:
            is_picture = (mimetypes.guess_type(path.name)[0] or "").startswith("image/")
            wanted = [each for each in tools if not is_picture or each["type"] != "file_search"]
            if not is_picture and not wanted:
                raise ValidationError(
                    f"{path}: the assistant has no tool that takes files",
                    hint="create one with --tool file_search, or --tool code_interpreter",
                )
            file = keep_file(ctx, service, path, "vision" if is_picture else "assistants")
            kept.append(file)
            if is_picture:
                content.append({"type": "image_file", "image_file": {"file_id": file}})
            if wanted:
                attached.append({"file_id": file, "tools": wanted})
        yield {"role": "user", "content": content, "attachments": attached}
    except BaseException:
        for file in kept:
            with contextlib.suppress(GenaiError):
                service.files.delete(request(ctx, file=file))
        raise


def _begin(
    ctx: click.Context,
    service: Service,
    assistant: Object,
    thread: Object | None,
    message: Mapping[str, Any],
) -> RouteResponse:
    wanted = {"assistant_id": assistant["id"], "stream": True}
    if thread is None:
        body = {**wanted, "thread": {"messages": [message]}}
        return service.runs.create_with_thread(request(ctx, body))
    body = {**wanted, "additional_messages": [message]}
    return service.runs.create(request(ctx, body, thread=thread["id"]))


def _hear(ctx: click.Context, service: Service, reply: RouteResponse, heard: Heard) -> None:
    """All that happens, until the run ends or waits for its client; then, or if nobody wants
    it any more, it is cancelled."""
    events: Any = reply.body
    with closing(events):
        try:
            for name, value in events_in(reply):
                heard.take(name, value)
        except BaseException:  # Ctrl-C, or nobody reads the output
            _cancel(ctx, service, heard.run)
            raise
    if heard.run.get("status") == "requires_action":
        _cancel(ctx, service, heard.run)


def _cancel(ctx: click.Context, service: Service, run: Mapping[str, Any]) -> None:
    if run:
        with contextlib.suppress(GenaiError):  # it has ended
            service.runs.cancel(request(ctx, thread=run["thread_id"], run=run["id"]))


def _print(ctx: click.Context, service: Service, heard: Heard, as_json: bool) -> None:
    """Where the answer is from, and what was made, below it."""
    cited = _named(ctx, service, heard, "file_citation")
    made = _named(ctx, service, heard, "file_path")
    made += [
        {"text": "", "file_id": image, "filename": _name(ctx, service, image)}
        for image in heard.images
        if image not in [each["file_id"] for each in made]
    ]
    if as_json:
        run = heard.run
        ids = {"assistant": run["assistant_id"], "thread": run["thread_id"], "run": run["id"]}
        told = {name: run[name] for name in ("status", "model", "usage")}
        echo_json({"text": heard.text, "citations": cited, "files": made, **ids, **told})
        return
    if cited or made:
        echo("")
    for each in cited:
        echo(f"{each['text']}  {each['filename']} ({each['file_id']})")
    for each in made:
        echo(f"made: {each['filename']} ({each['file_id']})")


def _named(ctx: click.Context, service: Service, heard: Heard, kind: str) -> list[dict[str, str]]:
    """The annotations of a kind, each once, with the names of their files."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for each in heard.cited:
        if each["type"] == kind:
            text, file = each["text"], each[kind]["file_id"]
            name = _name(ctx, service, file)
            found[text, file] = {"text": text, "file_id": file, "filename": name}
    return list(found.values())


def _name(ctx: click.Context, service: Service, file: str) -> str:
    try:
        name: str = service.files.get(user_of(ctx), file)["filename"]
    except NotFound:
        return file
    return name


def _tell_thread(assistant: Object, thread: str) -> None:
    note(f'go on: genai-host assistants run {assistant["id"]} --thread {thread} "..."')


def _show(piece: str) -> None:
    echo(piece, end="")


def _silent(piece: str) -> None:
    """Nothing is printed before the end."""
