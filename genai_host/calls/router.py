"""Which model runs where, by the instances that there are now."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from attrs import evolve

from genai_host.api import Clock, Feature, Operation
from genai_host.calls.route import Route
from genai_host.catalog.catalog import Catalog, ModelChoice, of_model
from genai_host.catalog.join import Candidate, ProviderInfo
from genai_host.catalog.prices import Prices
from genai_host.config import Config, ModelConfig
from genai_host.errors import ConfigurationError, NoRoute
from genai_host.plugins.observers import Observers
from genai_host.plugins.registry import Registry
from genai_host.providers.instance import ProviderInstance, ProviderUnavailable
from genai_host.providers.instances import ProviderInstances
from genai_host.providers.readiness import Readiness, ReadinessProbes

_log = logging.getLogger(__name__)
_MOST_KEPT = 1000
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class _Joined(NamedTuple):
    """What was joined of the instances as they were at a version, and the routes of the names
    that were looked up in it."""

    version: int
    catalog: Catalog
    found: dict[tuple[ModelChoice | None, str | None, Operation], tuple[Route, ...]]


class DefaultModel(NamedTuple):
    """The model used where none is named, and why it is that one."""

    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.name} ({self.why})"


class Routing:
    """Joins models with providers, and makes the routes of that. May be used from many
    threads."""

    def __init__(
        self,
        registry: Registry,
        instances: ProviderInstances,
        config: Config,
        observers: Observers,
        clock: Clock,
        prices: Prices | None = None,
    ) -> None:
        self._registry = registry
        self._instances = instances
        self._config = config
        self._observers = observers
        self._clock = clock
        self._prices = prices
        self._lock = threading.RLock()
        self._joined: _Joined | None = None
        self._probes = ReadinessProbes(clock)
        self._probed: tuple[int, Mapping[str, Readiness], Catalog] | None = None
        self._routes: dict[tuple[str, str, str], Route] = {}

    @property
    def catalog(self) -> Catalog:
        """Models, providers and dialects, joined; made anew when an instance changes."""
        return self._now().catalog

    def refresh(self) -> Catalog:
        """The same, made anew now: keys and weights may have come since."""
        with self._lock:
            self._joined = self._probed = None
            return self.catalog

    def probed(self, again: ProviderInstance | None = None) -> Catalog:
        """The same with what was found when the providers were tried, some seconds ago at
        most.

        again   an instance to try now in any case
        """
        if again is not None:
            self._probes.forget(again)
        readiness = self._probes.readiness(self._instances)
        with self._lock:
            version, probed = self._instances.version, self._probed
            if probed is None or probed[0] != version or not _are_the_same(probed[1], readiness):
                probed = self._probed = (version, readiness, self._join(readiness))
            return probed[2]

    def configure(self, config: Config) -> None:
        """Join by another configuration from now on."""
        with self._lock:
            self._config, self._joined, self._probed = config, None, None

    def check(self, name: str, config: ModelConfig) -> str:
        """See `Host.check_configuration`."""
        for each in config.provider_order:
            self._instances[each]
        catalog = self.catalog.with_configuration(name, config)
        choice = catalog.choice(name)
        found = catalog.explain(choice, None, catalog.model_named(name).operation)
        best = next((each for each in found if each.dialect in self._registry.dialects), None)
        if best is not None:
            self._route(best).parameters(choice.parameters)
        if any(each.runs for each in found):
            return ""
        return "; ".join(dict.fromkeys(reason for each in found for reason in each.reasons))

    def explain(
        self, model: str | None, provider: str | None, operation: Operation
    ) -> list[Candidate]:
        """See `Host.explain`."""
        named = model or self._usual(operation)
        return self.refresh().explain(named, provider, operation)

    def models_for(
        self,
        feature: Feature[Any],
        model: str | None,
        provider: str | None,
        others: Mapping[str, str],
        before: Mapping[str, ModelChoice] | None = None,
    ) -> dict[str, ModelChoice]:
        """Each role of a feature and the model that plays it, as it is recorded: nothing of it
        changes with the configuration.

        model, provider   of the main role; others are by their role
        before            who plays where nothing is said

        A role for which no model is named is played by the model of the main role, where that
        is of the same operation: what is said to it goes nowhere else.

        Raises `NoRoute`, and `ConfigurationError` for a role that the feature has not.
        """
        before = before or {}
        for role in others:
            if role not in feature.roles:
                raise ConfigurationError(
                    f"unknown role {role!r} of feature {feature.name!r}",
                    hint=f"choose from {', '.join(feature.roles)}" if feature.roles else "",
                )
        if (model or provider) and "main" not in feature.roles:
            raise ConfigurationError(f"feature {feature.name!r} uses no model")
        chosen: dict[str, ModelChoice] = {}
        roles = sorted(feature.roles.items(), key=lambda each: each[0] != "main")
        for role, operation in roles:
            name = model if role == "main" else others.get(role)
            at = provider if role == "main" else None
            if name is None and at is None:
                if role in before:
                    chosen[role] = before[role]
                    continue
                if role in feature.optional and not self._plays_unasked(operation):
                    continue
                if operation == feature.roles.get("main") and "main" in chosen:
                    chosen[role] = chosen["main"]
                    continue
                name = self._usual(operation)
                _log.info("the %s model is %s", role, self.default_model(operation))
            choice = None if name is None else self._choice(name)
            best = self._resolve(choice, at, operation)[0]
            if choice is None:
                choice = ModelChoice(best.name)
            chosen[role] = choice if at is None else evolve(choice, model=best.name)
        return {role: chosen[role] for role in feature.roles if role in chosen}

    def choice(
        self, name: str | None, operation: Operation, provider: str | None = None
    ) -> ModelChoice | None:
        """What a name stands for; that of the usual model for None, if there is one and no
        provider is named. Raises `NoRoute`."""
        if name is None and provider is None:
            name = self._usual(operation)
        return None if name is None else self._choice(name)

    def routes(
        self, choice: ModelChoice | None, operation: Operation, provider: str | None = None
    ) -> list[Route]:
        """What runs a model, best first; None for what the providers use. Raises `NoRoute`."""
        with self._lock:
            key = (choice, provider, operation)
            kept = self._now().found.get(key)
            if kept is None:
                kept = tuple(map(self._route, self._resolve(choice, provider, operation)))
                _keep(self._now().found, key, kept)
        return list(kept)

    def default_model(self, operation: Operation) -> DefaultModel:
        """The model used for an operation where none is named. Raises `NoRoute`."""
        configured = self._usual(operation)
        if configured is not None:
            return DefaultModel(configured, "configured as the default")
        best = self._resolve(None, None, operation)[0]
        return DefaultModel(best.name, self.catalog.why_default(best.provider))

    def _choice(self, name: str) -> ModelChoice:
        """A name may be known once what is missing was looked for."""
        try:
            return self.catalog.choice(name)
        except NoRoute:
            return self.refresh().choice(name)

    def _plays_unasked(self, operation: Operation) -> bool:
        """Whether something plays an optional role where nobody is named for it: who chats is
        somebody's choice, and to embed and to moderate is a service."""
        if operation == "chat":
            return False
        try:
            return bool(self._usual(operation) or self.catalog.resolve(None, None, operation))
        except NoRoute:
            return False

    def _usual(self, operation: Operation) -> str | None:
        """The model that the user has chosen for it, if any."""
        return self._config.models.get(of_model(operation))

    def _resolve(
        self, choice: ModelChoice | None, provider: str | None, operation: Operation
    ) -> list[Candidate]:
        """What is missing is looked for once more before it is said to be missing."""
        try:
            return self.catalog.resolve(choice, provider, operation)
        except NoRoute:
            return self.refresh().resolve(choice, provider, operation)

    def _route(self, candidate: Candidate) -> Route:
        """Routes are made once, and shared by all conversations."""
        with self._lock:
            key = (candidate.model.name, candidate.provider, candidate.dialect)
            kept = self._routes.get(key)
            if kept is None or kept.candidate != candidate:
                dialect = self._registry.dialects[candidate.dialect]
                kept = Route(
                    candidate, dialect, self._instances, self._observers, self._clock, self._prices
                )
                _keep(self._routes, key, kept)
            return kept

    def _now(self) -> _Joined:
        with self._lock:
            version = self._instances.version
            if self._joined is None or self._joined.version != version:
                self._joined = _Joined(version, self._join({}), {})
            return self._joined

    def _join(self, readiness: Mapping[str, Readiness]) -> Catalog:
        return Catalog(
            self._registry.models.values(),
            self._registry.offerings,
            self._registry.dialects,
            [
                _served(instance, (readiness or {}).get(instance.name))
                for instance in self._instances
            ],
            self._instances.unknown,
            self._config.provider_order,
            self._config.configurations,
        )


