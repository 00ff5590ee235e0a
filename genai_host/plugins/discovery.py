"""Loads plugins from entry points, isolated from each other.

If a plugin fails while it is imported or while its hooks are called, only that plugin is marked
broken, and none of its contributions are registered.
"""

from __future__ import annotations

import importlib
import logging
import traceback
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import ModuleType
from typing import Literal, Protocol

import pluggy
from attrs import frozen

from genai_host.api import hooks as hookspecs
from genai_host.config import Config
from genai_host.errors import GenaiError, PluginError
from genai_host.plugins.contributions import Contributions, ask
from genai_host.plugins.index import InstalledPlugin, LoadResult, PluginIndex, must_not_load
from genai_host.plugins.manager import HookManager
from genai_host.plugins.registry import Registry
from genai_host.util.names import API_VERSION, APP, GROUP, normal_name, third_parties
from genai_host.util.text import close_matches, describe_exception, message_of, short_repr, shorten

_log = logging.getLogger(__name__)

_PREFIX = "genai_"  # prefix of all hook names
_SUSPECT = "the process crashed or was killed while loading it the last time"


@frozen
class LoadedPlugin:
    """A plugin that works, and its contributions."""

    found: InstalledPlugin
    plugin: object
    declared: Contributions

    def outcome(self) -> LoadResult:
        commands = tuple(
            (each.name, shorten(each.help), each.load) for each in self.declared.commands
        )
        return LoadResult("loaded", provides=self.declared.names(), commands=commands)


@frozen
class BrokenPlugin:
    """A plugin that does not work, with the reason and the fix.

    Attributes:
        trace: Traceback of the exception, if there was one.
        is_left_out: Whether loading was skipped; see `LoadResult.is_left_out`.
    """

    found: InstalledPlugin
    reason: str
    fix: str
    trace: str = ""
    is_left_out: bool = False

    def outcome(self) -> LoadResult:
        return LoadResult("broken", self.reason, self.fix, is_left_out=self.is_left_out)

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


class Discovery(Protocol):
    """Source of plugins, for `Host`."""

    def find(self) -> Sequence[InstalledPlugin]:
        """The available plugins, in load order."""

    def left_out(self, plugins: Sequence[InstalledPlugin]) -> Mapping[str, LoadResult]:
        """Plugins that must not be loaded in this process, by key."""

    def loading(self, found: InstalledPlugin) -> AbstractContextManager[None]:
        """Context for importing a plugin and calling its hooks.

        If the plugin ends the process, `left_out` includes it the next time.
        """

    def load(self, found: InstalledPlugin) -> object:
        """Import a plugin."""

    def remember(self, outcomes: Mapping[str, LoadResult]) -> None:
        """Save the load results, by `InstalledPlugin.key`, for listing plugins without loading
        them."""


class InstalledPlugins:
    """The default `Discovery`: plugins of installed distributions, the host's own first, others by
    name.

    Args:
        index: Plugin index; None for that of `sys.path`.
        on_trial: Which third-party plugins are first loaded in another process: `new` or changed
            ones if results can be saved, `all` except those already skipped, or `none`.
    """

    def __init__(
        self,
        index: PluginIndex | None = None,
        *,
        on_trial: Literal["new", "all", "none"] = "new",
    ) -> None:
        self._index = index or PluginIndex()
        self._on_trial = on_trial
        self._marked: Collection[str] = ()  # distributions whose plugins may end this process

    def find(self) -> Sequence[InstalledPlugin]:
        return sorted(self._index.plugins(), key=lambda found: found.distribution != APP)

    def left_out(self, plugins: Sequence[InstalledPlugin]) -> Mapping[str, LoadResult]:
        strange = third_parties({found.distribution for found in plugins})
        if not strange or self._on_trial == "none":
            return {}
        self._marked = strange
        theirs = [found for found in plugins if found.distribution in strange]
        self._leave_out_suspects(theirs)
        known = self._index.outcomes()
        left_out = {key: outcome for key, outcome in known.items() if outcome.is_left_out}
        skipped: Collection[str] = left_out if self._on_trial == "all" else known
        new = [found for found in theirs if found.key not in skipped and not found.unreadable]
        if new and (self._on_trial == "all" or self._index.is_writable):
            from genai_host.plugins.trial import try_plugins

            left_out.update(self._keep(try_plugins(new)))
        return left_out

    def _leave_out_suspects(self, plugins: Sequence[InstalledPlugin]) -> None:
        marks = self._index.marks.left()
        keys = {mark.key for mark in marks}
        suspects = [found for found in plugins if found.key in keys]
        self._keep({found.key: must_not_load(found, _SUSPECT) for found in suspects})
        self._index.marks.remove(marks)

    def _keep(self, faults: Mapping[str, LoadResult]) -> Mapping[str, LoadResult]:
        """Save immediately, because this process may end when it loads the other plugins."""
        if faults:
            self._index.remember({**self._index.outcomes(), **faults})
        return faults

    @contextmanager
    def loading(self, found: InstalledPlugin) -> Iterator[None]:
        if found.distribution not in self._marked:
            yield
            return
        with self._index.marks.loading(found.key):
            yield

    def load(self, found: InstalledPlugin) -> object:
        if found.unreadable:
            raise PluginError(
                f"cannot read its metadata: {found.unreadable}",
                hint=f"{APP} upgrade {found.distribution} -- --force-reinstall",
            )
        # the brackets contain extras, which the installer has resolved
        module, _, attributes = found.value.partition("[")[0].partition(":")
        plugin: object = importlib.import_module(module.strip())
        for attribute in filter(None, attributes.strip().split(".")):
            plugin = getattr(plugin, attribute)
        return plugin

    def remember(self, outcomes: Mapping[str, LoadResult]) -> None:
        self._index.remember(outcomes)


