"""Tables and keys of the configuration, and the classes they are read into.

The keys of provider instances and of sets of tools are defined by their plugins, and are not
checked by this module.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from genai_host.errors import ConfigurationError
from genai_host.util.names import APP, third_parties
from genai_host.util.text import did_you_mean, short_repr


class InstanceConfig(NamedTuple):
    """A named instance of a provider type, as configured.

    Attributes:
        type: Name of the provider type.
        enabled: Whether it may be used.
        models: Model name to its id there.
        settings: The settings of the type, unchecked.
        calls: What bounds its calls, unchecked.
        overrides: Settings, and `calls.NAME`, to the environment variable that has a value for
            each, unread.
    """

    type: str
    enabled: bool = True
    models: Mapping[str, str] = {}
    settings: Mapping[str, Any] = {}
    calls: Mapping[str, Any] = {}
    overrides: Mapping[str, str] = {}


class ModelConfig(NamedTuple):
    """A model configuration: a name of the user's for a model, and how it is called by it.

    Attributes:
        of: A model, as a request names it: another configuration, or one that is declared, this
            name as well.
        provider_order: Provider instances that are preferred for it, best first.
        parameters: Model parameters that hold where the caller gives none.
    """

    of: str
    provider_order: Sequence[str] = ()
    parameters: Mapping[str, Any] = {}


class SetConfig(NamedTuple):
    """The settings of a set of tools, as configured.

    Attributes:
        settings: Unchecked.
        overrides: Settings to the environment variable that has a value for each, unread.
    """

    settings: Mapping[str, Any] = {}
    overrides: Mapping[str, str] = {}


class ServerConfig(NamedTuple):
    """How the host is served; see `genai_host.server.settings`.

    Attributes:
        token: Where the token of whoever runs the server is, unread; None for none.
        users: The same for each user that has a name.
    """

    host: str = "127.0.0.1"
    port: int = 8642
    hosts: Sequence[str] = ()
    cors: Sequence[str] = ()
    root_path: str = ""
    at_once: int = 64
    waiting: int | None = None
    rate: int | None = None
    workers: int = 1
    pin: bool = False
    drain: float = 10.0
    log: bool = False
    log_json: bool = False
    certfile: str = ""
    keyfile: str = ""
    token: Mapping[str, Any] | None = None
    users: Mapping[str, Mapping[str, Any]] = {}


class BudgetConfig(NamedTuple):
    """What may be spent, in US dollars and in tokens; None for any."""

    day: float | None = None
    month: float | None = None
    day_tokens: int | None = None
    month_tokens: int | None = None


class BudgetsConfig(NamedTuple):
    """What calls of models may cost.

    Attributes:
        run: US dollars of a turn; None for any.
        unknown: Whether calls whose cost is not known may be made: `allow` or `refuse`.
        total: Of all users together.
        user: Of each of them.
        users: Of one of them: what is said here comes before `user`.
    """

    run: float | None = None
    unknown: str = "allow"
    total: BudgetConfig = BudgetConfig()
    user: BudgetConfig = BudgetConfig()
    users: Mapping[str, BudgetConfig] = {}

    @property
    def are_kept(self) -> bool:
        """Whether there are any for which has to be kept what was spent."""
        return any(value is not None for each in self._all() for value in each)

    def of(self, user: str) -> BudgetConfig:
        """What a user may spend: what is said of her, and else of each."""
        own = self.users.get(user, BudgetConfig())._asdict()
        return self.user._replace(**{name: each for name, each in own.items() if each is not None})

    def _all(self) -> list[BudgetConfig]:
        return [self.total, self.user, *self.users.values()]


class Config(NamedTuple):
    """What the configuration says; the defaults where it says nothing.

    Attributes:
        feature: Used where the user names none.
        models: For an operation, for example `chat`, the model used where the user names none.
        prefer: Order of providers, best first.
        remember: Use the last used feature and model again where the user names nothing.
        disabled: Plugins not to load: a name, or `distribution:name`.
        allowed: The only plugins to load; None for all.
        strict: Treat a broken plugin as an error.
        providers: The named instances.
        aliases: The user's own names of models, to what each stands for.
        model_configs: The table `models`; `configurations` has the aliases as well.
        approvals: Of tools, by name, whether they may run: `allow`, `ask` or `deny`; others are as
            they say themselves.
        tools: The settings of sets of tools, by their names.
        read_only: Do not let any command change anything.
        record: Save conversations of the command line.
        store: Where: a file, or the address of a database; empty for the usual file.
        record_served: Whether what programs ask of models through the server is kept as well.
        server: How the host is served.
        budgets: What calls of models may cost.
        safe: Load no plugin of a third party; said by the environment alone.
        file: Where it stands, for errors; empty if in no file.
    """

    feature: str = "chat"
    models: Mapping[str, str] = {}
    prefer: Sequence[str] = ()
    disabled: Sequence[str] = ()
    allowed: Sequence[str] | None = None
    strict: bool = False
    providers: Mapping[str, InstanceConfig] = {}
    aliases: Mapping[str, str] = {}
    model_configs: Mapping[str, ModelConfig] = {}
    approvals: Mapping[str, str] = {}
    tools: Mapping[str, SetConfig] = {}
    remember: bool = False
    read_only: bool = False
    record: bool = True
    store: str = ""
    record_served: bool = False
    server: ServerConfig = ServerConfig()
    budgets: BudgetsConfig = BudgetsConfig()
    safe: bool = False
    file: str = ""

    @property
    def configurations(self) -> dict[str, ModelConfig]:
        """The model configurations by name. An alias is one without parameters."""
        aliases = {name: ModelConfig(of) for name, of in self.aliases.items()}
        return {**aliases, **self.model_configs}

    def value(self, key: str) -> Any:
        """What is configured for one of `KEYS` that is no model's."""
        table, _, name = key.rpartition(".")
        if key == "server.record":
            return self.record_served
        tables = {"server": self.server, "budgets": self.budgets}
        return getattr(tables.get(table, self), name)

    def replaced(self, values: Mapping[str, Any]) -> Config:
        """The same with other values for some of these keys."""
        own: dict[str, Any] = {}
        of_server: dict[str, Any] = {}
        of_budgets: dict[str, Any] = {}
        tables = {"server": of_server, "budgets": of_budgets}
        for key, value in values.items():
            table, _, name = key.rpartition(".")
            if key == "server.record":
                own["record_served"] = value
            else:
                tables.get(table, own)[name] = value
        return self._replace(
            server=self.server._replace(**of_server),
            budgets=self.budgets._replace(**of_budgets),
            **own,
        )

    def blocks(self, plugin: str, distribution: str) -> str:
        """Why a plugin is not to be loaded; empty if it is. Our own cannot be missed
        on a list of what is allowed."""
        names = {plugin, f"{distribution}:{plugin}"}
        if names & set(self.disabled):
            return "disabled"
        if self.safe and third_parties([distribution]):
            return "of a third party (safe mode)"
        if self.allowed is None or distribution == APP or names & set(self.allowed):
            return ""
        return "not on the list of allowed plugins"


