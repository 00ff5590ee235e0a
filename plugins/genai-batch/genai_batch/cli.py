"""`genai-host batch`: many prompts from a file."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import attrs
import click

from genai_host import commands

if TYPE_CHECKING:
    from genai_batch.batch import BatchProgress
    from genai_batch.work import Task
    from genai_host import Host
    from genai_host.api import Clock, CommandState

_AT_ONCE = 8
_DRAWN = 0.2  # seconds between updates of the progress bar
_BAR = 24  # characters
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group(name="batch")
def command() -> None:
    """Run many prompts from a file, and write the answers to another file."""


@command.command("run")
@click.argument("source", metavar="INPUT", type=_FILE)
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Output file.  [INPUT.answers.jsonl]",
)
@commands.conversation_options
@click.option(
    "--concurrency",
    cls=commands.RenamedOption,
    former="--at-once",
    type=click.IntRange(1, 10**9),
    metavar="N",
    help=f"Number of rows to run concurrently.  [{_AT_ONCE}]",
)
@click.option("--schema", metavar="FILE|JSON", help="Return JSON that matches this JSON Schema.")
@click.option("--record", is_flag=True, help="Save each row as a conversation.")
@click.option("--retry-failed", is_flag=True, help="Run failed rows again.")
@click.option(
    "--overwrite",
    cls=commands.RenamedOption,
    former="--restart",
    is_flag=True,
    help="Discard earlier results and start over.",
)
@click.option(
    "--executor",
    metavar="NAME",
    help="Run rows with this executor of a plugin; see --executor-setting.",
)
@click.option(
    "--executor-setting",
    "executor_settings",
    cls=commands.RenamedOption,
    former="--with",
    multiple=True,
    metavar="NAME=VALUE",
    help="Executor setting.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a summary as JSON.")
@click.option("--quiet", "-q", is_flag=True, help="Do not show progress.")
@click.pass_obj
def run_command(
    state: CommandState,
    /,
    *,
    source: Path,
    output: Path | None,
    concurrency: int | None,
    schema: str | None,
    record: bool,
    retry_failed: bool,
    overwrite: bool,
    executor: str | None,
    executor_settings: tuple[str, ...],
    as_json: bool,
    quiet: bool,
    max_cost: float | None,
    **chosen: Any,
) -> None:
    """Run every row of INPUT and write one result per row, in order.

    A row is a line of JSON: a string; an object with prompt and optionally id, system, model,
    provider and parameters; or a line of OpenAI's Batch API (custom_id, method, url, body).
    Each output line is a JSON object: row (line number), id, text, citations, data, usage, cost,
    conversation, and, for a failed row, error (code, message, hint).

    To continue an interrupted batch, run the same command again: finished rows are in
    OUTPUT.journal until the batch is complete. --max-cost applies to all rows together: no
    further row is started after that cost.

    The exit code is 1 if a row failed. JSON: rows, done, failed, before, cost, unknown,
    seconds, output.
    """
    from genai_batch.batch import Batch
    from genai_batch.work import RETRY_POLICY

    host = _host(state, record=record)
    host.retry_policy = RETRY_POLICY
    output = source.with_name(f"{source.name}.answers.jsonl") if output is None else output
    bar = _Bar(host.clock, shown=not quiet and commands.is_terminal(sys.stderr))
    settings = commands.named_values(executor_settings, "--executor-setting")
    with _executor(host, executor, settings) as elsewhere:
        batch = Batch(
            host,
            source,
            output,
            _task(host, chosen, schema, record),
            concurrency=concurrency or _AT_ONCE,
            max_cost=max_cost,
            executor=elsewhere,
            retry_failed=retry_failed,
            overwrite=overwrite,
            on_progress=bar.draw,
        )
        try:
            progress = batch.run()
        except KeyboardInterrupt:
            bar.end()
            commands.note("finished rows are saved; continue with the same command")
            raise
        finally:
            bar.end()
    _show(progress, output, as_json)
    if progress.failed:
        raise click.exceptions.Exit(1)


def _host(state: CommandState, *, record: bool) -> Host:
    """The host; with a store, which sums up the usage, if rows or budgets are stored."""
    config = state.host.config
    stores = record or config.record or config.budgets.are_kept
    return cast("Host", state.recording_host if stores else state.host)


def _task(host: Host, chosen: dict[str, Any], schema: str | None, record: bool) -> Task:
    from genai_batch.work import Task

    given = commands.conversation_arguments(host, **chosen)
    if given["models"]:
        raise click.UsageError("batch run does not support --role")
    return Task(
        feature=given["feature"] or "",
        model=given["model"] or "",
        provider=given["provider"] or "",
        parameters=given["parameters"],
        settings=given["settings"],
        tools=None if given["tools"] is None else tuple(given["tools"]),
        schema=None if schema is None else commands.read_schema(schema),
        record=record,
    )


@contextlib.contextmanager
def _executor(host: Host, name: str | None, given: dict[str, Any]) -> Iterator[Executor | None]:
    if name is None:
        if given:
            raise click.UsageError("--executor-setting requires --executor")
        yield None
        return
    executor = host.open_executor(name, given)
    try:
        yield executor
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


def _show(progress: BatchProgress, output: Path, as_json: bool) -> None:
    if as_json:
        commands.echo_json({**attrs.asdict(progress), "output": str(output)})
        return
    cost = f", ${progress.cost:.4f}" if progress.cost else ""
    if progress.unknown:
        cost += f" and {progress.unknown} calls of unknown cost"
    commands.note(f"{progress.done} rows, {progress.failed} failed{cost}, {progress.seconds:.1f} s")
    if progress.failed:
        commands.note("run the failed rows again: --retry-failed")
    commands.echo(str(output))


@attrs.define
class _Bar:
    """Progress bar on one line of standard error."""

    _clock: Clock
    _shown: bool
    _drawn: float | None = None

    def draw(self, progress: BatchProgress) -> None:
        now = self._clock.monotonic()
        if not self._shown or (self._drawn is not None and now - self._drawn < _DRAWN):
            return
        self._drawn = now
        sys.stderr.write(f"\r{_line(progress)}\033[K")
        sys.stderr.flush()

    def end(self) -> None:
        if self._drawn is not None:
            self._drawn = None
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


def _line(progress: BatchProgress) -> str:
    part = progress.done / progress.rows if progress.rows else 1.0
    full = round(part * _BAR)
    line = f"{'█' * full}{'░' * (_BAR - full)} {progress.done}/{progress.rows}"
    since = progress.done - progress.before
    if since and progress.seconds:
        rate = since / progress.seconds
        left = (progress.rows - progress.done) / rate
        line += f"  {rate:.3g}/s  {_duration(left)} left"
    if progress.cost:
        line += f"  ${progress.cost:.4f}"
    return f"{line}  {progress.failed} failed" if progress.failed else line


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