def _keep(kept: dict[_Key, _Value], key: _Key, value: _Value) -> None:
    """What came first goes, as there may be any number of names: ids are passed through."""
    kept[key] = value
    if len(kept) > _MOST_KEPT:
        del kept[next(iter(kept))]


def _are_the_same(before: Mapping[str, Readiness], now: Mapping[str, Readiness]) -> bool:
    """Not equal ones: a mapping of models that cannot run may know more than it lists."""
    return before.keys() == now.keys() and all(before[name] is now[name] for name in now)


def _served(instance: ProviderInstance, readiness: Readiness | None = None) -> ProviderInfo:
    """What an instance says of itself, and what was found when it was tried; one that cannot
    be opened says why."""
    served = ProviderInfo(
        instance.name,
        instance.type.name,
        models=instance.config.models,
        automatic=instance.type.automatic,
        configured=instance.is_configured,
        takes_key=instance.takes_key,
    )
    provider = instance.look()
    if isinstance(provider, ProviderUnavailable):
        return evolve(served, missing=provider.reason)
    served = served.asked(provider)
    if readiness is None or served.missing:
        return served
    return evolve(
        served,
        missing=readiness.reason,
        unreachable=not readiness.reachable,
        missing_models=_Either(readiness.missing_models, served.missing_models),
    )


class _Either(Mapping[str, str]):
    """What either mapping has. They may know more keys than they list, so that they cannot be
    merged."""

    def __init__(self, first: Mapping[str, str], second: Mapping[str, str]) -> None:
        self._both = (first, second)

    def __getitem__(self, key: str) -> str:
        first, second = self._both
        return first[key] if key in first else second[key]

    def __contains__(self, key: object) -> bool:
        return any(key in each for each in self._both)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(key for each in self._both for key in each))

    def __len__(self) -> int:
        return sum(1 for _ in self)