class StaticPlugins:
    """Plugins from given modules or objects, by name."""

    def __init__(self, plugins: Mapping[str, object]) -> None:
        self._plugins = dict(plugins)

    def find(self) -> Sequence[InstalledPlugin]:
        return [
            InstalledPlugin(name, "", _our_distribution(plugin) or "given")
            for name, plugin in self._plugins.items()
        ]

    def left_out(self, plugins: Sequence[InstalledPlugin]) -> Mapping[str, LoadResult]:
        return {}

    def loading(self, found: InstalledPlugin) -> AbstractContextManager[None]:
        return nullcontext()

    def load(self, found: InstalledPlugin) -> object:
        return self._plugins[found.name]

    def remember(self, outcomes: Mapping[str, LoadResult]) -> None:
        """Do nothing, because the plugins are not installed."""


def _our_distribution(plugin: object) -> str:
    """The distribution of this project that a module belongs to; empty if there is none."""
    package = plugin.__name__.partition(".")[0] if isinstance(plugin, ModuleType) else ""
    name = normal_name(package)
    return "" if third_parties([name]) else name


class Plugins:
    """All plugins, loaded, with their contributions and load results.

    If two plugins declare the same name, one of them is broken: the one that declares less, so that
    a small plugin cannot disable a large one, or else the later one in `Discovery.find`. Plugins of
    the host itself have priority, and those of this project over third parties.

    Attributes:
        registry: Contributions of the working plugins.
        results: A `LoadedPlugin`, `BrokenPlugin` or `BlockedPlugin` per plugin.
        manager: Working plugins, for calling observers.

    Raises:
        PluginError: A plugin is broken, in strict mode.
    """

    def __init__(self, discovery: Discovery, config: Config) -> None:
        self.registry = Registry()
        loader = _Loader(discovery)
        found = discovery.find()
        if isinstance(discovery, StaticPlugins):  # the embedding program chose them
            config = config._replace(safe=False)
        blocked = {each.key: config.blocks(each.name, each.distribution) for each in found}
        left_out = discovery.left_out([each for each in found if not blocked[each.key]])
        results = [_look(loader, each, blocked[each.key], left_out) for each in found]
        self.manager: pluggy.PluginManager = loader.manager
        strange = third_parties({each.distribution for each in found})
        self.registry.third_parties = frozenset(e.name for e in found if e.distribution in strange)
        self.results = self._admit_all(results, strange)
        for result in self.results:
            if isinstance(result, LoadedPlugin):
                self.registry.add(result.declared)
        discovery.remember(
            {
                result.found.key: result.outcome()
                for result in self.results
                if not isinstance(result, BlockedPlugin)
            }
        )
        if config.strict and self.broken:
            first = self.broken[0]
            raise PluginError(first.line(), plugin=first.found.name, hint=first.fix)

    @property
    def broken(self) -> list[BrokenPlugin]:
        return [result for result in self.results if isinstance(result, BrokenPlugin)]

    def _admit_all(
        self, results: Sequence[PluginResult], strange: Collection[str]
    ) -> list[PluginResult]:
        """The results; plugins that conflict with others are replaced by broken ones."""
        admitted = list(results)
        here: list[LoadedPlugin] = []
        for number, result in sorted(enumerate(results), key=lambda each: _rank(each[1], strange)):
            if isinstance(result, LoadedPlugin):
                admitted[number] = self._admit(result, here)
        return admitted

    def _admit(self, loaded: LoadedPlugin, here: list[LoadedPlugin]) -> LoadedPlugin | BrokenPlugin:
        """Register the hooks and names of a plugin, or neither."""
        found = loaded.found
        try:
            _must_be_new(loaded, here)
        except PluginError as error:
            return _broken_by(error, found)
        try:
            self.manager.register(loaded.plugin, found.name)
            self.registry.claim(found.name, loaded.declared)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - SystemExit too: it must not end the host
            if self.manager.has_plugin(found.name):
                self.manager.unregister(name=found.name)
            return _broken_by(error, found)
        here.append(loaded)
        return loaded


