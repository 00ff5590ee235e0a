"""Results of loading plugins: one that works, is deferred, broken or blocked."""

from __future__ import annotations

import traceback

import pluggy
from attrs import frozen

from genai_host.errors import GenaiError
from genai_host.plugins.contributions import Contributions
from genai_host.plugins.index import InstalledPlugin, LoadResult
from genai_host.plugins.manager import HOOK_PREFIX, HOOKS
from genai_host.util.names import APP
from genai_host.util.text import close_matches, describe_exception, message_of, shorten


@frozen
class LoadedPlugin:
    """A plugin that works, and its contributions."""

    found: InstalledPlugin
    plugin: object
    declared: Contributions
    is_eager: bool = False

    def outcome(self) -> LoadResult:
        commands = tuple(
            (each.name, shorten(each.help), each.load) for each in self.declared.commands
        )
        return LoadResult(
            "loaded",
            provides=self.declared.names(),
            commands=commands,
            claims=tuple(self.declared.claims()),
            is_eager=self.is_eager,
        )


@frozen
class DeferredPlugin:
    """A plugin to load when something of it is needed, with the result of the last time."""

    found: InstalledPlugin
    saved: LoadResult


@frozen
class BrokenPlugin:
    """A plugin that does not work, with the reason and the fix.

    Attributes:
        trace: Traceback of the exception, if there was one.
        is_skipped: Whether loading was skipped; see `LoadResult.is_skipped`.
    """

    found: InstalledPlugin
    reason: str
    fix: str
    trace: str = ""
    is_skipped: bool = False

    def outcome(self) -> LoadResult:
        return LoadResult("broken", self.reason, self.fix, is_skipped=self.is_skipped)

    def line(self) -> str:
        """One line for a warning."""
        found = self.found
        source = f" ({found.distribution} {found.version})".replace(" )", ")")
        return f"plugin {found.name}{source} is broken: {self.reason}"


@frozen
class BlockedPlugin:
    """A plugin that the configuration excludes."""

    found: InstalledPlugin
    reason: str


PluginResult = LoadedPlugin | BrokenPlugin | BlockedPlugin


def broken_by(error: BaseException, found: InstalledPlugin) -> BrokenPlugin:
    try:
        return _explained(error, found)
    except Exception:  # noqa: BLE001 - the exception is code of the plugin as well
        return BrokenPlugin(found, describe_exception(error), _usual_fix(found))


def _explained(error: BaseException, found: InstalledPlugin) -> BrokenPlugin:
    """The broken plugin for an exception, with the most likely fix."""
    fix = _usual_fix(found)
    if isinstance(error, GenaiError):
        hint: object = error.hint  # a plugin may raise its own exception class
        return BrokenPlugin(
            found, message_of(error), shorten(hint) if hint and isinstance(hint, str) else fix
        )
    reason = describe_exception(error)
    if isinstance(error, SystemExit):
        reason = f"it exits when it is loaded (SystemExit: {error.code})"
    elif isinstance(error, SyntaxError):
        place = f"{error.filename}:{error.lineno}" if error.filename else "unknown location"
        reason = f"SyntaxError: {error.msg} ({place})"
    elif isinstance(error, pluggy.PluginValidationError):
        reason = _hook_fault(error)
    trace = "".join(traceback.format_exception(error))
    return BrokenPlugin(found, shorten(reason), fix, trace)


def _hook_fault(error: pluggy.PluginValidationError) -> str:
    """pluggy's message, without the plugin's repr and the line breaks."""
    text = str(error)
    if "unknown hook" in text:
        fault = text.partition(" in plugin")[0]
        # without the common prefix, which would make all messages look alike
        name = fault.partition("'")[2].rstrip("'").removeprefix(HOOK_PREFIX)
        hooks = [each.removeprefix(HOOK_PREFIX) for each in HOOKS]
        near = [HOOK_PREFIX + each for each in close_matches(name, hooks)]
        return f"misspelt hook: {fault}{f'; did you mean {near[0]}?' if near else ''}"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"wrong signature: {'; '.join(lines[1:]) or lines[0]}"


def _usual_fix(found: InstalledPlugin) -> str:
    return (
        f"{APP} upgrade {found.distribution} -- --force-reinstall, "
        f"or: {APP} plugins disable {found.name}"
    )
