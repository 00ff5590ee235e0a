"""The fields of a request that are ignored, always or by some services.

`JsonReader` collects them. A field of one API format reaches only services of that format:
`elsewhere` adds it, and each attempt of the call tells `sent_to` whether the service receives it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from genai_host.api.calls import EXTRA_BODY, VendorTool
from genai_host.api.messages import Image, VendorPart
from genai_host.errors import ValidationError

MAX_DROPPED = 20
"""Maximum number of ignored fields that a reply lists."""


class ModelParameter(NamedTuple):
    """A model parameter, by the host's name."""

    name: str


OfService: TypeAlias = VendorTool | VendorPart | ModelParameter | type[Image]
"""What only some services have; `Image` is an image in a message of the model."""

Receives: TypeAlias = Callable[[str, OfService | None], bool]
"""Whether a service receives what is given, or any other field of the dialect of that name."""


class _Elsewhere(NamedTuple):
    path: str
    dialect: str
    given: OfService | None
    essential: bool


_NOTHING: list[_Elsewhere] = []


class DroppedFields(list[str]):
    """Paths of the fields that every service ignores.

    Args:
        strict: Whether the request is refused instead.

    Attributes:
        changed: Called with the paths of all ignored fields when the service of the next attempt
            ignores others.
    """

    # defaults of the class, since many are made and few are filled
    _strict = False
    _elsewhere = _NOTHING
    _plain = 0
    _in_body: Mapping[str, str] = MappingProxyType({})  # dialects of fields, by name
    _optional: Set[str] = frozenset()
    _left_out: tuple[str, ...] = ()
    changed: Callable[[Sequence[str]], None] = staticmethod(lambda paths: None)

    def __init__(self, *, strict: bool = False) -> None:
        if strict:
            self._strict = True

    def append(self, path: str) -> None:
        if self._strict:
            raise _unsupported(path)
        super().append(path)

    def elsewhere(
        self, path: str, dialect: str, given: OfService | None = None, *, essential: bool = False
    ) -> None:
        """Add a field that a service may ignore.

        Args:
            path: Its path.
            dialect: Name of the dialect of its format.
            given: What was read, if not all services of the format have it.
            essential: Whether the answer would be wrong without it, so that no other service
                receives the request.
        """
        if self._elsewhere is _NOTHING:
            self._elsewhere = []
        self._plain += given is None and not essential
        if self._plain <= MAX_DROPPED + 1 or given is not None or essential:
            self._elsewhere.append(_Elsewhere(path, dialect, given, essential))

    def in_body(self, names: Iterable[str], dialect: str) -> None:
        """Add the names of fields of the body that only services of a dialect receive."""
        self._in_body = {**self._in_body, **dict.fromkeys(names, dialect)}

    def parameters(self, paths: Mapping[str, str]) -> None:
        """Add model parameters that are left out for a model without them. Others are required.

        Args:
            paths: Paths of their fields by the host's names; empty for those that are not reported.
        """
        self._optional = self._optional | paths.keys()
        for name, path in paths.items():
            if path:
                self.elsewhere(path.removeprefix("$."), "", ModelParameter(name))

    @property
    def may_change(self) -> bool:
        return bool(self._elsewhere)

    def all(self) -> list[str]:
        """The fields that are ignored by the service of the last attempt."""
        return [*self, *self._left_out]

    def error_at(self, receives: Receives) -> ValidationError | None:
        """Why a service must not receive the request; None if it may."""
        for each in self._elsewhere:
            if (each.essential or self._strict) and not receives(each.dialect, each.given):
                return _unsupported(each.path)
        return None

    def sent_to(self, receives: Receives) -> None:
        """Note the service of an attempt."""
        left_out = tuple(
            each.path for each in self._elsewhere if not receives(each.dialect, each.given)
        )
        if left_out != self._left_out:
            self._left_out = left_out
            self.changed(self.all())

    def required(self, parameters: Mapping[str, Any]) -> Set[str]:
        """The names of the model parameters that a service must accept."""
        body = parameters.get(EXTRA_BODY)
        others = body.keys() - self._in_body.keys() if isinstance(body, Mapping) else ()
        optional = self._optional if others else {*self._optional, EXTRA_BODY}
        return parameters.keys() - optional

    def parameters_for(self, receives: Receives, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The model parameters and the fields of the body in them, without those that a service
        does not receive."""
        kept = {
            name: value
            for name, value in parameters.items()
            if name not in self._optional or receives("", ModelParameter(name))
        }
        own, body = self._in_body, kept.get(EXTRA_BODY)
        if own and isinstance(body, Mapping):
            del kept[EXTRA_BODY]
            body = {n: v for n, v in body.items() if n not in own or receives(own[n], None)}
            if body:
                kept[EXTRA_BODY] = body
        return kept


def _unsupported(path: str) -> ValidationError:
    path = shortened(path)
    return ValidationError(f"{path} is not supported for this model", path=f"$.{path}")


_MAX_NAME = 100


def shortened(path: str) -> str:
    return path[:_MAX_NAME]
