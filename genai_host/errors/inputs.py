"""Errors in the input: nothing was sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from genai_host.errors.base import GenaiError

if TYPE_CHECKING:
    from typing import Unpack

    from genai_host.errors.base import ErrorContext


class ConfigurationError(GenaiError):
    """A setting, an option or the configuration file is wrong.

    Args:
        file: File with the error; empty if none.
        line: Line in the file, from 1; None if unknown.
        setting: Name of the wrong setting; empty if none.
    """

    code = "configuration"

    def __init__(
        self,
        message: str,
        *,
        file: str = "",
        line: int | None = None,
        setting: str = "",
        **context: Unpack[ErrorContext],
    ) -> None:
        super().__init__(message, **context)
        self.file = file
        self.line = line
        self.setting = setting


class PermissionDenied(GenaiError):
    """The client is not allowed to do this."""

    code = "forbidden"


class ValidationError(GenaiError):
    """Data is invalid.

    Args:
        path: Location in the data, for example `$.content[0].type`.
    """

    code = "invalid_data"

    def __init__(self, message: str, *, path: str = "", **context: Unpack[ErrorContext]) -> None:
        super().__init__(message, **context)
        self.path = path


class PluginError(GenaiError):
    """A plugin is broken, or raised an unexpected exception."""

    code = "plugin"


class NoRoute(ConfigurationError):
    """No provider can run the model as requested.

    A plugin or a key is missing, or the model lacks a capability.

    Args:
        reasons: Why each candidate cannot run, one line each.
        suggestions: Similar names.
    """

    code = "no_route"

    def __init__(
        self,
        message: str,
        *,
        reasons: Sequence[str] = (),
        suggestions: Sequence[str] = (),
        **context: Unpack[ErrorContext],
    ) -> None:
        super().__init__(message, **context)
        self.reasons = tuple(reasons)
        self.suggestions = tuple(suggestions)


class InvalidParameter(GenaiError):
    """A model parameter is unknown, or has an invalid value.

    Args:
        parameter: Name of the parameter.
        valid: Names of the parameters that the route accepts.
    """

    code = "invalid_parameter"

    def __init__(
        self,
        message: str,
        *,
        parameter: str = "",
        valid: Sequence[str] = (),
        **context: Unpack[ErrorContext],
    ) -> None:
        super().__init__(message, **context)
        self.parameter = parameter
        self.valid = tuple(valid)


class UnsupportedPart(GenaiError):
    """A dialect cannot write a part of a message; nothing was sent.

    Args:
        part: Type of the part, for example `image`.
        dialect: Name of the dialect.
    """

    code = "unsupported_part"

    def __init__(
        self, message: str, *, part: str = "", dialect: str = "", **context: Unpack[ErrorContext]
    ) -> None:
        super().__init__(message, **context)
        self.part = part
        self.dialect = dialect
