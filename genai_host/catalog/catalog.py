"""Resolves a model name to candidates, best first, with the reasons of those that cannot run.

It does no I/O. No model, provider or dialect is treated specially by its name.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve, field, frozen

from genai_host.api import Dialect, Model, Offering, Operation
from genai_host.api.models import merged_parameters
from genai_host.catalog.default_models import DefaultModels, of_model
from genai_host.catalog.join import FURTHER_OPERATIONS, Candidate, Join, ProviderInfo
from genai_host.config import ModelConfig
from genai_host.config.schema import configuration_in
from genai_host.errors import ConfigurationError, NoRoute
from genai_host.util.names import plugin_line, unknown_name_hint, vendors_hint
from genai_host.util.text import close_matches, did_you_mean

_MAX_REASONS = 3  # in the message itself


@frozen
class ModelChoice:
    """A resolved model name, as recorded; later changes of the configuration do not affect it.

    Attributes:
        model: Name of the model, with provider and dialect if specified.
        configuration: Name of the model configuration; empty if none was named.
        provider_order: Preferred providers, best first.
        parameters: Default parameters.
    """

    model: str
    configuration: str = ""
    provider_order: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(factory=dict, eq=False)


@frozen
class _Read:
    """A parsed model name: a model, with provider and dialect if specified.

    Attributes:
        id: Model id to pass through, if the model is not declared.
    """

    model: Model
    instance: str | None = None
    dialect: str | None = None
    id: str | None = None


class Catalog:
    """The available models, providers and dialects.

    `names` has the models by all declared names. `defaults` selects the default models.

    Args:
        served: Providers by name.
        absent: Configured providers of unknown types, with the reason.
        prefer: Preferred providers, best first.
        configurations: Model configurations by name.
    """

    def __init__(
        self,
        models: Iterable[Model],
        offerings: Iterable[Offering],
        dialects: Mapping[str, Dialect[Any, Any]],
        served: Sequence[ProviderInfo],
        absent: Mapping[str, str] | None = None,
        prefer: Sequence[str] = (),
        configurations: Mapping[str, ModelConfig] | None = None,
    ) -> None:
        self.served = {each.name: each for each in served}
        self.models = {model.name: model for model in models}
        self.absent = dict(absent or {})
        offerings = list(offerings)
        self._join = Join(offerings, dialects)
        self._matrix: list[Candidate] | None = None
        self._here = {*self.served, *(each.type for each in served), *self.absent}
        self.defaults = DefaultModels(self.served, prefer)
        self.names = dict(self.models)
        for model in self.models.values():
            self.names.update((alias, model) for alias in model.aliases)
        for offering in offerings:
            if offering.model not in self.names:
                self._add_undeclared(offering.model)
        for instance in served:
            for name in instance.models:
                if name not in self.names:
                    self._add_undeclared(name)
        self.configurations = dict(configurations or {})

    def with_configuration(self, name: str, config: ModelConfig) -> Catalog:
        """The catalog with one more model configuration."""
        other = copy.copy(self)
        other.configurations = {**self.configurations, name: config}
        return other

    def choice(self, name: str) -> ModelChoice:
        """Resolve a name: a model configuration to its model, any other name to itself.

        A configuration can have the name of a declared model. Then the name alone is the
        configuration, and `name@provider` the model. Raises `NoRoute` for an unknown provider,
        `ConfigurationError` if model configurations refer to each other in a circle."""
        target, at = name, ""
        chain: list[str] = []
        order: Sequence[str] = ()
        parameters: dict[str, Any] = {}
        while found := self._configuration_in(target, chain):
            if found in chain:
                way = " of ".join([*chain, found])
                raise ConfigurationError(f"model configuration {name!r} is circular: {way}")
            if found != target:
                at = self._one_place(name, target.rpartition("@")[2], at)
            chain.append(found)
            config = self.configurations[found]
            target = config.of
            parameters = merged_parameters(config.parameters, parameters)
            order = order or config.provider_order
        if at:  # provider and dialect were specified by the configurations
            instance, _, dialect = at.partition("+")
            read = self._read(target, instance)
            if read.instance not in (None, instance):
                raise NoRoute(f"{name} is at {read.instance}, not at {instance}")
            target = _name_of(read, instance, dialect)
        return ModelChoice(target, chain[0] if chain else "", tuple(order), parameters)

    def _configuration_in(self, name: str, before: Sequence[str]) -> str:
        """The configuration in a name; empty if there is none. The configurations `before` lead
        here; in the last of them, its own name is the model's."""
        found = configuration_in(name, self.configurations)
        if before and found == before[-1]:
            return ""
        if found != name and (found in self.names or not self._is_place(name)):
            return ""
        return found

    def _is_place(self, name: str) -> bool:
        return self._is_configured(name.rpartition("@")[2].partition("+")[0])

    def _one_place(self, name: str, place: str, before: str) -> str:
        """The provider and dialect, which several configurations may specify."""
        instance = place.partition("+")[0]
        if before and before.partition("+")[0] != instance:
            raise NoRoute(f"{name} is at {instance}, not at {before}")
        return before if "+" in before else place

    def model_named(self, name: str) -> Model:
        """The model of a name; see `explain`. Raises `NoRoute`."""
        return self._read(self.choice(name).model, None).model

    def matrix(self) -> list[Candidate]:
        """Every model at every provider, with the reasons of those that cannot run."""
        if self._matrix is None:  # concurrent threads compute the same
            self._matrix = [
                candidate
                for model in self.models.values()
                for served in self.served.values()
                for candidate in self._join.candidates(model, served)
            ]
        return list(self._matrix)

    def explain(
        self,
        name: str | ModelChoice | None,
        provider: str | None = None,
        operation: Operation = "chat",
    ) -> list[Candidate]:
        """The candidates for a name, best first, including those that cannot run.

        Args:
            name: A model configuration, a model, `name@provider`, `name@provider+dialect` or
                `provider/id`; None for the default model.
            provider: Provider to use; None for any.
            operation: Kind of call.

        Raises:
            NoRoute: The name or the provider is unknown.
        """
        if provider is not None and provider not in self.served:
            raise self._unknown_provider(provider)
        if name is None:
            return self._defaults(provider, operation)
        chosen = self.choice(name) if isinstance(name, str) else name
        found = self._explain(chosen.model, provider, operation)
        order = {each: number for number, each in enumerate(chosen.provider_order)}
        return sorted(found, key=lambda each: order.get(each.provider, len(order)))

    def resolve(
        self,
        name: str | ModelChoice | None,
        provider: str | None = None,
        operation: Operation = "chat",
    ) -> list[Candidate]:
        """The candidates that can run, best first; see `explain`. Raises `NoRoute` with the reasons
        if none can run."""
        found = self.explain(name, provider, operation)
        running = [candidate for candidate in found if candidate.runs]
        if running:
            return running
        hint = self.defaults.hint(operation) if name is None and provider is None else ""
        if isinstance(name, ModelChoice):
            name = name.configuration or name.model
        raise _no_route(name, found, operation, hint, self.served)

    def _explain(self, name: str, provider: str | None, operation: Operation) -> list[Candidate]:
        read = self._read(name, provider)
        if provider is not None and read.instance not in (None, provider):
            raise NoRoute(f"{name} is at {read.instance}, not at {provider}")
        at = read.instance or provider
        served = [self.served[at]] if at else list(self.served.values())
        candidates = [
            candidate
            for each in served
            for candidate in self._join.candidates(read.model, each, read.id)
        ]
        if at is None:
            candidates += self._join.elsewhere(read.model, self._here)
        found = [
            self._for_operation(candidate, operation)
            for candidate in candidates
            if read.dialect in (None, candidate.dialect)
        ]
        if not read.model.dialects:  # it is assumed to be a model for the operation
            found = [each for each in found if each.operation == operation]
        return sorted(found, key=self._order)

    def _order(self, candidate: Candidate) -> tuple[int, bool, bool]:
        """Sort key: preferred providers first, then configured ones before automatic ones."""
        served = self.served.get(candidate.provider)
        is_configured = served is not None and served.configured
        return self.defaults.rank(candidate.provider), not candidate.runs, not is_configured

    def _for_operation(self, candidate: Candidate, operation: Operation) -> Candidate:
        """The candidate for an operation. Another dialect may have it for a model for chat."""
        if candidate.operation == operation:
            return candidate
        if candidate.operation == "chat" and operation in FURTHER_OPERATIONS:
            served = self.served.get(candidate.provider)
            return self._join.companion(candidate, served, operation)
        reason = f"{candidate.model.name} is a model for {candidate.operation}, not {operation}"
        return evolve(candidate, reasons=(reason, *candidate.reasons))

    def _read(self, name: str, provider: str | None) -> _Read:
        """Parse a name; the longest match wins, since an id may contain `@`, `/`, `+` and `:`."""
        if name in self.names:
            return _Read(self.names[name])
        before, at, after = name.rpartition("@")
        instance, plus, dialect = after.partition("+")
        if at and self._is_configured(instance):
            return self._read_at(before, instance, dialect if plus else None)
        named, slash, id = name.partition("/")
        if slash and self._is_configured(named):
            return self._read_id(id, named)
        if provider is not None:
            return self._read_at(name, provider)
        if at and (before in self.names or before in self.configurations):
            raise self._unknown_provider(instance)
        raise self._unknown_model(name, instance if at else named if slash else "")

    def _is_configured(self, instance: str) -> bool:
        """Whether there is such a provider. Raises `NoRoute` if it cannot be opened."""
        if instance in self.absent:
            raise self._unknown_provider(instance)
        return instance in self.served

    def _read_at(self, name: str, instance: str, dialect: str | None = None) -> _Read:
        """A name at a provider: that of a declared model, or else an id."""
        if name in self.names:
            return _Read(self.names[name], instance, dialect)
        return self._read_id(name, instance, dialect)

    def _read_id(self, id: str, instance: str, dialect: str | None = None) -> _Read:
        """The model of an id or name at a provider; an unknown one is passed through."""
        served = self.served[instance]
        named = self.names.get(id)
        if named is not None and self._join.offering(named, served) is not None:
            return _Read(named, instance, dialect)
        for model in self.models.values():
            offering = self._join.offering(model, served)
            if offering is not None and offering.id == id:
                return _Read(model, instance, dialect)
        return _Read(_undeclared(f"{instance}/{id}"), instance, dialect, id=id)

    def _add_undeclared(self, name: str) -> None:
        self.models[name] = self.names[name] = _undeclared(name)

    def _defaults(self, provider: str | None, operation: Operation) -> list[Candidate]:
        """Default models of the named provider, or of all that may be chosen automatically."""
        served = [self.served[provider]] if provider else self.defaults.providers()
        found: list[Candidate] = []
        for each in served:
            name = each.default_models.get(of_model(operation))
            if name is None:
                continue
            try:
                found += self._explain(name, each.name, operation)  # not an alias
            except NoRoute:  # its default is invalid; try the others
                if provider:
                    raise
        if not found and provider and self.served[provider].unavailable_reason:
            raise NoRoute(
                f"the provider {provider} cannot run: {self.served[provider].unavailable_reason}",
                provider=provider,
            )
        if not found:
            who = f"the provider {provider} has" if provider else "there is"
            hint = "" if provider else self.defaults.hint(operation)
            raise NoRoute(
                f"{who} no default model for {operation}",
                hint=hint
                or (
                    "name one with --model; list models: genai-host models"
                    if self.served
                    else vendors_hint()
                ),
            )
        return found

    def _unknown_model(self, name: str, provider: str) -> NoRoute:
        # a configuration with this name failed
        own = [each for each, config in self.configurations.items() if config.of != name]
        known = list(dict.fromkeys([*self.names, *own]))
        near = close_matches(name, known, 3)
        hint = did_you_mean(name, known, 3) or "list models: genai-host models"
        line = plugin_line("vendor", provider)
        if line:
            hint += f"; install the provider {provider}: {line}"
        elif not near:
            more = vendors_hint(self.served)
            hint += f"; {more}" if more else ""
        return NoRoute(f"unknown model {name!r}", suggestions=near, hint=hint, model=name)

    def _unknown_provider(self, name: str) -> NoRoute:
        if name in self.absent:
            return NoRoute(f"the provider {name!r} cannot run: {self.absent[name]}", provider=name)
        return NoRoute(
            f"unknown provider {name!r}",
            suggestions=close_matches(name, self.served),
            hint=unknown_name_hint("vendor", name, list(self.served)),
            provider=name,
        )


