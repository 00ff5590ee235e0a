"""Entry points to plugins: each one loaded behind a guard of its own.

Whatever a plugin does while it is imported or asked what it declares, only that
plugin is broken by it, and nothing of it is registered.
"""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import pluggy
from attrs import frozen

from genai_host.api import (
    Command,
    Dialect,
    Feature,
    Model,
    Offering,
    Part,
    ProviderType,
    hookspecs,
)
from genai_host.config import Config
from genai_host.errors import PluginError
from genai_host.index import Found, Outcome, PluginIndex
from genai_host.names import API_VERSION, APP, GROUP
from genai_host.registry import Declarations, Registry


@frozen
class Loaded:
    """A plugin that works, and what it declared."""

    found: Found
    plugin: object
    declared: Declarations

    def outcome(self) -> Outcome:
        commands = tuple((command.name, command.help) for command in self.declared.commands)
        return Outcome("loaded", provides=self.declared.names(), commands=commands)


@frozen
class Broken:
    """A plugin that does not work: why, and what to do about it.

    trace   the traceback of the exception, if there was one
    """

    found: Found
    reason: str
    fix: str
    trace: str = ""

    def outcome(self) -> Outcome:
        return Outcome("broken", self.reason, self.fix)

    def line(self) -> str:
        """One line for a warning."""
        found = self.found
        source = f" ({found.distribution} {found.version})".replace(" )", ")")
        return f"plugin {found.name}{source} is broken: {self.reason}"


@frozen
class Blocked:
    """A plugin that the configuration keeps out."""

    found: Found
    reason: str


Result = Loaded | Broken | Blocked


class Discovery(Protocol):
    """Where plugins come from: an argument of `Host`."""

    def find(self) -> Sequence[Found]:
        """The plugins there are, in the order to load them in."""

    def load(self, found: Found) -> object:
        """Import one of them."""

    def remember(self, outcomes: Mapping[str, Outcome]) -> None:
        """Keep how loading ended, by `Found.key`, for who lists without loading."""


class EntryPoints:
    """The installed distributions: the usual `Discovery`.

    Our own distribution comes first, the others by name; where two declare the
    same name, that order decides who is refused.
    """

    def __init__(self, index: PluginIndex | None = None) -> None:
        self._index = index or PluginIndex()

    def find(self) -> Sequence[Found]:
        return sorted(self._index.plugins(), key=lambda found: found.distribution != APP)

    def load(self, found: Found) -> object:
        if found.unreadable:
            raise PluginError(
                f"its metadata cannot be read: {found.unreadable}",
                hint=f"pip install --force-reinstall {found.distribution}",
            )
        module, _, attributes = found.value.partition(":")
        plugin: object = importlib.import_module(module.strip())
        for attribute in filter(None, attributes.partition("[")[0].strip().split(".")):
            plugin = getattr(plugin, attribute)
        return plugin

    def remember(self, outcomes: Mapping[str, Outcome]) -> None:
        self._index.remember(outcomes)


class Given:
    """Plugins that are at hand already: modules or objects by name."""

    def __init__(self, plugins: Mapping[str, object]) -> None:
        self._plugins = dict(plugins)

    def find(self) -> Sequence[Found]:
        return [Found(name, "", "given") for name in self._plugins]

    def load(self, found: Found) -> object:
        return self._plugins[found.name]

    def remember(self, outcomes: Mapping[str, Outcome]) -> None:
        """They are not installed: there is nothing to remember."""


class Plugins:
    """All plugins, loaded: what they declared, and what became of each.

    registry   what the working ones declared
    results    one of `Loaded`, `Broken` and `Blocked` for each plugin
    hooks      the working ones, to be told what happens

    Raises `PluginError` in strict mode if a plugin is broken.
    """

    def __init__(self, discovery: Discovery, config: Config) -> None:
        self.registry = Registry()
        self.results: list[Result] = []
        self._manager = pluggy.PluginManager(GROUP)
        self._manager.add_hookspecs(hookspecs)
        names: dict[str, Found] = {}
        for found in discovery.find():
            blocked = config.blocks(found.name, found.distribution)
            self.results.append(
                Blocked(found, blocked) if blocked else self._load(discovery, found, names)
            )
        discovery.remember(
            {
                result.found.key: result.outcome()
                for result in self.results
                if not isinstance(result, Blocked)
            }
        )
        if config.strict and self.broken:
            first = self.broken[0]
            raise PluginError(first.line(), plugin=first.found.name, hint=first.fix)

    @property
    def broken(self) -> list[Broken]:
        return [result for result in self.results if isinstance(result, Broken)]

    @property
    def hooks(self) -> Any:
        return self._manager.hook

    def _load(self, discovery: Discovery, found: Found, names: dict[str, Found]) -> Loaded | Broken:
        try:
            loaded = _load_alone(discovery, found)
            _must_be_new(found, names)
            self.registry.add(found.name, loaded.declared)
        except PluginError as error:
            return Broken(found, str(error), error.hint or _usual_fix(found))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - SystemExit too: it is only a plugin
            return _broken_by(error, found)
        names[found.name] = found
        self._manager.register(loaded.plugin, found.name)
        return loaded