TABLES = (
    "defaults",
    "plugins",
    "conversations",
    "server",
    "budgets",
    "aliases",
    "models",
    "approvals",
    "tools",
    "providers",
)
OF_NAMES = ("aliases", "approvals")
"""Tables of strings by names that are the user's choice."""

APPROVALS = ("allow", "ask", "deny")
"""What may be said of a tool; see `genai_host.api.Approval`."""

OF_MODELS = ("of", "provider_order", "parameters")

OF_INSTANCES = ("type", "enabled", "models", "calls")

OF_SERVER = ("token", "users")
"""What the table of the server has that is no value by itself."""

OF_BUDGETS = ("total", "user", "users")
"""What the table of budgets has that is no value by itself."""

_CHOICES = {"budgets.unknown": ("allow", "refuse")}

_WORDS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


MOST_WORKERS = 1000
_MOST = 1e15  # that may be spent, of dollars or of tokens: what a database counts exactly
_NUMBERS = {int: "an integer", float: "a number"}


class Key(NamedTuple):
    """A key whose values are of a kind: `str`, `bool`, `int`, `float` or `list` of strings."""

    kind: type
    default: Any
    help: str


KEYS: dict[str, Key] = {
    "read_only": Key(bool, False, "do not let any command change anything"),
    "defaults.feature": Key(str, "chat", "default feature"),
    "defaults.model": Key(str, "", "default model for chat"),
    "defaults.embed": Key(str, "", "default model for embeddings"),
    "defaults.moderate": Key(str, "", "default model for moderation"),
    "defaults.prefer": Key(list, (), "order of providers, best first"),
    "defaults.remember": Key(bool, False, "use the last used feature and model again"),
    "plugins.disabled": Key(list, (), "plugins that are not loaded: NAME or DISTRIBUTION:NAME"),
    "plugins.allowed": Key(list, None, "the only plugins that are loaded; all if not set"),
    "plugins.strict": Key(bool, False, "treat a broken plugin as an error"),
    "conversations.record": Key(bool, True, "save conversations of the command line"),
    "conversations.store": Key(
        str, "", "database: an absolute path, or postgresql://user@host/database"
    ),
    "server.host": Key(str, "127.0.0.1", "address to listen on"),
    "server.port": Key(int, 8642, "port to listen on; 0 selects a free one"),
    "server.hosts": Key(list, (), "accepted Host headers; * for any"),
    "server.cors": Key(list, (), "allowed CORS origins, for example https://app.example"),
    "server.root_path": Key(str, "", "path prefix added by a reverse proxy"),
    "server.record": Key(bool, False, "save model calls of API clients as conversations"),
    "server.at_once": Key(int, 64, "maximum number of concurrent requests"),
    "server.waiting": Key(int, None, "queue size; twice server.at_once if not set"),
    "server.rate": Key(int, None, "requests per minute per user; no limit if not set"),
    "server.workers": Key(int, 1, "number of worker processes"),
    "server.pin": Key(bool, False, "pin each worker to a CPU core (Linux)"),
    "server.drain": Key(float, 10.0, "seconds for running requests to finish at shutdown"),
    "server.log": Key(bool, False, "log requests"),
    "server.log_json": Key(bool, False, "write the log as lines of JSON"),
    "server.certfile": Key(str, "", "TLS certificate (PEM file)"),
    "server.keyfile": Key(str, "", "TLS private key (PEM file)"),
    "budgets.run": Key(float, None, "maximum cost of a turn in US dollars; no limit if not set"),
    "budgets.unknown": Key(str, "allow", "calls of unknown cost under a budget: allow or refuse"),
}
"""By their place in the file, with a dot between table and name."""

