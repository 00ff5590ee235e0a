"""Reads and validates the text of a configuration file (TOML 1.0).

An error names the key and, where it is known, the line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from genai_host.config.schema import (
    APPROVALS,
    KEYS,
    MODELS,
    OF_INSTANCES,
    OF_MODELS,
    REMOVED,
    TABLES,
    BudgetConfig,
    BudgetsConfig,
    Config,
    InstanceConfig,
    ModelConfig,
    ServerConfig,
    SetConfig,
    configuration_in,
    hint_for,
    names_in,
    wrong_with,
    wrong_with_amount,
    wrong_with_store,
)
from genai_host.errors import ConfigurationError
from genai_host.util.names import ALIAS, PLAIN_NAME, PLAIN_NAME_RULE
from genai_host.util.text import close_matches

_LINE = re.compile(r"\bline (\d+)\b")


def parse(text: str, path: str) -> dict[str, Any]:
    """What a file says. Raises `ConfigurationError` with the line."""
    import tomllib  # where there is something to read

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
    """The line, from 1, on which a key of a valid text is set, or else the nearest above
    it in the tree; None if there is none."""
    best: tuple[int, int] | None = None
    for line, path in _statements(text):
        same = _in_common(path, key)
        if same and (best is None or same > best[0]):
            best = same, line
    return best[1] if best else None


def _statements(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Each table and each key with its line. A statement ends with the first line that
    makes it whole, which TOML's own reader knows best."""
    import tomllib

    table: tuple[str, ...] = ()
    statement, began = "", 0
    for number, line in enumerate(text.split("\n"), 1):
        if not statement:
            began = number
        statement += line + "\n"
        try:
            said = tomllib.loads(statement)
        except (tomllib.TOMLDecodeError, RecursionError):
            continue
        is_table = statement.lstrip().startswith("[")
        statement = ""
        if is_table:
            table = next(_paths(said), ())
            yield began, table
        else:
            for path in _paths(said):
                yield began, (*table, *path)


def _paths(said: Any) -> Iterator[tuple[str, ...]]:
    """The way to each value, and to each table that holds nothing."""
    left: list[tuple[tuple[str, ...], Any]] = [((), said)]
    while left:  # it may be nested more deeply than calls can be
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


VERSION = 1
_SECRETS = 'write token = { env = "VARIABLE" }'
_KINDS = {int: "an integer", float: "a number", str: "a string", bool: "true or false"}
_FOUND = {**_KINDS, bool: "a boolean", list: "a list", dict: "a table"}


