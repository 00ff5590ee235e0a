"""Checks of model parameters, and the fields that `extra_body` adds to a request."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from genai_host.api import SchemaValidator
from genai_host.api.models import EXTRA_BODY
from genai_host.catalog.join import Candidate
from genai_host.errors import InvalidParameter, ValidationError
from genai_host.util.text import did_you_mean, shorten


class ParameterChecker:
    """Checks the parameters of calls of one candidate. Schemas are read on first use.

    Args:
        candidate: The candidate; its `parameters` are the accepted ones.
        reserved, extensible: See `Dialect`.
    """

    def __init__(
        self, candidate: Candidate, reserved: Collection[str], extensible: Collection[str] = ()
    ) -> None:
        self._candidate = candidate
        self._reserved = reserved
        self._extensible = extensible
        self._validators: dict[str, SchemaValidator] = {}

    def check(self, given: Mapping[str, Any]) -> None:
        """Check parameters.

        Raises:
            InvalidParameter: A parameter is unknown or has an invalid value.
        """
        for name, value in given.items():
            self._check(name, value)

    def _check(self, name: str, value: Any) -> None:
        valid = self._candidate.parameters
        if name not in valid:
            raise self._error(
                name,
                f"{self._candidate.name} does not accept parameter {name!r}",
                _hint_for(name, valid),
                valid,
            )
        if name not in self._validators:
            self._validators[name] = SchemaValidator(valid[name])
        try:
            self._validators[name].check(value)
        except ValidationError as error:
            about = valid[name].get("description", "") if isinstance(valid[name], Mapping) else ""
            raise self._error(
                name,
                f"invalid value for parameter {name!r}: {error}",
                f"{name}: {about}" if about else "",
                valid,
            ) from error
        if name == EXTRA_BODY:
            wrong = [
                field
                for field, given in value.items()
                if field in self._reserved
                or (field in self._extensible and not isinstance(given, Mapping))
            ]
            if wrong:
                raise self._error(
                    name,
                    f"{EXTRA_BODY} cannot set {', '.join(sorted(wrong))}: the host sets it",
                    f"leave it out of {EXTRA_BODY}",
                )

    def _error(
        self, name: str, message: str, hint: str, valid: Collection[str] = ()
    ) -> InvalidParameter:
        info = self._candidate.info
        return InvalidParameter(
            message,
            parameter=name,
            valid=sorted(valid),
            hint=hint,
            model=info.model,
            provider=info.provider,
        )


def with_extra_body(
    body: Mapping[str, Any],
    extra: Mapping[str, Any],
    extensible: Collection[str] = (),
    place: str = EXTRA_BODY,
) -> dict[str, Any]:
    """Merge further fields into a body.

    Args:
        body: The body.
        extra: The fields.
        extensible: See `Dialect`.
        place: Path of the body, for errors.

    Raises:
        InvalidParameter: The host sets one of the fields.
    """
    joined = dict(body)
    for name, value in extra.items():
        if name in extensible and not isinstance(body.get(name), Mapping):
            continue
        if name not in body:
            joined[name] = value
        elif isinstance(value, Mapping) and isinstance(body[name], Mapping):
            joined[name] = with_extra_body(body[name], value, (), f"{place}.{name}")
        else:
            raise InvalidParameter(
                f"{place}.{name} cannot be set: the host sets {name} in this request",
                parameter=EXTRA_BODY,
                hint=f"leave it out of {EXTRA_BODY}",
            )
    return joined


def _hint_for(name: str, valid: Mapping[str, Any]) -> str:
    """Suggest a similar parameter."""
    hint = did_you_mean(name, valid) or f"accepted: {', '.join(sorted(valid)) or 'none'}."
    if EXTRA_BODY not in valid:
        return hint.rstrip(".")
    return f"{hint} To send it unchanged to the service: {EXTRA_BODY}.{shorten(name)}"
