"""State shared by commands: the host and the store, opened on first use and closed at the end."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from genai_host.cli.terminal import note
from genai_host.util.interpreter import resume_collection

if TYPE_CHECKING:
    from typing import Self

    from genai_host.host import Host
    from genai_host.providers.instance import ProviderInstance
    from genai_host.store import Store

PATIENCE = 5.0
"""Timeout for another process that writes to the store, in seconds."""


@contextlib.contextmanager
def no_output_of_plugins() -> Iterator[None]:
    """Context for loading plugins. What they print goes to standard error, since a program may read
    standard output. So does what bypasses `sys.stdout`, for example the output of child processes,
    but not text that a C library keeps in its own buffer."""
    kept = None
    with contextlib.suppress(OSError, ValueError):  # one of them is closed
        if sys.stdout is not None:
            sys.stdout.flush()
        kept = os.dup(1)
        os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        if kept is not None:
            os.dup2(kept, 1)
            os.close(kept)


def _no_output_in_main_thread() -> contextlib.AbstractContextManager[None]:
    """Context for loading a plugin after the start. In another thread it redirects nothing, because
    the main thread may be printing an answer."""
    is_main = threading.current_thread() is threading.main_thread()
    return no_output_of_plugins() if is_main else contextlib.nullcontext()


class App:
    """State of one run of the command line. The context manager closes the host and the store."""

    def __init__(self, arguments: Sequence[str] = ()) -> None:
        self.arguments = arguments
        self._verbose = 0
        self._is_entered = False
        self._host: Host | None = None
        self._store: Store | None = None
        self._end_log: Callable[[], None] | None = None

    @property
    def host(self) -> Host:
        """The host. Prints a warning for each broken plugin when it is created."""
        if self._host is None:
            from genai_host.host import Host

            self._begin_log()
            with no_output_of_plugins():
                self._host = Host()
                all_broken = self._host.plugins.broken
            self._host.plugins.guard = _no_output_in_main_thread
            resume_collection()
            for broken in all_broken:
                note(f"warning: {broken.line()}", fg="yellow")
                note(f"  {broken.fix}")
                if self._verbose and broken.trace:
                    note(broken.trace)
        return self._host

    @property
    def store(self) -> Store:
        """Store of the user's conversations. Most commands do not need it, and importing it is
        slow. Raises `ConfigurationError` if its location is unknown."""
        if self._store is None:
            from genai_host.config import read_config

            config = read_config() if self._host is None else self._host.config
            from genai_host.store import Store

            self._begin_log()
            where = os.path.expanduser(config.database) if config.database else None
            self._store = Store(where, patience=PATIENCE)
            resume_collection()
        return self._store

    @property
    def recording_host(self) -> Host:
        """The host, with the store of the user's conversations. Raises `ConfigurationError` if the
        location of the store is unknown."""
        if self.host.store is None:
            self.host.store = self.store
        return self.host

    def instance(self, name: str) -> ProviderInstance:
        """The provider instance with this name. Raises `NoRoute` if there is none."""
        return self.host.instances[name]

    @property
    def is_verbose(self) -> bool:
        return self._verbose > 0

    def show_log(self, verbose: int) -> None:
        """Show the log until `end_log`: 0 for warnings, 2 for all messages."""
        from genai_host.cli.log import show_log

        self.end_log()
        self._verbose = verbose
        self._end_log = show_log(verbose)

    def show_log_as_json(self) -> None:
        from genai_host.cli.log import show_log

        self.end_log()
        self._end_log = show_log(self._verbose, as_json=True)

    def _begin_log(self) -> None:
        if self._is_entered and self._end_log is None:
            self.show_log(0)

    def end_log(self) -> None:
        if self._end_log is not None:
            self._end_log()
            self._end_log = None

    def __enter__(self) -> Self:
        self._is_entered = True
        return self

    def close(self) -> None:
        """Close the host and the store."""
        if self._host is not None:
            self._host.close()
        if self._store is not None:
            self._store.close()

    def __exit__(self, *exc: object) -> None:
        self.close()
        if not self._verbose:  # otherwise it still logs errors
            self.end_log()


pass_app = click.make_pass_decorator(App)


def show_log(ctx: click.Context, option: click.Parameter, verbose: int) -> None:
    """Callback of an option that counts."""
    if verbose and not ctx.resilient_parsing:
        ctx.ensure_object(App).show_log(verbose)
