"""`genai-host corpus`: indexes and searches a directory of documents."""

from __future__ import annotations

import click
from attrs import evolve

from genai_host import commands
from genai_host.api import Cancellation, CommandState
from genai_search_corpus import Settings
from genai_search_corpus.corpus import Corpus, CorpusState

_SHOWN = 300  # characters of a passage


@click.group()
def corpus() -> None:
    """Index and search a directory of documents.

    The directory is set by tools.corpus.folder.
    """


@corpus.command("index")
@click.option("--folder", metavar="FOLDER", help="Use this directory instead.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--quiet", "-q", is_flag=True, help="Do not show progress.")
@click.pass_obj
def index_command(state: CommandState, folder: str | None, as_json: bool, quiet: bool) -> None:
    """Create or update the index.

    Searches update the index too, within a time limit; passages not yet indexed are found by
    their words only. You can interrupt this command at any time.
    """
    given = _settings(state, folder)

    def show_progress(made: CorpusState) -> None:
        done = f"{made.embedded} of {made.passages} passages"
        line.show(f"{made.documents} documents, {done}")

    with commands.ProgressLine(quiet=quiet) as line:
        made = Corpus(given).make(Cancellation(), show_progress)
    if as_json:
        counts = {"documents": made.documents, "passages": made.passages}
        left_out = [{"path": path, "why": why} for path, why in made.left_out]
        commands.echo_json({**counts, "left_out": left_out})
        return
    click.echo(f"{made.documents} documents, {made.passages} passages")
    for path, why in made.left_out:
        click.echo(f"not indexed: {_plain(path)}: {why}", err=True)


@corpus.command("search")
@click.argument("query", nargs=-1, required=True)
@click.option("--folder", metavar="FOLDER", help="Use this directory instead.")
@click.option(
    "--limit", "-n", default=5, type=click.IntRange(1, 50), help="Maximum number of results."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def search_command(
    state: CommandState, query: tuple[str, ...], folder: str | None, limit: int, as_json: bool
) -> None:
    """Search the documents, by words and by meaning."""
    found = Corpus(_settings(state, folder)).search(" ".join(query), limit, Cancellation())
    rows = [{"title": each.title, "link": link, "text": each.text} for link, each in found]
    if as_json:
        commands.echo_json(rows)
        return
    for row in rows:
        text = " ".join(row["text"].split())
        more = "..." if len(text) > _SHOWN else ""
        click.echo(f"{_plain(row['title'])}\n{row['link']}\n  {_plain(text[:_SHOWN])}{more}\n")


def _settings(state: CommandState, folder: str | None) -> Settings:
    settings = commands.tool_settings(state.host, "corpus", Settings)
    return settings if folder is None else evolve(settings, folder=folder)


def _plain(text: str) -> str:
    """Remove terminal control characters, because documents are untrusted."""
    return "".join(each if each.isprintable() else "�" for each in text)
