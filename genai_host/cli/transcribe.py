"""`genai-host transcribe`: the text of a recording."""

from __future__ import annotations

from pathlib import Path

import click

from genai_host.cli.app import App, pass_app
from genai_host.cli.terminal import echo, echo_json
from genai_host.errors import ValidationError

_MAX_SIZE = 2**30  # bytes; services accept much less


@click.command(name="transcribe")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--model", "-m", help="Model; by default that of `config default transcribe`.")
@click.option("--provider", "-p", help="Only this provider.")
@click.option("--language", "-l", metavar="CODE", help="Language of the speech, for example en.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with all fields of the reply.")
@pass_app
def command(
    app: App,
    file: Path,
    model: str | None,
    provider: str | None,
    language: str | None,
    as_json: bool,
) -> None:
    """Print the text of the speech in FILE, an audio file.

    FILE is sent to the provider of the model. `routes explain MODEL --operation transcribe` shows
    which providers can convert speech to text.
    """
    import mimetypes

    from genai_host.api import File

    if not 0 < file.stat().st_size <= _MAX_SIZE:
        raise ValidationError(f"{file} is empty, or larger than 1 GiB")
    kind = mimetypes.guess_type(file.name)[0] or ""
    found = app.host.transcribe(
        File(file.read_bytes(), kind, file.name),
        model=model,
        provider=provider,
        parameters={} if language is None else {"language": language},
    )
    if not as_json:
        echo(found.text)
        return
    route = found.route
    echo_json(
        {
            **found.extra,
            "text": found.text,
            "model": route.model if route else None,
            "provider": route.provider if route else None,
            "cost": found.cost,
        }
    )
