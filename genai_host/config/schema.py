"""Tables and keys of the configuration.

Each table is a class. The reader, the environment, the commands, the options of `genai-host serve`
and the documentation use the type, the default and the `ConfigKey` of its fields. The classes are
named tuples, not attrs classes: `genai-host plugins` reads the configuration, and imports nothing
that takes time.

The keys of providers and of sets of tools are defined by their plugins, and are not checked here.
"""

from __future__ import annotations

import typing
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, NamedTuple

from genai_host.config.key import (
    ConfigKey,
    read_value,
    wrong_hosts,
    wrong_origins,
    wrong_root,
    wrong_store,
)
from genai_host.errors import ConfigurationError
from genai_host.util.names import APP, third_parties


class InstanceConfig(NamedTuple):
    """A provider, as configured.

    Attributes:
        settings: Settings of the type, unchecked.
        limits: Limits of its calls, unchecked.
        overrides: Settings, and `limits.NAME`, to the environment variable that has a value for
            each, unread.
    """

    type: Annotated[str, ConfigKey("provider type")]
    enabled: Annotated[bool, ConfigKey("false disables the provider")] = True
    models: Mapping[str, str] = {}
    settings: Mapping[str, Any] = {}
    limits: Mapping[str, Any] = {}
    overrides: Mapping[str, str] = {}


class ModelConfig(NamedTuple):
    """A model configuration: a name for a model with parameters and preferred providers.

    Attributes:
        of: Another configuration, or a declared model, which may have the same name.
        parameters: Model parameters that apply where the caller gives none.
    """

    of: Annotated[str, ConfigKey("model")]
    provider_order: Annotated[Sequence[str], ConfigKey("preferred providers, best first")] = ()
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
    """The table `server`.

    Attributes:
        token: Reference to the token of the operator; None for none.
        users: References to the tokens of users, by name.
        service_tools: Tools of the host that replace tools of services, by `SERVICE_TOOLS`, or
            `service` for those that other services have themselves.
    """

    host: Annotated[
        str,
        ConfigKey(
            "address to listen on; any but a loopback address requires a token", metavar="ADDRESS"
        ),
    ] = "127.0.0.1"
    port: Annotated[
        int, ConfigKey("port to listen on; 0 selects a free one", least=0, most=65535)
    ] = 8642
    allowed_hosts: Annotated[
        Sequence[str],
        ConfigKey(
            "accepted Host headers, for example behind a proxy; * for any",
            check=wrong_hosts,
            option="--allow-host",
            metavar="NAME",
        ),
    ] = ()
    cors_origins: Annotated[
        Sequence[str],
        ConfigKey(
            "origins whose pages may use the server, for example https://app.example, "
            "http://localhost:* for any port, or app://my-app",
            check=wrong_origins,
            option="--cors",
            metavar="ORIGIN",
        ),
    ] = ()
    root_path: Annotated[
        str,
        ConfigKey(
            "path prefix added by a reverse proxy, for example /host",
            check=wrong_root,
            metavar="PATH",
        ),
    ] = ""
    record_api_calls: Annotated[
        bool, ConfigKey("save model calls of API clients as conversations", option=None)
    ] = False
    pass_through: Annotated[
        bool | None,
        ConfigKey(
            "pass API requests through to services of the same format; default: true without users "
            "and budgets, else false",
            option=None,
        ),
    ] = None
    strict: Annotated[
        bool,
        ConfigKey("refuse API requests with fields or tools that would be ignored", option=None),
    ] = False
    max_concurrency: Annotated[int, ConfigKey("maximum number of concurrent requests", least=1)] = (
        64
    )
    queue_size: Annotated[
        int | None,
        ConfigKey(
            "maximum number of queued requests; further ones get status 429; default: twice the "
            "concurrent ones",
            least=0,
        ),
    ] = None
    rate_limit: Annotated[
        int | None,
        ConfigKey("requests per minute per user, or per address without tokens", least=1),
    ] = None
    workers: Annotated[int, ConfigKey("number of worker processes", least=1, most=1000)] = 1
    graceful_timeout: Annotated[
        float,
        ConfigKey("seconds for running requests to finish at shutdown", least=0, metavar="SECONDS"),
    ] = 10.0
    access_log: Annotated[bool, ConfigKey("log requests")] = False
    log_format: Annotated[
        str,
        ConfigKey("format of the log: text or json", choices=("text", "json"), metavar="FORMAT"),
    ] = "text"
    certfile: Annotated[str, ConfigKey("TLS certificate (PEM file)", metavar="FILE")] = ""
    keyfile: Annotated[str, ConfigKey("TLS private key (PEM file)", metavar="FILE")] = ""
    token: Mapping[str, Any] | None = None
    users: Mapping[str, Mapping[str, Any]] = {}
    service_tools: Mapping[str, str] = {}


