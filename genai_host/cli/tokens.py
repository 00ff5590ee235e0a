"""`genai-host tokens`: the number of input tokens of a prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from genai_host.cli.app import App, pass_app
from genai_host.cli.ask import question
from genai_host.cli.options import (
    Chosen,
    attach_option,
    fragment_option,
    model_options,
    with_last_used,
)
from genai_host.cli.terminal import echo, echo_json

if TYPE_CHECKING:
    from genai_host.api import TokenCount


@click.command(name="tokens")
@click.argument("words", nargs=-1)
@model_options
@click.option("--system", "-s", metavar="TEXT", help="System prompt.")
@fragment_option("FILE|URL|-", "Prepend text from a file, URL or standard input (-).")
@attach_option("FILE|URL|-", "Attach a file, URL or standard input (-).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: tokens, model, provider.")
@pass_app
def command(
    app: App,
    /,
    *,
    words: tuple[str, ...],
    model: str | None,
    provider: str | None,
    system: str | None,
    fragments: tuple[str, ...],
    attach: tuple[str, ...],
    as_json: bool,
) -> None:
    """Count the input tokens of a prompt without running it.

    The provider of the model counts them. `routes explain MODEL --operation count` shows which
    providers can count tokens.
    """
    from genai_host.api import Message

    asked = Message("user", question(words, attach, fragments))
    before = [Message("system", system)] if system else []

    def counted(names: Chosen) -> TokenCount:
        host, messages = app.host, [*before, asked]
        return host.count_tokens(messages, model=names.model, provider=names.provider)

    count = with_last_used(app, Chosen(None, model, provider), counted, keep=False)
    if not as_json:
        echo(str(count.tokens))
        return
    route = count.route
    echo_json(
        {
            "tokens": count.tokens,
            "model": route.model if route else None,
            "provider": route.provider if route else None,
        }
    )
