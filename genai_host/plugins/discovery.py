"""Loads plugins from entry points, isolated from each other.

If a plugin fails while it is imported or while its hooks are called, only that plugin is marked
broken, and none of its contributions are registered. Installed plugins that have not changed since
they were loaded the last time are deferred: they are loaded when something of them is needed.
"""

from __future__ import annotations

import importlib
import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import ModuleType
from typing import Any, Literal, Protocol, TypeVar

import pluggy

from genai_host.api import ToolSet
from genai_host.config import Config
from genai_host.errors import PluginError
from genai_host.plugins.contributions import KINDS, Contributions, ask
from genai_host.plugins.index import InstalledPlugin, LoadResult, PluginIndex, skipped_result
from genai_host.plugins.manager import HOOK_PREFIX, HOOKS, HookManager
from genai_host.plugins.registry import Registry
from genai_host.plugins.results import (
    BlockedPlugin,
    BrokenPlugin,
    DeferredPlugin,
    LoadedPlugin,
    PluginResult,
    broken_by,
)
from genai_host.util.names import API_VERSION, APP, GROUP, normal_name, third_parties
from genai_host.util.text import short_repr

_log = logging.getLogger(__name__)

_DECLARING = frozenset(f"{HOOK_PREFIX}{name}" for name in ("api", *KINDS))
_CRASHED = "the process crashed or was killed while loading it the last time"

_Result = TypeVar("_Result", bound=PluginResult | DeferredPlugin)


class Discovery(Protocol):
    """Source of plugins, for `Host`."""

    def find(self) -> Sequence[InstalledPlugin]:
        """The available plugins, in load order."""

    def skipped(self, plugins: Sequence[InstalledPlugin]) -> Mapping[str, LoadResult]:
        """Plugins that must not be loaded in this process, by key."""

    def deferred(self, plugins: Sequence[InstalledPlugin]) -> Mapping[str, LoadResult]:
        """Plugins that need not be loaded before something of them is needed, by key, with what
        they declare."""

    def loading(self, found: InstalledPlugin) -> AbstractContextManager[None]:
        """Context for importing a plugin and calling its hooks.

        If the plugin ends the process, `skipped` includes it the next time.
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
            ones if results can be saved, `all` except those already skipped, or `none`. With `all`,
            no plugin is deferred.
    """

    def __init__(
        self, index: PluginIndex | None = None, *, on_trial: Literal["new", "all", "none"] = "new"
    ) -> None:
        self._index = index or PluginIndex()
        self._on_trial = on_trial
        self._marked: Collection[str] = ()  # distributions whose plugins may end this process

    def find(self) -> Sequence[InstalledPlugin]:
        return sorted(self._index.plugins(), key=lambda found: found.distribution != APP)

    def skipped(self, plugins: Sequence[InstalledPlugin]) -> Mapping[str, LoadResult]:
        third_party = third_parties({found.distribution for found in plugins})
        if not third_party or self._on_trial == "none":
            return {}
        self._marked = third_party
        third_party_plugins = [found for found in plugins if found.distribution in third_party]
        self._skip_suspects(third_party_plugins)
        saved = self._index.outcomes()
        skipped = {key: outcome for key, outcome in saved.items() if outcome.is_skipped}
        tried: Collection[str] = skipped if self._on_trial == "all" else saved
        new = [
            found
            for found in third_party_plugins
            if found.key not in tried and not found.unreadable
        ]
        if new and (self._on_trial == "all" or self._index.is_writable):
            from genai_host.plugins.trial import try_plugins

            skipped.update(self._save(try_plugins(new)))
        return skipped

    def deferred(self, plugins: Sequence[InstalledPlugin]) -> Mapping[str, LoadResult]:
        if self._on_trial == "all":
            return {}
        saved = self._index.outcomes()
        return {
            found.key: saved[found.key]
            for found in plugins
            if found.record and found.key in saved and _can_defer(saved[found.key])
        }

    def _skip_suspects(self, plugins: Sequence[InstalledPlugin]) -> None:
        marks = self._index.marks.left()
        keys = {mark.key for mark in marks}
        suspects = [found for found in plugins if found.key in keys]
        self._save({found.key: skipped_result(found, _CRASHED) for found in suspects})
        self._index.marks.remove(marks)

    def _save(self, faults: Mapping[str, LoadResult]) -> Mapping[str, LoadResult]:
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

    def skipped(self, plugins: Sequence[InstalledPlugin]) -> Mapping[str, LoadResult]:
        return {}

    def deferred(self, plugins: Sequence[InstalledPlugin]) -> Mapping[str, LoadResult]:
        return {}

    def loading(self, found: InstalledPlugin) -> AbstractContextManager[None]:
        return nullcontext()

    def load(self, found: InstalledPlugin) -> object:
        return self._plugins[found.name]

    def remember(self, outcomes: Mapping[str, LoadResult]) -> None:
        """Do nothing, because the plugins are not installed."""


