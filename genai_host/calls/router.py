"""Routing of model names to routes and agents, for the current providers."""

from __future__ import annotations

import logging
import threading
from collections import ChainMap
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

from attrs import evolve

from genai_host.api import Clock, Feature, Operation
from genai_host.api.models import merged_parameters
from genai_host.calls.agent import Agent
from genai_host.calls.middleware import CallMiddleware
from genai_host.calls.rate_limiter import RateLimiter
from genai_host.calls.retry import Retry, RetryPolicy
from genai_host.calls.route import Route
from genai_host.catalog.catalog import Catalog, ModelChoice
from genai_host.catalog.default_models import of_model
from genai_host.catalog.join import Candidate, ProviderInfo, UnopenedProvider
from genai_host.catalog.prices import Prices
from genai_host.config import Config, ModelConfig
from genai_host.errors import ConfigurationError, NoRoute
from genai_host.plugins.observers import Observers
from genai_host.plugins.registry import Registry
from genai_host.providers.instance import ProviderInstance, ProviderUnavailable
from genai_host.providers.instances import ProviderInstances
from genai_host.providers.readiness import Readiness, ReadinessProbes

_log = logging.getLogger(__name__)
_MAX_KEPT = 1000
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class _Joined(NamedTuple):
    """The catalog for one version of providers and plugins, with the names for which it has all
    that matters, and a cache of routes."""

    version: tuple[int, int]
    catalog: Catalog
    certain: dict[str, bool]
    found: dict[tuple[ModelChoice | None, str | None, Operation], tuple[Route, ...]]


class DefaultModel(NamedTuple):
    """The default model, with the reason.

    Attributes:
        name: Name of the model.
        why: Why it is the default.
    """

    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.name} ({self.why})"


