"""A conversation at the terminal: opened or resumed; approvals asked for.

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
from genai_host.cli.options import changes, open_conversation
from genai_host.cli.terminal import echo, echo_json, note
from genai_host.serializers.conversations import wait_row

if TYPE_CHECKING:
    from genai_host.api import Pause
    from genai_host.conversations.conversation import Conversation
    from genai_host.store.records import Summary


KIND = "approval"
_SHOWN = 4000  # characters of the arguments of a call; all are in `conversations waiting --json`

Calls = Sequence[Mapping[str, Any]]
"""Each with an `id` of its own, a `tool` and its `arguments`."""


def calls_of(wait: Pause[Any] | None) -> Calls | None:
    """The calls that a turn waits for a decision on; None if it waits for something else."""
    payload = None if wait is None or wait.kind != KIND else wait.payload
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
    """A call, on standard error: what is in it that does not show is escaped."""
    note(f"{visible(call['tool'])} ({visible(call['id'])})", bold=True)
    text = _json(call.get("arguments"))
    note(f"  {text[:_SHOWN]}")
    if len(text) > _SHOWN:
        note(f"  ... and {len(text) - _SHOWN} characters more", fg="yellow")


def show_wait(wait: Pause[Any]) -> None:
    """What a turn waits for, a line for each call; nothing is left out."""
    calls = calls_of(wait)
    if calls is None:
        echo(f"  {visible(wait.kind)}: {_json(wait.payload)}")
    for call in calls or ():
        arguments = _json(call.get("arguments"))
        echo(f"  {visible(call['id'])}  {visible(call['tool'])}  {arguments}")


def _json(value: Any) -> str:
    return visible(json.dumps(value, ensure_ascii=False))


def visible(text: str) -> str:
    """A text in which whatever has no sign of its own, or that of something else, such as
    a space of another width, is an escape of JSON."""
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)


def ask_for_each(calls: Calls) -> dict[str, bool]:
    """What the user says of each call. Raises `click.Abort` if that is nothing."""
    decided = {}
    for call in calls:
        show_call(call)
        decided[call["id"]] = click.confirm("May it run?", default=False, err=True)
    return decided


def decided_by(
    calls: Calls | None, *, yes: bool, no: bool, allowed: Sequence[str]
) -> dict[str, bool] | None:
    """What options say of each call; None if none of them is given. Raises
    `click.UsageError` for what they cannot say.

    allowed   ids; those that are not named may not run
    """
    given = yes + no + bool(allowed)
    if not given:
        return None
    if given > 1:
        raise click.UsageError("use only one of --yes, --no and --allow")
    if calls is None:
        raise click.UsageError("--yes, --no and --allow require calls that wait for approval")
    ids = [call["id"] for call in calls]
    for id in allowed:
        if id not in ids:
            raise click.BadParameter(
                f"unknown call {visible(id)!r}: choose from {', '.join(map(visible, ids))}",
                param_hint="--allow",
            )
    return {id: yes or id in allowed for id in ids}


F = TypeVar("F", bound=Callable[..., Any])

LAST = "last"
"""Stands for the id of the conversation that was gone on with last. No id has an l."""

_SIGNS = {"user": ">", "assistant": " "}
_MESSAGES = 4  # that are shown again
_LENGTH = 200  # characters that are shown of each


def complete_ids(ctx: click.Context, param: click.Parameter, typed: str) -> list[CompletionItem]:
    """The ids of the last conversations, with their titles."""
    return [
        CompletionItem(each.id, help=" ".join(each.title.split()))
        for each in ctx.ensure_object(App).store.conversations()
        if each.id.startswith(typed)
    ]


_OPTIONS = (
    click.option("--continue", "-c", "last", is_flag=True, help="Continue the last conversation."),
    click.option(
        "--cid",
        "--conversation",
        "cid",
        metavar="ID",
        shell_complete=complete_ids,
        help="Continue this conversation: its id or a unique prefix.",
    ),
    click.option("--no-record", is_flag=True, help="Do not save the conversation."),
)


def talk_options(function: F) -> F:
    """Add them to a command, which gets them by name."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def found(app: App, id: str) -> Summary:
    """The conversation that is meant: `last`, or the beginning of an id. Raises
    `NotFound`."""
    from genai_host.errors import NotFound

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


