"""Reads and validates the text of a configuration file (TOML 1.0).

An error names the key and, where it is known, the line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from genai_host.config.key import ConfigKey, hint_for
from genai_host.config.migration import RENAMED, migrated, pattern_of, upgraded
from genai_host.config.schema import (
    APPROVALS,
    OF_INSTANCES,
    OF_MODELS,
    REMOVED,
    SERVICE_TOOLS,
    BudgetConfig,
    Config,
    InstanceConfig,
    ModelConfig,
    SetConfig,
    configuration_in,
    keys_of,
    known_keys,
    names_in,
)
from genai_host.errors import ConfigurationError
from genai_host.util.names import ALIAS, PLAIN_NAME, PLAIN_NAME_RULE
from genai_host.util.text import close_matches

_LINE = re.compile(r"\bline (\d+)\b")


def parse(text: str, path: str) -> dict[str, Any]:
    """Parse the text of a file. Raises `ConfigurationError` with the line if it is not TOML."""
    import tomllib  # imported only if there is a file

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _LINE.search(str(error))
        raise ConfigurationError(
            f"{path}{':' + found[1] if found else ''}: invalid TOML: {error}",
            file=path,
            line=int(found[1]) if found else None,
            hint="correct the file",
        ) from error
    except RecursionError as error:
        raise ConfigurationError(f"{path} is nested too deeply", file=path) from error


def line_of(text: str, key: Sequence[str]) -> int | None:
    """Return the line, from 1, that sets a key in a valid text, or else its nearest parent; None if
    there is none."""
    best: tuple[int, int] | None = None
    for each in _statements(text):
        for path in each.paths:
            same = _in_common(path, key)
            if same and (best is None or same > best[0]):
                best = same, each.line
    return best[1] if best else None


class _Statement(NamedTuple):
    """A table header, a key with its value, or a line without either.

    Attributes:
        line: Its first line, from 1.
        text: Its text, including line ends.
        paths: Keys that it sets, with their tables; for a header, its table.
        table: Table that contains it; empty for a header.
    """

    line: int
    text: str
    paths: list[tuple[str, ...]]
    table: tuple[str, ...]


def _statements(text: str) -> Iterator[_Statement]:
    """Yield the statements of a text. A statement ends with the first line that makes it valid for
    `tomllib`."""
    import tomllib

    table: tuple[str, ...] = ()
    statement, began = "", 0
    for number, line in enumerate(text.split("\n"), 1):
        if not statement:
            began = number
        statement += line + "\n"
        try:
            parsed = tomllib.loads(statement)
        except (tomllib.TOMLDecodeError, RecursionError):
            continue
        if statement.lstrip().startswith("["):
            table = next(_paths(parsed), ())
            yield _Statement(began, statement, [table], ())
        else:
            paths = [(*table, *path) for path in _paths(parsed) if path]
            yield _Statement(began, statement, paths, table)
        statement = ""


def migrate(text: str, path: str) -> str:
    """Return the text of a file with the keys of this version. Raises `ConfigurationError` if the
    text is not TOML, or cannot be migrated in place."""
    data = parse(text, path)
    if data.get("version", 1) != 1:
        return text
    wanted, found = upgraded(data)
    parts = [migrated(each.text, each.paths, each.table, found) for each in _statements(text)]
    changed = "".join(parts)[:-1]
    if "version" in wanted:
        wanted["version"] = VERSION
    if parse(changed, path) != wanted:
        hint = "rename the keys yourself: " + ", ".join(
            f"{'.'.join(old)} is now {'.'.join(new)}" for old, new in found.items()
        )
        raise ConfigurationError(f"cannot migrate {path}", file=path, hint=hint)
    return changed


def _paths(data: Any) -> Iterator[tuple[str, ...]]:
    """Yield the path of each value, and of each empty table."""
    left: list[tuple[tuple[str, ...], Any]] = [((), data)]
    while left:  # iterative, because tables may be nested beyond the recursion limit
        path, value = left.pop()
        if isinstance(value, dict) and value:
            left += [((*path, name), each) for name, each in value.items()]
        else:
            yield path


def _in_common(path: Sequence[str], key: Sequence[str]) -> int:
    same = 0
    for mine, other in zip(path, key, strict=False):
        if mine != other:
            break
        same += 1
    return same


VERSION = 2
_SECRETS = 'write token = { env = "VARIABLE" }'
_KINDS = {int: "an integer", float: "a number", str: "a string", bool: "true or false"}
_FOUND = {**_KINDS, bool: "a boolean", list: "a list", dict: "a table"}


class TableReader:
    """Reads values from tables of a file, and raises errors with their line."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self._text = text
        self._old: dict[tuple[str, ...], tuple[str, ...]] = {}

    def table(self, data: Mapping[str, Any], *where: str) -> dict[str, Any]:
        """Return the table at a path; an empty one if it is missing."""
        value = data.get(where[-1], {})
        if not isinstance(value, dict):
            raise self.wrong(where, f"must be a table, not {_found(value)}")
        return value

    def of(self, kind: type, value: Any, *where: str) -> Any:
        """Return a value of a kind; see `ConfigKey.kind`."""
        if kind is float and type(value) is int:
            return float(value)
        if kind is list:
            if isinstance(value, list) and all(isinstance(item, str) for item in value):
                return tuple(value)
            raise self.wrong(where, "must be a list of strings")
        if type(value) is not kind:
            raise self.wrong(where, f"must be {_KINDS[kind]}, not {_found(value)}")
        return value

    def values(
        self, known: Iterable[ConfigKey], table: Mapping[str, Any], *where: str
    ) -> dict[str, Any]:
        """Return the values of the known keys in a table, by field name."""
        found = {}
        for key in known:
            name = key.name.rpartition(".")[2]
            if name in table:
                value = self.of(key.kind, table[name], *where, name)
                what, hint = key.wrong(value)
                if what:
                    raise self.wrong((*where, name), what, hint)
                found[key.field] = value
        return found

    def only(self, known: Collection[str], table: Mapping[str, Any], *where: str) -> None:
        """Reject unknown keys."""
        for name, value in table.items():
            if name in known:
                continue
            if isinstance(value, dict) and not where:
                near = close_matches(name, known)
                hint = f"did you mean [{near[0]}]?" if near else hint_for(name, known)
                raise self.error((name,), f"unknown table [{name}]", hint)
            what = f"unknown key {'.'.join((*where, name))!r}"
            new = RENAMED.get(pattern_of((*where, name)))
            raise self.error((*where, name), what, f"use {new}" if new else hint_for(name, known))

    def name(self, pattern: str, what: str, rule: str, *where: str) -> None:
        """Reject a name that does not match."""
        if not re.fullmatch(pattern, where[-1]):
            raise self.wrong(where, f"is not a valid {what}", rule)

    def wrong(self, where: Sequence[str], what: str, hint: str = "") -> ConfigurationError:
        """Return an error about a key."""
        return self.error(where, f"{'.'.join(where)} {what}", hint)

    def error(self, where: Sequence[str], what: str, hint: str = "") -> ConfigurationError:
        """Return an error with the line of a key."""
        line = line_of(self._text, self._old.get(tuple(where), where))
        place = f"{self.path}:{line}" if line else self.path
        return ConfigurationError(f"{place}: {what}", file=self.path, line=line, hint=hint)


