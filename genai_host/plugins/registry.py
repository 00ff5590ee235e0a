"""Contributions of the plugins, by kind and name, with the plugin of each.

Most plugins are deferred: their names are known from the plugin index, and they are loaded when
something of them is needed.
"""

from __future__ import annotations

from collections.abc import (
    Callable,
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    Mapping,
    MutableMapping,
    ValuesView,
)
from typing import Any, TypeVar

from genai_host.api import (
    Command,
    Dialect,
    ExecutorType,
    Feature,
    HttpApi,
    HttpRoute,
    Model,
    Offering,
    Part,
    ProviderType,
    ReactionType,
    Tool,
    ToolSet,
    ToolSource,
)
from genai_host.api.messages import PARTS
from genai_host.errors import PluginError
from genai_host.plugins.contributions import KINDS, Claim, Contributions, offering_key
from genai_host.util.names import APP, COMMANDS, FORMER_COMMANDS

JOINED = ("models", "offerings", "providers")
"""Kinds that decide which model runs on which provider."""

T = TypeVar("T")


class ContributionsByName(MutableMapping[str, T]):
    """The contributions of one kind by name, in the order of the plugins.

    Looking up a contribution, also with `in`, loads its plugin, and listing the values loads all
    plugins that contribute any; iterating over the names loads none. A plugin that turns out to be
    broken contributes nothing.

    Args:
        load: Loads a deferred plugin by its name; it calls `put`.
    """

    def __init__(self, load: Callable[[str], None]) -> None:
        self._load = load
        self._values: dict[str, Any] = {}
        self._deferred: dict[str, str] = {}  # plugins by name of the contribution

    def __getitem__(self, name: str) -> T:
        if (plugin := self._deferred.get(name)) is not None:
            self._load(plugin)
        found: T = self._values[name]
        return found

    def __setitem__(self, name: str, value: T) -> None:
        self.get(name)  # so that its plugin does not replace it later
        self.put({name: value})

    def __delitem__(self, name: str) -> None:
        self.get(name)
        del self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def keys(self) -> KeysView[str]:
        """The names, of loaded plugins only, as `dict` and `**` look each of them up."""
        self.load_all()
        return self._values.keys()

    def values(self) -> ValuesView[T]:
        self.load_all()
        return self._values.values()

    def items(self) -> ItemsView[str, T]:
        self.load_all()
        return self._values.items()

    def load_all(self) -> None:
        """Load all plugins that contribute any."""
        for plugin in dict.fromkeys(self._deferred.values()):
            self._load(plugin)

    @property
    def loaded(self) -> Mapping[str, T]:
        deferred, values = self._deferred, self._values
        return {name: values[name] for name in values if name not in deferred}

    def defer(self, plugin: str, names: Iterable[str]) -> None:
        """Add the names of a deferred plugin."""
        for name in names:
            if name not in self._values:  # a damaged index may have any
                self._values[name] = None
                self._deferred[name] = plugin

    def put(self, found: Mapping[str, T], plugin: str = "") -> None:
        """Add contributions, and remove those that the plugin had deferred and does not have."""
        if not found and plugin not in self._deferred.values():
            return
        deferred = {name: each for name, each in self._deferred.items() if each != plugin}
        gone = self._deferred.keys() - deferred.keys() - found.keys()
        values = {name: each for name, each in self._values.items() if name not in gone}
        # in this order, and not in place, for concurrent threads
        self._values = {**values, **found}
        self._deferred = {name: each for name, each in deferred.items() if name not in found}


