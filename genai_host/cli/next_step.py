"""Offers a step if no model can answer, at a terminal, and performs it if the user agrees.

    open_conversation → next_step → NextStep.take → open_conversation again

The steps in order: prepare a provider (download weights), enter an API key, install a distribution
of this project, use another model that works.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from genai_host.api.cancellation import Cancellation
from genai_host.api.settings import describe
from genai_host.cli.app import App
from genai_host.cli.terminal import ProgressLine
from genai_host.errors import GenaiError, NoRoute
from genai_host.util.names import APP, our_distributions

if TYPE_CHECKING:
    from genai_host.api import Preparation, PreparationProgress
    from genai_host.api.settings import Setting
    from genai_host.catalog.join import Candidate
    from genai_host.providers.instance import ProviderInstance

_INSTALL = re.compile(rf'{APP} install "?([a-z-]+(?:\[starter\])?)"?')


class NextStep(NamedTuple):
    """A step that may solve the problem.

    Attributes:
        question: Yes-or-no question for the user.
        take: Performs it, and returns the changed options of the command.
    """

    question: str
    take: Callable[[], Mapping[str, Any]]


def next_step(
    app: App, error: GenaiError, model: str | None, provider: str | None
) -> NextStep | None:
    """The step to offer after a conversation could not be opened; None if none is known."""
    return next(_steps(app, error, model, provider), None)


def _steps(
    app: App, error: GenaiError, model: str | None, provider: str | None
) -> Iterator[NextStep]:
    candidates = _candidates(app, model, provider) if isinstance(error, NoRoute) else []
    for candidate in candidates:
        preparation = app.host.instances[candidate.provider].preparation(candidate.id)
        if preparation is not None:
            yield NextStep(f"{preparation.label}?", partial(_prepare, preparation))
    for candidate in candidates:
        instance = app.host.instances[candidate.provider]
        setting = missing_key(instance)
        if setting is not None and not app.host.config.read_only:
            yield NextStep(
                f"Set the API key of {instance.name} now?",
                partial(_set_key, app, instance.name, setting),
            )
    named = _INSTALL.search(f"{error} {error.hint}")
    if named and named[1].partition("[")[0] in (APP, *our_distributions()):
        yield NextStep(f"Install {named[1]}?", partial(_install, app, named[1]))
    yield from _others(app, error, model, provider)


def _candidates(app: App, model: str | None, provider: str | None) -> list[Candidate]:
    """Candidate routes of the model that a step could make available."""
    try:
        found = app.host.explain(model, provider)
    except GenaiError:
        return []
    return [each for each in found if each.id and not each.runs]


def missing_key(instance: ProviderInstance) -> Setting | None:
    """The secret that an instance lacks; None if it needs none, or has it."""
    secrets = [each for each in describe(instance.type.settings) if each.secret]
    try:
        lacks = instance.config.enabled and not any(map(instance.find_key, secrets))
    except GenaiError:
        return None
    return secrets[0] if secrets and lacks else None


def _prepare(preparation: Preparation) -> Mapping[str, Any]:
    def report(progress: PreparationProgress) -> None:
        done, total = ((size or 0) / 1e6 for size in (progress.done, progress.total))
        line.show(f"{progress.text}: {done:.1f} of {total:.1f} MB")

    with ProgressLine() as line, Cancellation() as limits:
        preparation.run(report, limits)
    return {}


def _set_key(app: App, name: str, setting: Setting) -> Mapping[str, Any]:
    from genai_host.cli.keys import store_key

    store_key(app, name, setting)
    app.host.instances.reopen(name)
    return {}


def _install(app: App, distribution: str) -> Mapping[str, Any]:
    """Install a distribution, and run the command again in a new process, which has the new
    plugins."""
    program = [sys.executable, "-m", "genai_host"]
    done = subprocess.run([*program, "install", distribution])
    if done.returncode == 0:
        app.close()
        if os.name == "posix":
            os.execv(program[0], [*program, *app.arguments])  # noqa: S606 - needs no shell
        done = subprocess.run([*program, *app.arguments])
    raise click.exceptions.Exit(done.returncode)


def _others(
    app: App, error: GenaiError, model: str | None, provider: str | None
) -> Iterator[NextStep]:
    """Working models as alternatives to a model without a route."""
    if not isinstance(error, NoRoute):
        return
    catalog = app.host.probe()
    for name in error.suggestions:
        if _works(catalog.resolve, name):
            yield _instead(name)
    if model is not None or provider is not None:
        try:
            name = app.host.default_model().name
        except GenaiError:
            return
        if _works(catalog.resolve, name):
            yield _instead(name)
        return
    keyed = catalog.defaults.keyed("chat")
    if keyed and _works(catalog.resolve, keyed):
        yield NextStep(f"Use {keyed} this time? Calls may cost money.", lambda: {"model": keyed})


def _instead(name: str) -> NextStep:
    return NextStep(f"Use {name} instead?", lambda: {"model": name, "provider": None})


def _works(resolve: Callable[[str], object], name: str) -> bool:
    try:
        resolve(name)
    except GenaiError:
        return False
    return True