def _found(value: Any) -> str:
    return _FOUND.get(type(value), "a date or time")


class ConfigReader(TableReader):
    """Reads the configuration."""

    def config(self, data: dict[str, Any]) -> Config:
        """Return the configuration in a file."""
        self._check_version(data)
        warnings = self._removed(data)
        if data.get("version", 1) == 1:
            data, found = upgraded(data)
            self._old = {new: old for old, new in found.items()}
            for old, new in [*found.items()][:1]:
                what = f"is now {'.'.join(new)}; rename all keys: genai-host config migrate"
                warnings = (*warnings, str(self.wrong(old, what)))
        for table in dict.fromkeys(name.rpartition(".")[0] for name in known_keys()):
            inner = self.table(data, table) if table else data
            self.only(names_in(table), inner, *filter(None, [table]))
        values = {}
        for name, key in known_keys().items():
            *tables, last = name.split(".")
            inner = self.table(data, *tables) if tables else data
            if last in inner:
                values[name] = self.values([key], inner, *tables)[key.field]
        aliases = self._aliases(data)
        config = Config().replaced(values)
        return config._replace(
            server=config.server._replace(**self._server(self.table(data, "server"))),
            budgets=config.budgets._replace(**self._budgets(self.table(data, "budgets"))),
            providers=self._providers(data),
            aliases=aliases,
            model_configs=self._model_configs(data, aliases),
            approvals=self._approvals(data),
            tools=self._tools(data),
            file=self.path,
            warnings=warnings,
        )

    def _removed(self, data: dict[str, Any]) -> tuple[str, ...]:
        """Remove the keys that have no effect, and return a warning for each."""
        found = []
        for key, instead in REMOVED.items():
            *tables, name = key.split(".")
            table = self.table(data, *tables)
            if name in table:
                del table[name]
                found.append(str(self.wrong((*tables, name), f"is ignored: {instead}")))
        return tuple(found)

    def _check_version(self, data: dict[str, Any]) -> None:
        version = data.get("version", VERSION)
        if type(version) is not int or version < 1:
            raise self.wrong(("version",), f"must be 1 or {VERSION}")
        if version > VERSION:
            raise self.wrong(
                ("version",),
                f"{version} is newer than this genai-host supports ({VERSION})",
                "upgrade: genai-host upgrade genai-host",
            )

    def _providers(self, data: dict[str, Any]) -> dict[str, InstanceConfig]:
        found = {}
        for name, table in self._rows(data, "provider name", "providers"):
            where = ("providers", name)
            if "type" not in table:
                raise self.wrong(where, "must have a type", "list types: genai-host config types")
            models = self.table(table, *where, "models")
            found[name] = InstanceConfig(
                **self.values(keys_of(InstanceConfig), table, *where),
                models={
                    model: self.of(str, id, *where, "models", model) for model, id in models.items()
                },
                settings={key: value for key, value in table.items() if key not in OF_INSTANCES},
                limits=self.table(table, *where, "limits"),
            )
        return found

    def _server(self, server: dict[str, Any]) -> dict[str, Any]:
        users = {}
        for name, table in self._rows(server, "user name", "server", "users"):
            where = ("server", "users", name)
            if list(table) != ["token"]:
                raise self.wrong(where, "must have a token and no other key", _SECRETS)
            users[name] = self._token(table, *where)
        replaced = ("server", "service_tools")
        tools = self.table(server, *replaced)
        self.only(SERVICE_TOOLS, tools, *replaced)
        tools = {kind: self.of(str, name, *replaced, kind) for kind, name in tools.items()}
        return {"token": self._token(server, "server"), "users": users, "service_tools": tools}

    def _token(self, table: dict[str, Any], *where: str) -> Any:
        """A reference to a token. Any other value may be the token itself, so it is not quoted."""
        token = table.get("token")
        if token is not None and not isinstance(token, dict):
            raise self.wrong((*where, "token"), "must not be in the file", _SECRETS)
        return token

    def _budgets(self, table: dict[str, Any]) -> dict[str, Any]:
        users = self._rows(table, "user name", "budgets", "users")
        return {
            **{
                name: self._budget(self.table(table, "budgets", name), "budgets", name)
                for name in ("total", "user")
            },
            "users": {name: self._budget(each, "budgets", "users", name) for name, each in users},
        }

    def _budget(self, table: dict[str, Any], *where: str) -> BudgetConfig:
        self.only(BudgetConfig._fields, table, *where)
        return BudgetConfig(**self.values(keys_of(BudgetConfig), table, *where))

    def _aliases(self, data: dict[str, Any]) -> dict[str, str]:
        aliases = self.table(data, "aliases")
        for name, model in aliases.items():
            self.of(str, model, "aliases", name)
            self.name(ALIAS, "alias", f"match {ALIAS}", "aliases", name)
            if not model:
                raise self.wrong(("aliases", name), "must name a model")
        return aliases

    def _model_configs(
        self, data: dict[str, Any], aliases: dict[str, str]
    ) -> dict[str, ModelConfig]:
        table = self.table(data, "models")
        configs = {name: self._model_config(table, name) for name in table}
        names = {**aliases, **{name: each.of for name, each in configs.items()}}
        for name in names:
            where = ("models" if name in configs else "aliases", name)
            if name in configs and name in aliases:
                raise self.wrong(where, "is also an alias", "remove one of them")
            chain = [name]
            while following := configuration_in(names[chain[-1]], names):
                if following == chain[-1]:  # the declared model of that name
                    break
                if following in chain:
                    way = " of ".join([*chain, following])
                    raise self.wrong(where, f"must not refer to itself: {way}")
                chain.append(following)
        return configs

    def _model_config(self, models: dict[str, Any], name: str) -> ModelConfig:
        where = ("models", name)
        self.name(ALIAS, "configuration name", f"match {ALIAS}", *where)
        table = self.table(models, *where)
        self.only(OF_MODELS, table, *where)
        if not table.get("of"):
            raise self.wrong(where, "must name a model", 'for example of = "smollm2"')
        parameters = self.table(table, *where, "parameters")
        for parameter, value in parameters.items():
            try:
                json.dumps(value, allow_nan=False)
            except (TypeError, ValueError):  # TOML has dates, and numbers that JSON lacks
                raise self.wrong(
                    (*where, "parameters", parameter), "must be a JSON value"
                ) from None
        known = self.values(keys_of(ModelConfig), table, *where)
        return ModelConfig(**known, parameters=parameters)

    def _approvals(self, data: dict[str, Any]) -> dict[str, str]:
        approvals = self.table(data, "approvals")
        for tool, approval in approvals.items():
            if self.of(str, approval, "approvals", tool) not in APPROVALS:
                raise self.wrong(("approvals", tool), f"must be one of {', '.join(APPROVALS)}")
            if "*" in tool[:-1]:  # it would silently match no tool
                raise self.wrong(("approvals", tool), "may have a * only at the end")
        return approvals

    def _tools(self, data: dict[str, Any]) -> dict[str, SetConfig]:
        rows = self._rows(data, "tool set name", "tools")
        return {name: SetConfig(table) for name, table in rows}

    def _rows(
        self, data: dict[str, Any], what: str, *where: str
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the tables in a table, with their names."""
        tables = self.table(data, *where)
        for name in tables:
            self.name(PLAIN_NAME, what, PLAIN_NAME_RULE, *where, name)
            yield name, self.table(tables, *where, name)
