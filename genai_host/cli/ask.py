"""`genai-host ask`: one prompt, one answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from genai_host.cli.app import App, pass_app
from genai_host.cli.options import (
    RenamedOption,
    attach_option,
    checked_schema,
    chosen_template,
    conversation_options,
    fragment_option,
    json_or_text,
    read_schema,
    template_options,
)
from genai_host.cli.reactions import images_option, show_reactions_of
from genai_host.cli.session import (
    ask_for_each,
    asked,
    calls_of,
    give_command,
    leave_out,
    next_steps,
    selected_conversation,
    session_options,
)
from genai_host.cli.terminal import (
    can_ask,
    cost_text,
    echo,
    echo_json,
    note,
    piped_bytes,
    piped_text,
)
from genai_host.errors import GenaiError, ReplayError, TurnPaused, ValidationError
from genai_host.serializers.conversations import answer_row

if TYPE_CHECKING:
    from genai_host.api import Answer, Part
    from genai_host.api.features import Event
    from genai_host.conversations.conversation import Conversation, UserInput
    from genai_host.prompts.templates import Template

_NOT_IN_TEMPLATES = ("cid", "no_record", "tools", "no_tools", "max_cost")
"""Options that templates do not have."""


@click.command(name="ask")
@click.argument("words", nargs=-1)
@template_options
@conversation_options
@session_options
@click.option(
    "--regenerate",
    cls=RenamedOption,
    former="--again",
    is_flag=True,
    help="Replace the last turn: with WORDS, or by sending the same message again.",
)
@fragment_option("FILE|URL|-", "Prepend text from a file, URL or standard input (-).")
@attach_option("FILE|URL|-", "Attach a file, URL or standard input (-).")
@click.option("--schema", metavar="FILE|JSON", help="Return JSON that matches this JSON Schema.")
@images_option
@click.option("--no-stream", is_flag=True, help="Print the answer only when it is complete.")
@click.option("--raw", is_flag=True, help="Do not escape control characters.")
@click.option("--details", is_flag=True, help="Also print the steps, tokens and cost.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer and its details as JSON.")
@click.option(
    "--save-template",
    cls=RenamedOption,
    former="--save",
    metavar="NAME",
    help="Save these options as a template instead of sending the prompt.",
)
@pass_app
def command(
    app: App,
    /,
    *,
    words: tuple[str, ...],
    template: str | None,
    variables: tuple[str, ...],
    fragments: tuple[str, ...],
    attach: tuple[str, ...],
    regenerate: bool,
    last: bool,
    schema: str | None,
    save_template: str | None,
    save_images: str | None,
    no_stream: bool,
    raw: bool,
    details: bool,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Send one prompt and print the answer.

    Piped input is added to the prompt. Without --model and --provider, the default model
    answers. The conversation is saved; `ask -c` continues it. The pages that the answer cites,
    and tables and charts from tools, are printed below it, or to standard error with --schema.

    If a tool needs approval, you are asked at a terminal. Without a terminal the turn is
    paused, and the exit code is 3. `genai-host conversations resume` continues it.

    JSON: text, citations (url, title, cited_text, start, end of each), data, reactions, usage,
    cost (dollars; known and unknown: the number of calls with and without a known cost; null
    if no cost is known), details, conversation (id), feature, models. A paused turn: pause
    (kind, payload), conversation, feature, models.
    """
    if [*fragments, *attach].count("-") > 1:
        raise click.UsageError("only one option can read standard input (-)")
    returns = None if schema is None else read_schema(schema)
    if save_template is not None:
        from genai_host.cli.templates import save_as_template

        text = asked_text(words, (*fragments, *attach))
        if chosen["tools"] or chosen["no_tools"] or chosen["max_cost"]:
            raise click.UsageError(
                "--save-template cannot be used with --tools, --no-tools or --max-cost"
            )
        named = {name: chosen[name] for name in chosen if name not in _NOT_IN_TEMPLATES}
        given = {"fragments": fragments, "attach": attach, "schema": returns, **named}
        note(f"saved: {save_as_template(save_template, template, variables, text, **given)}")
        return
    using = chosen_template(template, variables)
    parts = question(words, attach, fragments, using, optional=regenerate)
    if returns is None and using is not None and using.schema is not None:
        returns = checked_schema(dict(using.schema), using.file)
    selected = selected_conversation(app, last=last or regenerate, template=using, **chosen)
    with selected as conversation, next_steps(conversation, as_json=as_json):
        if not regenerate:
            again = f"genai-host ask --regenerate --conversation {conversation.id}"
            leave_out(conversation, f"answer it: {give_command(conversation)}", again)
        whole = no_stream or as_json or returns is not None
        answer = answered(
            conversation, parts or None, returns, regenerate=regenerate, whole=whole, raw=raw
        )
        if returns is not None and not as_json:
            echo(json.dumps(answer.data, indent=2, ensure_ascii=False), raw=raw)
        else:
            show_answer(app, conversation, answer, whole=whole, raw=raw, as_json=as_json)
        # JSON output stays valid
        show = None if as_json else echo if returns is None else note
        show_reactions_of(app, answer, save_images, show=show)
        if details:
            show_details(answer)


