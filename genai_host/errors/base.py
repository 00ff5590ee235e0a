"""What all errors have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

if TYPE_CHECKING:
    from typing import Self


class ErrorPlace(TypedDict, total=False):
    """The fields that say where it happened; see `GenaiError`."""

    provider: str
    model: str
    raw_reply: str


class ErrorContext(ErrorPlace, total=False):
    """The fields that every error may carry; see `GenaiError`."""

    hint: str
    plugin: str
    status: int
    retryable: bool


class GenaiError(Exception):
    """Base of all expected errors: the user can act on it; a bug is never one.

    Args:
        message: One line, for people.
        hint: The next step to take, a sentence or a command; empty if none.
        plugin: Name of the plugin concerned.
        provider: Name of the provider instance concerned.
        model: Name of the model concerned.
        status: HTTP status of the reply, if there was one.
        retryable: Whether the same call may succeed when repeated.
        raw_reply: The file that the service's reply was added to as it came; empty if none was.
    """

    code: ClassVar[str] = "error"

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        plugin: str = "",
        provider: str = "",
        model: str = "",
        status: int | None = None,
        retryable: bool = False,
        raw_reply: str = "",
    ) -> None:
        super().__init__(message)
        self.hint = hint
        self.plugin = plugin
        self.provider = provider
        self.model = model
        self.status = status
        self.retryable = retryable
        self.raw_reply = raw_reply

    @property
    def message(self) -> str:
        return str(self.args[0])

    def fields(self) -> dict[str, Any]:
        """The fields that are known, the message left out."""
        return {
            name: value
            for name, value in vars(self).items()
            if not name.startswith("_") and value is not None and value not in ("", ())
        }

    def located(self, *, plugin: str = "", provider: str = "", model: str = "") -> Self:
        """Fill in where it happened, as far as that is not known yet."""
        self.plugin = self.plugin or plugin
        self.provider = self.provider or provider
        self.model = self.model or model
        return self

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.message == other.message and self.fields() == other.fields()

    def __hash__(self) -> int:
        return hash((type(self), self.message))