class Routing:
    """Pairs models with providers, and creates routes and agents. Thread-safe."""

    def __init__(
        self,
        registry: Registry,
        instances: ProviderInstances,
        config: Config,
        observers: Observers,
        clock: Clock,
        prices: Prices | None = None,
        retry_policy: RetryPolicy | None = None,
    ) -> None:
        self._registry = registry
        self._instances = instances
        self._config = config
        self._observers = observers
        self._clock = clock
        self._prices = prices
        self._retry = Retry(clock, retry_policy)
        self._rates = RateLimiter(clock)
        self._lock = threading.RLock()
        self._joined: _Joined | None = None
        self._probes = ReadinessProbes(clock)
        self._probed: tuple[int, Mapping[str, Readiness], Catalog] | None = None
        self._routes: dict[tuple[str, str, str], Route] = {}

    @property
    def catalog(self) -> Catalog:
        """The available models, providers and dialects, of all plugins; rebuilt when a provider
        changes."""
        self._registry.load_all(joined=True)
        return self._now().catalog

    def refresh(self) -> Catalog:
        """Rebuild the catalog, for example after keys or weights were added."""
        with self._lock:
            self._joined = self._probed = None
            return self.catalog

    def probed(self, again: ProviderInstance | None = None) -> Catalog:
        """The catalog with the checked state of the providers; see `Host.probe`.

        Args:
            again: A provider to check now, without the cache.
        """
        if again is not None:
            self._probes.forget(again)
        self._registry.load_all(joined=True)
        readiness = self._probes.readiness(self._instances)
        with self._lock:
            version, probed = self._instances.version, self._probed
            if probed is None or probed[0] != version or not _are_the_same(probed[1], readiness):
                probed = self._probed = (version, readiness, self._join(readiness))
            return probed[2]

    def configure(self, config: Config) -> None:
        """Use another configuration from now on."""
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
        others: Mapping[str, str | None],
        before: Mapping[str, ModelChoice] | None = None,
    ) -> dict[str, ModelChoice]:
        """The model of each role of a feature, as it is recorded. It does not change with the
        configuration.

        A role without a named model gets that of the main role, if the operation is the same, so
        that its messages reach no other service.

        Args:
            feature: The feature.
            model: Model name of the main role.
            provider: Provider of the main role.
            others: Model names of other roles, or also of the main role without `model`.
            before: Previous models, used where no model is named.

        Raises:
            NoRoute: A model is unknown or cannot run.
            ConfigurationError: The feature has no such role, or two models are named for the main
                role.
        """
        before = before or {}
        for role in others:
            if role not in feature.roles:
                raise ConfigurationError(
                    f"unknown role {role!r} of feature {feature.name!r}",
                    hint=f"choose from {', '.join(feature.roles)}" if feature.roles else "",
                )
        if model and others.get("main") not in (None, model):
            raise ConfigurationError(
                f"two models for the role main: {model!r} and {others['main']!r}",
                hint="name one of them",
            )
        if (model or provider) and "main" not in feature.roles:
            raise ConfigurationError(f"feature {feature.name!r} uses no model")
        chosen: dict[str, ModelChoice] = {}
        roles = sorted(feature.roles.items(), key=lambda each: each[0] != "main")
        for role, operation in roles:
            name = model if role == "main" and model else others.get(role)
            at = provider if role == "main" else None
            if name is None and at is None:
                if role in before:
                    chosen[role] = before[role]
                    continue
                if role in feature.optional_roles and not self._is_automatic(operation):
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

    def agent(
        self,
        role: str,
        operation: Operation,
        model: str | ModelChoice | None,
        parameters: Mapping[str, Any],
        provider: str | None = None,
        middleware: Sequence[CallMiddleware] = (),
    ) -> Agent:
        """Make an agent, which calls a model.

        Args:
            role: Role of the feature.
            operation: Kind of call.
            model: Name of the model; None for the default model.
            parameters: Parameters of all prompts; they replace those of a model configuration.
            provider: Name of the provider to use; None for any.
            middleware: Call middleware.

        Raises:
            NoRoute: The model cannot run.
            InvalidParameter: The model does not accept the parameters.
        """
        choice: ModelChoice | None
        if isinstance(model, ModelChoice):
            choice = model
        else:
            name = self._usual(operation) if model is None and provider is None else model
            choice = None if name is None else self._choice(name)
        return Agent(
            role,
            self._routes_of(choice, operation, provider),
            merged_parameters(choice.parameters, parameters) if choice else parameters,
            retry=self._retry,
            rates=self._rates,
            counters=lambda: self._routes_of(choice, "count", provider),
            middleware=middleware,
            choice=choice,
        )

    def default_model(self, operation: Operation) -> DefaultModel:
        """The default model of an operation. Raises `NoRoute`."""
        configured = self._usual(operation)
        if configured is not None:
            return DefaultModel(configured, "configured as the default")
        best = self._resolve(None, None, operation)[0]
        return DefaultModel(best.name, self.catalog.defaults.why(best.provider))

    def _choice(self, name: str) -> ModelChoice:
        """Look up a name; refresh the catalog once if it is unknown."""
        try:
            return self._catalog_for(name).choice(name)
        except NoRoute:
            return self.refresh().choice(name)

    def _is_automatic(self, operation: Operation) -> bool:
        """Whether an optional role gets a model that was not named for it: only for embedding and
        moderation, since a chat model is the user's choice."""
        if operation == "chat":
            return False
        try:
            return bool(self._usual(operation) or self.catalog.resolve(None, None, operation))
        except NoRoute:
            return False

    def _usual(self, operation: Operation) -> str | None:
        """The user's default model, if there is one."""
        return self._config.models.get(of_model(operation))

    def _resolve(
        self, choice: ModelChoice | None, provider: str | None, operation: Operation
    ) -> list[Candidate]:
        """Resolve a model; refresh the catalog once if it cannot run."""
        try:
            name = choice.model if choice else self._default_of(provider, operation)
            return self._catalog_for(name).resolve(choice, provider, operation)
        except NoRoute:
            return self.refresh().resolve(choice, provider, operation)

    def _catalog_for(self, name: str) -> Catalog:
        """The catalog with all that a model depends on, and possibly no more: only plugins that
        declare or offer the model, and those of configured providers, are loaded.

        Args:
            name: Name of a model, maybe with its provider; empty if it is unknown.
        """
        if not self._registry.deferred or self._config.configurations:
            return self.catalog
        if name not in self._now().certain:
            model, _, place = name.rpartition("@")
            instance = place.partition("+")[0] if model else name.partition("/")[0]
            if instance in self._instances:
                self._instances[instance]  # its type is loaded from now on
            is_there = self._registry.load_model(name) or (
                instance in self._instances and self._registry.load_model(model)
            )
            if not is_there:
                return self.catalog
            with self._lock:
                _keep(self._now().certain, name, True)
        return self._now().catalog

    def _default_of(self, provider: str | None, operation: Operation) -> str:
        """The default model of a provider; empty if there is none, or all plugins are loaded."""
        if not self._registry.deferred or provider is None or provider not in self._instances:
            return ""
        self._instances[provider]  # its type is loaded from now on
        served = self._now().catalog.served.get(provider)
        return served.default_models.get(of_model(operation), "") if served else ""

    def _routes_of(
        self, choice: ModelChoice | None, operation: Operation, provider: str | None
    ) -> tuple[Route, ...]:
        """The routes of a model, best first; None for the default model."""
        with self._lock:
            key = (choice, provider, operation)
            kept = self._now().found.get(key)
            if kept is None:
                kept = tuple(map(self._route, self._resolve(choice, provider, operation)))
                _keep(self._now().found, key, kept)
        return kept

    def _route(self, candidate: Candidate) -> Route:
        """The route of a candidate; routes are cached and shared by all conversations."""
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
            version = self._instances.version, self._registry.version
            if self._joined is None or self._joined.version != version:
                self._joined = _Joined(version, self._join({}), {}, {})
            return self._joined

    def _join(self, readiness: Mapping[str, Readiness]) -> Catalog:
        return Catalog(
            self._registry.models.loaded.values(),
            self._registry.offerings.loaded.values(),
            self._registry.dialects,
            [
                _served(instance, (readiness or {}).get(instance.name))
                for instance in self._instances.of_types(self._registry.providers.loaded)
            ],
            self._instances.unknown,
            self._config.provider_order,
            self._config.configurations,
        )