MODELS = {"model": "chat", "embed": "embed", "moderate": "moderate"}
"""Default models: the name in the file, and the operation."""


_RANGES: dict[str, tuple[int, float]] = {
    "server.port": (0, 65535),
    "server.at_once": (1, _MOST),
    "server.waiting": (0, _MOST),
    "server.rate": (1, _MOST),
    "server.workers": (1, MOST_WORKERS),
    "server.drain": (0, _MOST),
}


def configuration_in(model: str, names: Container[str]) -> str:
    """The model configuration in a model name such as `precise` or `precise@provider`; empty if
    there is none.

    Args:
        model: The model name.
        names: Names of the model configurations.
    """
    return next((each for each in (model, model.rpartition("@")[0]) if each in names), "")


def names_in(table: str) -> list[str]:
    """The names that a table may have, or the file itself."""
    if not table:
        return ["version", *(key for key in KEYS if "." not in key), *TABLES]
    names = [key.removeprefix(f"{table}.") for key in KEYS if key.startswith(f"{table}.")]
    return [*names, *{"server": OF_SERVER, "budgets": OF_BUDGETS}.get(table, ())]


def hint_for(name: str, known: Iterable[str]) -> str:
    """What may have been meant by an unknown name."""
    known = list(known)
    return did_you_mean(name, known) or f"choose from {', '.join(known)}"


def wrong_with(key: str, value: Any) -> str:
    """What is wrong with the value of a key, which is of its kind; empty if it may be."""
    choices = _CHOICES.get(key)
    if choices is not None and value not in choices:
        return f"must be one of {', '.join(choices)}"
    least, most = _RANGES.get(key, (None, None))
    if value is not None and least is not None and not least <= value <= most:
        is_small = most == _MOST and not value > most
        return f"must be {least} or more" if is_small else f"must be {least} to {most:.0f}"
    return wrong_with_amount(value) if key == "budgets.run" and value is not None else ""


def wrong_with_amount(value: float) -> str:
    """The same for what may be spent."""
    return "" if 0 <= value <= _MOST else "must be 0 or more"


def wrong_with_store(place: str) -> tuple[str, str]:
    """Why conversations cannot be kept there, and what to do; empty if they can. What is
    wrong is not said in the words of the user: it may be a password."""
    if not place:
        return "", ""
    import os
    import re
    from urllib.parse import parse_qsl

    if "://" not in place:
        is_whole = os.path.isabs(os.path.expanduser(place))
        return ("", "") if is_whole else ("must be an absolute path", "begin it with / or ~")
    asked = {name.lower() for name, _ in parse_qsl(place.partition("?")[2])}
    # as SQLAlchemy reads it: a password may have any character but @
    if re.match("[^/]*://[^:/]*:[^@]*@", place) or asked & {"password", "sslpassword"}:
        return "must not contain a password", "remove it, and use PGPASSWORD or ~/.pgpass"
    return "", ""


def read_value(owner: str, text: str, kind: type) -> Any:
    """A value of a kind from text: several of a list have commas between them. Raises
    `ConfigurationError`; the owner is what has the text, in words."""
    if kind is list:
        return tuple(item for item in (item.strip() for item in text.split(",")) if item)
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            raise ConfigurationError(
                f"{owner} must be {_NUMBERS[kind]}, not {short_repr(text)}"
            ) from None
    if kind is not bool:
        return text
    try:
        return _WORDS[text.strip().lower()]
    except KeyError:
        raise ConfigurationError(f"{owner} must be true or false, not {short_repr(text)}") from None
