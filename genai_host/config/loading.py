"""Reads the configuration. Parsers of files and variables are imported only if there is one, since
listing the plugins reads the configuration."""

from __future__ import annotations

import os
from collections.abc import Mapping

from genai_host.config.schema import Config
from genai_host.errors import ConfigurationError
from genai_host.util import paths
from genai_host.util.files import read_text
from genai_host.util.names import SAFE, VARIABLES


def read_config(
    file: str | os.PathLike[str] | None = None, *, environ: Mapping[str, str] | None = None
) -> Config:
    """Read the configuration; return the defaults if no file is named and none exists.

    Args:
        file: Path of the file; None for the default.
        environ: The environment, which overrides the file; None for that of the process.

    Raises:
        ConfigurationError: A named file is missing, the file cannot be read, is not TOML, has an
            unknown key or a value of the wrong type, or a variable is invalid.
    """
    path = os.fspath(file or paths.config_file())
    text = read_text(path)
    if text is None and (file or paths.named_config_file()):
        raise ConfigurationError(
            f"cannot read {path}: no such file",
            file=path,
            hint="check --config or GENAI_HOST_CONFIG",
        )
    config = Config() if text is None else checked(text, path)
    if not file and (other := paths.misplaced_config_file()):
        warning = f"{other} is not read: the configuration is {path}"
        config = config._replace(warnings=(*config.warnings, warning))
    environ = os.environ if environ is None else environ
    if any(name.startswith("GENAI_HOST_") and name not in VARIABLES for name in environ):
        from genai_host.config.environment import overridden

        config = overridden(config, environ)
    return config._replace(safe=True) if _is_safe(environ) else config


def unread_config() -> Config:
    """The defaults, for an invalid configuration; safe mode still applies."""
    try:
        return Config(safe=_is_safe(os.environ))
    except ConfigurationError:
        return Config(safe=True)


def _is_safe(environ: Mapping[str, str]) -> bool:
    if not environ.get(SAFE):
        return False
    from genai_host.config.environment import is_set

    return is_set(SAFE, environ)


def checked(text: str, path: str) -> Config:
    """Parse and validate the text of a file. Raises `ConfigurationError` with the line."""
    from genai_host.config.reader import ConfigReader, parse

    return ConfigReader(path, text).config(parse(text, path))


def place_of(file: str, *key: str) -> tuple[str, int | None]:
    """Place of a key for an error, for example `/the/file:12`, and its line. The place is empty if
    the key is not in a file."""
    from genai_host.config.reader import line_of, parse

    line = None
    try:
        text = read_text(file) if file else None
        if text is not None:
            parse(text, file)
            line = line_of(text, key)
    except ConfigurationError:  # the file is being changed; the error has no line then
        line = None
    return (f"{file}:{line}" if line else file), line


def placed(error: ConfigurationError, file: str, *key: str) -> None:
    """Add the place of the key to an error that has none."""
    if file and not error.file:
        place, error.line = place_of(file, *filter(None, key))
        error.file = file
        error.args = (f"{place}: {error}",)
