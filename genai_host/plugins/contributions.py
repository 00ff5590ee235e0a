"""Kinds of contributions of plugins, one row for each.

The hooks, the unique names, the lists and the registry are derived from `KINDS`. A new kind is a
hook and a row; annotations in `Contributions` and `Registry` give it a type.

Contributions that are attrs classes validate their own fields; this module validates the rest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import SimpleNamespace
from typing import Any

from attrs import frozen

from genai_host.api import (
    Codec,
    Command,
    Dialect,
    DialectEndpoint,
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
from genai_host.api.validators import ANY_BY_NAME, OPERATION, SCHEMAS, STRING_SET, TEXT, Must
from genai_host.errors import PluginError
from genai_host.util.names import HTTP_PATHS, PLAIN_NAME
from genai_host.util.text import short_repr

_MAX = 10_000
_MAX_LENGTH = 200
_PLAIN_NAME = re.compile(PLAIN_NAME)

Claim = tuple[str, str]
"""A kind and a name, which only one plugin may declare."""


def offering_key(model: str, provider: str) -> str:
    """The name of an offering; names of models contain no space."""
    return f"{model} at {provider}"


class Contributions(SimpleNamespace):
    """Contributions of one plugin: for each of `KINDS`, a tuple in the plugin's order.

    The annotations are for type checkers.
    """

    providers: tuple[ProviderType[Any], ...]
    dialects: tuple[Dialect[Any, Any], ...]
    models: tuple[Model, ...]
    offerings: tuple[Offering, ...]
    features: tuple[Feature[Any], ...]
    tools: tuple[Tool, ...]
    tool_sources: tuple[ToolSource | ToolSet[Any], ...]
    reactions: tuple[ReactionType, ...]
    parts: tuple[type[Part], ...]
    executors: tuple[ExecutorType[Any], ...]
    http_routes: tuple[HttpRoute, ...]
    http_apis: tuple[HttpApi, ...]
    commands: tuple[Command, ...]

    def names(self) -> dict[str, list[str]]:
        """Names by kind, for lists; empty kinds are omitted."""
        names = {name: list(map(kind.key, getattr(self, name))) for name, kind in KINDS.items()}
        return {name: found for name, found in names.items() if found}

    def claims(self) -> Iterator[Claim]:
        """All names that must be unique. Raises `PluginError` for a malformed name."""
        for name, kind in KINDS.items():
            for each in getattr(self, name):
                yield from kind.claims(kind.title, each)


def ask(hooks: Iterable[Any]) -> Contributions:
    """Collect the contributions of the only registered plugin. Raises `PluginError` or `TypeError`
    if a hook returns invalid ones; any other exception comes from the plugin."""
    by_name = {hook.name: hook for hook in hooks}
    asked = {
        name: kind.asked(hook) if (hook := by_name.get(f"genai_{name}")) else ()
        for name, kind in KINDS.items()
    }
    return Contributions(**asked)


def _plain(title: str, each: Any) -> Iterator[Claim]:
    _must_be_plain(title, each.name)
    yield title, each.name


def _checked(title: str, each: Any) -> Iterator[Claim]:
    yield title, each.name  # validated by the class itself


def _of_part(title: str, part: type[Part]) -> Iterator[Claim]:
    _check_printable_name(title, part.type)
    yield title, part.type


def _of_route(title: str, route: HttpRoute) -> Iterator[Claim]:
    if route.path.startswith(("/{", "/v1/{")):
        raise PluginError(
            f"{short_repr(route.path)} matches any path: it must begin with a literal segment"
        )
    if route.path in ("/", "/v1"):
        raise PluginError(f"{route.path} is reserved by the host")
    for path in HTTP_PATHS:
        if f"{route.path}/".startswith(f"{path}/"):
            raise PluginError(
                f"{short_repr(route.path)} is reserved by the host, as is all of {path}"
            )
    yield title, route.key


def _of_model(title: str, model: Model) -> Iterator[Claim]:
    for name in (model.name, *model.aliases):
        _check_printable_name(title, name)
        yield title, name
    for provider in model.at:
        _must_be_plain("provider", provider)
        yield "offering", offering_key(model.name, provider)


def _of_offering(title: str, offering: Offering) -> Iterator[Claim]:
    _check_printable_name("model", offering.model)
    _must_be_plain("provider", offering.provider)
    yield title, offering_key(offering.model, offering.provider)


@frozen
class _Kind:
    """A kind of contribution.

    Attributes:
        title: Its name in errors.
        types: Accepted types.
        claims: Returns the names that a contribution claims.
        look: Validates all contributions of a plugin; raises for invalid ones.
        key: Returns its name in the registry and in lists.
    """

    title: str
    types: tuple[type, ...]
    claims: Callable[[str, Any], Iterator[Claim]] = _plain
    look: Callable[[str, Sequence[Any]], None] = lambda hook, found: None
    key: Callable[[Any], str] = lambda each: str(each.name)

    def asked(self, hook: Any) -> tuple[Any, ...]:
        found: list[Any] = []
        for declared in hook():
            if not isinstance(declared, Iterable):
                raise PluginError(
                    f"{hook.name} returned {short_repr(declared)}, which is not a list"
                )
            found.extend(islice(declared, _MAX + 1))  # it may be infinite
        if len(found) > _MAX:
            raise PluginError(f"{hook.name} returned more than {_MAX} items")
        for item in found:
            if not isinstance(item, self.types):
                names = " and no ".join(kind.__name__ for kind in self.types)
                raise PluginError(
                    f"{hook.name} returned {short_repr(item)}, which is not of type {names}"
                )
        self.look(hook.name, found)
        return tuple(found)


def _look_at(**fields: Must) -> Callable[[str, Sequence[Any]], None]:
    def look(hook: str, found: Sequence[Any]) -> None:
        for each in found:
            for name, must in fields.items():
                must.check(each, name)

    return look


def _look_at_parts(hook: str, found: Sequence[Any]) -> None:
    for item in found:
        if not issubclass(item, Part) or not isinstance(getattr(item, "type", None), str):
            raise PluginError(
                f"{hook} returned {short_repr(item)}, which is not a subclass of Part"
            )
    if found:
        Codec((*PARTS, *found))  # raises for fields without a JSON form


_look_at_dialects = _look_at(
    name=TEXT,
    operation=OPERATION,
    endpoint=Must("a DialectEndpoint", lambda value: isinstance(value, DialectEndpoint)),
    capabilities=STRING_SET,
    parameters=SCHEMAS,
    variant=ANY_BY_NAME,
)

KINDS: Mapping[str, _Kind] = {
    "providers": _Kind("provider", (ProviderType,)),
    "dialects": _Kind("dialect", (Dialect,), look=_look_at_dialects),
    "models": _Kind("model", (Model,), _of_model),
    "offerings": _Kind(
        "offering",
        (Offering,),
        _of_offering,
        key=lambda each: offering_key(each.model, each.provider),
    ),
    "features": _Kind("feature", (Feature,)),
    "tools": _Kind("tool", (Tool,), _checked),
    "tool_sources": _Kind("source of tools", (ToolSource, ToolSet), look=_look_at(name=TEXT)),
    "reactions": _Kind("reaction", (ReactionType,), _checked),
    "parts": _Kind("message part", (type,), _of_part, _look_at_parts, lambda each: str(each.type)),
    "executors": _Kind("executor", (ExecutorType,)),
    "http_routes": _Kind(
        "HTTP route", (HttpRoute,), _of_route, key=lambda each: f"{each.method} {each.path}"
    ),
    "http_apis": _Kind("HTTP API", (HttpApi,)),
    "commands": _Kind("command", (Command,)),
}
"""Kinds by the suffix of the hook's name, which is also the field's name."""


def _must_be_plain(title: str, name: str) -> None:
    if len(name) > _MAX_LENGTH or not _PLAIN_NAME.fullmatch(name):
        raise PluginError(
            f"{short_repr(name)} is not a valid name for a {title}: it must match {PLAIN_NAME}"
        )


def _check_printable_name(title: str, name: str) -> None:
    if not 0 < len(name) <= _MAX_LENGTH or not name.isprintable() or " " in name:
        raise PluginError(
            f"{short_repr(name)} is not a valid name for a {title}: it must be printable, "
            f"without a space, and have at most {_MAX_LENGTH} characters"
        )
