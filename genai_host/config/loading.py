"""Reads the configuration. What a file or a variable takes to be read is imported where
there is one: plugins are listed by it."""

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
    """The configuration; the defaults if no file is named and there is none.

    environ   the environment, which comes before the file; None for that of the process

    Raises `ConfigurationError` if a named file is missing, if the file cannot be
    read, is not TOML, has an unknown key or a value of another type, and for a variable
    that is wrong.
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
    environ = os.environ if environ is None else environ
    if any(name.startswith("GENAI_HOST_") and name not in VARIABLES for name in environ):
        from genai_host.config.environment import overridden

        config = overridden(config, environ)
    return config._replace(safe=True) if _is_safe(environ) else config


def unread_config() -> Config:
    """The defaults, where the configuration is not in order: safe mode holds then, too."""
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
    """What the text of a file says. Raises `ConfigurationError` with the line."""
    from genai_host.config.reader import Reader, parse

    return Reader(path, text).config(parse(text, path))


def place_of(file: str, *key: str) -> tuple[str, int | None]:
    """Where a key stands, for an error: `/the/file:12`, and the line. The file is empty
    if the configuration is in none."""
    from genai_host.config.reader import line_of, parse

    line = None
    try:
        text = read_text(file) if file else None
        if text is not None:
            parse(text, file)
            line = line_of(text, key)
    except ConfigurationError:  # it is being changed: an error needs no line
        line = None
    return (f"{file}:{line}" if line else file), line


def placed(error: ConfigurationError, file: str, *key: str) -> None:
    """Give an error the place of what it is about, if that is in a file and the error does
    not know it."""
    if file and not error.file:
        place, error.line = place_of(file, *filter(None, key))
        error.file = file
        error.args = (f"{place}: {error}",)
