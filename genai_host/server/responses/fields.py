"""Objects that clients sent, read field by field: each has the kind that it must have, or
`InvalidData` says where it has not. A field that is null is taken as one that is not there."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from attrs import frozen

from genai_host.errors import InvalidData, NotFound

K = TypeVar("K")


class UnknownParameter(InvalidData):
    """A field that the API does not have."""

    code = "unknown_parameter"


class UnsupportedParameter(InvalidData):
    """A field, or a value of it, that would change the answer in a way that is not had here."""

    code = "unsupported_parameter"


class MissingParameter(InvalidData):
    """A field that must be there."""

    code = "missing_required_parameter"


class PreviousNotFound(NotFound):
    """The response that another was to go on from."""

    code = "previous_response_not_found"


class ResponseNotFound(NotFound):
    """Nobody has it, or somebody else."""

    code = "response_not_found"


class ConversationNotFound(NotFound):
    """Nobody has it, or somebody else."""

    code = "conversation_not_found"


class ItemNotFound(NotFound):
    """There is none in that conversation, or none that is kept."""

    code = "item_not_found"


@frozen
class Fields:
    """An object.

    path   where it is in the request, as `$.input[0]`
    """

    value: Mapping[str, Any]
    path: str

    def at(self, name: str) -> str:
        return f"{self.path}.{name}"

    def text(self, name: str) -> str | None:
        return self._of(name, str, "a string")

    def boolean(self, name: str) -> bool | None:
        return self._of(name, bool, "true or false")

    def list(self, name: str) -> list[Any] | None:
        return self._of(name, list, "a list")

    def object(self, name: str) -> Fields | None:
        value = self._of(name, dict, "an object")
        return None if value is None else Fields(value, self.at(name))

    def integer(self, name: str, least: int) -> int | None:
        value = self.value.get(name)
        if value is None:
            return None
        if type(value) is not int or value < least:
            raise self.wrong(name, f"a whole number of at least {least}")
        return value

    def number(self, name: str, least: float, most: float) -> float | None:
        value = self.value.get(name)
        if value is None:
            return None
        if type(value) not in (int, float) or not least <= value <= most:
            raise self.wrong(name, f"a number from {least:g} to {most:g}")
        return float(value)

    def choice(self, name: str, words: Collection[str]) -> str | None:
        value = self.text(name)
        if value is not None and value not in words:
            raise self.wrong(name, " or ".join(words))
        return value

    def needed(self, name: str) -> str:
        """A string that must be there."""
        value = self.text(name)
        if value is None:
            raise MissingParameter(f"{name} is missing", path=self.at(name))
        return value

    def wrong(self, name: str, wanted: str) -> InvalidData:
        return InvalidData(f"{name} must be {wanted}", path=self.at(name))

    def _of(self, name: str, kind: type[K], wanted: str) -> K | None:
        value = self.value.get(name)
        if value is None or isinstance(value, kind):
            return value
        raise self.wrong(name, wanted)


def fields_of(value: Any, path: str = "$") -> Fields:
    """Raises `InvalidData` for what is no object."""
    if not isinstance(value, dict):
        raise InvalidData(f"{path} must be an object", path=path)
    return Fields(value, path)
