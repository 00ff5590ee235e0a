"""Changes the configuration file. Comments and layout are preserved, and the previous file is saved
next to it as `config.toml.bak`."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from genai_host.config.environment import is_set, variable_of
from genai_host.config.loading import checked, place_of
from genai_host.config.reader import VERSION, migrate, parse
from genai_host.errors import ConfigurationError
from genai_host.util import paths
from genai_host.util.files import alone, read_text, write_text, writing

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

_ELSEWHERE = "name another file: --config FILE, or GENAI_HOST_CONFIG"


@contextlib.contextmanager
def edit_config(file: str | os.PathLike[str] | None = None) -> Iterator[TOMLDocument]:
    """Edit the configuration file.

        with edit_config() as document:
            document["defaults"]["model"] = "smollm2"

    One process at a time can edit it. The file is validated before and after the change, and
    written atomically. It is created if it does not exist.

    Raises:
        ConfigurationError: The file is invalid, read-only or cannot be written; it is not changed.
    """
    import tomlkit.items  # noqa: F401 - before other processes wait for the lock

    path = os.path.realpath(file or paths.config_file())  # preserve a symbolic link
    must_be_writable(path)
    with alone(path, _ELSEWHERE):
        before = read_text(path)
        written = before or ""
        # tomlkit ends new lines with LF
        is_crlf = 0 < written.count("\n") == written.count("\r\n")
        document = _document(written.replace("\r\n", "\n") if is_crlf else written, path)
        yield document
        text = _text_of(document, path)
        text = text.replace("\n", "\r\n") if is_crlf else text
        if text == before:
            return
        with writing(path, _ELSEWHERE):
            if before is not None:
                write_text(f"{path}.bak", before)
            write_text(path, text)


def must_be_writable(
    file: str | os.PathLike[str] | None = None, *, environ: Mapping[str, str] | None = None
) -> None:
    """Raise `ConfigurationError` if the configuration is read-only: by its own setting, by the
    environment, or by the permissions of the file."""
    path = os.path.realpath(file or paths.config_file())
    variable = variable_of("read_only")
    if is_set(variable, os.environ if environ is None else environ):
        raise ConfigurationError(f"the configuration is read-only: {variable} is set", file=path)
    if not os.path.isfile(path):
        return
    if checked(read_text(path) or "", path).read_only:
        place, line = place_of(path, "read_only")
        raise ConfigurationError(
            f"the configuration is read-only: {place} sets read_only", file=path, line=line
        )
    # root can write every file, but respects read-only permissions here as well
    if not os.access(path, os.W_OK) or not os.stat(path).st_mode & stat.S_IWUSR:
        raise ConfigurationError(
            f"the configuration is read-only: {path} is not writable", file=path
        )


def _document(text: str, path: str) -> TOMLDocument:
    """Validate and parse a file for editing, with the keys of this version."""
    import tomlkit

    checked(text, path)
    text = migrate(text, path)
    with _changing(path):
        document = tomlkit.parse(text)
    document.setdefault("version", VERSION)
    return document


def _text_of(document: TOMLDocument, path: str) -> str:
    """The text of a document, verified to parse to the same values."""
    with _changing(path):
        text = document.as_string()
        text.encode()  # a file cannot contain a lone surrogate
        meant = document.unwrap()
    checked(text, path)
    if not _same(parse(text, path), meant):
        raise ConfigurationError(
            f"cannot change {path} in this way", file=path, hint="edit the file yourself"
        )
    return text


def _same(value: Any, other: Any) -> bool:
    if isinstance(value, dict) and isinstance(other, dict):
        # removing the last key of a table may remove the table
        value, other = (
            {key: each[key] for key in each if each[key] != {}} for each in (value, other)
        )
        return value.keys() == other.keys() and all(_same(value[key], other[key]) for key in value)
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(map(_same, value, other))
    return bool(value == other or (value != value and other != other))  # nan != nan


@contextlib.contextmanager
def _changing(path: str) -> Iterator[None]:
    """Handle errors of tomlkit, which accepts less than the host's reader."""
    from tomlkit.exceptions import TOMLKitError

    try:
        yield
    except (TOMLKitError, RecursionError, UnicodeEncodeError) as error:
        raise ConfigurationError(
            f"cannot change {path}: {error}", file=path, hint="edit the file yourself"
        ) from error
