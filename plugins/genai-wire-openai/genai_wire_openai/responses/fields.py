"""The fields of a request, and the errors of this API.

A field of the wrong type raises `ValidationError` with its path; a field that is null counts as
missing.
"""

from __future__ import annotations

from genai_host.api import JsonReader, RouteRequest, body_of
from genai_host.errors import NotFound, ValidationError


class UnsupportedParameter(ValidationError):
    """A field or value that would change the answer, but is not supported."""

    code = "unsupported_parameter"


class MissingParameter(ValidationError):
    """A required field is missing."""

    code = "missing_required_parameter"


class PreviousNotFound(NotFound):
    """The previous response does not exist."""

    code = "previous_response_not_found"


class ResponseNotFound(NotFound):
    """The user has no such response."""

    code = "response_not_found"


class ConversationNotFound(NotFound):
    """The user has no such conversation."""

    code = "conversation_not_found"


class ItemNotFound(NotFound):
    """The conversation has no such item, or the item is not stored."""

    code = "item_not_found"


class Fields(JsonReader):
    """A JSON object of a request, with the errors of this API."""

    __slots__ = ()

    def needed(self, name: str) -> str:
        """Return a required string."""
        if name not in self:
            raise MissingParameter(f"{name} is missing", path=self.at(name))
        return self.text(name)

    def must_be(self, name: str, wanted: str) -> ValidationError:
        return ValidationError(f"{name} must be {wanted}", path=self.at(name))


def fields_of(request: RouteRequest) -> Fields:
    """Return the fields of the body of a request. Raises `ValidationError` if it is not an object,
    or nested too deeply."""
    body = body_of(request)
    return Fields(body.value, body.path, dropped=body.dropped)
