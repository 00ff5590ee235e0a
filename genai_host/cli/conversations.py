"""`genai-host conversations`: saved conversations."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from genai_host.api.json_text import read_json
from genai_host.cli.app import App, pass_app
from genai_host.cli.ask import resumed, show_answer, show_details
from genai_host.cli.options import RenamedOption
from genai_host.cli.reactions import images_option, show_reactions_of
from genai_host.cli.session import (
    calls_of,
    complete_ids,
    decided_by,
    found,
    give_command,
    models_text,
    next_steps,
    reopened,
    show_pause,
    visible,
)
from genai_host.cli.terminal import (
    cost_text,
    echo,
    echo_json,
    echo_table,
    is_terminal,
    local,
    note,
    read_age,
    read_date,
)
from genai_host.cli.transcripts import show_found, show_transcript, show_tries, title_of
from genai_host.conversations.record import Opened
from genai_host.conversations.replay import replay
from genai_host.conversations.transcript import turns_of, write_text
from genai_host.errors import NotFound, ValidationError
from genai_host.serializers.conversations import pause_row, row_of, try_row, turn_row
from genai_host.util.files import read_bytes
from genai_host.util.text import message_of

if TYPE_CHECKING:
    from genai_host.store.records import Summary

_SHORT = 12  # digits of an id in a table: the time and a few random ones
_LIMIT = 20
_MAX = 1_000_000
_MAX_IMPORTED = 512 * 2**20  # bytes

_id = click.argument("id", shell_complete=complete_ids)
_limit = partial(
    click.option, "--limit", "-n", type=click.IntRange(1, _MAX), default=_LIMIT, show_default=True
)


class ConversationsGroup(click.Group):
    """The command group; it also accepts former names of its commands."""

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        return super().get_command(ctx, "paused" if name == "waiting" else name)


@click.group(name="conversations", cls=ConversationsGroup)
def command() -> None:
    """Manage saved conversations.

    ID is the id of a conversation, a unique prefix of it, or `last`.
    """


@command.command("list")
@_limit(help="Maximum number of conversations.")
@click.option("--all", "everything", is_flag=True, help="List all conversations.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: a list of objects.")
@pass_app
def list_(app: App, limit: int, everything: bool, as_json: bool) -> None:
    """List conversations, most recently used first.

    Status: idle, failed, paused (for approval or input), running, interrupted. JSON: id,
    title, feature, models (by role), status, turns, cost (as in `ask`), created, updated
    (ISO 8601, UTC), forked_from.
    """
    summaries = app.store.conversations(limit=None if everything else limit + 1)
    more = not everything and len(summaries) > limit
    summaries = summaries[: None if everything else limit]
    if as_json:
        echo_json([row_of(summary) for summary in summaries])
        return
    rows = []
    for id, each in zip(_ids(summaries), summaries, strict=True):
        names = (title_of(each) or "-", each.feature, models_text(each.models))
        rows.append([id, local(each.updated), *names, each.turns, each.status])
    echo_table(("id", "when", "title", "feature", "model", "turns", "status"), rows)
    if more:
        note("more conversations: --all", dim=True)


def _ids(summaries: Sequence[Summary]) -> list[str]:
    """The shortest unique ids, for display."""
    ids = [summary.id for summary in summaries]
    short = [id[:_SHORT] for id in ids]
    return short if is_terminal(sys.stdout) and len({*short}) == len(ids) else ids


@command.command("show")
@_id
@click.option(
    "--details", is_flag=True, help="Also show the steps, tokens and cost of each answer."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: all turns, and the history.")
@pass_app
def show(app: App, id: str, details: bool, as_json: bool) -> None:
    """Show all turns of a conversation, including failed and undone ones.

    JSON: the fields of `list`, history (the current messages), turns (turn, at, outcome,
    message, answer, partial, error) and tries (the attempts of model calls).
    """
    summary = found(app, id)
    codec = app.host.codec
    entries = app.store.entries(summary.id, codec)
    history, turns = replay(entries).history, turns_of(entries)
    times = app.store.times(summary.id)
    if as_json:
        echo_json(
            {
                **row_of(summary),
                "history": codec.to_json(history),
                "turns": [turn_row(turn, times[turn.number], codec) for turn in turns],
                "tries": [try_row(each) for each in app.store.attempts(summary.id)],
            }
        )
        return
    for name, value in _facts(summary):
        echo(f"{name + ':':<10}{value}", dim=True)
    opened = entries[0]
    assert isinstance(opened, Opened)  # the first entry is always `Opened`
    show_transcript(opened.history, turns, times, details=details)
    if details:
        echo("")
        show_tries(app.store.attempts(summary.id))


def _facts(summary: Summary) -> Iterable[tuple[str, str]]:
    yield "id", summary.id
    yield "title", title_of(summary) or "-"
    yield "feature", summary.feature
    yield "models", models_text(summary.models)
    yield "begun", local(summary.created)
    yield "last", local(summary.updated)
    yield "status", summary.status
    if summary.cost.known:
        yield "cost", cost_text(summary.cost)
    if summary.forked_from:
        yield "fork of", summary.forked_from


@command.command("resume")
@_id
@click.argument("value", required=False)
@click.option("--approve-all", "--yes", "-y", is_flag=True, help="Approve all calls.")
@click.option("--deny-all", cls=RenamedOption, former="--no", is_flag=True, help="Deny all calls.")
@click.option(
    "--approve",
    cls=RenamedOption,
    former="--allow",
    metavar="CALL",
    multiple=True,
    help="Approve this call and deny those not named (repeatable).",
)
@images_option
@click.option("--no-stream", is_flag=True, help="Print the answer only when it is complete.")
@click.option("--raw", is_flag=True, help="Do not escape control characters.")
@click.option("--details", is_flag=True, help="Also print the steps, tokens and cost.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer and its details as JSON.")
@pass_app
def resume(
    app: App,
    *,
    id: str,
    value: str | None,
    approve_all: bool,
    deny_all: bool,
    approve: tuple[str, ...],
    save_images: str | None,
    no_stream: bool,
    raw: bool,
    details: bool,
    as_json: bool,
) -> None:
    """Resume an interrupted or paused turn.

    VALUE is the input that the turn waits for: JSON or text. If tool calls wait for approval,
    use --approve-all, --deny-all or --approve; without them, you are asked at a terminal.
    `paused` lists the calls. The exit code is 3 if the turn pauses again.

    Completed steps are not run again. A failed turn cannot be resumed; send its message
    again: genai-host ask --regenerate --conversation ID.
    """
    if value is not None and (approve_all or deny_all or approve):
        raise click.UsageError("use either VALUE or --approve-all, --deny-all and --approve")
    with reopened(app, id) as conversation, next_steps(conversation, as_json=as_json):
        decided = decided_by(
            calls_of(conversation.current_pause),
            approve_all=approve_all,
            deny_all=deny_all,
            approved=approve,
        )
        answer = resumed(
            conversation,
            value,
            decided=decided,
            give=f"answer it: {give_command(conversation)}",
            whole=no_stream or as_json,
            raw=raw,
        )
        show_answer(app, conversation, answer, whole=no_stream, raw=raw, as_json=as_json)
        show_reactions_of(app, answer, save_images, show=None if as_json else echo)
        if details:
            show_details(answer)


@command.command("paused")
@click.argument("id", required=False, shell_complete=complete_ids)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: a list of objects.")
@pass_app
def paused(app: App, id: str | None, as_json: bool) -> None:
    """List paused turns, which wait for approval or input.

    ID selects one conversation. `resume` answers a turn. JSON: conversation (id), title,
    feature, kind, payload. If tool calls wait for approval, calls has the id, tool and
    arguments of each.
    """
    every = app.store.conversations(limit=None) if id is None else [found(app, id)]
    summaries = [summary for summary in every if summary.status == "paused"]
    pauses = []
    for summary in summaries:
        turns = turns_of(app.store.entries(summary.id, app.host.codec))
        if turns and turns[-1].pause is not None:
            pauses.append((summary, turns[-1].pause))
    if as_json:
        echo_json([{**_named(summary), **pause_row(pause)} for summary, pause in pauses])
        return
    for summary, pause in pauses:
        echo(f"{summary.id}  {visible(title_of(summary) or '-')}", dim=True)
        show_pause(pause)


def _named(summary: Summary) -> dict[str, str]:
    return {"conversation": summary.id, "title": title_of(summary), "feature": summary.feature}


@command.command("search")
@click.argument("words", nargs=-1, required=True)
@_limit(help="Maximum number.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: a list of messages.")
@pass_app
def search(app: App, words: tuple[str, ...], limit: int, as_json: bool) -> None:
    """List messages containing all WORDS, newest first.

    Case and accents are ignored; wor* matches words with that prefix. Text in Chinese,
    Japanese, Thai and similar scripts is found by any part. Undone turns are excluded. JSON:
    conversation (id), title, turn, role, text.
    """
    import attrs

    found = app.store.search(" ".join(words), limit=limit)
    if as_json:
        echo_json([attrs.asdict(each) for each in found])
        return
    for each in found:
        show_found(each, each.conversation, " ".join(words))


@command.command("rename")
@_id
@click.argument("name")
@pass_app
def rename(app: App, id: str, name: str) -> None:
    """Rename a conversation; an empty NAME restores the original title."""
    id = found(app, id).id
    app.store.rename(id, name)
    note(f"{id}: {title_of(app.store.summary(id))}")


@command.command("delete")
@click.argument("ids", nargs=-1, metavar="[ID]...", shell_complete=complete_ids)
@click.option(
    "--before",
    metavar="DATE",
    callback=read_date,
    help="Delete conversations last used before this date, for example 2030-01-31.",
)
@click.option(
    "--older-than",
    metavar="AGE",
    callback=read_age,
    help="Delete conversations not used for this long, for example 30d, 12h or 4w.",
)
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@pass_app
def delete(
    app: App, ids: tuple[str, ...], before: float | None, older_than: float | None, yes: bool
) -> None:
    """Delete conversations and their files."""
    limits = [moment for moment in (before, older_than) if moment is not None]
    if not ids and not limits:
        raise click.UsageError("nothing to delete: give an ID, --before or --older-than")
    chosen = {summary.id: summary for summary in (found(app, id) for id in ids)}
    if limits:
        chosen |= {
            summary.id: summary
            for summary in app.store.conversations(limit=None)
            if summary.updated < min(limits) and summary.status != "running"
        }
    if chosen and not yes:
        _confirm(chosen.values())
    deleted = 0
    for id in chosen:
        with contextlib.suppress(NotFound):  # another process deleted it already
            app.store.delete(id)
            deleted += 1
    note(f"deleted: {deleted}")


def _confirm(chosen: Iterable[Summary]) -> None:
    chosen = list(chosen)
    if not is_terminal(sys.stdin):
        raise click.UsageError("cannot ask for confirmation without a terminal: use --yes")
    for summary in chosen[:_LIMIT]:
        note(f"{summary.id}  {local(summary.updated)}  {title_of(summary)}")
    if len(chosen) > _LIMIT:
        note(f"... and {len(chosen) - _LIMIT} more")
    what = "this one" if len(chosen) == 1 else f"these {len(chosen)}"
    click.confirm(f"Delete {what}?", abort=True, err=True)


@command.command("export")
@_id
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "markdown"]),
    help="json: the whole event log; markdown: the current history. Default: json, or markdown "
    "if FILE ends in .md.",
)
@click.option("--output", "-o", metavar="FILE", help="Write to this file, readable only by you.")
@click.option("--overwrite", is_flag=True, help="Replace FILE if it exists.")
@pass_app
def export(app: App, id: str, form: str | None, output: str | None, overwrite: bool) -> None:
    """Print a conversation, or write it to a file."""
    summary = found(app, id)
    if form is None:
        form = "markdown" if output is not None and output.endswith(".md") else "json"
    if form == "markdown":
        text = app.store.markdown(summary.id, app.host.codec).rstrip()
    else:
        exported = app.store.export(summary.id)
        text = json.dumps(exported, indent=2)
        missing = [id for id, data in exported["attachments"].items() if data is None]
        if missing:
            note(f"missing images and files: {len(missing)}; restore them from a backup")
    if output is None:
        echo(text)
        return
    write_text(text, output, overwrite=overwrite)
    note(f"written: {output}")


@command.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@pass_app
def import_(app: App, file: str) -> None:
    """Import a conversation exported as JSON, and print its new id."""
    data = read_bytes(file, _MAX_IMPORTED)
    try:
        id = app.store.import_conversation(read_json(data), app.host.codec)
    except (ValueError, ValidationError) as error:
        raise ValidationError(
            f"{file} is not an exported conversation: {message_of(error)}",
            hint="export one: genai-host conversations export ID -o FILE.json",
        ) from error
    echo(id)


@command.command("fork")
@_id
@click.option(
    "--turn", type=click.IntRange(min=0), help="Copy up to this turn; `show` numbers them."
)
@pass_app
def fork(app: App, id: str, turn: int | None) -> None:
    """Copy a conversation, optionally up to a turn, and print the new id.

    A turn that has not ended is not copied.
    """
    summary = found(app, id)
    if turn is not None and turn >= summary.turns:
        raise click.BadParameter(
            f"unknown turn {turn}; list turns: genai-host conversations show {summary.id}",
            param_hint="--turn",
        )
    echo(app.store.fork(summary.id, turn=turn))
