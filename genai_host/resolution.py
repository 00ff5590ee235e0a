"""The join: which model can run on which provider, in which dialect, and why not.

Pure: it gets what is declared and what the provider instances say of themselves,
and gives candidates. Nothing here knows a model, a provider or a dialect by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from attrs import evolve, field, frozen

from genai_host.api import Dialect, Model, Offering, Operation, RouteInfo, Serve
from genai_host.errors import NoRoute
from genai_host.served import Served
from genai_host.telling import nearest

_OF_TRANSPORT = frozenset({"stream"})


@frozen
class Candidate:
    """A model at a provider instance in a dialect, and what speaks against it.

    dialect       empty if the two share none
    id            the model's id there; empty if it is not offered
    serve         how the provider serves the dialect
    variant       which of its variants the dialect is to write
    capabilities  what can be done this way
    parameters    name to JSON Schema of the parameters that are taken this way
    window        tokens that prompt and answer share; None if unknown
    operation     what it is for
    reasons       why it cannot run; empty if it can
    """

    model: Model
    provider: str
    dialect: str = ""
    id: str = ""
    serve: Serve = field(factory=Serve)
    variant: Mapping[str, Any] = field(factory=dict)
    capabilities: frozenset[str] = frozenset()
    parameters: Mapping[str, Any] = field(factory=dict)
    window: int | None = None
    operation: Operation = "chat"
    reasons: tuple[str, ...] = ()

    @property
    def runs(self) -> bool:
        return not self.reasons

    @property
    def info(self) -> RouteInfo:
        return RouteInfo(self.model.name, self.provider, self.dialect)

    @property
    def name(self) -> str:
        """A name that resolves to this model at this provider."""
        if self.model.name == f"{self.provider}/{self.id}":  # passed through
            return self.model.name
        return f"{self.model.name}@{self.provider}"


@frozen
class _Read:
    """What a name says: a model, and where and how to run it as far as it says so.

    id   the id to pass through, if nobody declared the model
    """

    model: Model
    instance: str | None = None
    dialect: str | None = None
    id: str | None = None


class Catalog:
    """Everything that is to be joined.

    models     declared models
    offerings  which provider has which model
    dialects   the codecs that are installed, by name
    served     the provider instances
    absent     configured instances that have no type, and why
    prefer     provider instances, best first
    aliases    the user's own names, to what each stands for

    `names` has the models by all names that are declared.
    """

    def __init__(
        self,
        models: Iterable[Model],
        offerings: Iterable[Offering],
        dialects: Mapping[str, Dialect[Any, Any]],
        served: Sequence[Served],
        absent: Mapping[str, str] | None = None,
        prefer: Sequence[str] = (),
        aliases: Mapping[str, str] | None = None,
    ) -> None:
        self.served = {each.name: each for each in served}
        self.models = {model.name: model for model in models}
        self.absent = dict(absent or {})
        self._dialects = dialects
        self._prefer = list(prefer)
        self._offerings = {(each.model, each.provider): each for each in offerings}
        self.names = dict(self.models)
        for model in self.models.values():
            self.names.update((alias, model) for alias in model.aliases)
        for offering in self._offerings.values():
            if offering.model not in self.names:
                self._add_undeclared(offering.model)
        for instance in served:
            for name in instance.models:
                if name not in self.names:
                    self._add_undeclared(name)
        self.aliases = dict(aliases or {})

    def meant(self, name: str) -> str:
        """What an alias stands for; any other name is itself.

        Raises `NoRoute` for an alias that is the name of a model as well.
        """
        if name not in self.aliases:
            return name
        if name in self.names:
            model = self.names[name].name
            raise NoRoute(
                f"{name!r} is an alias in the configuration, and a name of the model {model}",
                hint=f"genai-host config alias --remove {name}",
                model=name,
            )
        return self.aliases[name]

    def model_named(self, name: str) -> Model:
        """The model that a name stands for, as `explain` takes it. Raises `NoRoute`."""
        return self._read(self.meant(name), None).model

    def matrix(self) -> list[Candidate]:
        """Every model at every provider: what runs, and what does not and why."""
        return [
            candidate
            for model in self.models.values()
            for served in self.served.values()
            for candidate in self._join(model, served)
        ]

    def explain(
        self, name: str | None, provider: str | None = None, operation: Operation = "chat"
    ) -> list[Candidate]:
        """The candidates for a name, best first, those that cannot run as well.

        name        a model's name or alias, `model@instance`, `model@instance+dialect`
                    or `instance/id`; None for the default of the provider, or of all
        provider    an instance to keep to

        Raises `NoRoute` for a name or a provider that nobody knows.
        """
        if provider is not None and provider not in self.served:
            raise self._unknown_provider(provider)
        if name is None:
            return self._defaults(provider, operation)
        return self._explain(self.meant(name), provider, operation)

    def resolve(
        self, name: str | None, provider: str | None = None, operation: Operation = "chat"
    ) -> list[Candidate]:
        """Those of `explain` that run, best first.

        Raises `NoRoute`, with each reason, if none does.
        """
        found = self.explain(name, provider, operation)
        running = [candidate for candidate in found if candidate.runs]
        if running:
            return running
        raise _no_route(name, found, operation)

    def _explain(self, name: str, provider: str | None, operation: Operation) -> list[Candidate]:
        read = self._read(name, provider)
        if provider is not None and read.instance not in (None, provider):
            raise NoRoute(f"{name} is at {read.instance}, and not at {provider}")
        at = read.instance or provider
        served = [self.served[at]] if at else list(self.served.values())
        found = [
            _for_operation(candidate, operation)
            for each in served
            for candidate in self._join(read.model, each, read.id)
            if read.dialect in (None, candidate.dialect)
            and (read.model.dialects or candidate.operation == operation)
        ]
        return sorted(found, key=lambda each: (self._rank(each.provider), not each.runs))

    def _join(self, model: Model, served: Served, id: str | None = None) -> list[Candidate]:
        offering = Offering(model.name, served.name, id) if id else self._offering(model, served)
        if offering is None:
            reason = f"{served.name} does not offer {model.name}"
            return [_refused(model, served, reason)]
        speaks = model.dialects or tuple(
            name for name, serve in served.serves.items() if fnmatchcase(offering.id, serve.ids)
        )
        if offering.dialects is not None:
            speaks = tuple(name for name in speaks if name in offering.dialects)
        shared = [name for name in speaks if name in served.serves]
        if not shared:
            reason = served.missing or (
                f"no shared dialect: {model.name} speaks {_listed(speaks)}, "
                f"{served.name} serves {_listed(served.serves)}"
            )
            return [_refused(model, served, reason, id=offering.id)]
        return [self._candidate(model, served, offering, name) for name in shared]

    def _offering(self, model: Model, served: Served) -> Offering | None:
        """Who runs it says under which id: the user first, then whoever offered it."""
        declared = self._offerings.get((model.name, served.name)) or self._offerings.get(
            (model.name, served.type)
        )
        own_id = served.models.get(model.name)
        if own_id is not None:
            return evolve(declared or Offering(model.name, served.name, own_id), id=own_id)
        if declared is None and served.type in model.at:
            return Offering(model.name, served.type, model.at[served.type])
        return declared

    def _candidate(self, model: Model, served: Served, offering: Offering, name: str) -> Candidate:
        serve = served.serves[name]
        dialect = self._dialects.get(name)
        if dialect is None:
            install = serve.install or f"a plugin that brings the dialect {name}"
            reason = f"the dialect {name} is not installed: genai-host install {install}"
            return _refused(model, served, reason, dialect=name, id=offering.id)
        lacks = serve.lacks | offering.lacks
        can = dialect.capabilities
        if model.dialects:  # it is declared, so it says what it can do
            can = can & (model.capabilities | _OF_TRANSPORT)
        parameters = {**dialect.parameters, **serve.parameters, **model.parameters}
        reason = served.missing or served.missing_models.get(offering.id, "")
        windows = [window for window in (served.window, offering.window, model.window) if window]
        return Candidate(
            model=model,
            provider=served.name,
            dialect=name,
            id=offering.id,
            serve=_laid_over(serve, dialect.endpoint),
            variant={
                **dialect.variant,
                **model.variant.get(name, {}),
                **serve.variant,
                **offering.variant,
            },
            capabilities=can - lacks,
            parameters={key: schema for key, schema in parameters.items() if schema is not False},
            window=min(windows, default=None),
            operation=dialect.operation,
            reasons=(reason,) if reason else (),
        )

    def _read(self, name: str, provider: str | None) -> _Read:
        """The longest reading wins, so that an id may contain `@`, `/`, `+` and `:`."""
        if name in self.names:
            return _Read(self.names[name])
        before, at, after = name.rpartition("@")
        instance, plus, dialect = after.partition("+")
        if at and instance in self.served:
            return self._read_at(before, instance, dialect if plus else None)
        instance, slash, id = name.partition("/")
        if slash and instance in self.served:
            return self._read_id(id, instance)
        if provider is not None:
            return self._read_at(name, provider)
        raise self._unknown_model(name)

    def _read_at(self, name: str, instance: str, dialect: str | None = None) -> _Read:
        """A name at a provider: a declared model's, else an id. An alias says itself where
        that is, or may."""
        if name in self.names:
            return _Read(self.names[name], instance, dialect)
        if name in self.aliases:
            read = self._read(self.aliases[name], instance)
            if read.instance not in (None, instance):
                raise NoRoute(f"{name} is at {read.instance}, and not at {instance}")
            return evolve(read, instance=instance, dialect=dialect or read.dialect)
        return self._read_id(name, instance, dialect)

    def _read_id(self, id: str, instance: str, dialect: str | None = None) -> _Read:
        """What a provider has under an id, or by a name; what it is not known to have
        is passed through."""
        served = self.served[instance]
        named = self.names.get(id)
        for model in (*self.models.values(), *([named] if named else ())):
            offering = self._offering(model, served)
            if offering is not None and (offering.id == id or model is named):
                return _Read(model, instance, dialect)
        return _Read(_undeclared(f"{instance}/{id}"), instance, dialect, id=id)

    def _add_undeclared(self, name: str) -> None:
        self.models[name] = self.names[name] = _undeclared(name)

    def _defaults(self, provider: str | None, operation: Operation) -> list[Candidate]:
        """What the named provider, or each that may be chosen unasked, would use."""
        served = [self.served[provider]] if provider else self._by_preference()
        found: list[Candidate] = []
        for each in served:
            name = each.default_models.get(operation)
            if name is None or not (provider or each.automatic):
                continue
            try:
                found += self._explain(name, each.name, operation)  # no alias is meant there
            except NoRoute:  # its default is nonsense; the others' may not be
                if provider:
                    raise
        if not found and provider and self.served[provider].missing:
            raise NoRoute(
                f"the provider {provider} cannot run: {self.served[provider].missing}",
                provider=provider,
            )
        if not found:
            who = f"the provider {provider} has" if provider else "there is"
            raise NoRoute(
                f"{who} no default model for {operation}",
                hint="name one with --model; genai-host models lists them",
            )
        return found

    def _by_preference(self) -> list[Served]:
        return sorted(self.served.values(), key=lambda each: self._rank(each.name))

    def _rank(self, instance: str) -> int:
        return self._prefer.index(instance) if instance in self._prefer else len(self._prefer)

    def _unknown_model(self, name: str) -> NoRoute:
        known = list(dict.fromkeys([*self.names, *self.aliases, *self.served]))
        near = nearest(name, known, 3)
        hint = f"did you mean {' or '.join(near)}?" if near else "genai-host models lists them"
        return NoRoute(f"there is no model {name!r}", suggestions=near, hint=hint, model=name)

    def _unknown_provider(self, name: str) -> NoRoute:
        if name in self.absent:
            return NoRoute(f"the provider {name!r} cannot run: {self.absent[name]}", provider=name)
        near = nearest(name, self.served, 3)
        hint = (
            f"did you mean {' or '.join(near)}?"
            if near
            else f"there are {_listed(self.served)}; a plugin may bring it: "
            f"genai-host install genai-vendor-{name}"
        )
        return NoRoute(f"there is no provider {name!r}", suggestions=near, hint=hint, provider=name)


def _refused(
    model: Model, served: Served, reason: str, *, dialect: str = "", id: str = ""
) -> Candidate:
    return Candidate(model, served.name, dialect, id, operation=model.operation, reasons=(reason,))


def _undeclared(name: str) -> Model:
    """A model of which nothing is known: it speaks whatever its provider serves."""
    return Model(name, dialects=())


def _laid_over(serve: Serve, endpoint: Serve) -> Serve:
    """A provider's way to serve a dialect, filled up with the dialect's own."""
    return evolve(
        serve,
        path=serve.path or endpoint.path,
        stream_path=serve.stream_path or (endpoint.stream_path if not serve.path else None),
        query={**endpoint.query, **serve.query},
        add={**endpoint.add, **serve.add},
        drop=(*endpoint.drop, *serve.drop),
        header_to_body={**endpoint.header_to_body, **serve.header_to_body},
        lacks=frozenset(endpoint.lacks | serve.lacks),
    )


def _for_operation(candidate: Candidate, operation: Operation) -> Candidate:
    if candidate.operation == operation:
        return candidate
    reason = f"{candidate.model.name} is a model for {candidate.operation}, not {operation}"
    return evolve(candidate, reasons=(reason, *candidate.reasons))


def _no_route(name: str | None, found: Sequence[Candidate], operation: Operation) -> NoRoute:
    """Only what comes near is worth a reason: where a provider has the model but
    cannot run it, those that do not have it say nothing."""
    near = [candidate for candidate in found if candidate.id] or found
    reasons = list(dict.fromkeys(reason for each in near for reason in each.reasons))
    what = name or f"a default model for {operation}"
    if not reasons:
        return NoRoute(f"nothing can run {what} for {operation} in that way", model=name or "")
    if len(reasons) == 1:
        return NoRoute(f"{what} cannot run: {reasons[0]}", reasons=reasons, model=name or "")
    return NoRoute(
        f"{what} cannot run on any of {len(near)} ways",
        reasons=reasons,
        model=name or "",
        hint=f"genai-host routes explain {name}" if name else "genai-host routes",
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