def _can_defer(saved: LoadResult) -> bool:
    is_known = bool(saved.claims) and bool(saved.provides)
    return saved.status == "loaded" and is_known and not saved.is_eager


def _our_distribution(plugin: object) -> str:
    """The distribution of this project that a module belongs to; empty if there is none."""
    package = plugin.__name__.partition(".")[0] if isinstance(plugin, ModuleType) else ""
    name = normal_name(package)
    return "" if third_parties([name]) else name


class Plugins:
    """All plugins, with their contributions and load results. Thread-safe.

    If two plugins declare the same name, one of them is broken: the one that declares less, so that
    a small plugin cannot disable a large one, or else the later one in `Discovery.find`. Plugins of
    the host itself have priority, and those of this project over third parties.

    Attributes:
        registry: Contributions of the working plugins; those of deferred plugins are loaded on
            first use.
        manager: Loaded plugins, among them all observers.
        guard: Makes a context manager that is active while a deferred plugin is loaded.

    Raises:
        PluginError: A plugin is broken, in strict mode.
    """

    def __init__(self, discovery: Discovery, config: Config) -> None:
        self.registry = Registry(self._load)
        self.manager: pluggy.PluginManager = HookManager()
        self.guard: Callable[[], AbstractContextManager[None]] = nullcontext
        self._discovery = discovery
        self._loader = _Loader(discovery)
        self._lock = threading.RLock()
        found = discovery.find()
        is_given = isinstance(discovery, StaticPlugins)
        if is_given:  # the embedding program chose them
            config = config._replace(safe=False)
        blocked = {each.key: config.blocks(each.name, each.distribution) for each in found}
        allowed = [each for each in found if not blocked[each.key]]
        skipped = discovery.skipped(allowed)
        deferred = {} if config.strict else discovery.deferred(allowed)

        def result_of(each: InstalledPlugin) -> PluginResult | DeferredPlugin:
            if reason := blocked[each.key]:
                return BlockedPlugin(each, reason)
            if outcome := skipped.get(each.key):
                return BrokenPlugin(each, outcome.reason, outcome.fix, is_skipped=True)
            if saved := deferred.get(each.key):
                return DeferredPlugin(each, saved)
            return self._loader.load(each)

        third_party = third_parties({each.distribution for each in found})
        self.registry.third_parties = frozenset(
            e.name for e in found if e.distribution in third_party
        )
        self._results = self._admit_all(list(map(result_of, found)), third_party)
        for result in self._results:
            self._add(result)
        if not is_given:
            discovery.remember(
                {
                    result.found.key: result.outcome()
                    for result in self._results
                    if isinstance(result, LoadedPlugin | BrokenPlugin)
                }
            )
        if config.strict and self.broken:
            first = self.broken[0]
            raise PluginError(first.line(), plugin=first.found.name, hint=first.fix)

    @property
    def results(self) -> list[PluginResult]:
        """A `LoadedPlugin`, `BrokenPlugin` or `BlockedPlugin` per plugin; all are loaded."""
        self.registry.load_all()
        return [each for each in self._results if not isinstance(each, DeferredPlugin)]

    @property
    def broken(self) -> list[BrokenPlugin]:
        """The plugins that are known to be broken; deferred ones worked the last time."""
        return [result for result in self._results if isinstance(result, BrokenPlugin)]

    def _load(self, name: str) -> None:
        """Load a deferred plugin. One that is broken now is logged, and contributes nothing."""
        with self._lock:
            for number, deferred in enumerate(self._results):
                if isinstance(deferred, DeferredPlugin) and deferred.found.name == name:
                    with self.guard():
                        loaded = self._loader.load(deferred.found)
                    others = [each for each in self._results if isinstance(each, LoadedPlugin)]
                    result = self._admit(loaded, others)
                    self._add(result)
                    self._results[number] = result
                    if isinstance(result, BrokenPlugin):
                        self.registry.remove(name)
                        _log.warning("%s; %s", result.line(), result.fix)
                    if result.outcome() != deferred.saved:
                        self._discovery.remember({result.found.key: result.outcome()})

    def _add(self, result: PluginResult | DeferredPlugin) -> None:
        """Add the contributions of an admitted plugin."""
        name = result.found.name
        if isinstance(result, LoadedPlugin):
            self.registry.add(name, result.declared)
        elif isinstance(result, DeferredPlugin):
            self.registry.defer(name, result.saved.provides)

    def _admit_all(
        self, results: Sequence[PluginResult | DeferredPlugin], third_party: Collection[str]
    ) -> list[PluginResult | DeferredPlugin]:
        """The results; plugins that conflict with others are replaced by broken ones."""
        admitted = list(results)
        here: list[LoadedPlugin | DeferredPlugin] = []
        for number, result in sorted(
            enumerate(results), key=lambda each: _rank(each[1], third_party)
        ):
            admitted[number] = kept = self._admit(result, here)
            if isinstance(kept, LoadedPlugin | DeferredPlugin):
                here.append(kept)
        return admitted

    def _admit(
        self, result: _Result, here: Sequence[LoadedPlugin | DeferredPlugin]
    ) -> _Result | BrokenPlugin:
        """Register the hooks and names of a working plugin, or neither."""
        found, is_registered = result.found, False
        try:
            if isinstance(result, LoadedPlugin | DeferredPlugin):
                _must_be_new(result, here)
            if isinstance(result, LoadedPlugin):
                is_registered = True
                self.manager.register(result.plugin, found.name)
                self.registry.claim(found.name, result.declared.claims())
            elif isinstance(result, DeferredPlugin):
                self.registry.claim(found.name, result.saved.claims)
        except BaseException as error:  # SystemExit too: it must not end the host
            if is_registered and self.manager.has_plugin(found.name):
                self.manager.unregister(name=found.name)
            if isinstance(error, KeyboardInterrupt):
                raise
            return broken_by(error, found)
        return result


