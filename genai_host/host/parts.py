"""The parts of a host: plugins, tools, providers, models, budgets and store.

A part is made on first use:

    Plugins → Registry → PluginTools → Toolbox
                       → ProviderInstances → Routing → Catalog
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Self

from genai_host.api import (
    AvailableTool,
    CancelToken,
    Clock,
    Codec,
    Feature,
    Operation,
    Tool,
    ToolCall,
    ToolOutput,
)
from genai_host.api.cancellation import Cancellation, ended_with
from genai_host.api.codec import default_codec
from genai_host.api.messages import PARTS
from genai_host.calls.middleware import CallMiddleware
from genai_host.calls.retry import RetryPolicy
from genai_host.calls.router import DefaultModel, Routing
from genai_host.catalog.catalog import Catalog
from genai_host.catalog.join import Candidate
from genai_host.catalog.prices import Prices, installed_prices
from genai_host.config import Config, ModelConfig, read_config
from genai_host.config.environment import unknown_in
from genai_host.errors import ConfigurationError, ConversationClosed
from genai_host.host.arguments import checked
from genai_host.plugins.discovery import Discovery, InstalledPlugins, Plugins
from genai_host.plugins.executors import open_executor
from genai_host.plugins.observers import Observers
from genai_host.plugins.registry import Registry
from genai_host.plugins.watchdog import Watchdog
from genai_host.providers.instance import ProviderInstance
from genai_host.providers.instances import ProviderInstances
from genai_host.secrets.keys import SecretStore
from genai_host.tools.plugin_tools import PluginTools
from genai_host.tools.toolbox import Toolbox
from genai_host.usage.budgets import Budgets, user_of
from genai_host.usage.metering import UsageRecorder
from genai_host.util import paths
from genai_host.util.clock import SystemClock
from genai_host.util.lazy_property import lazy_property
from genai_host.util.names import STARTER_HINT, unknown_name_hint

if TYPE_CHECKING:  # importing the store is slow
    from genai_host.conversations.conversation import Conversation
    from genai_host.store import Store
    from genai_host.store.jobs import JobQueue

_log = logging.getLogger(__name__)


class HostParts:
    """The base of `Host`, which describes the arguments: everything but conversations and calls of
    models."""

    @checked
    def __init__(
        self,
        *,
        config: Config | None = None,
        discovery: Discovery | None = None,
        clock: Clock | None = None,
        retry_policy: RetryPolicy | None = None,
        keys: SecretStore | None = None,
        store: Store | None = None,
        prices: Prices | None = None,
    ) -> None:
        self.config = read_config() if config is None else config
        self.config_file = paths.config_file() if config is None else ""
        if config is None:
            for variable, hint in unknown_in(os.environ).items():
                _log.warning("the environment variable %s is ignored: %s", variable, hint)
            for warning in self.config.warnings:
                _log.warning("%s", warning)
        if not paths.has_home():
            _log.warning("no home directory, conversations are not saved: %s", paths.ELSEWHERE)
        self.keys = keys or SecretStore()
        self._discovery = discovery or InstalledPlugins()
        self._own_clock = SystemClock() if clock is None else None
        self.clock: Clock = clock or self._own_clock or SystemClock()
        self.retry_policy = retry_policy
        self.store = store
        self._prices = prices
        self._lock = threading.RLock()
        self._conversations: weakref.WeakSet[Conversation] = weakref.WeakSet()
        self._closed = False
        self._closing = Cancellation()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all conversations and providers; turns and calls in progress are cancelled."""
        with self._lock:
            was_closed, self._closed = self._closed, True
            conversations = list(self._conversations)
        self._closing.cancel(ConversationClosed("the host is closed"))
        for conversation in conversations:
            conversation.close()
        if "instances" in vars(self):
            self.instances.close()
        if "_meter" in vars(self):
            self._meter.close()
        if "_tools" in vars(self):
            self.toolbox.close()
        if "observers" in vars(self) and not was_closed:
            self.observers.notify("genai_on_close")
        if self._own_clock is not None:
            self._own_clock.close()

    @lazy_property
    def plugins(self) -> Plugins:
        """The plugins, found on first use, and loaded when something of them is needed.

        Raises:
            PluginError: A plugin is broken, and `plugins.strict` is set.
        """
        return Plugins(self._discovery, self.config)

    @property
    def registry(self) -> Registry:
        """Everything that the plugins declare."""
        return self.plugins.registry

    @lazy_property
    def codec(self) -> Codec:
        """Converts objects to JSON and back, with the message parts of all plugins."""
        parts = tuple(self.registry.parts.values())
        return default_codec() if parts == PARTS else Codec(parts)

    @lazy_property
    def observers(self) -> Observers:
        """The plugins that implement hooks for events."""
        watchdog = Watchdog(self._own_clock, self.registry.owner)
        return Observers(self.plugins.manager, watchdog)

    @lazy_property
    def instances(self) -> ProviderInstances:
        """The providers; add, remove, enable and disable them here."""
        return ProviderInstances(
            self.registry.providers,
            self.config.providers,
            self.clock,
            self.observers,
            self.keys,
            self.config.file,
        )

    @lazy_property
    def budgets(self) -> Budgets:
        """Budgets of users and their spending."""
        return Budgets(
            self.config.budgets,
            lambda: None if self.store is None else self.store.ledger,
            self.clock,
        )

    @checked
    def feature(self, name: str) -> Feature[Any]:
        """A feature by its name.

        Raises:
            ConfigurationError: The feature is unknown.
        """
        try:
            return self.registry.features[name]
        except KeyError:
            known = sorted(self.registry.features)
            if not known:
                raise ConfigurationError("no feature is installed", hint=STARTER_HINT) from None
            raise ConfigurationError(
                f"unknown feature {name!r}", hint=unknown_name_hint("feature", name, known)
            ) from None

    @checked
    def store_for(self, owner: str | None = None) -> Store:
        """The store, limited to one owner.

        Args:
            owner: The owner; None for the store's default owner.

        Raises:
            ConfigurationError: The host has no store.
        """
        if self.store is None:
            raise ConfigurationError("the host has no store", hint="pass one: Host(store=Store())")
        return self.store if owner is None else self.store.for_owner(owner)

    @checked
    def jobs(self, queue: str) -> JobQueue:
        """A durable queue of background jobs in the store, shared by all processes that use the
        store.

        `JobQueue.worker` runs the jobs.

        Args:
            queue: Name of the queue; a plugin prefixes it with its own name, for example
                `shop/orders`.

        Raises:
            ConfigurationError: The host has no store.
        """
        from genai_host.store.jobs import JobQueue

        return JobQueue(queue, self.store_for("").documents, self.clock)

    @property
    def toolbox(self) -> Toolbox:
        """Calls the tools of all plugins."""
        return self._tools.toolbox

    def tools(self) -> dict[str, Tool]:
        """The available tools by name, with the user's approval rules.

        It queries all sources of tools, which can be slow.
        """
        return self.toolbox.tools(self._closing)

    @checked
    def offered_tools(self, context: Mapping[str, Any] | None = None) -> tuple[AvailableTool, ...]:
        """The tools that a model is offered: those available in a context and not denied.

        Args:
            context: JSON, for example `Turn.context`.
        """
        return self.toolbox.offered(context or {}, self._closing)

    @checked
    def tool(self, name: str) -> Tool:
        """A tool by its name.

        Raises:
            ConfigurationError: The tool is unknown.
        """
        return self._tools.named(name, self._closing)

    @checked
    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        context: Mapping[str, Any] | None = None,
        approved: bool = False,
        limits: CancelToken | None = None,
    ) -> ToolOutput:
        """Call a tool as a model does, and return its output. A failed call returns an output with
        `error`.

        Args:
            name: Name of the tool.
            arguments: Arguments by name; JSON.
            context: JSON for the tool, for example from a client.
            approved: Whether a person approved the call; needed for a tool with the rule `ask`.
            limits: Cancels the call.

        Raises:
            Cancelled: `limits` were cancelled.
            ConversationClosed: The host was closed.
        """
        call = ToolCall("call", name, arguments or {})
        with self._until(limits) as until:
            return self.toolbox.call(call, context or {}, until, approved=approved)

    @checked
    def open_executor(self, name: str, settings: Mapping[str, Any]) -> Executor:
        """Open an executor of a plugin, which the caller shuts down.

        Args:
            name: Name of the executor.
            settings: Settings by name; others are from the environment, or defaults.

        Raises:
            ConfigurationError: The executor is unknown, or a setting is invalid.
            Exception: The plugin failed.
        """
        return open_executor(self.registry, self.observers.watchdog, name, settings)

    @property
    def catalog(self) -> Catalog:
        """The available models, providers and dialects; rebuilt when a provider changes."""
        return self._routing.catalog

    def refresh(self) -> Catalog:
        """Rebuild the catalog, for example after keys or weights were added."""
        return self._routing.refresh()

    @checked
    def probe(self, again: ProviderInstance | None = None) -> Catalog:
        """The catalog with the checked state of each provider: service, key, library.

        Results are cached for a few seconds. A provider that takes longer than 5 s counts as
        unreachable.

        Args:
            again: A provider to check now, without the cache.
        """
        return self._routing.probed(again)

    def routes(self) -> list[Candidate]:
        """Each declared model at each of its providers, with the reasons if it cannot run.

        `probe().matrix()` has the same with the checked state of providers.
        """
        return self.refresh().matrix()

    @checked
    def explain(
        self, model: str | None, provider: str | None = None, operation: Operation = "chat"
    ) -> list[Candidate]:
        """The candidates for a model, best first, including those that cannot run.

        Args:
            model: Name of the model; see `open`.
            provider: Name of the provider to use; None for any.
            operation: Kind of call.

        Raises:
            NoRoute: The model or the provider is unknown.
        """
        return self._routing.explain(model, provider, operation)

    @checked
    def default_model(self, operation: Operation = "chat") -> DefaultModel:
        """The default model of an operation, with the reason.

        It is the first of:

        1. `defaults.model` of the configuration (for chat)
        2. the default model of a provider in `defaults.provider_order`, in that order
        3. that of a provider in `[providers]`
        4. that of a provider whose calls are free, for example a local one
        5. that of any other provider without a key

        A key in the environment alone never selects a provider.

        Raises:
            NoRoute: There is no default model, or it cannot run.
        """
        return self._routing.default_model(operation)

    @checked
    def check_configuration(self, name: str, config: ModelConfig) -> str:
        """Check whether a model configuration can run.

        Returns:
            Why it cannot run at present; empty if it can.

        Raises:
            NoRoute: Its model is unknown.
            ConfigurationError: It prefers an unknown provider.
            InvalidParameter: Its model does not accept a parameter.
        """
        return self._routing.check(name, config)

    @checked
    def reconfigure(self, config: Config) -> None:
        """Apply the default models and the model configurations of `config` to new calls.

        Turns in progress continue unchanged. Other keys apply after a restart; for providers see
        `instances`.
        """
        self.config = self.config._replace(
            feature=config.feature,
            models=config.models,
            provider_order=config.provider_order,
            aliases=config.aliases,
            model_configs=config.model_configs,
        )
        if "_routing" in vars(self):
            self._routing.configure(self.config)

    @lazy_property
    def _tools(self) -> PluginTools:
        return PluginTools(
            self.registry, self.config, self.keys, self.clock, self.codec, self.observers
        )

    @lazy_property
    def _routing(self) -> Routing:
        prices = installed_prices() if self._prices is None else self._prices
        return Routing(
            self.registry,
            self.instances,
            self.config,
            self.observers,
            self.clock,
            prices,
            self.retry_policy,
        )

    @lazy_property
    def _meter(self) -> UsageRecorder:
        return UsageRecorder(lambda counted: self.store_for().add_usage(counted), self.clock)

    @contextmanager
    def _until(self, limits: CancelToken | None) -> Iterator[Cancellation]:
        """Limits that are cancelled with the host, and with those of the caller."""
        with (
            Cancellation(self._closing) as until,
            nullcontext()
            if limits is None
            else limits.on_cancel(lambda: until.cancel(ended_with(limits))),
        ):
            yield until

    def _middleware(
        self, owner: str | None, feature: str = "", *, persisted: bool = False
    ) -> Sequence[CallMiddleware]:
        """The call middleware; usually none. `persisted` is whether the store counts the calls from
        its event log."""
        middleware: list[CallMiddleware] = []
        user = user_of(owner or "")
        budget = self.budgets.middleware(user) if self.config.budgets.are_kept else None
        if budget is not None:
            middleware.append(budget)
        if self.store is not None and not persisted:
            middleware.append(self._meter.middleware(user, feature))
        return middleware