def _rank(result: PluginResult, strange: Collection[str]) -> tuple[bool, bool, int]:
    """Sort key: the host, then the plugins of this project, and those with more contributions, are
    first to get their names. Otherwise another plugin could take the place of `serve`."""
    size = result.declared.size if isinstance(result, LoadedPlugin) else 0
    distribution = result.found.distribution
    return distribution != APP, distribution in strange, -size


def _look(
    loader: _Loader, found: InstalledPlugin, blocked: str, left_out: Mapping[str, LoadResult]
) -> PluginResult:
    if blocked:
        return BlockedPlugin(found, blocked)
    if found.key in left_out:
        outcome = left_out[found.key]
        return BrokenPlugin(found, outcome.reason, outcome.fix, is_left_out=True)
    return _loaded(loader, found)


def _loaded(loader: _Loader, found: InstalledPlugin) -> PluginResult:
    try:
        return loader.load(found)
    except KeyboardInterrupt:
        _log.warning(
            "interrupted while the plugin %s of %s was loaded", found.name, found.distribution
        )
        raise
    except BaseException as error:  # noqa: BLE001 - SystemExit too: it must not end the host
        return _broken_by(error, found)


def load_on_trial(found: InstalledPlugin) -> None:
    """Import a plugin and call its hooks, in a process that may end."""
    _loaded(_Loader(InstalledPlugins(on_trial="none")), found)


class _Loader:
    """Loads plugins one at a time, each in a plugin manager without other plugins, and collects
    their contributions.

    Attributes:
        manager: Plugin manager, empty between two loads.
    """

    def __init__(self, discovery: Discovery) -> None:
        self._discovery = discovery
        self._hooks = [name for name in vars(hookspecs) if name.startswith(_PREFIX)]
        self.manager = HookManager()

    def load(self, found: InstalledPlugin) -> LoadedPlugin:
        with self._discovery.loading(found):
            return self._load(found)

    def _load(self, found: InstalledPlugin) -> LoadedPlugin:
        plugin = self._discovery.load(found)
        self._must_be_marked(plugin)
        try:
            loaded = LoadedPlugin(found, plugin, self._declared_by(plugin, found))
        except BaseException:
            # pluggy may leave a rejected plugin partly registered
            self.manager = HookManager()
            raise
        self.manager.unregister(name=found.name)
        return loaded

    def _declared_by(self, plugin: object, found: InstalledPlugin) -> Contributions:
        self.manager.register(plugin, found.name)
        self.manager.check_pending()
        hooks = self.manager.get_hookcallers(plugin)
        if not hooks:
            raise PluginError("it implements no hook", hint="mark its hooks with @hookimpl")
        for version in self.manager.hook.genai_api():
            if version != API_VERSION:
                raise PluginError(
                    f"it requires version {short_repr(version)} of the plugin API, "
                    f"but this host has version {API_VERSION}",
                    hint=f"{APP} upgrade {found.distribution} {APP}",
                )
        return ask(hooks)

    def _must_be_marked(self, plugin: object) -> None:
        for name in self._hooks:
            hook = getattr(plugin, name, None)
            if callable(hook) and not hasattr(hook, f"{GROUP}_impl"):
                raise PluginError(f"hook {name} is not marked", hint="mark it with @hookimpl")


def _must_be_new(loaded: LoadedPlugin, here: Sequence[LoadedPlugin]) -> None:
    found = loaded.found
    hint = f"disable one of them: genai-host plugins disable {found.distribution}:{found.name}"
    for other in here:
        if other.found.name == found.name:
            raise PluginError(
                f"the plugin name {found.name!r} is already used by {other.found.distribution}",
                hint=hint,
            )
        if other.plugin is loaded.plugin:
            raise PluginError(
                f"it is the same object as the plugin {other.found.name} of "
                f"{other.found.distribution}",
                hint=hint,
            )


def _broken_by(error: BaseException, found: InstalledPlugin) -> BrokenPlugin:
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
        name = fault.partition("'")[2].rstrip("'").removeprefix(_PREFIX)
        hooks = [each.removeprefix(_PREFIX) for each in vars(hookspecs) if each.startswith(_PREFIX)]
        near = [_PREFIX + each for each in close_matches(name, hooks)]
        return f"misspelt hook: {fault}{f'; did you mean {near[0]}?' if near else ''}"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"wrong signature: {'; '.join(lines[1:]) or lines[0]}"


def _usual_fix(found: InstalledPlugin) -> str:
    return (
        f"{APP} upgrade {found.distribution} -- --force-reinstall, "
        f"or: {APP} plugins disable {found.name}"
    )