class BudgetConfig(NamedTuple):
    """Limits on what is spent; None for no limit."""

    day: Annotated[float | None, ConfigKey("US dollars a day", least=0)] = None
    month: Annotated[float | None, ConfigKey("US dollars a month", least=0)] = None
    day_tokens: Annotated[int | None, ConfigKey("tokens a day", least=0)] = None
    month_tokens: Annotated[int | None, ConfigKey("tokens a month", least=0)] = None


class BudgetsConfig(NamedTuple):
    """The table `budgets`.

    Attributes:
        total: Limits on all users together.
        user: Limits on each user.
        users: Limits on one user, which come before `user`.
    """

    per_turn: Annotated[
        float | None,
        ConfigKey("maximum cost of a turn in US dollars; no limit if not set", least=0),
    ] = None
    unknown_cost: Annotated[
        str,
        ConfigKey(
            "calls of unknown cost under a budget: allow or refuse", choices=("allow", "refuse")
        ),
    ] = "allow"
    total: BudgetConfig = BudgetConfig()
    user: BudgetConfig = BudgetConfig()
    users: Mapping[str, BudgetConfig] = {}

    @property
    def are_kept(self) -> bool:
        """Whether a budget has a limit, so that what is spent must be stored."""
        return {self.total, self.user, *self.users.values()} != {BudgetConfig()}

    def of(self, user: str) -> BudgetConfig:
        """Return the limits of a user: those of that user, else those of each."""
        own = self.users.get(user, BudgetConfig())._asdict()
        return self.user._replace(**{name: each for name, each in own.items() if each is not None})


REMOVED = {"server.pin": "assign CPU cores with taskset or the service manager"}
"""Keys of earlier versions, which are ignored, to what replaces them."""

MODELS = {
    "model": "chat",
    "embedding_model": "embed",
    "moderation_model": "moderate",
    "transcription_model": "transcribe",
}
"""Names of the default models in the table `defaults`, to the operation."""


class Config(NamedTuple):
    """The configuration; defaults where nothing is set.

    Attributes:
        models: Default model by operation, for example `chat`.
        providers: The configured providers, by name.
        aliases: Names of models, to the model of each.
        model_configs: The table `models`; `configurations` has the aliases as well.
        approvals: Approval rule by tool name: `allow`, `ask` or `deny`. Other tools have the rule
            that they declare.
        tools: The settings of sets of tools, by name.
        safe: Whether third-party plugins are disabled. Set only by `GENAI_HOST_SAFE`.
        file: The file that was read, for errors; empty if none was.
        warnings: Lines about keys of the file that are ignored.
    """

    read_only: Annotated[
        bool, ConfigKey("reject changes to the configuration and the installed plugins")
    ] = False
    feature: Annotated[str, ConfigKey("default feature", "defaults.feature")] = "chat"
    models: Mapping[str, str] = {}
    provider_order: Annotated[
        Sequence[str], ConfigKey("order of providers, best first", "defaults.provider_order")
    ] = ()
    remember: Annotated[
        bool, ConfigKey("use the last used feature and model again", "defaults.remember")
    ] = False
    disabled: Annotated[
        Sequence[str],
        ConfigKey("plugins that are not loaded: NAME or DISTRIBUTION:NAME", "plugins.disabled"),
    ] = ()
    allowlist: Annotated[
        Sequence[str] | None,
        ConfigKey("the only plugins that are loaded; all if not set", "plugins.allowlist"),
    ] = None
    strict: Annotated[bool, ConfigKey("treat a broken plugin as an error", "plugins.strict")] = (
        False
    )
    record: Annotated[
        bool, ConfigKey("save conversations of the command line", "conversations.record")
    ] = True
    database: Annotated[
        str,
        ConfigKey(
            "database: an absolute path, or postgresql://user@host/database",
            "conversations.database",
            check=wrong_store,
        ),
    ] = ""
    server: ServerConfig = ServerConfig()
    budgets: BudgetsConfig = BudgetsConfig()
    providers: Mapping[str, InstanceConfig] = {}
    aliases: Mapping[str, str] = {}
    model_configs: Mapping[str, ModelConfig] = {}
    approvals: Mapping[str, str] = {}
    tools: Mapping[str, SetConfig] = {}
    safe: bool = False
    file: str = ""
    warnings: Sequence[str] = ()

    @property
    def configurations(self) -> dict[str, ModelConfig]:
        """The model configurations by name. An alias is one without parameters."""
        aliases = {name: ModelConfig(of) for name, of in self.aliases.items()}
        return {**aliases, **self.model_configs}

    def value(self, name: str) -> Any:
        """Return the value of one of `known_keys`."""
        key, table = known_keys()[name], name.partition(".")[0]
        if key.field == "models":
            return self.models.get(MODELS[name.partition(".")[2]], "")
        return getattr(getattr(self, table) if table in NESTED else self, key.field)

    def replaced(self, values: Mapping[str, Any]) -> Config:
        """Return the configuration with other values for some of `known_keys`."""
        own: dict[str, Any] = {}
        nested: dict[str, dict[str, Any]] = {table: {} for table in NESTED}
        models = dict(self.models)
        for name, value in values.items():
            table, _, last = name.partition(".")
            if known_keys()[name].field == "models":
                models[MODELS[last]] = value
            else:
                nested.get(table, own)[known_keys()[name].field] = value
        own.update({each: getattr(self, each)._replace(**nested[each]) for each in nested})
        models = {operation: model for operation, model in models.items() if model}
        return self._replace(models=models, **own)

    def blocks(self, plugin: str, distribution: str) -> str:
        """Return why a plugin is not loaded; empty if it is. Plugins of the host itself are always
        allowed."""
        names = {plugin, f"{distribution}:{plugin}"}
        if names & set(self.disabled):
            return "disabled"
        if self.safe and third_parties([distribution]):
            return "of a third party (safe mode)"
        if self.allowlist is None or distribution == APP or names & set(self.allowlist):
            return ""
        return "not on the list of allowed plugins"