def _load_alone(discovery: Discovery, found: Found) -> Loaded:
    """Load a plugin and ask what it declares, in a plugin manager that nobody else
    is in: pluggy leaves half a plugin behind where one is refused."""
    plugin = discovery.load(found)
    _must_be_marked(plugin)
    manager = pluggy.PluginManager(GROUP)
    manager.add_hookspecs(hookspecs)
    manager.register(plugin, found.name)
    manager.check_pending()
    if not manager.get_hookcallers(plugin):
        raise PluginError("it implements no hook", hint="mark its hooks with @hookimpl")
    for version in manager.hook.genai_api():
        if version != API_VERSION:
            raise PluginError(
                f"it is written for version {version!r} of the interface, this host has "
                f"{API_VERSION}",
                hint=f"pip install --upgrade {found.distribution} {APP}",
            )
    return Loaded(found, plugin, _declarations(manager.hook))


def _must_be_marked(plugin: object) -> None:
    for name in vars(hookspecs):
        hook = getattr(plugin, name, None) if name.startswith("genai_") else None
        if callable(hook) and not hasattr(hook, f"{GROUP}_impl"):
            raise PluginError(f"{name} is not marked", hint="mark it with @hookimpl")


def _declarations(hook: Any) -> Declarations:
    return Declarations(
        providers=_instances(hook.genai_providers, ProviderType),
        dialects=_instances(hook.genai_dialects, Dialect),
        models=_instances(hook.genai_models, Model),
        offerings=_instances(hook.genai_offerings, Offering),
        features=_instances(hook.genai_features, Feature),
        parts=_part_classes(hook.genai_parts),
        commands=_instances(hook.genai_commands, Command),
    )


def _instances(hook: Any, kind: type) -> tuple[Any, ...]:
    found: list[Any] = []
    for declared in hook():
        if not isinstance(declared, Iterable):
            raise PluginError(f"{hook.name} gives {declared!r}, which is no list")
        found.extend(declared)
    for item in found:
        if not isinstance(item, kind):
            raise PluginError(f"{hook.name} gives {item!r}, which is no {kind.__name__}")
    return tuple(found)


def _part_classes(hook: Any) -> tuple[type[Part], ...]:
    found = _instances(hook, type)
    for item in found:
        if not issubclass(item, Part) or not isinstance(getattr(item, "type", None), str):
            raise PluginError(f"{hook.name} gives {item!r}, which is no subclass of Part")
    return found


def _must_be_new(found: Found, names: Mapping[str, Found]) -> None:
    other = names.get(found.name)
    if other is not None:
        raise PluginError(
            f"the plugin name {found.name!r} is taken by {other.distribution} already",
            hint=f"disable one of them: genai-host plugins disable "
            f"{found.distribution}:{found.name}",
        )


def _broken_by(error: BaseException, found: Found) -> Broken:
    """What a plugin's exception means, and the nearest fix."""
    trace = "".join(traceback.format_exception(error))
    reason = f"{type(error).__name__}: {error}".strip(": ")
    fix = _usual_fix(found)
    if isinstance(error, ModuleNotFoundError):
        missing = (error.name or "").partition(".")[0]
        own = found.value.partition(":")[0].partition(".")[0]
        if missing and missing != own:
            fix = f"pip install {missing}, or: {fix}"
    elif isinstance(error, SystemExit):
        reason = f"it ends the program when it is loaded (SystemExit: {error.code})"
    elif isinstance(error, SyntaxError):
        place = f"{error.filename}:{error.lineno}" if error.filename else "unknown place"
        reason = f"SyntaxError: {error.msg} ({place})"
    elif isinstance(error, pluggy.PluginValidationError):
        reason = _hook_fault(error)
    return Broken(found, _one_line(reason), fix, trace)


def _hook_fault(error: pluggy.PluginValidationError) -> str:
    """pluggy's message, without the plugin's repr and the line breaks."""
    text = str(error)
    if "unknown hook" in text:
        return f"misspelt hook: {text.partition(' in plugin')[0]}"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"wrong signature: {'; '.join(lines[1:]) or lines[0]}"


def _one_line(text: str, most: int = 300) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 4] + " ..."


def _usual_fix(found: Found) -> str:
    return (
        f"pip install --upgrade --force-reinstall {found.distribution}, "
        f"or: genai-host plugins disable {found.name}"
    )