def talk(app: App, *, last: bool, cid: str | None, no_record: bool, **chosen: Any) -> Conversation:
    """The conversation that the options ask for, new or reopened. Other options that are
    given hold from here on."""
    record = app.host.config.record and not no_record
    if last or cid is not None:
        return reopened(app, LAST if cid is None else cid, record=record, **changes(**chosen))
    if record or app.host.config.budgets.are_kept:
        app.host.store = app.store
    return open_conversation(app, record=record, **chosen)


def reopened(
    app: App, id: str, *, record: bool = True, feature: str | None = None, **changed: Any
) -> Conversation:
    """The conversation that `found` finds, with what is changed from here on. Raises
    `ConversationBusy` if another process is at it."""
    from genai_host.errors import ConfigurationError, ConversationBusy

    summary = found(app, id)
    if summary.status == "running":
        raise ConversationBusy(
            "another process is using this conversation", hint="wait until its turn has ended"
        )
    if feature not in (None, summary.feature):
        raise ConfigurationError(
            f"the conversation uses feature {summary.feature!r}, not {feature!r}",
            hint="start a new conversation: omit -c and --cid",
        )
    app.host.store = app.store
    return app.host.conversation(summary.id, record=record, **changed)


def leave_out(
    conversation: Conversation,
    give: str = "genai-host conversations resume last VALUE",
    again: str = "genai-host ask --again",
) -> None:
    """Something new is said: a turn that was interrupted is left out; its record stays.
    One that waits is for the user to decide: `ConversationBusy`.

    give, again   commands that give it what it waits for, or say its message again
    """
    from genai_host.errors import ConversationBusy

    if conversation.status == "waiting":
        raise ConversationBusy(
            f"the conversation waits for {asked(conversation)}",
            hint=f"answer it: {give}; or send the last message again: {again}",
        )
    if conversation.status == "pending":
        conversation.abandon()
        note("the last turn was interrupted and is skipped", dim=True)


def asked(conversation: Conversation) -> str:
    """What a turn waits for, with what there is to decide."""
    from genai_host.util.text import one_line

    wait = conversation.waiting
    if wait is None:
        return "a result"
    calls = calls_of(wait)
    if calls is not None:
        return f"{wait.kind} of {len(calls)} call{'s' if len(calls) > 1 else ''}"
    payload = "" if wait.payload is None else f": {json.dumps(wait.payload, ensure_ascii=False)}"
    return one_line(f"{wait.kind}{payload}")


def give_in_chat(conversation: Conversation) -> str:
    """How to give it in a chat."""
    return (
        "answer it: /resume VALUE"
        if calls_of(conversation.waiting) is None
        else "decide: /resume; or for all calls: /resume true, /resume false"
    )


def described(conversation: Conversation) -> str:
    """Which feature it is with, and which models."""
    models = ", ".join(
        name if role == "main" else f"{role}: {name}" for role, name in conversation.models.items()
    )
    return f"{conversation.feature.name} with {models or 'no model'}"


def show_end(conversation: Conversation) -> None:
    """The end of what was said, in a few lines, and what can be done about a turn that
    was not answered."""
    for message in conversation.history[-_MESSAGES:]:
        if message.role in _SIGNS and message.text:
            note(f"{_SIGNS[message.role]} {shortened(message.text)}", dim=True)
    last = conversation.last_message
    if conversation.status == "waiting":
        for call in calls_of(conversation.waiting) or ():
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
    """The command that gives a turn what it waits for."""
    if not conversation.id:
        return "not possible, since the conversation is not saved"
    resume = f"genai-host conversations resume {conversation.id}"
    if calls_of(conversation.waiting) is None:
        return f"{resume} VALUE"
    return f"{resume} --yes, or --no, or --allow CALL for some"


@contextlib.contextmanager
def next_steps(conversation: Conversation, *, as_json: bool = False) -> Iterator[None]:
    """Errors name the command that comes next. Where a turn waits for calls to be approved
    of, they are shown.

    as_json   whether what a turn waits for is printed as JSON
    """
    from genai_host.errors import Conflict, TurnPaused

    try:
        yield
    except Conflict as error:
        error.hint = f"continue from its current state: genai-host chat --cid {conversation.id}"
        raise
    except TurnPaused as error:
        if as_json:
            echo_json(_waiting_row(conversation))
        else:
            for call in calls_of(conversation.waiting) or ():
                show_call(call)
        error.hint = f"answer it: {give_command(conversation)}"
        raise


def _waiting_row(conversation: Conversation) -> dict[str, Any]:
    return {
        "waiting": wait_row(conversation.waiting),
        "conversation": conversation.id,
        "feature": conversation.feature.name,
        "models": dict(conversation.models),
    }
