"""The configuration file: one TOML file, read whole, checked, and written atomically.

    version = 1

    [defaults]
    feature = "chat"
    model = "smollm2"                # for chat
    embed = "multilingual-e5-small"  # for embeddings
    moderate = "omni-moderation"     # for judging texts
    prefer = ["local"]               # provider instances, best first

    [plugins]
    disabled = ["some-plugin"]
    allowed = ["chat", "local"]      # if present, all others are blocked
    strict = false                   # whether a broken plugin is an error

    [conversations]
    record = true                    # whether the command line keeps conversations

    [providers.my-llama]             # a named instance
    type = "local"
    enabled = true
    models = { my-model = "/models/my-model.gguf" }   # name to id there
    threads = 2                      # and the settings of its type
    calls = { first_token = 120 }    # what bounds its calls, see `genai_host.bounds`

It is imported to list plugins, so it imports nothing heavy itself.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from genai_host import paths
from genai_host.errors import ConfigurationError
from genai_host.names import APP, PLAIN_NAME

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

VERSION = 1
_SECONDS = 10.0  # to wait for another process that changes the file


class InstanceConfig(NamedTuple):
    """A named instance of a provider type, as configured.

    type      name of the provider type
    enabled   whether it may be used
    models    model name to its id there
    settings  the settings of the type, unchecked
    calls     what bounds its calls, unchecked
    """

    type: str
    enabled: bool = True
    models: Mapping[str, str] = {}
    settings: Mapping[str, Any] = {}
    calls: Mapping[str, Any] = {}


class Config(NamedTuple):
    """What the configuration file says; the defaults where it says nothing.

    feature     used where the user names none
    models      for an operation, as `chat`, the model used where the user names none
    prefer      provider instances, best first, where several have a model
    disabled    plugins not to load: a name, or `distribution:name`
    allowed     the only plugins to load; None for all
    strict      whether a broken plugin is an error
    record      whether the command line keeps conversations
    providers   the named instances
    """

    feature: str = "chat"
    models: Mapping[str, str] = {}
    prefer: Sequence[str] = ()
    disabled: Sequence[str] = ()
    allowed: Sequence[str] | None = None
    strict: bool = False
    record: bool = True
    providers: Mapping[str, InstanceConfig] = {}

    def blocks(self, plugin: str, distribution: str) -> str:
        """Why a plugin is not to be loaded; empty if it is. Our own cannot be missed
        on a list of what is allowed."""
        names = {plugin, f"{distribution}:{plugin}"}
        if names & set(self.disabled):
            return "disabled"
        if self.allowed is None or distribution == APP or names & set(self.allowed):
            return ""
        return "not on the list of allowed plugins"


def read_config(file: str | os.PathLike[str] | None = None) -> Config:
    """The configuration; the defaults if none is named and there is no file.

    Raises `ConfigurationError` if a named file is missing, if the file cannot be
    read, is not TOML, has an unknown key or a value of another type.
    """
    path = os.fspath(file or paths.config_file())
    text = _text(path)
    if text is not None:
        return _checked(text, path)
    if file or paths.named_config_file():
        raise ConfigurationError(
            f"there is no {path}", file=path, hint="correct its name, or GENAI_HOST_CONFIG"
        )
    return Config()


@contextlib.contextmanager
def edit_config(file: str | os.PathLike[str] | None = None) -> Iterator[TOMLDocument]:
    """Change the configuration file: comments and layout stay.

        with edit_config() as document:
            document["defaults"]["model"] = "smollm2"

    One process at a time; what was read is checked before and after, and written
    whole or not at all. Where there is no file, one is made. Raises
    `ConfigurationError`, and leaves the file alone, if it is not in order or cannot
    be written.
    """
    path = os.path.realpath(file or paths.config_file())  # a link to it stays one
    with _alone(path):
        document = _document(_text(path) or "", path)
        yield document
        with _changing(path):
            text = document.as_string()
        _checked(text, path)
        with _writing(path):
            _write_whole(path, text)


def _text(path: str) -> str | None:
    """What a file holds; None if there is none."""
    try:
        with open(path, encoding="utf-8") as stream:
            return stream.read()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}", file=path) from error


def _checked(text: str, path: str) -> Config:
    return _Reader(path).config(_parse(text, path))


def _parse(text: str, path: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(
            f"{path} is not TOML: {error}", file=path, hint="correct it; it was not changed"
        ) from error
    except RecursionError as error:
        raise ConfigurationError(f"{path} is nested too deeply", file=path) from error


def _document(text: str, path: str) -> TOMLDocument:
    """What a file says, to be changed. It is checked as it is when it is only read."""
    import tomlkit

    _checked(text, path)
    with _changing(path):
        document = tomlkit.parse(text)
    document.setdefault("version", VERSION)
    return document


@contextlib.contextmanager
def _changing(path: str) -> Iterator[None]:
    """What keeps the layout of a file reads and writes less than what reads it."""
    from tomlkit.exceptions import TOMLKitError

    try:
        yield
    except (TOMLKitError, RecursionError) as error:
        raise ConfigurationError(
            f"{path} cannot be changed: {error}", file=path, hint="edit it yourself"
        ) from error


@contextlib.contextmanager
def _alone(path: str) -> Iterator[None]:
    """While it lasts, no other process changes the file."""
    from filelock import FileLock, Timeout

    lock = FileLock(f"{path}.lock", timeout=_SECONDS)
    with _writing(path):
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        # a lock would be waited for as well where no file can be made
        os.close(os.open(lock.lock_file, os.O_RDWR | os.O_CREAT, 0o600))
        try:
            lock.acquire()
        except Timeout as error:
            raise ConfigurationError(
                f"another process has been changing {path} for {_SECONDS:g} s",
                file=path,
                hint="try again when it is done",
            ) from error
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def _writing(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be written: {error.strerror or error}",
            file=path,
            hint="name another file: --config FILE, or GENAI_HOST_CONFIG",
        ) from error


def _write_whole(path: str, text: str) -> None:
    unfinished = f"{path}.{os.getpid()}.new"
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
        raise


class _Reader:
    """Reads the tables of the file, and names the place of what is wrong."""

    def __init__(self, path: str) -> None:
        self._path = path

    def config(self, data: dict[str, Any]) -> Config:
        self._only(data, "", "version", "defaults", "plugins", "conversations", "providers")
        if data.get("version", VERSION) != VERSION:
            raise self._wrong("version", f"is not {VERSION}; was it written by a newer genai-host?")
        defaults = self._table(data, "defaults")
        self._only(defaults, "defaults", "feature", "model", "embed", "moderate", "prefer")
        plugins = self._table(data, "plugins")
        self._only(plugins, "plugins", "disabled", "allowed", "strict")
        conversations = self._table(data, "conversations")
        self._only(conversations, "conversations", "record")
        providers = self._table(data, "providers")
        chosen = {
            "chat": self._of(str, defaults, "defaults", "model", ""),
            "embed": self._of(str, defaults, "defaults", "embed", ""),
            "moderate": self._of(str, defaults, "defaults", "moderate", ""),
        }
        return Config(
            feature=self._of(str, defaults, "defaults", "feature", "chat"),
            models={operation: name for operation, name in chosen.items() if name},
            prefer=self._strings(defaults, "defaults", "prefer") or (),
            disabled=self._strings(plugins, "plugins", "disabled") or (),
            allowed=self._strings(plugins, "plugins", "allowed"),
            strict=self._of(bool, plugins, "plugins", "strict", False),
            record=self._of(bool, conversations, "conversations", "record", True),
            providers={name: self._instance(providers, name) for name in providers},
        )

    def _instance(self, providers: dict[str, Any], name: str) -> InstanceConfig:
        where = f"providers.{name}"
        if not re.fullmatch(PLAIN_NAME, name):
            raise self._wrong(where, "is no name for a provider", f"it must match {PLAIN_NAME}")
        table = self._table(providers, name, where)
        if "type" not in table:
            raise self._wrong(where, "has no type")
        models = self._table(table, "models", f"{where}.models")
        own = ("type", "enabled", "models", "calls")
        return InstanceConfig(
            type=self._of(str, table, where, "type", ""),
            enabled=self._of(bool, table, where, "enabled", True),
            models={model: self._of(str, models, f"{where}.models", model, "") for model in models},
            settings={key: value for key, value in table.items() if key not in own},
            calls=self._table(table, "calls", f"{where}.calls"),
        )

    def _table(self, data: dict[str, Any], key: str, where: str = "") -> dict[str, Any]:
        value = data.get(key, {})
        if not isinstance(value, dict):
            raise self._wrong(where or key, "is not a table")
        return value

    def _of(self, kind: type, table: dict[str, Any], where: str, key: str, default: Any) -> Any:
        value = table.get(key, default)
        if type(value) is not kind:
            raise self._wrong(f"{where}.{key}", f"is not a {kind.__name__}")
        return value

    def _strings(self, table: dict[str, Any], where: str, key: str) -> tuple[str, ...] | None:
        value = table.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._wrong(f"{where}.{key}", "is not a list of strings")
        return tuple(value)

    def _only(self, table: dict[str, Any], where: str, *known: str) -> None:
        for key in table:
            if key not in known:
                import difflib

                near = difflib.get_close_matches(key, known, 1)
                hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
                raise self._wrong(f"{where}.{key}".lstrip("."), "is not known", hint)

    def _wrong(self, where: str, what: str, hint: str = "") -> ConfigurationError:
        return ConfigurationError(f"{self._path}: {where} {what}", file=self._path, hint=hint)
