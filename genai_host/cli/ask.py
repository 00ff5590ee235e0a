"""`genai-host ask`: one question, one answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from genai_host.cli.app import App, pass_app
from genai_host.cli.options import (
    attach_option,
    checked_schema,
    chosen_template,
    conversation_options,
    fragment_option,
    open_conversation,
    read_schema,
    template_options,
)
from genai_host.cli.terminal import echo, echo_json, note, piped_bytes, piped_text
from genai_host.errors import GenaiError

if TYPE_CHECKING:
    from genai_host.api import Answer, Part
    from genai_host.conversation import Conversation, Said
    from genai_host.events import Event
    from genai_host.templates import Template


@click.command(name="ask")
@click.argument("words", nargs=-1)
@template_options
@conversation_options
@fragment_option("FILE|URL|-", "Put a text before the question; - is standard input.")
@attach_option("FILE|URL|-", "Send a file along; - is standard input.")
@click.option(
    "--schema", metavar="FILE|JSON", help="Answer with JSON that satisfies this JSON Schema."
)
@click.option("--no-stream", is_flag=True, help="Print the answer when it is whole.")
@click.option("--raw", is_flag=True, help="Print the answer exactly, control characters and all.")
@click.option("--details", is_flag=True, help="Print what is behind the answer as well.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer with its details as JSON.")
@click.option("--save", metavar="NAME", help="Ask nothing: keep all this as a template.")
@pass_app
def command(
    app: App,
    /,
    words: tuple[str, ...],
    template: str | None,
    variables: tuple[str, ...],
    fragments: tuple[str, ...],
    attach: tuple[str, ...],
    schema: str | None,
    save: str | None,
    no_stream: bool,
    raw: bool,
    details: bool,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Ask one question and print the answer.

    What is piped in is part of the question. Without --model and --provider the
    default model answers.
    """
    _must_be_one_input(fragments, attach)
    returns = None if schema is None else read_schema(schema)
    if save is not None:
        from genai_host.cli.saving import save_as_template

        asked = asked_text(words, (*fragments, *attach))
        given = {"fragments": fragments, "attach": attach, "schema": returns, **chosen}
        note(f"saved: {save_as_template(save, template, variables, asked, **given)}")
        return
    using = chosen_template(template, variables)
    parts = question(words, attach, fragments, using)
    if returns is None and using is not None and using.schema is not None:
        returns = checked_schema(dict(using.schema), using.file)
    with open_conversation(app, template=using, **chosen) as conversation:
        whole = no_stream or as_json or returns is not None
        answer = answered(conversation, parts, returns, whole=whole, raw=raw)
        if as_json:
            echo_json(_as_json(app, conversation, answer))
        elif returns is not None:
            echo(json.dumps(answer.data, indent=2, ensure_ascii=False), raw=raw)
        elif whole:
            echo(answer.text, raw=raw)
        if details:
            show_details(answer)


def _must_be_one_input(fragments: tuple[str, ...], attach: tuple[str, ...]) -> None:
    if [*fragments, *attach].count("-") > 1:
        raise click.UsageError("standard input is there once: one option can take it")


def question(
    words: tuple[str, ...],
    attach: tuple[str, ...],
    fragments: tuple[str, ...] = (),
    template: Template | None = None,
) -> list[str | Part]:
    """What is asked: the fragments, the words, what is piped in, and what is attached."""
    from genai_host.attachments import attachments
    from genai_host.fragments import read_fragments, with_fragments

    asked = asked_text(words, (*fragments, *attach))
    if template is not None:
        asked = template.prompt_text(asked)
        fragments = (*template.fragments, *fragments)
        attach = (*template.attachments, *attach)
    parts: list[str | Part] = []
    text = with_fragments(read_fragments(fragments, piped_text), asked)
    if text:
        parts.append(text)
    parts += attachments(attach, piped_bytes)
    if not parts:
        raise click.UsageError('there is nothing to ask: genai-host ask "..."')
    return parts


def asked_text(words: tuple[str, ...], sources: tuple[str, ...] = ()) -> str:
    """The words, and what is piped in, unless that is one of the sources."""
    asked = [" ".join(words)] if words else []
    if "-" not in sources:
        piped = piped_text().strip()
        asked += [piped] if piped else []
    return "\n\n".join(asked)


def answered(
    conversation: Conversation,
    message: Said | None,
    returns: Any = None,
    *,
    again: bool = False,
    whole: bool = False,
    raw: bool = False,
) -> Answer:
    """The answer, printed as it is written, unless it is wanted whole.

    again   whether this takes the place of the last message and its answer; no message
            stands for the same one
    """
    printing = Printing(raw)
    answer: Answer | None = None
    try:
        for event in conversation.stream(message, again=again, returns=returns):
            if event.kind == "progress":
                note(event.data.text, dim=True)
            elif not whole:
                printing.hear(event)
            answer = event.answer
    except (GenaiError, KeyboardInterrupt):
        printing.break_off()
        raise
    assert answer is not None  # the last event of a turn that does not raise
    if not whole:
        printing.finish(answer.text)
    return answer


class Printing:
    """Prints an answer as it is written, and in the end what is missing of it."""

    def __init__(self, raw: bool = False) -> None:
        self._raw = raw
        self._printed = ""
        self._is_between = False

    def hear(self, event: Event) -> None:
        if event.kind == "void" and self._printed:
            note("\n(the answer begins anew)", dim=True)
            self._printed = ""
        elif event.kind == "step":
            self._is_between = bool(self._printed)
        elif event.text:
            if self._is_between:
                self._print("\n")
                self._is_between = False
            self._print(event.text)

    def finish(self, text: str) -> None:
        """An answer need not be what was written last: then it is printed in full."""
        if self._printed.endswith(text):
            echo("")
        elif text.startswith(self._printed):
            echo(text[len(self._printed) :], raw=self._raw)
        else:
            echo(f"\n{text}", raw=self._raw)

    def break_off(self) -> None:
        """What is printed next begins a line of its own."""
        if self._printed and not self._printed.endswith("\n"):
            echo("")

    def _print(self, text: str) -> None:
        echo(text, end="", raw=self._raw)
        self._printed += text


def show_details(answer: Answer) -> None:
    """What is behind an answer, on standard error."""
    for detail in answer.details:
        note(f"{detail.kind}: {detail.title}", bold=True)
        for name, value in detail.data.items():
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            note(f"  {name}: {text}", dim=True)
    used = answer.usage
    note(f"tokens: {used.input} in, {used.output} out", dim=True)


def _as_json(app: App, conversation: Conversation, answer: Answer) -> dict[str, Any]:
    import attrs

    return {
        "text": answer.text,
        "data": app.host.codec.to_json(answer.data),
        "feature": conversation.feature.name,
        "models": dict(conversation.models),
        "usage": attrs.asdict(answer.usage),
        "details": app.host.codec.to_json(answer.details),
    }