def _rank(
    result: PluginResult | DeferredPlugin, third_party: Collection[str]
) -> tuple[bool, bool, int]:
    """Sort key: the host, then the plugins of this project, and those with more contributions, are
    first to get their names. Otherwise another plugin could take the place of `serve`."""
    distribution = result.found.distribution
    return distribution != APP, distribution in third_party, -_size(result)


def _size(result: PluginResult | DeferredPlugin) -> int:
    """Number of contributions of a plugin."""
    provides: Mapping[str, Sequence[str]] = {}
    if isinstance(result, LoadedPlugin):
        provides = result.declared.names()
    elif isinstance(result, DeferredPlugin):
        provides = result.saved.provides
    return sum(map(len, provides.values()))


def load_on_trial(found: InstalledPlugin) -> None:
    """Import a plugin and call its hooks, in a process that may end."""
    _Loader(InstalledPlugins(on_trial="none")).load(found)


class _Loader:
    """Loads plugins one at a time, each in a plugin manager without other plugins, and collects
    their contributions.

    Attributes:
        manager: Plugin manager, empty between two loads.
    """

    def __init__(self, discovery: Discovery) -> None:
        self._discovery = discovery
        self.manager = HookManager()

    def load(self, found: InstalledPlugin) -> LoadedPlugin | BrokenPlugin:
        try:
            with self._discovery.loading(found):
                return self._load(found)
        except KeyboardInterrupt:
            what = "interrupted while the plugin %s of %s was loaded"
            _log.warning(what, found.name, found.distribution)
            raise
        except BaseException as error:  # noqa: BLE001 - SystemExit too: it must not end the host
            return broken_by(error, found)

    def _load(self, found: InstalledPlugin) -> LoadedPlugin:
        plugin = self._discovery.load(found)
        self._must_be_marked(plugin)
        try:
            loaded = self._looked_at(plugin, found)
        except BaseException:
            # pluggy may leave a rejected plugin partly registered
            self.manager = HookManager()
            raise
        self.manager.unregister(name=found.name)
        return loaded

    def _looked_at(self, plugin: object, found: InstalledPlugin) -> LoadedPlugin:
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
        declared = ask(hooks)
        return LoadedPlugin(found, plugin, declared, _is_eager(hooks, declared))

    def _must_be_marked(self, plugin: object) -> None:
        for name in HOOKS:
            hook = getattr(plugin, name, None)
            if callable(hook) and not hasattr(hook, f"{GROUP}_impl"):
                raise PluginError(f"hook {name} is not marked", hint="mark it with @hookimpl")


def _is_eager(hooks: Sequence[Any], declared: Contributions) -> bool:
    """Whether a plugin must be loaded at each start: it observes, or has a source of tools, which
    may come from a file, as the servers of MCP do. Sets of tools do not."""
    names = {hook.name for hook in hooks}
    sources = declared.tool_sources
    is_fixed = bool(sources) and all(isinstance(each, ToolSet) for each in sources)
    return not names <= _DECLARING or (f"{HOOK_PREFIX}tool_sources" in names and not is_fixed)


def _must_be_new(
    new: LoadedPlugin | DeferredPlugin, here: Sequence[LoadedPlugin | DeferredPlugin]
) -> None:
    found = new.found
    hint = f"disable one of them: genai-host plugins disable {found.distribution}:{found.name}"
    for other in here:
        if other.found.name == found.name:
            raise PluginError(
                f"the plugin name {found.name!r} is already used by {other.found.distribution}",
                hint=hint,
            )
        if (
            isinstance(new, LoadedPlugin)
            and isinstance(other, LoadedPlugin)
            and other.plugin is new.plugin
        ):
            raise PluginError(
                f"it is the same object as the plugin {other.found.name} of "
                f"{other.found.distribution}",
                hint=hint,
            )
