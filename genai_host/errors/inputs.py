"""What was given is wrong, or does not fit together: nothing was sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from genai_host.errors.base import GenaiError

if TYPE_CHECKING:
    from typing import Unpack

    from genai_host.errors.base import ErrorContext


class ConfigurationError(GenaiError):
    """A setting, an option or the configuration file is wrong.

    file, line   where it stands, if it stands in a file (lines from 1)
    setting      the name of the setting that is wrong, if it is one that was given
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
    """Whoever asks may not do this."""

    code = "forbidden"


class ValidationError(GenaiError):
    """Data does not fit the form it should have.

    path   where in the data, as `$.content[0].type`
    """

    code = "invalid_data"

    def __init__(self, message: str, *, path: str = "", **context: Unpack[ErrorContext]) -> None:
        super().__init__(message, **context)
        self.path = path


class PluginError(GenaiError):
    """A plugin is broken, or raised where it must not."""

    code = "plugin"


class NoRoute(ConfigurationError):
    """Nothing can run that model as asked: its plugin or its key is missing, or it cannot do
    what is asked.

    reasons       one line for each way that was considered
    suggestions   names that may have been meant
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
    """An unknown model parameter, or a value that it does not take.

    parameter   its name
    valid       the names that are accepted on this route
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

    part      type of the part, as `image`
    dialect   name of the dialect
    """

    code = "unsupported_part"

    def __init__(
        self, message: str, *, part: str = "", dialect: str = "", **context: Unpack[ErrorContext]
    ) -> None:
        super().__init__(message, **context)
        self.part = part
        self.dialect = dialect