def question(
    words: tuple[str, ...],
    attach: tuple[str, ...],
    fragments: tuple[str, ...] = (),
    template: Template | None = None,
    *,
    optional: bool = False,
) -> list[str | Part]:
    """Build the prompt: fragments, words, piped input, and attachments. It may be empty if
    `optional`."""
    from genai_host.prompts.attachments import attachments, read_fragments, with_fragments

    prompt = asked_text(words, (*fragments, *attach))
    if template is not None:
        prompt = template.prompt_text(prompt)
        fragments = (*template.fragments, *fragments)
        attach = (*template.attachments, *attach)
    parts: list[str | Part] = []
    text = with_fragments(read_fragments(fragments, piped_text), prompt)
    if text:
        parts.append(text)
    parts += attachments(attach, piped_bytes)
    if not parts and not optional:
        raise click.UsageError('nothing to ask: give a prompt, for example genai-host ask "Hello"')
    return parts


def asked_text(words: tuple[str, ...], sources: tuple[str, ...] = ()) -> str:
    """The words and the piped input, unless the input is one of the sources."""
    texts = [" ".join(words)] if words else []
    if "-" not in sources:
        piped = piped_text().strip()
        texts += [piped] if piped else []
    return "\n\n".join(texts)


def answered(
    conversation: Conversation,
    message: UserInput | None,
    output_type: Any = None,
    *,
    regenerate: bool = False,
    whole: bool = False,
    raw: bool = False,
) -> Answer:
    """Run a turn, and print the answer as it is streamed unless `whole`.

    With `regenerate`, the message replaces the last one and its answer; None sends the last message
    again. A turn in progress is abandoned.
    """
    if regenerate:
        conversation.abandon()
    events = conversation.stream(message, regenerate=regenerate, output_type=output_type)
    return consume_events(conversation, events, whole=whole, raw=raw)


def resumed(
    conversation: Conversation,
    value: str | None,
    *,
    decided: Mapping[str, bool] | None = None,
    give: str,
    **how: Any,
) -> Answer:
    """Resume a paused or interrupted turn with a value, which is JSON or text, or with decisions on
    calls that wait for approval, and print its answer. `give` says how to resume it, for the error,
    and `how` are arguments of `consume_events`. Raises `TurnPaused` if the turn needs input
    that was not given and cannot be requested, because there is no terminal."""
    if conversation.status == "idle":
        raise ReplayError(
            "no turn to resume: every turn of this conversation has ended",
            hint='continue it: genai-host ask -c "..."',
        )
    result = decided if value is None else json_or_text(value)
    calls = calls_of(conversation.current_pause)
    if value is not None and calls is not None and not isinstance(result, bool | dict):
        raise ValidationError(
            "calls wait for approval: the value must be true, false, or an object with true or "
            "false for the id of each call",
            hint=give,
        )
    if conversation.status == "paused" and value is None and decided is None:
        pause = conversation.current_pause
        result = _asked_for(conversation)
        if result is None:
            raise TurnPaused(
                f"the conversation waits for {asked(conversation)}",
                kind="" if pause is None else pause.kind,
                hint=give,
            )
    return consume_events(conversation, conversation.resume_stream(result), **how)


