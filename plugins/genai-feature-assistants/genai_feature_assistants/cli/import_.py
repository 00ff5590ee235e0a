"""`genai-host assistants import`: take what was exported elsewhere."""

from __future__ import annotations

from pathlib import Path

import click

from genai_feature_assistants.cli.terminal import (
    echo_json,
    echo_table,
    end_progress,
    host_of,
    note,
    progress,
    user_of,
)
from genai_feature_assistants.imports.keeping import Report

_WHATS = ("imported", "replaced", "left alone", "failed")
_MOST_TOLD = 50


@click.command("import")
@click.argument(
    "files",
    nargs=-1,
    required=True,
    metavar="FILE...",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@click.option("--replace", is_flag=True, help="Replace objects that exist already.")
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="OLD=NEW",
    help="Replace a model, for example gpt-4o=smollm2 (repeatable).",
)
@click.option("--json", "as_json", is_flag=True, help="Print a summary as JSON.")
@click.option("--quiet", "-q", is_flag=True, help="Do not show progress.")
@click.pass_context
def import_command(
    ctx: click.Context,
    files: tuple[Path, ...],
    replace: bool,
    models: tuple[str, ...],
    as_json: bool,
    quiet: bool,
) -> None:
    """Import exported assistants, threads, messages, vector stores and files.

    Each FILE is JSON in the format of OpenAI's API: an object, a list of objects, a page of a
    list, or one of these on each line. The content of an uploaded file must be in the same
    directory as FILE, named by its id or filename. Ids, times and metadata are preserved.

    Objects that cannot be imported are reported; the others are imported, and the exit code is
    1. You can run the same command again: existing objects are skipped. JSON: counts (by kind:
    imported, replaced, left alone, failed), failed (kind, id, at, why), warnings.
    """
    from genai_feature_assistants.imports import import_files

    mapped = dict(_pair(each) for each in models)
    try:
        report = import_files(
            host_of(ctx),
            files,
            user=user_of(ctx),
            models=mapped,
            replace=replace,
            tell=_silent if quiet else progress,
        )
    except KeyboardInterrupt:
        end_progress()
        note("what was imported stays: the same command goes on with the rest")
        raise
    end_progress()
    _print(report, as_json)
    if report.failed:
        raise click.exceptions.Exit(1)


def _pair(given: str) -> tuple[str, str]:
    old, _, new = given.partition("=")
    if not old or not new:
        raise click.BadParameter(f"{given!r} is not OLD=NEW", param_hint="--model")
    return old, new


def _print(report: Report, as_json: bool) -> None:
    counts = report.counts
    if as_json:
        fields = ("kind", "id", "at", "why")
        failed = [{name: getattr(each, name) for name in fields} for each in report.failed]
        echo_json({"counts": counts, "failed": failed, "warnings": report.warnings})
        return
    rows = [
        [kind or "(unreadable)", *(str(of.get(what, 0)) for what in _WHATS)]
        for kind, of in counts.items()
    ]
    if rows:
        echo_table(["kind", *_WHATS], rows)
    else:
        note("there is nothing in it")
    for each in report.failed[:_MOST_TOLD]:
        note(f"failed: {each.line()}")
    for warning in report.warnings[:_MOST_TOLD]:
        note(f"warning: {warning}")
    left = max(0, len(report.failed) - _MOST_TOLD) + max(0, len(report.warnings) - _MOST_TOLD)
    if left:
        note(f"... and {left} more: --json has them all")


def _silent(text: str) -> None:
    """No progress is shown."""