class Registry:
    """Registered contributions. Names are unique by kind: a plugin claims all of its names before
    its contributions are added, and gets all of them or none.

    It has an attribute for each of `KINDS`; the annotations are for type checkers.

    Args:
        load: Loads a deferred plugin by its name; it calls `add` or `remove`. None if none is
            deferred.

    Attributes:
        third_parties: Names of the plugins that are not part of this project.
        deferred: Plugins to load when something of them is needed, and whether that changes
            `version`.
        version: Number of deferred plugins with models, offerings or providers that were loaded.
    """

    providers: ContributionsByName[ProviderType[Any]]
    dialects: ContributionsByName[Dialect[Any, Any]]
    models: ContributionsByName[Model]
    offerings: ContributionsByName[Offering]
    features: ContributionsByName[Feature[Any]]
    tools: ContributionsByName[Tool]
    tool_sources: ContributionsByName[ToolSource | ToolSet[Any]]
    reactions: ContributionsByName[ReactionType]
    parts: ContributionsByName[type[Part]]
    executors: ContributionsByName[ExecutorType[Any]]
    http_routes: ContributionsByName[HttpRoute]
    http_apis: ContributionsByName[HttpApi]
    commands: ContributionsByName[Command]

    def __init__(self, load: Callable[[str], None] | None = None) -> None:
        self._load = load or (lambda plugin: None)
        for name in KINDS:
            setattr(self, name, ContributionsByName[Any](self._load))
        self.parts.put({part.type: part for part in PARTS})
        self.third_parties: frozenset[str] = frozenset()
        self.version = 0
        self.deferred: dict[str, bool] = {}
        self._owners: dict[Claim, str] = {}
        self._owners.update((("message part", part.type), APP) for part in PARTS)
        self._owners.update((("command", name), APP) for name in (*COMMANDS, *FORMER_COMMANDS))

    def claim(self, plugin: str, claimed: Iterable[Claim]) -> None:
        """Claim all names of a plugin, or none. Raises `PluginError` if a name is malformed or
        already claimed."""
        claims: set[Claim] = set()
        for kind, name in claimed:
            if (kind, name) in claims:
                raise PluginError(f"declares the {kind} {name!r} twice", plugin=plugin)
            owner = self._owners.get((kind, name))
            if owner is not None and not (owner == plugin and plugin in self.deferred):
                raise PluginError(
                    f"the {kind} {name!r} is already declared by {owner}",
                    plugin=plugin,
                    hint=_which_to_disable(plugin, owner),
                )
            claims.add((kind, name))
        others = self._without(plugin) if plugin in self.deferred else self._owners
        self._owners = {**others, **dict.fromkeys(claims, plugin)}

    def defer(self, plugin: str, provides: Mapping[str, Iterable[str]]) -> None:
        """Add the names by kind of a plugin to load later, after `claim`."""
        self.deferred[plugin] = not provides.keys().isdisjoint(JOINED)
        for kind in provides.keys() & KINDS.keys():
            self._by_name(kind).defer(plugin, provides[kind])

    def add(self, plugin: str, declared: Contributions) -> None:
        """Add the contributions of a plugin, after `claim`."""
        for name, kind in KINDS.items():
            found = {kind.key(each): each for each in getattr(declared, name)}
            self._by_name(name).put(found, plugin)
        is_joined = any(getattr(declared, kind) for kind in JOINED)
        self._settle(plugin, is_joined)

    def remove(self, plugin: str) -> None:
        """Remove what a deferred plugin claimed."""
        self._owners = self._without(plugin)
        for name in KINDS:
            self._by_name(name).put({}, plugin)
        self._settle(plugin)

    def load_all(self, *, joined: bool = False) -> None:
        """Load all deferred plugins, or only those with contributions of `JOINED`."""
        if self.deferred:
            for plugin, is_joined in sorted(self.deferred.items()):
                if is_joined or not joined:
                    self._load(plugin)

    def load_model(self, name: str) -> bool:
        """Load the plugins that decide which providers can run a model: those that declare it,
        offer it, or declare a type of provider that offers it. Returns whether a plugin declares
        it."""
        plugin = self.owner("model", name)
        if not plugin or not self.deferred:
            return bool(plugin)
        self._load(plugin)
        if not self.owner("model", name):  # it is broken now
            return False
        names = (each.name for each in self.models.loaded.values() if name in each.aliases)
        offered = offering_key(next(names, name), "")
        for kind, each in list(self._owners):
            if kind == "offering" and each.startswith(offered):
                self._load(self.owner(kind, each))
                self._load(self.owner("provider", each.removeprefix(offered)))
        return True

    @property
    def tool_sets(self) -> dict[str, ToolSet[Any]]:
        return {name: each for name, each in self.tool_sources.items() if isinstance(each, ToolSet)}

    def owner(self, kind: str, name: str) -> str:
        """The plugin that declared a name; empty if none did."""
        return self._owners.get((kind, name), "")

    def is_of_third_party(self, kind: str, name: str) -> bool:
        """Whether a plugin that is not part of this project declared a name."""
        return self.owner(kind, name) in self.third_parties

    def _settle(self, plugin: str, is_joined: bool = False) -> None:
        """End the deferral of a plugin. It is the last to change, for concurrent threads."""
        if plugin in self.deferred:
            self.version += self.deferred[plugin] or is_joined
            del self.deferred[plugin]

    def _without(self, plugin: str) -> dict[Claim, str]:
        return {claim: each for claim, each in self._owners.items() if each != plugin}

    def _by_name(self, kind: str) -> ContributionsByName[Any]:
        found: ContributionsByName[Any] = getattr(self, kind)
        return found


def _which_to_disable(plugin: str, owner: str) -> str:
    first = f"genai-host plugins disable {plugin}"
    if owner == APP:
        return first
    return f"disable one of them: {first}, or: genai-host plugins disable {owner}"
