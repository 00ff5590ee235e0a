"""Prompt templates: each is a TOML file of the user.

    prompt = "Sum up in $language:\\n\\n$input"  # $input is the user's message
    system = "You are brief. $$ is a dollar sign."
    model = "smollm2"
    provider = "local"
    feature = "chat"
    fragments = ["style.md"]                   # as for `--fragment`
    attachments = ["https://example.org/a.png"]
    schema = '{"type": "object"}'              # JSON, or a table

    [variables]                                # default values
    language = "English"

    [roles]
    support = "smollm2"

    [parameters]
    temperature = 0.2

    [settings]
    history_turns = 3

All keys are optional. Names are plain, and links out of the directory of templates are not
followed, so that no name accesses other files.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from genai_host.config.reader import TableReader, parse
from genai_host.errors import ConfigurationError, ValidationError
from genai_host.prompts.attachments import PIPED
from genai_host.util import paths
from genai_host.util.names import PLAIN_NAME
from genai_host.util.text import decode_unicode, did_you_mean

MAX_BYTES = 1024 * 1024
_MAX_NAME = 100
_INPUT = "input"
_SUFFIX = ".toml"


class Template(NamedTuple):
    """A template; missing fields are empty.

    Attributes:
        variables: Values of the variables in prompt and system, by name.
        schema: JSON Schema of the answer.
    """

    prompt: str = ""
    system: str = ""
    model: str = ""
    provider: str = ""
    feature: str = ""
    fragments: Sequence[str] = ()
    attachments: Sequence[str] = ()
    schema: Mapping[str, Any] | None = None
    variables: Mapping[str, str] = {}
    roles: Mapping[str, str] = {}
    parameters: Mapping[str, Any] = {}
    settings: Mapping[str, Any] = {}
    file: str = ""

    @property
    def takes_input(self) -> bool:
        """Whether the prompt has a place for the user's message."""
        return _INPUT in _names(self.prompt)

    @property
    def needs(self) -> list[str]:
        """The variables of prompt and system, in order."""
        names = dict.fromkeys([*_names(self.system), *_names(self.prompt)])
        return [name for name in names if name != _INPUT]

    def with_variables(self, given: Mapping[str, str]) -> Template:
        """Return a copy with values for its variables. Raises `ConfigurationError` if a variable is
        unknown, or has no value."""
        for name in given:
            if name not in self.needs:
                raise self._wrong(f"unknown variable {name!r}", did_you_mean(name, self.needs))
        values = {**self.variables, **given}
        missing = [name for name in self.needs if name not in values]
        if missing:
            hint = " ".join(f"--var {name}=..." for name in missing)
            raise self._wrong(f"needs a value for {', '.join(missing)}", hint)
        return self._replace(variables=values)

    def system_text(self) -> str:
        return string.Template(self.system).substitute(self.variables)

    def prompt_text(self, message: str) -> str:
        """Return the prompt with the user's message in its place, or appended. Raises
        `ConfigurationError` if the prompt requires a message, and it is empty."""
        if not self.takes_input:
            asked = string.Template(self.prompt).substitute(self.variables)
            return "\n\n".join(filter(None, [asked, message]))
        if not message:
            raise self._wrong("needs a message: its prompt has $input")
        return string.Template(self.prompt).substitute({**self.variables, _INPUT: message})

    def _wrong(self, what: str, hint: str = "") -> ConfigurationError:
        return _wrong(self.file, what, hint)


NO_TEMPLATE = Template()


def template_names() -> list[str]:
    """Return the names of all templates, including invalid ones."""
    try:
        with os.scandir(paths.templates_dir()) as entries:
            files = [entry.name for entry in entries]
    except OSError:
        return []
    stems = [file[: -len(_SUFFIX)] for file in files if file.endswith(_SUFFIX)]
    return sorted(stem for stem in stems if re.fullmatch(PLAIN_NAME, stem))


def template_file(name: str) -> str:
    """Return the path of a template, which may not exist. Raises `ConfigurationError` for invalid
    names."""
    if len(name) > _MAX_NAME or not re.fullmatch(PLAIN_NAME, name):
        shown = ascii(name if len(name) <= _MAX_NAME else f"{name[:_MAX_NAME]}...")
        raise ConfigurationError(
            f"invalid template name {shown}",
            hint="use lower-case letters, digits and single hyphens, for example my-template-2",
        )
    return os.path.join(paths.templates_dir(), f"{name}{_SUFFIX}")


def read_template(name: str) -> Template:
    """Read a template. Raises `ConfigurationError` if it does not exist or is invalid."""
    file = template_file(name)
    return _read(file, _text(file, name))


def template_source(name: str) -> str:
    """Return the text of a template, even if invalid. Raises `ConfigurationError` if it does not
    exist."""
    return _text(template_file(name), name)


