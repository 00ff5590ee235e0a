"""Joins models with providers: pure, by what both declare.

A `Join` pairs a model and a provider in each dialect that they share, or gives the reason why
they cannot be paired. Its input is the declarations and a `ProviderInfo` for each provider
instance, which is read when it is first needed. No model, provider or dialect is treated specially
by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Literal

from attrs import evolve, field, fields_dict, frozen
from attrs.validators import instance_of, optional

from genai_host.api import (
    FREE,
    Dialect,
    DialectEndpoint,
    Model,
    Offering,
    Operation,
    Provider,
    RouteInfo,
)
from genai_host.api.models import EXTRA_BODY, EXTRA_BODY_SCHEMA, merged_parameters
from genai_host.api.validators import ANY_BY_NAME, FILLED_BY_NAME, TEXT, TEXT_BY_NAME, Must, by_name
from genai_host.util.names import install_line, plugin_line, wire_of
from genai_host.util.text import describe_exception, did_you_mean

_SERVES = Must(
    "a mapping of names of dialects to DialectEndpoint",
    by_name(lambda value: isinstance(value, DialectEndpoint)),
)


RouteState = Literal["works", "needs", "unreachable", "not offered"]
"""State of a model at a provider: it can run, it needs something such as a key (see the reasons),
the provider is unreachable, or the provider does not offer it."""


@frozen
class ProviderInfo:
    """Declarations of a provider.

    Attributes:
        serves: Dialects it serves, in its order.
        models: Model ids by model name, from the configuration.
        default_models: Default model of an operation.
        automatic: Whether it may be chosen automatically.
        configured: Whether the user configured it.
        takes_key: Whether it can have a key.
        free: Whether calls of its default models are free.
        unavailable_reason: Why it is not ready; empty if it is.
        unreachable: Whether a check found that the service is unreachable.
        unavailable_models: Ids of models that cannot run, with the reason.
        window: Context window in tokens; None for no limit.
        extra_body: Default fields of the request body; None if it accepts none.
    """

    name: str
    type: str
    serves: Mapping[str, DialectEndpoint] = field(factory=dict, validator=_SERVES)
    models: Mapping[str, str] = field(factory=dict)
    default_models: Mapping[Operation, str] = field(factory=dict, validator=FILLED_BY_NAME)
    automatic: bool = True
    configured: bool = False
    takes_key: bool = False
    free: bool = False
    unavailable_reason: str = field(default="", validator=TEXT)
    unreachable: bool = False
    unavailable_models: Mapping[str, str] = field(factory=dict, validator=TEXT_BY_NAME)
    window: int | None = field(default=None, validator=optional(instance_of(int)))
    extra_body: Mapping[str, Any] | None = field(default=None, validator=optional(ANY_BY_NAME))

    @property
    def state(self) -> RouteState:
        if not self.unavailable_reason:
            return "works"
        return "unreachable" if self.unreachable else "needs"

    def asked(self, provider: Provider) -> ProviderInfo:
        """Add the declarations of a provider. If they fail or are invalid, the provider is not
        ready."""
        try:
            info = evolve(
                self,
                serves=provider.serves,
                default_models=provider.default_models,
                unavailable_reason=provider.unavailable_reason() or "",
                unavailable_models=provider.unavailable_models(),
                window=provider.window,
                extra_body=provider.extra_body,
            )
            return evolve(info, free=_is_free(provider))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - affects only that provider
            return evolve(
                self, unavailable_reason=f"its plugin failed: {describe_exception(error)}"
            )


class UnopenedProvider(ProviderInfo):
    """The declarations of a provider that is opened when one of the other fields is first read.

    Most calls name their model, so only the providers that offer it are opened.

    Args:
        known: The fields that need no provider: `name`, `type`, `models`, `automatic`, `configured`
            and `takes_key`.
        ask: Opens the provider and returns all fields; concurrent threads may call it.
    """

    def __init__(self, known: ProviderInfo, ask: Callable[[ProviderInfo], ProviderInfo]) -> None:
        for name in ("name", "type", "models", "automatic", "configured", "takes_key"):
            object.__setattr__(self, name, getattr(known, name))
        object.__setattr__(self, "_ask", partial(ask, known))

    def __getattr__(self, name: str) -> Any:
        if name not in fields_dict(ProviderInfo):
            raise AttributeError(name)
        info = self._ask()
        for each in fields_dict(ProviderInfo):
            object.__setattr__(self, each, getattr(info, each))
        return getattr(info, name)


def _is_free(provider: Provider) -> bool:
    return bool(provider.default_models) and all(
        provider.price_provider(name) == FREE for name in provider.default_models.values()
    )


_OF_TRANSPORT = frozenset({"stream"})


@frozen
class Candidate:
    """A model at a provider in a dialect, with the reasons if it cannot run.

    Attributes:
        dialect: Name of the dialect; empty if there is no common one.
        id: Id of the model at the provider; empty if it is not offered.
        serve: How the provider serves the dialect.
        variant: Options of the dialect.
        capabilities: What it can do.
        parameters: JSON Schema of the accepted parameters by name.
        defaults: Default values of parameters.
        window: Context window in tokens; None if unknown.
        reasons: Why it cannot run; empty if it can.
        unreachable: Whether a check found that the service is unreachable.
    """

    model: Model
    provider: str
    dialect: str = ""
    id: str = ""
    serve: DialectEndpoint = field(factory=DialectEndpoint)
    variant: Mapping[str, Any] = field(factory=dict)
    capabilities: frozenset[str] = frozenset()
    parameters: Mapping[str, Any] = field(factory=dict)
    defaults: Mapping[str, Any] = field(factory=dict)
    window: int | None = None
    operation: Operation = "chat"
    reasons: tuple[str, ...] = ()
    unreachable: bool = False

    @property
    def runs(self) -> bool:
        return not self.reasons

    @property
    def state(self) -> RouteState:
        if self.runs:
            return "works"
        if not self.id:
            return "not offered"
        return "unreachable" if self.unreachable else "needs"

    @property
    def info(self) -> RouteInfo:
        return RouteInfo(self.model.name, self.provider, self.dialect)

    @property
    def name(self) -> str:
        """A name that resolves to this model at this provider."""
        if self.model.name == f"{self.provider}/{self.id}":  # passed through
            return self.model.name
        return f"{self.model.name}@{self.provider}"


class Join:
    """Pairs models with providers, in the dialects that both support."""

    def __init__(
        self, offerings: Iterable[Offering], dialects: Mapping[str, Dialect[Any, Any]]
    ) -> None:
        self._offerings = {(each.model, each.provider): each for each in offerings}
        self._dialects = dialects

    def candidates(
        self, model: Model, served: ProviderInfo, id: str | None = None
    ) -> list[Candidate]:
        """A model at a provider, in each common dialect, or one candidate with the reason if there
        is none. The id of the model there is that of the offering, unless it is given."""
        offering = Offering(model.name, served.name, id) if id else self.offering(model, served)
        if offering is None:
            reason = f"{served.name} does not offer {model.name}"
            return [_refused(model, served, reason)]
        # the offering decides: a provider may have a dialect of its own
        dialects = offering.dialects
        if dialects is None:
            dialects = model.dialects or tuple(
                name
                for name, serve in served.serves.items()
                if fnmatchcase(offering.id, serve.model_ids)
            )
        shared = [
            name
            for name in dialects
            if name in served.serves and (name in model.dialects or not self._models_of(name))
        ]
        if not shared:
            reason = served.unavailable_reason or (
                f"no common dialect: {model.name} supports {listed(dialects)}, "
                f"{served.name} serves {listed(served.serves)}{self._spelling_hint(dialects)}"
            )
            return [_refused(model, served, reason, id=offering.id)]
        return [self._candidate(model, served, offering, name) for name in shared]

    def offering(self, model: Model, served: ProviderInfo) -> Offering | None:
        """The offering of a model at a provider; the user's configuration takes precedence."""
        declared = self._offerings.get((model.name, served.name)) or self._offerings.get(
            (model.name, served.type)
        )
        own_id = served.models.get(model.name)
        if own_id is not None:
            return evolve(declared or Offering(model.name, served.name, own_id), id=own_id)
        if declared is None and served.type in model.at:
            return Offering(model.name, served.type, model.at[served.type])
        return declared

    def elsewhere(self, model: Model, here: Collection[str]) -> list[Candidate]:
        """Candidates at providers that no plugin adds; `here` are the configured providers and
        their types."""
        mine = (each for each in self._offerings.values() if each.model == model.name)
        offered = {each.provider: each.id for each in mine}
        return [
            Candidate(
                model, at, id=id, operation=model.operation, reasons=(_missing_plugin(at, here),)
            )
            for at, id in {**model.at, **offered}.items()
            if at not in here
        ]

    def companion(
        self, chat: Candidate, served: ProviderInfo | None, operation: Operation
    ) -> Candidate:
        """The candidate for a further operation of a chat model, such as `count`."""
        for name, serve in served.serves.items() if served and chat.dialect else ():
            dialect = self._dialects.get(name)
            if dialect and (dialect.operation, dialect.models_of) == (operation, chat.dialect):
                return evolve(
                    chat,
                    dialect=name,
                    serve=_with_defaults_of(serve, dialect.endpoint),
                    variant={**dialect.variant, **chat.variant, **serve.variant},
                    capabilities=chat.capabilities - serve.unsupported,
                    parameters=_parameters_of(dialect, chat),
                    operation=operation,
                )
        reason = FURTHER_OPERATIONS[operation].format(chat.provider, chat.dialect)
        return evolve(chat, operation=operation, reasons=chat.reasons or (reason,))

    def _models_of(self, name: str) -> str:
        """`Dialect.models_of` of a dialect; empty if it is not installed."""
        dialect = self._dialects.get(name)
        return dialect.models_of if dialect else ""

    def _spelling_hint(self, dialects: Iterable[str]) -> str:
        """Suggest installed dialects for those that are missing."""
        unknown = (name for name in dialects if name not in self._dialects)
        hints = filter(None, (did_you_mean(name, self._dialects) for name in unknown))
        return "".join(f"; {hint}" for hint in dict.fromkeys(hints))

    def _wire_of(self, dialect: str) -> str:
        """Our distribution of a dialect; empty if others of its format are installed."""
        wire = wire_of(dialect)
        return "" if any(wire_of(each) == wire for each in self._dialects) else wire

    def _candidate(
        self, model: Model, served: ProviderInfo, offering: Offering, name: str
    ) -> Candidate:
        serve = served.serves[name]
        dialect = self._dialects.get(name)
        if dialect is None:
            line = install_line(serve.install or self._wire_of(name))
            end = f": {line}" if line else self._spelling_hint([name])
            reason = f"the dialect {name} is not installed{end}"
            return _refused(model, served, reason, dialect=name, id=offering.id)
        lacks = serve.unsupported | offering.unsupported
        can = dialect.capabilities
        if model.dialects:  # a declared model has its capabilities
            can = can & (model.capabilities | _OF_TRANSPORT)
        own = {} if served.extra_body is None else {EXTRA_BODY: EXTRA_BODY_SCHEMA}
        parameters = {**dialect.parameters, **own, **serve.parameters, **model.parameters}
        defaults = merged_parameters(
            model.defaults, {EXTRA_BODY: served.extra_body} if served.extra_body else {}
        )
        reason = served.unavailable_reason or served.unavailable_models.get(offering.id, "")
        windows = [window for window in (served.window, offering.window, model.window) if window]
        return Candidate(
            model=model,
            provider=served.name,
            dialect=name,
            id=offering.id,
            serve=_with_defaults_of(serve, dialect.endpoint),
            variant={
                **dialect.variant,
                **model.variant.get(name, {}),
                **serve.variant,
                **offering.variant,
            },
            capabilities=can - lacks,
            parameters={key: schema for key, schema in parameters.items() if schema is not False},
            defaults=defaults,
            window=min(windows, default=None),
            operation=dialect.operation,
            reasons=(reason,) if reason else (),
            unreachable=served.unreachable,
        )


