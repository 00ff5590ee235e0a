"""The host: where everything is put together. Nothing is global, nothing is built
at import; two hosts in one process know nothing of each other.

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

if TYPE_CHECKING:  # most of a store's cost is to import it
    from genai_host.store import Store
    from genai_host.store.jobs import JobQueue
    from genai_host.store.records import Summary

_log = logging.getLogger(__name__)


class Host:
    """Finds plugins, joins models and providers, and opens conversations.

        with Host() as host:
            print(host.open("chat", model="smollm2").say("hi").text)

    Args:
        config: None to read the user's configuration file.
        discovery: Where plugins come from; None for the installed distributions.
        clock: None for real time.
        patience: How often calls are tried; None for the usual.
        keys: Where secrets of providers come from; None for the user's own.
        store: Where conversations are kept; None for nowhere. It is not closed here.
        prices: What calls cost by; None for those of the package genai-prices, where it is
            installed.

    Raises `ConfigurationError` if the configuration is not in order. Plugins are
    loaded when they are first needed; a broken one is in `plugins.broken` and
    disturbs no other. May be used from many threads.

    `config_file` is where the configuration was read, or would be if it were there; empty if it
    was given.
    """

    def __init__(
        self,
        *,
        config: Config | None = None,
        discovery: Discovery | None = None,
        clock: Clock | None = None,
        patience: RetryPolicy | None = None,
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
            _log.warning("there is no home directory, so that nothing is kept: %s", paths.ELSEWHERE)
        self.keys = keys or SecretStore()
        self._discovery = discovery or InstalledPlugins()
        self._own_clock = SystemClock() if clock is None else None
        self.clock: Clock = clock or self._own_clock or SystemClock()
        self._retry = Retry(self.clock, patience)
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
        caps: TurnLimits | None = None,
        returns: Any = None,
        tools: Iterable[str] | None = None,
        owner: str | None = None,
    ) -> Conversation:
        """Open a conversation.

        Args:
            feature: Its name; None for the configured one, which is `chat` unless said.
            model: Name of the model: `smollm2`, `smollm2@local`, `smollm2@local+openai-chat`,
                `local/some-id` or a model configuration's, whose parameters hold where none are
                given; None for the default.
            provider: Name of a provider instance to keep to.
            models: For further roles of the feature, names of models.
            parameters: Model parameters by name, for example `temperature`.
            settings: Settings of the feature by name.
            history: What was said before.
            state: The feature's own state, as an answer left it.
            record: Where to record; True for the host's store, or in memory if it has none; False
                for no record: then a turn that waits can be resumed by this conversation alone.
            caps: What one turn may use up.
            returns: A class, or a JSON Schema: the `Answer.data` of each turn that names no other
                will be of it. It is not on record.
            tools: The only ones that it may use: names, and beginnings of names as `git__*`; None
                for all. Those that are denied stay so.
            owner: Whose it is in the store; None for whose the store is.

        Raises `NoRoute` if nothing can run a model, `InvalidParameter` and
        `ConfigurationError` for what is unknown or wrong. A store that fails keeps
        nobody from an answer: see `Conversation.unrecorded`.
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
            caps,
            returns=returns,
            tolls=self._tolls(owner, chosen.name, is_kept=record is True),
        )

    def reopen(
        self, record: InMemoryRecord, *, caps: TurnLimits | None = None, returns: Any = None
    ) -> Conversation:
        """The conversation that a record tells of, as its last entry left it.

        A turn that had not ended is then `pending`: `Conversation.resume` goes on
        with it. Raises `ReplayError` if it is no whole record.
        """
        began = replay(record.entries)
        return self._converse(
            self.feature(began.opened.feature),
            began,
            lambda: (record, None),
            caps,
            returns=returns,
            tolls=self._tolls(None, began.opened.feature),
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
        caps: TurnLimits | None = None,
        returns: Any = None,
        tools: Iterable[str] | None = None,
        owner: str | None = None,
    ) -> Conversation:
        """A conversation from the store, as its last entry left it; see `reopen`.

        Args:
            id: Or the beginning of it, if no other begins so.
            record: False for a copy in memory: the one in the store stays as it is.
            owner: Whose it is; None for whose the store is. That of another is not found.

        The others are as `open` takes them: what is given holds from here on, and all
        else stays. A parameter that is None is removed.

        Raises `NotFound`; `StoreError` if it cannot be read; `ConfigurationError` if there
        is no store; and what `open` does.
        """
        kept, entries = self.kept(owner).record(id, self.codec)
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
        tolls = self._tolls(owner, feature.name, is_kept=record)
        return self._converse(
            feature, began, lambda: (recorder, None), caps, changed, returns, tolls
        )

    def conversations(self, *, limit: int | None = 20, after: str | None = None) -> list[Summary]:
        """What the store has, the last that was gone on with first; see
        `Store.conversations`."""
        return self.kept().conversations(limit=limit, after=after)

    def kept(self, owner: str | None = None) -> Store:
        """The store, as one of its owners sees it; None for whose it is. Raises
        `ConfigurationError` if there is none."""
        if self.store is None:
            raise ConfigurationError(
                "this host keeps no conversations", hint="give it a store: Host(store=Store())"
            )
        return self.store if owner is None else self.store.of(owner)

    def jobs(self, queue: str) -> JobQueue:
        """A durable queue of background jobs in the store, which all processes that use the store
        share; `JobQueue.worker` does them. Raises `ConfigurationError` if there is no store.

        Args:
            queue: Its name. A plugin begins it with its own name, as `shop/orders`.
        """
        from genai_host.store.jobs import JobQueue

        return JobQueue(queue, self.kept("").documents, self.clock)

    @lazy_property
    def plugins(self) -> Plugins:
        """The plugins, loaded now if they were not.

        Raises `PluginError` in strict mode if one is broken.
        """
        return Plugins(self._discovery, self.config)

    @property
    def registry(self) -> Registry:
        """What the plugins declared."""
        return self.plugins.registry

    @lazy_property
    def codec(self) -> Codec:
        """Objects to JSON and back, with the message parts of all plugins."""
        parts = tuple(self.registry.parts)
        return usual_codec() if parts == PARTS else Codec(parts)

    @lazy_property
    def _tools(self) -> PluginTools:
        return PluginTools(
            self.registry, self.config, self.keys, self.clock, self.codec, self.observers
        )

    @property
    def toolbox(self) -> Toolbox:
        """What calls the tools of all plugins."""
        return self._tools.toolbox

    def tools(self) -> dict[str, Tool]:
        """The tools that models may ask for, by name, each with the approval that the user
        wants for it. Sources of tools are asked for theirs, which may take its time."""
        return self.toolbox.tools(self._closing)

    def offered_tools(self, context: Mapping[str, Any] | None = None) -> tuple[AvailableTool, ...]:
        """Those of them that a model is offered: each as it is described to it, if it
        applies in a context and is not denied."""
        return self.toolbox.offered(context or {}, self._closing)

    def tool(self, name: str) -> Tool:
        """One of the tools. Raises `ConfigurationError` if there is none."""
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
        """Call a tool as a feature would for a model, and wait for its output.

        Args:
            arguments: JSON by name.
            context: JSON that the tool gets from a front end.
            approved: Whether a human has said that it may run, for a tool that asks.
            limits: End the call when they end, with `Cancelled`.

        What goes wrong is told in the output. Raises `ConversationClosed` once the host is
        closed, which ends the call as well.
        """
        call = ToolCall("call", name, arguments or {})
        with self._until(limits) as until:
            return self.toolbox.call(call, context or {}, until, approved=approved)

    @lazy_property
    def instances(self) -> ProviderInstances:
        """The provider instances: add, remove, enable and disable them here."""
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
        """Models, providers and dialects, joined; made anew when an instance changes."""
        return self._routing.catalog

    def refresh(self) -> Catalog:
        """The same, made anew now: keys and weights may have come since."""
        return self._routing.refresh()

    def probe(self, again: ProviderInstance | None = None) -> Catalog:
        """The catalog with the state of each provider as it was found when it was tried: whether
        its service answers and takes the key, whether its library can be loaded. Results hold
        for some seconds; a provider that takes longer than 5 s counts as unreachable.

        Args:
            again: An instance to try now in any case, such as one that was just made ready.
        """
        return self._routing.probed(again)

    def routes(self) -> list[Candidate]:
        """Every model at every provider, by what they declare: what runs, and what does not and
        why. `probe().matrix()` has the same as tried."""
        return self.refresh().matrix()

    def explain(
        self, model: str | None, provider: str | None = None, operation: Operation = "chat"
    ) -> list[Candidate]:
        """The candidates for a name as `open` takes it, best first, with those that
        cannot run. Raises `NoRoute` for an unknown name."""
        return self._routing.explain(model, provider, operation)

    def default_model(self, operation: Operation = "chat") -> DefaultModel:
        """The model used for an operation where none is named, and why it is that one:

        1. the one configured, `defaults.model` for chat;
        2. the default model of a provider in `defaults.provider_order`, in that order;
        3. that of a provider that is configured in `[providers]`;
        4. that of a provider whose calls cost nothing, such as a local one;
        5. that of any other provider that takes no key.

        A service that takes a key is never used only because the key is there.

        Raises:
            NoRoute: There is none, or it cannot run.
        """
        return self._routing.default_model(operation)

    def check_configuration(self, name: str, config: ModelConfig) -> str:
        """Why a model configuration cannot run for now; empty if it can.

        Raises `NoRoute`, `ConfigurationError` and `InvalidParameter` for one that leads to no
        model, prefers a provider that there is not, or has parameters that its model does not
        take.
        """
        return self._routing.check(name, config)

    def reconfigure(self, config: Config) -> None:
        """Use the defaults and the model configurations of another configuration from now on.
        Turns under way go on with what they began with; all else stays until a restart. For
        providers see `instances`."""
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
        """How many tokens a model would be given, by the service that runs it; nobody
        answers.

        Args:
            messages: What was said, oldest first; a string is the user's.
            model, provider: As for `open`.
            tools, schema: As for a `Prompt`.
            limits: End the call when they end, with `Cancelled`.

        Raises `NoRoute` where no service counts tokens for that model, and
        `InvalidParameter` and `UnsupportedPart` as a call would.
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
        in_pieces: bool = True,
        limits: CancelToken | None = None,
        owner: str | None = None,
        is_kept: bool = False,
    ) -> Generator[Delta, None, Completion]:
        """Ask a model once: the pieces of its answer as they come, then the whole. There is
        neither a feature nor a record, and tools that it asks for are the caller's to run.

        Args:
            model, provider: As for `open`.
            in_pieces: Whether the service is asked for pieces at all.
            limits: End the call when they end, with `Cancelled`.
            owner: For whom: whose budget it is on.
            is_kept: Whether the caller puts it into the store, which counts it there.

        Closing the generator ends the call. Raises what went wrong, as `GenaiError`.
        """
        tolls = self._tolls(owner, is_kept=is_kept)
        agent = self._agent("main", "chat", model, {}, provider, tolls)
        with self._until(limits) as until:
            # without a trace, no waits are among the pieces
            pieces: Generator[Any, None, Completion] = agent.stream(
                prompt, until, in_pieces=in_pieces
            )
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
        """Turn texts into vectors, one each, in order; see `prompt`."""
        tolls = self._tolls(owner)
        agent = self._agent("embed", "embed", model, parameters or {}, provider, tolls)
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
        """Have a text judged by the rules of a service; see `prompt`."""
        agent = self._agent("moderate", "moderate", model, {}, provider, self._tolls(owner))
        with self._until(limits) as until:
            verdict: ModerationResult = agent.ask(Moderate(text), until)
            return verdict

    @lazy_property
    def budgets(self) -> Budgets:
        """What users may spend, and what they have."""
        return Budgets(
            self.config.budgets,
            lambda: None if self.store is None else self.store.ledger,
            self.clock,
        )

    @contextmanager
    def _until(self, limits: CancelToken | None) -> Iterator[Cancellation]:
        """What ends when the host is closed, and when the caller's limits end."""
        with (
            Cancellation(self._closing) as until,
            nullcontext()
            if limits is None
            else limits.on_cancel(lambda: until.cancel(ended_with(limits))),
        ):
            yield until

    def close(self) -> None:
        """Close all conversations and providers. What is under way is cancelled."""
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
        """Who is told of what happens: the plugins that want to be."""
        return Observers(self.plugins.manager)

    @lazy_property
    def _meter(self) -> UsageRecorder:
        return UsageRecorder(lambda counted: self.kept().add_usage(counted), self.clock)

    def feature(self, name: str) -> Feature[Any]:
        """A feature by its name. Raises `ConfigurationError` if there is none."""
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
        """Where a new conversation is recorded, and why it is not."""
        if wanted is False:
            return None, None
        if wanted is True and self.store is not None:
            try:
                return self.kept(owner).create(opened, self.codec), None
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
        caps: TurnLimits | None,
        changed: Changed | None = None,
        returns: Any = None,
        tolls: Sequence[CallMiddleware] = (),
    ) -> Conversation:
        def make_agent(role: str, model: str | ModelChoice, parameters: Mapping[str, Any]) -> Agent:
            return self._agent(role, feature.roles[role], model, parameters, tolls=tolls)

        conversation = Conversation(
            feature,
            began,
            make_agent,
            self.toolbox,
            make_record,
            self.clock,
            self.codec,
            self.observers,
            self._capped(caps or TurnLimits()),
            changed,
            returns,
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
        tolls: Sequence[CallMiddleware] = (),
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
            tolls=tolls,
            choice=choice,
        )

    def _capped(self, caps: TurnLimits) -> TurnLimits:
        """With the budget of a turn, unless less is wanted."""
        budgets = self.config.budgets
        if budgets.per_turn is None or (caps.cost is not None and caps.cost <= budgets.per_turn):
            return caps
        return evolve(caps, cost=budgets.per_turn, unpriced=budgets.unknown_cost == "allow")

    def _tolls(
        self, owner: str | None, feature: str = "", *, is_kept: bool = False
    ) -> Sequence[CallMiddleware]:
        """What stands before and after calls of models; nothing, as a rule.

        Args:
            owner: Whose conversation it is, as the store has it.
            is_kept: Whether the store counts them anyway, as they are on its record.
        """
        tolls: list[CallMiddleware] = []
        user = user_of(owner or "")
        budget = self.budgets.toll(user) if self.config.budgets.are_kept else None
        if budget is not None:
            tolls.append(budget)
        if self.store is not None and not is_kept:
            tolls.append(self._meter.toll(user, feature))
        return tolls