def save_template(name: str, template: Template) -> str:
    """Save a new template, and return its path. Raises `ConfigurationError` if the template exists,
    is invalid, or cannot be written."""
    file = template_file(name)
    data = _written(template, file)
    if _read(file, data.decode()) != template._replace(file=file):
        raise _wrong(
            file, "cannot store this template without changes"
        )  # the saved template must read back unchanged
    try:
        os.makedirs(os.path.dirname(file), mode=0o700, exist_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise ConfigurationError(
            f"template {name!r} already exists",
            file=file,
            hint=f"choose another name, or remove it: genai-host templates remove {name}",
        ) from error
    except OSError as error:
        raise _wrong(file, f"cannot write it: {error.strerror or error}") from error
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(file)
        raise _wrong(file, f"cannot write it: {error.strerror or error}") from error
    return file


def remove_template(name: str) -> None:
    """Remove a template, valid or not. Of a link, only the link is removed. Raises
    `ConfigurationError` if the template does not exist, or cannot be removed."""
    file = template_file(name)
    try:
        os.unlink(file)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _none(name, ()) from error
    except OSError as error:
        raise _wrong(file, f"cannot remove it: {error.strerror or error}") from error


def _text(file: str, name: str) -> str:
    try:
        # do not wait for a pipe, and do not follow links out of the directory
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
        if os.path.islink(file):
            raise OSError(errno.ELOOP, "it is a link")
        with os.fdopen(os.open(file, flags), "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise OSError(errno.EINVAL, "it is not a file")
            data = stream.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise OSError(errno.EFBIG, f"it is larger than {MAX_BYTES >> 20} MiB")
        return decode_unicode(data)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _none(name, template_names()) from error
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise _wrong(file, f"cannot read it: {why}") from error


def _none(name: str, suggested: Iterable[str]) -> ConfigurationError:
    hint = did_you_mean(name, suggested) or "list templates: genai-host templates list"
    return ConfigurationError(f"unknown template {name!r}", hint=hint)


def _read(file: str, text: str) -> Template:
    return _Reader(file, text).template(parse(text, file))


class _Reader(TableReader):
    def template(self, data: Mapping[str, Any]) -> Template:
        self.only([name for name in Template._fields if name != "file"], data)
        texts = ("prompt", "system", "model", "provider", "feature")
        template = Template(
            **{key: self.of(str, data.get(key, ""), key) for key in texts},
            fragments=self._strings(data, "fragments"),
            attachments=self._strings(data, "attachments"),
            schema=self._schema(data),
            variables=self._texts(data, "variables"),
            roles=self._texts(data, "roles"),
            parameters=self._json(self.table(data, "parameters"), "parameters"),
            settings=self._json(self.table(data, "settings"), "settings"),
            file=self.path,
        )
        self._check_variables(template)
        return template

    def _check_variables(self, template: Template) -> None:
        for key in ("prompt", "system"):
            text = getattr(template, key)
            # substituting finds each invalid $
            try:
                string.Template(text).substitute(dict.fromkeys(_names(text), ""))
            except ValueError as error:
                what = f"{key}: a $ is not followed by a variable name"
                raise self.error((key,), what, "write $$ for a dollar sign") from error
        if _INPUT in _names(template.system):
            raise self.error(("system",), "system: $input is allowed only in the prompt")
        for name in template.variables:
            if name not in template.needs:
                hint = did_you_mean(name, template.needs)
                raise self.wrong(("variables", name), "is not used in prompt or system", hint)

    def _schema(self, data: Mapping[str, Any]) -> Mapping[str, Any] | None:
        from genai_host.api.json_text import read_json

        if "schema" not in data:
            return None
        schema = data["schema"]
        if isinstance(schema, str):
            try:
                schema = read_json(schema)
            except ValueError as error:
                raise self.wrong(("schema",), f"is not JSON: {error}") from error
        if not isinstance(schema, dict):
            raise self.wrong(("schema",), "must be an object")
        return self._json(schema, "schema")

    def _texts(self, data: Mapping[str, Any], key: str) -> dict[str, str]:
        table = self.table(data, key)
        return {name: self.of(str, value, key, name) for name, value in table.items()}

    def _strings(self, data: Mapping[str, Any], key: str) -> Sequence[str]:
        values: Sequence[str] = self.of(list, data.get(key, []), key)
        if PIPED in values:
            raise self.wrong((key,), "cannot read from standard input", "name a file")
        return values

    def _json(self, table: dict[str, Any], place: str) -> dict[str, Any]:
        """Check that a table is JSON: TOML also has dates and infinities."""
        from genai_host.api.json_text import check_numbers

        try:
            check_numbers(table)
        except ValidationError as error:
            raise self.error((place,), f"{place}: {error}") from error
        for name, value in _leaves(table, place):
            if not (value is None or isinstance(value, (str, bool, int, float))):
                what = f"{name} is a {type(value).__name__}, which JSON does not have"
                raise self.error((place,), what)
        return table


def _leaves(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, f"{place}.{name}")
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from _leaves(inner, f"{place}[{at}]")
    else:
        yield place, value


def _written(template: Template, file: str) -> bytes:
    """The text of the template's file."""
    import json

    import tomlkit

    data: dict[str, Any] = {}
    tables: dict[str, Any] = {}
    for key, value in template._asdict().items():
        if key == "file" or value is None or (not value and key != "schema"):
            continue
        if key == "schema":
            value = json.dumps(value, indent=2, ensure_ascii=False)
        if isinstance(value, str):
            # multiline where no escapes are needed; tomlkit before 0.15 drops a line break at the
            # start
            is_plain = "\n" in value and "\r" not in value and '"""' not in value
            is_plain = is_plain and not value.startswith("\n")
            data[key] = tomlkit.string(value, multiline=is_plain)
        elif isinstance(value, Mapping):
            for name, leaf in _leaves(value, key):
                if leaf is None:
                    raise _wrong(file, f"{name} is null, which TOML does not support")
            tables[key] = dict(value)
        else:
            data[key] = list(value)
    try:
        return tomlkit.dumps({**data, **tables}).encode()
    except UnicodeEncodeError as error:
        raise _wrong(file, "contains a lone surrogate, which UTF-8 cannot encode") from error


def _names(text: str) -> list[str]:
    return string.Template(text).get_identifiers()


def _wrong(file: str, what: str, hint: str = "") -> ConfigurationError:
    return ConfigurationError(f"{file}: {what}", file=file, hint=hint)