FURTHER_OPERATIONS: Mapping[Operation, str] = {
    "complete": "{} has no text completions for models of {}",
    "count": "{} cannot count tokens of {}",
    "transcribe": "{} does not transcribe speech with models of {}",
}
"""Operations of models for chat, with the reason where a provider does not have them."""


_PARTIAL: Collection[Operation] = frozenset({"count"})
"""Operations whose requests contain a subset of the fields of a chat request."""


def _parameters_of(dialect: Dialect[Any, Any], chat: Candidate) -> dict[str, Any]:
    """The parameters of a dialect for a chat model. Those of chat can have another meaning, unless
    the model declares them."""
    if dialect.operation in _PARTIAL:
        return {name: chat.parameters[name] for name in dialect.parameters.keys() & chat.parameters}
    found = dict(dialect.parameters)
    if EXTRA_BODY in chat.parameters:
        found[EXTRA_BODY] = chat.parameters[EXTRA_BODY]
    found.update({name: v for name, v in chat.model.parameters.items() if name in found})
    return {name: schema for name, schema in found.items() if schema is not False}


def _refused(
    model: Model, served: ProviderInfo, reason: str, *, dialect: str = "", id: str = ""
) -> Candidate:
    return Candidate(model, served.name, dialect, id, operation=model.operation, reasons=(reason,))


def _missing_plugin(provider: str, here: Iterable[str]) -> str:
    line = plugin_line("vendor", provider)
    near = did_you_mean(provider, here)
    end = f": {line}" if line else f"; {near}" if near else ""
    return f"no installed plugin declares the provider {provider!r}{end}"


def _with_defaults_of(serve: DialectEndpoint, endpoint: DialectEndpoint) -> DialectEndpoint:
    """The endpoint of a provider, with the dialect's defaults."""
    return evolve(
        serve,
        path=serve.path or endpoint.path,
        stream_path=serve.stream_path or (endpoint.stream_path if not serve.path else None),
        query={**endpoint.query, **serve.query},
        extra_fields={**endpoint.extra_fields, **serve.extra_fields},
        omit_fields=(*endpoint.omit_fields, *serve.omit_fields),
        header_to_body={**endpoint.header_to_body, **serve.header_to_body},
        unsupported=frozenset(endpoint.unsupported | serve.unsupported),
    )


def listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
