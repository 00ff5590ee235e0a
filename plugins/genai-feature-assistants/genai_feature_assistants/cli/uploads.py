"""Files of the user's, kept as the API keeps what is uploaded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from genai_feature_assistants.cli.opened import user_of
from genai_feature_assistants.cli.terminal import end_progress, progress
from genai_feature_assistants.imports.searchable import await_searchable
from genai_feature_assistants.service.files import MOST_BYTES
from genai_host.errors import ValidationError

if TYPE_CHECKING:
    from genai_feature_assistants.service.service import Service


def keep_file(ctx: click.Context, service: Service, path: Path, purpose: str) -> str:
    """Its id. Raises `ValidationError` for one that is too large, and `OSError`."""
    with path.open("rb") as stream:
        data = stream.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ValidationError(
            f"{path} is larger than {MOST_BYTES >> 20} MiB", hint="cut it into several files"
        )
    id: str = service.files.keep(user_of(ctx), path.name, data, purpose)["id"]
    return id


def await_files(ctx: click.Context, service: Service, store: str) -> list[str]:
    """Wait until all files of a vector store are searchable; a line for each that is not."""
    try:
        return await_searchable(ctx.obj.host, service, user_of(ctx), [store], progress)
    finally:
        end_progress()