def _name_of(read: _Read, instance: str, dialect: str) -> str:
    """The name of a model at a provider, with the dialect if specified."""
    dialect = dialect or read.dialect or ""
    if read.id and not dialect:
        return f"{instance}/{read.id}"
    return f"{read.id or read.model.name}@{instance}{f'+{dialect}' if dialect else ''}"


def _undeclared(name: str) -> Model:
    """An undeclared model, which is assumed to support the dialects of its provider."""
    return Model(name, dialects=())


def _no_route(
    name: str | None,
    found: Sequence[Candidate],
    operation: Operation,
    hint: str,
    here: Iterable[str],
) -> NoRoute:
    """The error if no candidate can run, with the relevant reasons: if a provider offers the model
    but cannot run it, those that do not offer it are omitted. If none of the configured providers,
    `here`, offers it, others are suggested, unless there is a hint."""
    near = [candidate for candidate in found if candidate.id] or found
    why = {each.provider: "; ".join(each.reasons) for each in near if each.reasons}
    what = name or f"a default model for {operation}"
    if not hint and not any(candidate.id for candidate in found):
        hint = vendors_hint(here) or (f"see genai-host routes explain {name}" if name else "")
    if not why:
        message = f"no provider can run {what} for {operation} as requested"
        return NoRoute(message, hint=hint, model=name or "")
    reasons = list(dict.fromkeys(why.values()))
    if len(why) > 1:
        reasons = [f"{provider}: {reason}" for provider, reason in why.items()]
    summary = "; ".join(reasons[:_MAX_REASONS])
    if len(reasons) > _MAX_REASONS:
        summary += f"; and {len(reasons) - _MAX_REASONS} more"
        hint = hint or (f"genai-host routes explain {name}" if name else "genai-host routes")
    return NoRoute(f"{what} cannot run: {summary}", reasons=reasons, model=name or "", hint=hint)