NESTED = ("server", "budgets")
"""Tables that are a field of `Config` by the same name."""

OF_NAMES = ("aliases", "approvals")
"""Tables of strings by names that the user chooses."""

APPROVALS = ("allow", "ask", "deny")
"""Values of the table `approvals`; see `genai_host.api.Approval`."""

OF_MODELS = ("of", "provider_order", "parameters")
OF_INSTANCES = ("type", "enabled", "models", "limits")

SERVICE_TOOLS = ("code_execution", "web_fetch", "web_search")
"""Names in the table `server.service_tools`; see `genai_host.api.VendorTool.kind`."""

_OTHERS = {"server": ("token", "users", "service_tools"), "budgets": ("total", "user", "users")}
"""What these tables have besides keys."""


def keys_of(table: type[Any], prefix: str = "") -> Iterator[ConfigKey]:
    """Yield the keys of the class of a table."""
    hints = typing.get_type_hints(table, include_extras=True)
    for field in table._fields:
        hint = hints[field]
        if field == "models" and table is Config:
            for name, operation in MODELS.items():
                help = f"default model for the operation {operation}"
                yield ConfigKey(help, f"defaults.{name}", field=field, default="")
        for key in getattr(hint, "__metadata__", ()):
            alternatives = typing.get_args(hint)[0]
            of = (typing.get_args(alternatives) or [alternatives])[0]
            is_list = typing.get_origin(alternatives) is Sequence or typing.get_origin(of)
            yield key._replace(
                name=key.name or f"{prefix}{field}",
                field=field,
                kind=list if is_list else of,
                default=table._field_defaults.get(field),
            )


@cache
def known_keys() -> Mapping[str, ConfigKey]:
    """Return the keys that have one value, by their names."""
    found = [
        *keys_of(Config),
        *keys_of(ServerConfig, "server."),
        *keys_of(BudgetsConfig, "budgets."),
    ]
    return {key.name: key for key in found}


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


def configuration_in(model: str, names: Container[str]) -> str:
    """The model configuration in a model name such as `precise` or `precise@provider`; empty if
    there is none.
    """
    return next((each for each in (model, model.rpartition("@")[0]) if each in names), "")


def names_in(table: str) -> list[str]:
    """Return the names that a table may have; those of the file itself if it is empty."""
    if not table:
        return ["version", *(key for key in known_keys() if "." not in key), *TABLES]
    names = [key.removeprefix(f"{table}.") for key in known_keys() if key.startswith(f"{table}.")]
    return [*names, *_OTHERS.get(table, ())]


def read_key(owner: str, text: str, name: str) -> Any:
    """Read and check the value of one of `known_keys` from text, as `read_value` does."""
    value = read_value(owner, text, known_keys()[name].kind)
    what, hint = known_keys()[name].wrong(value)
    if what:
        raise ConfigurationError(f"{owner} {what}", hint=hint)
    return value