class Reader:
    def __init__(self, path: str, text: str) -> None:
        self._path = path
        self._text = text

    def config(self, data: dict[str, Any]) -> Config:
        self._must_be_ours(data)
        warnings = self._removed(data)
        self._only(data, "")
        for table in ("defaults", "plugins", "conversations", "server", "budgets"):
            self._only(self._table(data, table), table)
        found = {key: self._of_key(data, key) for key in KEYS}
        chosen = {operation: found[f"defaults.{name}"] for name, operation in MODELS.items()}
        providers = self._table(data, "providers")
        aliases = self._aliases(data)
        configs = self._model_configs(data, aliases)
        return Config(
            feature=found["defaults.feature"],
            models={operation: name for operation, name in chosen.items() if name},
            prefer=found["defaults.prefer"],
            disabled=found["plugins.disabled"],
            allowed=found["plugins.allowed"],
            strict=found["plugins.strict"],
            providers={name: self._instance(providers, name) for name in providers},
            aliases=aliases,
            model_configs=configs,
            approvals=self._approvals(data),
            tools=self._tools(data),
            remember=found["defaults.remember"],
            read_only=found["read_only"],
            record=found["conversations.record"],
            store=self._store(found["conversations.store"]),
            record_served=found["server.record"],
            server=self._server(data, found),
            budgets=self._budgets(data, found),
            file=self._path,
            warnings=warnings,
        )

    def _removed(self, data: dict[str, Any]) -> tuple[str, ...]:
        """Remove the keys that have no effect, and return a warning for each."""
        found = []
        for key, instead in REMOVED.items():
            *tables, name = key.split(".")
            table = self._table(data, *tables)
            if name in table:
                del table[name]
                found.append(str(self._wrong((*tables, name), f"is ignored: {instead}")))
        return tuple(found)

    def _must_be_ours(self, data: dict[str, Any]) -> None:
        version = data.get("version", VERSION)
        if type(version) is not int or version < 1:
            raise self._wrong(("version",), f"must be {VERSION}")
        if version > VERSION:
            raise self._wrong(
                ("version",),
                f"{version} is newer than this genai-host supports ({VERSION})",
                "upgrade: genai-host upgrade genai-host",
            )

    def _instance(self, providers: dict[str, Any], name: str) -> InstanceConfig:
        where = ("providers", name)
        if not re.fullmatch(PLAIN_NAME, name):
            raise self._wrong(where, "is not a valid provider name", PLAIN_NAME_RULE)
        table = self._table(providers, name, *where)
        if "type" not in table:
            raise self._wrong(where, "must have a type", "list types: genai-host config types")
        models = self._table(table, "models", *where, "models")
        return InstanceConfig(
            type=self._of(str, table["type"], *where, "type"),
            enabled=self._of(bool, table.get("enabled", True), *where, "enabled"),
            models={
                model: self._of(str, id, *where, "models", model) for model, id in models.items()
            },
            settings={key: value for key, value in table.items() if key not in OF_INSTANCES},
            calls=self._table(table, "calls", *where, "calls"),
        )

    def _server(self, data: dict[str, Any], found: dict[str, Any]) -> ServerConfig:
        table = self._table(data, "server")
        users = self._table(table, "users", "server", "users")
        for name in users:
            where = ("server", "users", name)
            if not re.fullmatch(PLAIN_NAME, name):
                raise self._wrong(where, "is not a valid user name", PLAIN_NAME_RULE)
            if list(self._table(users, name, *where)) != ["token"]:
                raise self._wrong(where, "must have a token, and nothing else", _SECRETS)
        tokens = {name: self._token(users[name], "server", "users", name) for name in users}
        values = {
            key.removeprefix("server."): value
            for key, value in found.items()
            if key.startswith("server.") and key != "server.record"
        }
        return ServerConfig(**values, token=self._token(table, "server"), users=tokens)

    def _token(self, table: dict[str, Any], *where: str) -> Any:
        """Where it is: what is wrong is not shown, since it may be the token itself."""
        token = table.get("token")
        if token is not None and not isinstance(token, dict):
            raise self._wrong((*where, "token"), "must not be in the file", _SECRETS)
        return token

    def _budgets(self, data: dict[str, Any], found: dict[str, Any]) -> BudgetsConfig:
        table = self._table(data, "budgets")
        users = self._table(table, "users", "budgets", "users")
        for name in users:
            where = ("budgets", "users", name)
            if not re.fullmatch(PLAIN_NAME, name):
                raise self._wrong(where, "is not a valid user name", PLAIN_NAME_RULE)
        return BudgetsConfig(
            found["budgets.run"],
            found["budgets.unknown"],
            self._budget(table, "total", "budgets", "total"),
            self._budget(table, "user", "budgets", "user"),
            {name: self._budget(users, name, "budgets", "users", name) for name in users},
        )

    def _budget(self, data: dict[str, Any], key: str, *where: str) -> BudgetConfig:
        values = {}
        for name, value in self._table(data, key, *where).items():
            if name not in BudgetConfig._fields:
                hint = hint_for(name, BudgetConfig._fields)
                raise self._wrong((*where, name), "is unknown", hint)
            kind = int if name.endswith("_tokens") else float
            values[name] = self._of(kind, value, *where, name)
            wrong = wrong_with_amount(values[name])
            if wrong:
                raise self._wrong((*where, name), wrong)
        return BudgetConfig(**values)

    def _aliases(self, data: dict[str, Any]) -> dict[str, str]:
        aliases = self._table(data, "aliases")
        for name, model in aliases.items():
            self._of(str, model, "aliases", name)
            if not re.fullmatch(ALIAS, name):
                raise self._wrong(("aliases", name), "is not a valid alias", f"match {ALIAS}")
            if not model:
                raise self._wrong(("aliases", name), "must name a model")
        return aliases

    def _model_configs(
        self, data: dict[str, Any], aliases: dict[str, str]
    ) -> dict[str, ModelConfig]:
        table = self._table(data, "models")
        configs = {name: self._model_config(table, name) for name in table}
        names = {**aliases, **{name: each.of for name, each in configs.items()}}
        for name in names:
            where = ("models" if name in configs else "aliases", name)
            if name in configs and name in aliases:
                raise self._wrong(where, "is an alias as well", "remove one of them")
            chain = [name]
            while following := configuration_in(names[chain[-1]], names):
                if following == chain[-1]:  # what is declared by that name
                    break
                if following in chain:
                    way = " of ".join([*chain, following])
                    raise self._wrong(where, f"must not refer to itself: {way}")
                chain.append(following)
        return configs

    def _model_config(self, models: dict[str, Any], name: str) -> ModelConfig:
        where = ("models", name)
        if not re.fullmatch(ALIAS, name):
            raise self._wrong(where, "is not a valid configuration name", f"match {ALIAS}")
        table = self._table(models, name, *where)
        for key in table:
            if key not in OF_MODELS:
                raise self._unknown((*where, key), table[key], OF_MODELS)
        if not table.get("of"):
            raise self._wrong(where, "must name a model", 'for example of = "smollm2"')
        return ModelConfig(
            self._of(str, table["of"], *where, "of"),
            self._strings(table.get("provider_order", []), *where, "provider_order"),
            self._json(self._table(table, "parameters", *where, "parameters"), where),
        )

    def _json(self, parameters: dict[str, Any], where: tuple[str, ...]) -> dict[str, Any]:
        for name, value in parameters.items():
            try:
                json.dumps(value, allow_nan=False)
            except (TypeError, ValueError):  # TOML has dates, and numbers that are none
                raise self._wrong((*where, "parameters", name), "is not JSON") from None
        return parameters

    def _approvals(self, data: dict[str, Any]) -> dict[str, str]:
        approvals = self._table(data, "approvals")
        for tool, approval in approvals.items():
            if self._of(str, approval, "approvals", tool) not in APPROVALS:
                raise self._wrong(("approvals", tool), f"must be one of {', '.join(APPROVALS)}")
            if "*" in tool[:-1]:  # it would hold for no tool, and say nothing of it
                raise self._wrong(("approvals", tool), "may have a * only at its end")
        return approvals

    def _tools(self, data: dict[str, Any]) -> dict[str, SetConfig]:
        tools = self._table(data, "tools")
        for name in tools:
            if not re.fullmatch(PLAIN_NAME, name):
                what = "is not a valid name for a set of tools"
                raise self._wrong(("tools", name), what, PLAIN_NAME_RULE)
        return {name: SetConfig(self._table(tools, name, "tools", name)) for name in tools}

    def _store(self, place: str) -> str:
        what, hint = wrong_with_store(place)
        if what:
            raise self._wrong(("conversations", "store"), what, hint)
        return place

    def _of_key(self, data: dict[str, Any], key: str) -> Any:
        known = KEYS[key]
        table, _, name = key.rpartition(".")
        values = self._table(data, table) if table else data
        if name not in values:
            return known.default
        where = (table, name) if table else (name,)
        if known.kind is list:
            return self._strings(values[name], *where)
        value = self._of(known.kind, values[name], *where)
        wrong = wrong_with(key, value)
        if wrong:
            raise self._wrong(where, wrong)
        return value

    def _table(self, data: dict[str, Any], key: str, *where: str) -> dict[str, Any]:
        value = data.get(key, {})
        if not isinstance(value, dict):
            raise self._wrong(where or (key,), f"must be a table, not {_found(value)}")
        return value

    def _of(self, kind: type, value: Any, *where: str) -> Any:
        if kind is float and type(value) is int:
            return float(value)
        if type(value) is not kind:
            raise self._wrong(where, f"must be {_KINDS[kind]}, not {_found(value)}")
        return value

    def _strings(self, value: Any, *where: str) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._wrong(where, "must be a list of strings")
        return tuple(value)

    def _only(self, table: dict[str, Any], where: str) -> None:
        known = names_in(where)
        for key in table:
            if key not in known:
                raise self._unknown((where, key) if where else (key,), table[key], known)

    def _unknown(
        self, where: tuple[str, ...], value: Any, known: Iterable[str]
    ) -> ConfigurationError:
        if isinstance(value, dict) and len(where) == 1:
            near = close_matches(where[0], TABLES)
            hint = f"did you mean [{near[0]}]?" if near else hint_for(where[0], known)
            return self._error(where, f"unknown table [{where[0]}]", hint)
        return self._error(where, f"unknown key {'.'.join(where)!r}", hint_for(where[-1], known))

    def _wrong(self, where: tuple[str, ...], what: str, hint: str = "") -> ConfigurationError:
        return self._error(where, f"{'.'.join(where)} {what}", hint)

    def _error(self, where: tuple[str, ...], what: str, hint: str) -> ConfigurationError:
        line = line_of(self._text, where)
        place = f"{self._path}:{line}" if line else self._path
        return ConfigurationError(f"{place}: {what}", file=self._path, line=line, hint=hint)


def _found(value: Any) -> str:
    return _FOUND.get(type(value), "a date or time")
