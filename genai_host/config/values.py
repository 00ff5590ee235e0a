"""What is configured, as the host uses it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from genai_host.names import APP


class InstanceConfig(NamedTuple):
    """A named instance of a provider type, as configured.

    type        name of the provider type
    enabled     whether it may be used
    models      model name to its id there
    settings    the settings of the type, unchecked
    calls       what bounds its calls, unchecked
    overrides   settings, and `calls.NAME`, to the environment variable that has a value
                for each, unread
    """

    type: str
    enabled: bool = True
    models: Mapping[str, str] = {}
    settings: Mapping[str, Any] = {}
    calls: Mapping[str, Any] = {}
    overrides: Mapping[str, str] = {}


class SetConfig(NamedTuple):
    """The settings of a set of tools, as configured.

    settings    unchecked
    overrides   settings to the environment variable that has a value for each, unread
    """

    settings: Mapping[str, Any] = {}
    overrides: Mapping[str, str] = {}


class ServerConfig(NamedTuple):
    """How the host is served; see `genai_host.server.settings`.

    token   where the token of whoever runs the server is, unread; None for none
    users   the same for each user that has a name
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

    run       US dollars of a turn; None for any
    unknown   whether calls whose cost is not known may be made: `allow` or `refuse`
    total     of all users together
    user      of each of them
    users     of one of them: what is said here comes before `user`
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

    feature     used where the user names none
    models      for an operation, as `chat`, the model used where the user names none
    prefer      provider instances, best first, where several have a model
    remember    whether what was used last is used again where the user names nothing
    disabled    plugins not to load: a name, or `distribution:name`
    allowed     the only plugins to load; None for all
    strict      whether a broken plugin is an error
    providers   the named instances
    aliases     the user's own names of models, to what each stands for
    approvals   of tools, by name, whether they may run: `allow`, `ask` or `deny`; others
                are as they say themselves
    tools       the settings of sets of tools, by their names
    read_only   whether no command may change anything
    record      whether the command line keeps conversations
    store       where: a file, or the address of a database; empty for the usual file
    record_served   whether what programs ask of models through the server is kept as well
    server      how the host is served
    budgets     what calls of models may cost
    file        where it stands, for errors; empty if in no file
    """

    feature: str = "chat"
    models: Mapping[str, str] = {}
    prefer: Sequence[str] = ()
    disabled: Sequence[str] = ()
    allowed: Sequence[str] | None = None
    strict: bool = False
    providers: Mapping[str, InstanceConfig] = {}
    aliases: Mapping[str, str] = {}
    approvals: Mapping[str, str] = {}
    tools: Mapping[str, SetConfig] = {}
    remember: bool = False
    read_only: bool = False
    record: bool = True
    store: str = ""
    record_served: bool = False
    server: ServerConfig = ServerConfig()
    budgets: BudgetsConfig = BudgetsConfig()
    file: str = ""

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
        if self.allowed is None or distribution == APP or names & set(self.allowed):
            return ""
        return "not on the list of allowed plugins"