def _keep(kept: dict[_Key, _Value], key: _Key, value: _Value) -> None:
    """Cache a value and drop the oldest: the number of names is unlimited, since ids are passed
    through."""
    kept[key] = value
    if len(kept) > _MAX_KEPT:
        del kept[next(iter(kept))]


def _are_the_same(before: Mapping[str, Readiness], now: Mapping[str, Readiness]) -> bool:
    """Compare identity: a mapping of models that cannot run may have more keys than it lists."""
    return before.keys() == now.keys() and all(before[name] is now[name] for name in now)


def _served(instance: ProviderInstance, readiness: Readiness | None = None) -> ProviderInfo:
    """The declaration of a provider, with its checked state; it is opened on first use."""
    known = ProviderInfo(
        instance.name,
        instance.type.name,
        models=instance.config.models,
        automatic=instance.type.automatic,
        configured=instance.is_configured,
        takes_key=instance.takes_key,
    )
    return UnopenedProvider(known, partial(_opened, instance, readiness))


def _opened(
    instance: ProviderInstance, readiness: Readiness | None, known: ProviderInfo
) -> ProviderInfo:
    """All declarations of a provider; if it cannot be opened, with the reason."""
    provider = instance.look()
    if isinstance(provider, ProviderUnavailable):
        return evolve(known, unavailable_reason=provider.reason)
    with instance.watching("unavailable_reason"):
        served = known.asked(provider)
    if readiness is None or served.unavailable_reason:
        return served
    return evolve(
        served,
        unavailable_reason=readiness.reason,
        unreachable=not readiness.reachable,
        # a mapping may have more keys than it lists
        unavailable_models=ChainMap(
            cast("dict[str, str]", readiness.unavailable_models),  # only read
            cast("dict[str, str]", served.unavailable_models),
        ),
    )
