"""A conversation at the terminal: opening, resuming, and approvals.

`ask` and `chat` use a new conversation, the last one or a named one, recorded or not.

Tool calls need a decision if a turn is paused for `approval` with the payload
`{"calls": [{"id", "tool", "arguments"}]}`. The result is `{id: true or false}`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from genai_host.cli.app import App
from genai_host.cli.options import RenamedOption, changes, open_conversation, with_options
from genai_host.cli.terminal import echo, echo_json, note
from genai_host.errors import ConfigurationError, Conflict, ConversationBusy, NotFound, TurnPaused
from genai_host.serializers.conversations import pause_row

if TYPE_CHECKING:
    from genai_host.api import Pause
    from genai_host.conversations.conversation import Conversation
    from genai_host.store.records import Summary


KIND = "approval"
_SHOWN = 4000  # characters of arguments shown; `conversations paused --json` has all

PendingCalls = Sequence[Mapping[str, Any]]
"""Calls, each with a unique `id`, a `tool` and its `arguments`."""


def calls_of(pause: Pause[Any] | None) -> PendingCalls | None:
    """The calls that wait for a decision; None if the turn waits for something else."""
    payload = None if pause is None or pause.kind != KIND else pause.payload
    calls = payload.get("calls") if isinstance(payload, Mapping) else None
    if not isinstance(calls, Sequence) or isinstance(calls, str) or not calls:
        return None
    named = all(
        isinstance(call, Mapping)
        and isinstance(call.get("id"), str)
        and isinstance(call.get("tool"), str)
        for call in calls
    )
    return calls if named and len({call["id"] for call in calls}) == len(calls) else None


def show_call(call: Mapping[str, Any]) -> None:
    """Show a call on standard error, with invisible characters escaped."""
    note(f"{visible(call['tool'])} ({visible(call['id'])})", bold=True)
    text = _json(call.get("arguments"))
    note(f"  {text[:_SHOWN]}")
    if len(text) > _SHOWN:
        note(f"  ... and {len(text) - _SHOWN} characters more", fg="yellow")


def show_pause(pause: Pause[Any]) -> None:
    """Show everything that a turn waits for, with a line per call."""
    calls = calls_of(pause)
    if calls is None:
        echo(f"  {visible(pause.kind)}: {_json(pause.payload)}")
    for call in calls or ():
        arguments = _json(call.get("arguments"))
        echo(f"  {visible(call['id'])}  {visible(call['tool'])}  {arguments}")


def _json(value: Any) -> str:
    return visible(json.dumps(value, ensure_ascii=False))


def visible(text: str) -> str:
    """Escape invisible characters and unusual spaces, as in JSON."""
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)


def ask_for_each(calls: PendingCalls) -> dict[str, bool]:
    """Ask the user about each call. Raises `click.Abort` if there is no answer."""
    decided = {}
    for call in calls:
        show_call(call)
        decided[call["id"]] = click.confirm("May it run?", default=False, err=True)
    return decided


def decided_by(
    calls: PendingCalls | None, *, approve_all: bool, deny_all: bool, approved: Sequence[str]
) -> dict[str, bool] | None:
    """Decisions on the calls that wait, from options; None if no option is given. With `approved`
    ids, the other calls are denied. Raises `click.UsageError` if the options are invalid."""
    given = approve_all + deny_all + bool(approved)
    if not given:
        return None
    if given > 1:
        raise click.UsageError("use only one of --approve-all, --deny-all and --approve")
    if calls is None:
        raise click.UsageError(
            "--approve-all, --deny-all and --approve require calls that wait for approval"
        )
    ids = [call["id"] for call in calls]
    for id in approved:
        if id not in ids:
            raise click.BadParameter(
                f"unknown call {visible(id)!r}: choose from {', '.join(map(visible, ids))}",
                param_hint="--approve",
            )
    return {id: approve_all or id in approved for id in ids}


F = TypeVar("F", bound=Callable[..., Any])

LAST = "last"
"""Alias of the last used conversation. Ids have no letter l."""

_SIGNS = {"user": ">", "assistant": " "}
_MESSAGES = 4  # number of messages shown again
_LENGTH = 200  # characters shown of each message


def complete_ids(ctx: click.Context, param: click.Parameter, typed: str) -> list[CompletionItem]:
    """Ids of recent conversations with their titles, for shell completion."""
    return [
        CompletionItem(each.id, help=" ".join(each.title.split()))
        for each in ctx.ensure_object(App).store.conversations()
        if each.id.startswith(typed)
    ]


_OPTIONS = (
    click.option("--continue", "-c", "last", is_flag=True, help="Continue the last conversation."),
    click.option(
        "--conversation",
        "cid",
        cls=RenamedOption,
        former="--cid",
        metavar="ID",
        shell_complete=complete_ids,
        help="Continue this conversation: its id or a unique prefix.",
    ),
    click.option("--no-record", is_flag=True, help="Do not save the conversation."),
)


def session_options(function: F) -> F:
    """Add conversation options to a command, by name."""
    return with_options(function, _OPTIONS)


def found(app: App, id: str) -> Summary:
    """Find a conversation by `last` or a prefix of its id. Raises `NotFound`."""
    if id != LAST:
        try:
            return app.store.summary(id)
        except NotFound as error:
            error.hint = error.hint or "list conversations: genai-host conversations list"
            raise
    last = app.store.conversations(limit=1)
    if not last:
        raise NotFound("no conversation is saved", hint='start one: genai-host ask "..."')
    return last[0]


def selected_conversation(
    app: App, *, last: bool, cid: str | None, no_record: bool, **chosen: Any
) -> Conversation:
    """Open a new or saved conversation according to the options. Other options apply to further
    turns."""
    record = app.host.config.record and not no_record
    if last or cid is not None:
        return reopened(app, LAST if cid is None else cid, record=record, **changes(**chosen))
    if record or app.host.config.budgets.are_kept:
        app.host.store = app.store
    return open_conversation(app, record=record, **chosen)


def reopened(
    app: App, id: str, *, record: bool = True, feature: str | None = None, **changed: Any
) -> Conversation:
    """Reopen a saved conversation with changes for further turns. Raises `ConversationBusy` if
    another process is running a turn."""
    summary = found(app, id)
    if summary.status == "running":
        raise ConversationBusy(
            "another process is using this conversation", hint="wait until its turn has ended"
        )
    if feature not in (None, summary.feature):
        raise ConfigurationError(
            f"the conversation uses feature {summary.feature!r}, not {feature!r}",
            hint="start a new conversation: omit -c and --conversation",
        )
    return app.recording_host.conversation(summary.id, record=record, **changed)


def leave_out(conversation: Conversation, give: str, again: str) -> None:
    """Prepare a conversation for a new message: skip an interrupted turn, whose record remains.
    Raises `ConversationBusy` if a turn waits for input; its hint has `give` and the
    command `again`."""
    if conversation.status == "paused":
        raise ConversationBusy(
            f"the conversation waits for {asked(conversation)}",
            hint=f"{give}; or send the last message again: {again}",
        )
    if conversation.status == "pending":
        conversation.abandon()
        note("the last turn was interrupted and is skipped", dim=True)


def asked(conversation: Conversation) -> str:
    """What a turn waits for, with the number of calls or the payload."""
    from genai_host.util.text import shorten

    pause = conversation.current_pause
    if pause is None:
        return "a result"
    calls = calls_of(pause)
    if calls is not None:
        return f"{pause.kind} of {len(calls)} call{'s' if len(calls) > 1 else ''}"
    payload = "" if pause.payload is None else f": {json.dumps(pause.payload, ensure_ascii=False)}"
    return shorten(f"{pause.kind}{payload}")


def give_in_chat(conversation: Conversation) -> str:
    """How to resume a paused turn in a chat."""
    return (
        "answer it: /resume VALUE"
        if calls_of(conversation.current_pause) is None
        else "decide: /resume; or for all calls: /resume true, /resume false"
    )


def described(conversation: Conversation) -> str:
    """Feature and models of a conversation."""
    return f"{conversation.feature.name} with {models_text(conversation.models) or 'no model'}"


def models_text(models: Mapping[str, str]) -> str:
    """Models by role, for people."""
    return ", ".join(name if role == "main" else f"{role}: {name}" for role, name in models.items())


def show_end(conversation: Conversation) -> None:
    """Show the last messages in a few lines, and the next step for an unanswered turn."""
    for message in conversation.history[-_MESSAGES:]:
        if message.role in _SIGNS and message.text:
            note(f"{_SIGNS[message.role]} {shortened(message.text)}", dim=True)
    last = conversation.last_message
    if conversation.status == "paused":
        for call in calls_of(conversation.current_pause) or ():
            show_call(call)
        note(f"it waits for {asked(conversation)}; {give_in_chat(conversation)}")
    elif conversation.status == "pending":
        note(f"interrupted: {shortened(last.text if last else '')}")
        note("resume it: /resume; or send it again: /retry")
    elif last is not None and last not in conversation.history:
        note(f"not answered: {shortened(last.text)}")
        note("send it again: /retry")


def shortened(text: str) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(text[: 4 * _LENGTH].split())
    return line if len(line) <= _LENGTH else f"{line[: _LENGTH - 4]} ..."


def give_command(conversation: Conversation) -> str:
    """The command that resumes a paused turn."""
    if not conversation.id:
        return "not possible, since the conversation is not saved"
    resume = f"genai-host conversations resume {conversation.id}"
    if calls_of(conversation.current_pause) is None:
        return f"{resume} VALUE"
    return f"{resume} --approve-all, or --deny-all, or --approve CALL for some"


@contextlib.contextmanager
def next_steps(conversation: Conversation, *, as_json: bool = False) -> Iterator[None]:
    """Add the next command to errors, and show calls that wait for approval, as JSON if
    `as_json`."""
    try:
        yield
    except Conflict as error:
        error.hint = (
            f"continue from its current state: genai-host chat --conversation {conversation.id}"
        )
        raise
    except TurnPaused as error:
        if as_json:
            echo_json(_paused_row(conversation))
        else:
            for call in calls_of(conversation.current_pause) or ():
                show_call(call)
        error.hint = f"answer it: {give_command(conversation)}"
        raise


def _paused_row(conversation: Conversation) -> dict[str, Any]:
    pause = conversation.current_pause
    return {
        "pause": None if pause is None else pause_row(pause),
        "conversation": conversation.id,
        "feature": conversation.feature.name,
        "models": dict(conversation.models),
    }
