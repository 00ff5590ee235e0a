"""The base class of all errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

if TYPE_CHECKING:
    from typing import Self


class ErrorPlace(TypedDict, total=False):
    """Fields for where an error happened; see `GenaiError`."""

    provider: str
    model: str
    raw_reply: str


class ErrorContext(ErrorPlace, total=False):
    """Fields that every error can have; see `GenaiError`."""

    hint: str
    plugin: str
    status: int
    retryable: bool


class GenaiError(Exception):
    """Base of all expected errors, which a user can act on; a bug raises other exceptions.

    All subclasses also accept these arguments.

    Args:
        message: One line that describes the error.
        hint: Next step, one line, for example a command; empty if none.
        plugin: Name of the plugin.
        provider: Name of the provider.
        model: Name of the model.
        status: HTTP status of the reply, if there was one.
        retryable: Whether the same call may succeed if it is repeated; None for the default of the
            class.
        raw_reply: File that the raw reply was added to; empty if none.
    """

    code: ClassVar[str] = "error"
    usually_retryable: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        plugin: str = "",
        provider: str = "",
        model: str = "",
        status: int | None = None,
        retryable: bool | None = None,
        raw_reply: str = "",
    ) -> None:
        super().__init__(message)
        self.hint = hint
        self.plugin = plugin
        self.provider = provider
        self.model = model
        self.status = status
        self.retryable = self.usually_retryable if retryable is None else retryable
        self.raw_reply = raw_reply

    @property
    def message(self) -> str:
        return str(self.args[0])

    def fields(self) -> dict[str, Any]:
        """The fields that are set, without the message."""
        return {
            name: value
            for name, value in vars(self).items()
            if not name.startswith("_") and value is not None and value not in ("", ())
        }

    def located(self, *, plugin: str = "", provider: str = "", model: str = "") -> Self:
        """Set the fields for where it happened, unless they are set already.

        Returns:
            The same error.
        """
        self.plugin = self.plugin or plugin
        self.provider = self.provider or provider
        self.model = self.model or model
        return self

    def __copy__(self) -> Self:
        """A copy without traceback. A reducer that a library has registered for all exceptions, as
        tblib does, would let both share their fields."""
        made = type(self).__new__(type(self), *self.args)
        vars(made).update(vars(self))
        return made

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.message == other.message and self.fields() == other.fields()

    def __hash__(self) -> int:
        return hash((type(self), self.message))