def consume_events(
    conversation: Conversation,
    events: Generator[Event, None, None],
    *,
    whole: bool = False,
    raw: bool = False,
) -> Answer:
    """Consume the events of a turn, and return its answer. If tool calls wait for approval, the
    user is asked at a terminal."""
    printing = Printing(raw)
    while True:
        try:
            return _print_events(events, printing, whole)
        except TurnPaused:
            decided = _asked_for(conversation)
            if decided is None:
                raise
            printing.begin_again()
            events = conversation.resume_stream(decided)


def _asked_for(conversation: Conversation) -> dict[str, bool] | None:
    """The user's decisions on the calls of a paused turn; None without an answer."""
    calls = calls_of(conversation.current_pause)
    if calls is None or not can_ask():
        return None
    try:
        return ask_for_each(calls)
    except click.Abort:
        note("")
        return None


def _print_events(events: Generator[Event, None, None], printing: Printing, whole: bool) -> Answer:
    answer: Answer | None = None
    try:
        with closing(events):  # ends the turn before its store is closed
            for event in events:
                if event.kind == "progress":
                    printing.progress(event.data.text)
                elif event.kind == "retry":
                    note(event.data.text, dim=True)
                elif not whole:
                    printing.add(event)
                answer = event.answer
    except (GenaiError, KeyboardInterrupt):
        printing.break_off()
        raise
    assert answer is not None  # the last event of a successful turn has it
    if not whole:
        printing.finish(answer.text)
    return answer


class Printing:
    """Prints an answer as it is streamed, and the missing part at the end."""

    def __init__(self, raw: bool = False) -> None:
        self._raw = raw
        self._printed: list[str] = []
        self._is_between = False
        self._is_broken_off = False
        self._noted = 0
        self._noted_before = 0

    def begin_again(self) -> None:
        """Restart the progress count for a resumed turn, which reports its progress from the
        start."""
        self._noted_before, self._noted = max(self._noted_before, self._noted), 0

    def progress(self, text: str) -> None:
        self._noted += 1
        if self._noted > self._noted_before:
            note(text, dim=True)

    def add(self, event: Event) -> None:
        if event.kind == "reset" and self._printed:
            note("\n(the answer starts over)", dim=True)
            self._printed = []
        elif event.kind == "step":
            self._is_between = bool(self._printed) and not self._is_broken_off
        elif event.text:
            if self._is_between:
                self._print("\n")
                self._is_between = False
            self._is_broken_off = False
            self._print(event.text)

    def finish(self, text: str) -> None:
        """Print the missing part; the whole answer if it differs from the printed text."""
        printed = "".join(self._printed)
        if printed.endswith(text):
            echo("")
        elif text.startswith(printed):
            echo(text[len(printed) :], raw=self._raw)
        else:
            echo(f"\n{text}", raw=self._raw)

    def break_off(self) -> None:
        """Start the next output on a new line."""
        if self._printed and not self._printed[-1].endswith("\n"):
            self._print("\n")
            self._is_broken_off = True
        self._is_between = False

    def _print(self, text: str) -> None:
        echo(text, end="", raw=self._raw)
        self._printed.append(text)


def show_answer(
    app: App, conversation: Conversation, answer: Answer, *, whole: bool, raw: bool, as_json: bool
) -> None:
    """Print an answer as JSON, or as text if nothing was printed while it was streamed
    (`whole`)."""
    if as_json:
        row = {"conversation": conversation.id, "feature": conversation.feature.name}
        models = {"models": dict(conversation.models)}
        echo_json({**answer_row(answer, app.host.codec), **row, **models})
    elif whole:
        echo(answer.text, raw=raw)


def show_details(answer: Answer, show: Callable[..., None] = note) -> None:
    """Show details, usage and cost of an answer, by default on standard error."""
    for detail in answer.details:
        show(f"{detail.kind}: {detail.title}", bold=True)
        for name, value in detail.data.items():
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            show(f"  {name}: {text}", dim=True)
    used = answer.usage
    show(f"tokens: {used.input_tokens} in, {used.output_tokens} out", dim=True)
    if answer.cost.known:
        show(f"cost: {cost_text(answer.cost)}", dim=True)
