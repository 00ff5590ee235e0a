"""The host, which puts all parts together.

It has no global state and does no work at import; two hosts in one process are independent.

    Host.open → Plugins → Routing → Route → Agent → Conversation
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Literal

from attrs import evolve

from genai_host.api import (
    AvailableTool,
    CancelToken,
    Clock,
    Codec,
    Completion,
    CountTokens,
    Delta,
    Embed,
    Embeddings,
    Feature,
    Message,
    Moderate,
    ModerationResult,
    Operation,
    Prompt,
    TokenCount,
    Tool,
    ToolCall,
    ToolOutput,
    ToolSchema,
)
from genai_host.api.cancellation import Cancellation, ended_with
from genai_host.api.codec import usual_codec
from genai_host.api.messages import PARTS
from genai_host.api.models import merged_parameters
from genai_host.calls.agent import Agent
from genai_host.calls.middleware import CallMiddleware
from genai_host.calls.retry import Retry, RetryPolicy
from genai_host.calls.router import DefaultModel, Routing
from genai_host.catalog.catalog import Catalog, ModelChoice
from genai_host.catalog.join import Candidate
from genai_host.catalog.prices import Prices, installed_prices
from genai_host.config import Config, ModelConfig, read_config
from genai_host.config.environment import unknown_in
from genai_host.conversations.conversation import Conversation, MakeRecord
from genai_host.conversations.driver import TurnLimits
from genai_host.conversations.record import (
    Changed,
    InMemoryRecord,
    Opened,
    Recorder,
    models_in,
    models_on_record,
    new_tag,
    warn_unrecorded,
)
from genai_host.conversations.replay import ConversationState, replay
from genai_host.errors import ConfigurationError, ConversationClosed, StoreError
from genai_host.plugins.discovery import Discovery, InstalledPlugins, Plugins
from genai_host.plugins.observers import Observers
from genai_host.plugins.registry import Registry
from genai_host.providers.instance import ProviderInstance
from genai_host.providers.instances import ProviderInstances
from genai_host.providers.limits import RateLimiter
from genai_host.secrets.keys import SecretStore
from genai_host.tools.plugin_tools import PluginTools
from genai_host.tools.toolbox import Toolbox
from genai_host.usage.budgets import Budgets, user_of
from genai_host.usage.metering import UsageRecorder
from genai_host.util import paths
from genai_host.util.clock import SystemClock
from genai_host.util.lazy_property import lazy_property
from genai_host.util.names import STARTER_HINT, what_there_is

if TYPE_CHECKING:  # importing the store is slow
    from genai_host.store import Store
    from genai_host.store.jobs import JobQueue
    from genai_host.store.records import Summary

_log = logging.getLogger(__name__)


class Host:
    """Loads plugins, pairs models with providers, and opens conversations.

        with Host() as host:
            print(host.open("chat", model="smollm2").say("hi").text)

    Plugins are loaded on first use. A broken plugin is listed in `plugins.broken` and does not
    affect others. Thread-safe.

    `config_file` is the path of the configuration file, even if the file does not exist; empty if
    `config` was given.

    Args:
        config: Configuration; None to read the user's configuration file.
        discovery: Source of plugins; None for the installed distributions.
        clock: Source of time; None for real time.
        retry_policy: Retry policy of calls; None for the default.
        keys: Source of secrets; None for the user's environment, keyring and files.
        store: Store for conversations; None to save none. `close` does not close it.
        prices: Price list; None for the package genai-prices, if it is installed.

    Raises:
        ConfigurationError: The configuration file is invalid.
    """

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
        self._retry = Retry(self.clock, retry_policy)
        self._rates = RateLimiter(self.clock)
        self.store = store
        self._prices = prices
        self._lock = threading.RLock()
        self._conversations: weakref.WeakSet[Conversation] = weakref.WeakSet()
        self._closed = False
        self._closing = Cancellation()

    def open(
        self,
        feature: str | None = None,
        model: str | None = None,
        *,
        provider: str | None = None,
        models: Mapping[str, str] | None = None,
        parameters: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        history: Iterable[Message] = (),
        state: Any = None,
        record: Recorder | bool = True,
        turn_limits: TurnLimits | None = None,
        output_type: Any = None,
        tools: Iterable[str] | None = None,
        owner: str | None = None,
    ) -> Conversation:
        """Open a conversation.

        If the store cannot be written, the conversation continues unrecorded; see
        `Conversation.record_error`.

        Args:
            feature: Name of the feature; None for `defaults.feature`, or else `chat`.
            model: Name of the model: `smollm2`, `smollm2@local`, `smollm2@local+openai-chat`,
                `local/some-id`, or a model configuration, whose parameters are defaults; None for
                the default model.
            provider: Name of the provider to use; None for any.
            models: Model names for further roles of the feature, by role.
            parameters: Model parameters by name, for example `temperature`.
            settings: Settings of the feature by name.
            history: Earlier messages, oldest first.
            state: State of the feature, from `Answer.state`.
            record: Event log; True for the host's store, or in memory if it has none; False for
                none: then only this object can resume a paused turn.
            turn_limits: Limits of each turn; None for the defaults.
            output_type: Class or JSON Schema of `Answer.data`, unless a turn has its own. It is not
                recorded.
            tools: Names of the tools to allow; `git__*` matches a prefix. None for all. Denied
                tools stay denied.
            owner: Owner of the conversation in the store; None for the store's default owner.

        Returns:
            The conversation.

        Raises:
            NoRoute: No provider can run a model.
            InvalidParameter: A model parameter is unknown or invalid.
            ConfigurationError: The feature, a role, a setting or a tool is unknown or invalid.
        """
        chosen = self.feature(feature or self.config.feature)
        named = self._routing.models_for(chosen, model, provider, models or {})
        opened = Opened(
            feature=chosen.name,
            version=chosen.version,
            **models_on_record(named),
            parameters=parameters or {},
            settings=settings or {},
            history=tuple(history),
            state=state,
            began=self.clock.now().isoformat(timespec="seconds"),
            tag=new_tag(),
            tools=self._tools.names(tools),
        )
        return self._converse(
            chosen,
            replay([opened]),
            lambda: self._recorder(record, opened, owner),
            turn_limits,
            output_type=output_type,
            middleware=self._middleware(owner, chosen.name, persisted=record is True),
        )

    def reopen(
        self,
        record: InMemoryRecord,
        *,
        turn_limits: TurnLimits | None = None,
        output_type: Any = None,
    ) -> Conversation:
        """Restore a conversation from its event log, as of its last entry.

        A turn that has not ended is `pending`; `Conversation.resume` continues it.

        Args:
            record: The event log.
            turn_limits: Limits of each turn; None for the defaults.
            output_type: Class or JSON Schema of `Answer.data`, unless a turn has its own.

        Raises:
            ReplayError: The event log is incomplete or invalid.
        """
        began = replay(record.entries)
        return self._converse(
            self.feature(began.opened.feature),
            began,
            lambda: (record, None),
            turn_limits,
            output_type=output_type,
            middleware=self._middleware(None, began.opened.feature),
        )

    def conversation(
        self,
        id: str,
        model: str | None = None,
        *,
        provider: str | None = None,
        models: Mapping[str, str] | None = None,
        parameters: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        record: bool = True,
        turn_limits: TurnLimits | None = None,
        output_type: Any = None,
        tools: Iterable[str] | None = None,
        owner: str | None = None,
    ) -> Conversation:
        """Open a stored conversation, as of its last entry; see `reopen`.

        The arguments that are given replace those of the conversation from here on; see `open`. A
        model parameter that is None is removed.

        Args:
            id: Id of the conversation, or a unique prefix.
            model: Name of the model.
            provider: Name of the provider to use.
            models: Model names for further roles, by role.
            parameters: Model parameters by name; None removes one.
            settings: Settings of the feature by name.
            record: False to continue a copy in memory; the stored conversation stays unchanged.
            turn_limits: Limits of each turn; None for the defaults.
            output_type: Class or JSON Schema of `Answer.data`, unless a turn has its own.
            tools: Names of the tools to allow.
            owner: Owner of the conversation; those of other owners are not found. None for the
                store's default owner.

        Raises:
            NotFound: The owner has no such conversation.
            StoreError: The conversation cannot be read.
            ConfigurationError: The host has no store, or an argument is invalid.
            NoRoute: No provider can run a model.
            InvalidParameter: A model parameter is unknown or invalid.
        """
        kept, entries = self.store_for(owner).record(id, self.codec)
        began = replay(entries)
        feature, now = self.feature(began.opened.feature), began.opened
        changed = None
        if model or provider or models or parameters or settings or tools is not None:
            joined = merged_parameters(now.parameters, parameters or {})
            chosen = self._routing.models_for(
                feature, model, provider, models or {}, models_in(now)
            )
            changed = Changed(
                **models_on_record(chosen),
                parameters={name: value for name, value in joined.items() if value is not None},
                settings={**now.settings, **(settings or {})},
                tools=now.tools if tools is None else self._tools.names(tools),
            )
        recorder: Recorder = kept if record else InMemoryRecord(entries)
        middleware = self._middleware(owner, feature.name, persisted=record)
        return self._converse(
            feature, began, lambda: (recorder, None), turn_limits, changed, output_type, middleware
        )

    def conversations(self, *, limit: int | None = 20, after: str | None = None) -> list[Summary]:
        """List stored conversations, most recently used first.

        Args:
            limit: Maximum number; None for all.
            after: Id of the last conversation of the previous page.
        """
        return self.store_for().conversations(limit=limit, after=after)

    def store_for(self, owner: str | None = None) -> Store:
        """The store, limited to one owner.

        Args:
            owner: The owner; None for the store's default owner.

        Raises:
            ConfigurationError: The host has no store.
        """
        if self.store is None:
            raise ConfigurationError(
                "this host keeps no conversations", hint="give it a store: Host(store=Store())"
            )
        return self.store if owner is None else self.store.for_owner(owner)

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

    @lazy_property
    def plugins(self) -> Plugins:
        """The plugins, loaded on first use.

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
        parts = tuple(self.registry.parts)
        return usual_codec() if parts == PARTS else Codec(parts)

    @lazy_property
    def _tools(self) -> PluginTools:
        return PluginTools(
            self.registry, self.config, self.keys, self.clock, self.codec, self.observers
        )

    @property
    def toolbox(self) -> Toolbox:
        """Calls the tools of all plugins."""
        return self._tools.toolbox

    def tools(self) -> dict[str, Tool]:
        """The available tools by name, with the user's approval rules.

        It queries all sources of tools, which can be slow.
        """
        return self.toolbox.tools(self._closing)

    def offered_tools(self, context: Mapping[str, Any] | None = None) -> tuple[AvailableTool, ...]:
        """The tools that a model is offered: those that apply in a context and are not denied.

        Args:
            context: JSON, for example `Turn.context`.
        """
        return self.toolbox.offered(context or {}, self._closing)

    def tool(self, name: str) -> Tool:
        """A tool by its name.

        Args:
            name: Name of the tool.

        Raises:
            ConfigurationError: The tool is unknown.
        """
        return self._tools.named(name, self._closing)

    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        context: Mapping[str, Any] | None = None,
        approved: bool = False,
        limits: CancelToken | None = None,
    ) -> ToolOutput:
        """Call a tool as for a model, and wait for its output. Failures are part of the output.

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

    @property
    def catalog(self) -> Catalog:
        """The available models, providers and dialects; rebuilt when a provider changes."""
        return self._routing.catalog

    def refresh(self) -> Catalog:
        """Rebuild the catalog, for example after keys or weights were added."""
        return self._routing.refresh()

    def probe(self, again: ProviderInstance | None = None) -> Catalog:
        """The catalog with the checked state of each provider: service, key, library.

        Results are cached for a few seconds. A provider that takes longer than 5 s counts as
        unreachable.

        Args:
            again: A provider to check now, without the cache.
        """
        return self._routing.probed(again)

    def routes(self) -> list[Candidate]:
        """Every model at every provider, by declaration, with the reasons of those that cannot run.

        `probe().matrix()` has the same with the checked state of providers.
        """
        return self.refresh().matrix()

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

    def default_model(self, operation: Operation = "chat") -> DefaultModel:
        """The default model of an operation, with the reason.

        It is the first of:

        1. `defaults.model` of the configuration (for chat)
        2. the default model of a provider in `defaults.provider_order`, in that order
        3. that of a provider in `[providers]`
        4. that of a provider whose calls are free, for example a local one
        5. that of any other provider without a key

        A key in the environment alone never selects a provider.

        Args:
            operation: Kind of call.

        Raises:
            NoRoute: There is no default model, or it cannot run.
        """
        return self._routing.default_model(operation)

    def check_configuration(self, name: str, config: ModelConfig) -> str:
        """Check whether a model configuration can run.

        Args:
            name: Its name.
            config: The model configuration.

        Returns:
            Why it cannot run at present; empty if it can.

        Raises:
            NoRoute: Its model is unknown.
            ConfigurationError: It prefers an unknown provider.
            InvalidParameter: Its model does not accept a parameter.
        """
        return self._routing.check(name, config)

    def reconfigure(self, config: Config) -> None:
        """Apply the defaults and model configurations of a configuration from now on.

        Turns in progress continue unchanged. Other keys apply after a restart; for providers see
        `instances`.

        Args:
            config: The configuration.
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

    def count_tokens(
        self,
        messages: str | Iterable[Message],
        *,
        model: str | None = None,
        provider: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        tools: Sequence[ToolSchema] = (),
        schema: Mapping[str, Any] | None = None,
        limits: CancelToken | None = None,
    ) -> TokenCount:
        """Count the input tokens of a prompt, as the service does, without running the prompt.

        Args:
            messages: The messages, oldest first; a string is a message of the user.
            model: Name of the model; see `open`.
            provider: Name of the provider to use; None for any.
            parameters: Model parameters by name.
            tools: Tools that the model may call.
            schema: JSON Schema of the answer.
            limits: Cancels the call.

        Raises:
            NoRoute: No provider of the model can count tokens.
            InvalidParameter: A model parameter is unknown or invalid.
            UnsupportedPart: The dialect cannot write a part of a message.
            ProviderError: The service failed.
            Cancelled: `limits` were cancelled.
        """
        said = [Message("user", messages)] if isinstance(messages, str) else messages
        prompt = Prompt(said, tools=tools, schema=schema)
        agent = self._agent("main", "chat", model, parameters or {}, provider)
        with self._until(limits) as until:
            count: TokenCount = agent.ask(CountTokens(prompt), until)
            return count

    def prompt(
        self,
        prompt: Prompt,
        *,
        model: str | None = None,
        provider: str | None = None,
        stream: bool = True,
        limits: CancelToken | None = None,
        owner: str | None = None,
        persisted: bool = False,
    ) -> Generator[Delta, None, Completion]:
        """Send a prompt to a model: yield the chunks of the answer, then return the answer.

        No feature and no event log are involved. The caller runs the tools that the model requests.
        Closing the generator cancels the call.

        Args:
            prompt: The prompt.
            model: Name of the model; see `open`.
            provider: Name of the provider to use; None for any.
            stream: Whether to request a streamed reply.
            limits: Cancels the call.
            owner: User whose budget the call counts on.
            persisted: Whether the caller stores the call, so that its usage is counted there.

        Raises:
            GenaiError: The call failed, for example `NoRoute` or a `ProviderError`.
        """
        middleware = self._middleware(owner, persisted=persisted)
        agent = self._agent("main", "chat", model, {}, provider, middleware)
        with self._until(limits) as until:
            # without a trace, `RetryWait` is not yielded
            pieces: Generator[Any, None, Completion] = agent.stream(prompt, until, stream=stream)
            return (yield from pieces)

    def embed(
        self,
        texts: Iterable[str],
        *,
        model: str | None = None,
        provider: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        purpose: Literal["query", "document"] = "document",
        limits: CancelToken | None = None,
        owner: str | None = None,
    ) -> Embeddings:
        """Compute embedding vectors, one per text, in order.

        Args:
            texts: The texts.
            model: Name of the model; None for the default model of `embed`.
            provider: Name of the provider to use; None for any.
            parameters: Model parameters by name.
            purpose: Use of the vectors; some models embed queries and documents differently.
            limits: Cancels the call.
            owner: User whose budget the call counts on.

        Raises:
            GenaiError: The call failed, for example `NoRoute` or a `ProviderError`.
        """
        middleware = self._middleware(owner)
        agent = self._agent("embed", "embed", model, parameters or {}, provider, middleware)
        with self._until(limits) as until:
            vectors: Embeddings = agent.ask(Embed(texts, purpose=purpose), until)
            return vectors

    def moderate(
        self,
        text: str,
        *,
        model: str | None = None,
        provider: str | None = None,
        limits: CancelToken | None = None,
        owner: str | None = None,
    ) -> ModerationResult:
        """Check a text against the rules of a service.

        Args:
            text: The text.
            model: Name of the model; None for the default model of `moderate`.
            provider: Name of the provider to use; None for any.
            limits: Cancels the call.
            owner: User whose budget the call counts on.

        Raises:
            GenaiError: The call failed, for example `NoRoute` or a `ProviderError`.
        """
        agent = self._agent("moderate", "moderate", model, {}, provider, self._middleware(owner))
        with self._until(limits) as until:
            verdict: ModerationResult = agent.ask(Moderate(text), until)
            return verdict

    @lazy_property
    def budgets(self) -> Budgets:
        """Budgets of users and their spending."""
        return Budgets(
            self.config.budgets,
            lambda: None if self.store is None else self.store.ledger,
            self.clock,
        )

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
            self.observers.tell("genai_on_close")
        if self._own_clock is not None:
            self._own_clock.close()

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @lazy_property
    def _routing(self) -> Routing:
        prices = installed_prices() if self._prices is None else self._prices
        return Routing(
            self.registry, self.instances, self.config, self.observers, self.clock, prices
        )

    @lazy_property
    def observers(self) -> Observers:
        """The plugins that implement hooks for events."""
        return Observers(self.plugins.manager, self.clock)

    @lazy_property
    def _meter(self) -> UsageRecorder:
        return UsageRecorder(lambda counted: self.store_for().add_usage(counted), self.clock)

    def feature(self, name: str) -> Feature[Any]:
        """A feature by its name.

        Args:
            name: Name of the feature.

        Raises:
            ConfigurationError: The feature is unknown.
        """
        try:
            return self.registry.features[name]
        except KeyError:
            known = sorted(self.registry.features)
            if not known:
                raise ConfigurationError(
                    "genai-host is installed without plugins that answer", hint=STARTER_HINT
                ) from None
            raise ConfigurationError(
                f"unknown feature {name!r}",
                hint=what_there_is("feature", name, known),
            ) from None

    def _recorder(
        self, wanted: Recorder | bool, opened: Opened, owner: str | None
    ) -> tuple[Recorder | None, StoreError | None]:
        """The event log of a new conversation, and the reason if it is not recorded."""
        if wanted is False:
            return None, None
        if wanted is True and self.store is not None:
            try:
                return self.store_for(owner).create(opened, self.codec), None
            except StoreError as error:
                warn_unrecorded(error)
                return InMemoryRecord([opened]), error
        recorder = InMemoryRecord() if wanted is True else wanted
        recorder.append(opened)
        return recorder, None

    def _converse(
        self,
        feature: Feature[Any],
        began: ConversationState,
        make_record: MakeRecord,
        turn_limits: TurnLimits | None,
        changed: Changed | None = None,
        output_type: Any = None,
        middleware: Sequence[CallMiddleware] = (),
    ) -> Conversation:
        def make_agent(role: str, model: str | ModelChoice, parameters: Mapping[str, Any]) -> Agent:
            return self._agent(role, feature.roles[role], model, parameters, middleware=middleware)

        conversation = Conversation(
            feature,
            began,
            make_agent,
            self.toolbox,
            make_record,
            self.clock,
            self.codec,
            self.observers,
            self._with_budget(turn_limits or TurnLimits()),
            changed,
            output_type,
        )
        with self._lock:
            if self._closed:
                raise ConversationClosed("the host is closed")
            self._conversations.add(conversation)
        return conversation

    def _agent(
        self,
        role: str,
        operation: Operation,
        model: str | ModelChoice | None,
        parameters: Mapping[str, Any],
        provider: str | None = None,
        middleware: Sequence[CallMiddleware] = (),
    ) -> Agent:
        routing = self._routing
        choice = (
            model if isinstance(model, ModelChoice) else routing.choice(model, operation, provider)
        )
        return Agent(
            role,
            routing.routes(choice, operation, provider),
            merged_parameters(choice.parameters, parameters) if choice else parameters,
            retry=self._retry,
            rates=self._rates,
            counters=lambda: routing.routes(choice, "count", provider),
            middleware=middleware,
            choice=choice,
        )

    def _with_budget(self, turn_limits: TurnLimits) -> TurnLimits:
        """The limits of a turn, with the budget of the configuration unless it is higher."""
        budgets = self.config.budgets
        if budgets.per_turn is None or (
            turn_limits.cost is not None and turn_limits.cost <= budgets.per_turn
        ):
            return turn_limits
        return evolve(
            turn_limits, cost=budgets.per_turn, allow_unknown_cost=budgets.unknown_cost == "allow"
        )

    def _middleware(
        self, owner: str | None, feature: str = "", *, persisted: bool = False
    ) -> Sequence[CallMiddleware]:
        """The call middleware; usually none.

        Args:
            owner: Owner of the conversation in the store.
            feature: Name of the feature, for usage.
            persisted: Whether the store counts the calls from its event log.
        """
        middleware: list[CallMiddleware] = []
        user = user_of(owner or "")
        budget = self.budgets.middleware(user) if self.config.budgets.are_kept else None
        if budget is not None:
            middleware.append(budget)
        if self.store is not None and not persisted:
            middleware.append(self._meter.middleware(user, feature))
        return middleware
