"""`Host`: opens conversations, and calls models without a conversation.

The path of a conversation:

    Host.open → Routing.models_for → Opened → Routing.agent → Conversation
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from attrs import evolve

from genai_host.api import (
    CancelToken,
    Completion,
    CountTokens,
    Delta,
    Embed,
    Embeddings,
    Feature,
    Message,
    Moderate,
    ModerationResult,
    Prompt,
    TokenCount,
    ToolSchema,
)
from genai_host.api.models import merged_parameters
from genai_host.api.services import TurnLimits
from genai_host.calls.agent import Agent
from genai_host.calls.middleware import CallMiddleware
from genai_host.calls.passthrough import PassedRequest
from genai_host.calls.route import Route
from genai_host.catalog.catalog import ModelChoice
from genai_host.conversations.conversation import Conversation, MakeRecord
from genai_host.conversations.record import (
    Changed,
    InMemoryRecord,
    Opened,
    Recorder,
    models_in,
    models_on_record,
    new_tag,
)
from genai_host.conversations.recorder import warn_unrecorded
from genai_host.conversations.replay import ConversationState, replay
from genai_host.errors import ConversationClosed, StoreError
from genai_host.host.parts import HostParts

if TYPE_CHECKING:  # importing the store is slow
    from genai_host.store.records import Summary


class Host(HostParts):
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
        id: str = "",
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
            id: Id from `Store.new_id`, for a caller that records it before the conversation
                exists; empty for a new one.

        Returns:
            The conversation.

        Raises:
            Conflict: The store has a conversation with this id.
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
            lambda: self._recorder(record, opened, owner, id),
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
        prompt_messages = [Message("user", messages)] if isinstance(messages, str) else messages
        prompt = Prompt(prompt_messages, tools=tools, schema=schema)
        agent = self._routing.agent("main", "chat", model, parameters or {}, provider)
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
            stream: Whether to request a streamed reply; otherwise, the answer is one chunk.
            limits: Cancels the call.
            owner: User whose budget is charged for the call.
            persisted: Whether the caller stores the call, so that its usage is counted there.

        Raises:
            GenaiError: The call failed, for example `NoRoute` or a `ProviderError`.
        """
        middleware = self._middleware(owner, persisted=persisted)
        agent = self._routing.agent("main", "chat", model, {}, provider, middleware)
        with self._until(limits) as until:
            # without a trace, `RetryWait` is not yielded
            pieces: Generator[Any, None, Completion] = agent.stream(prompt, until, stream=stream)
            completion = yield from pieces
            if not stream and completion.text:
                yield Delta(text=completion.text)
            return completion

    def pass_through(
        self,
        request: PassedRequest,
        *,
        model: str,
        limits: CancelToken | None = None,
        owner: str | None = None,
    ) -> Generator[Delta, None, Completion] | None:
        """Send a request in the format of the service, with only the name of the model changed.

        Args:
            request: The request.
            model: Name of the model; see `open`.
            limits: Cancels the call.
            owner: User whose budget is charged for the call.

        Returns:
            As `prompt`; None if the request has to be read and written: a provider of the model has
            another format or differs from the format's defaults, or parameters are configured.

        Raises:
            GenaiError: The call failed, for example `NoRoute` or a `ProviderError`.
        """
        agent = self._routing.agent("main", "chat", model, {}, None, self._middleware(owner))
        routes = agent.passing(request)
        return self._passed(agent, routes, request, limits) if routes else None

    def _passed(
        self,
        agent: Agent,
        routes: Sequence[Route],
        request: PassedRequest,
        limits: CancelToken | None,
    ) -> Generator[Any, None, Completion]:
        with self._until(limits) as until:
            return (yield from agent.pass_through(routes, request, until))

    def embed(
        self,
        texts: Iterable[str | Sequence[int]],
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
            texts: The texts; see `Embed`.
            model: Name of the model; None for the default model of `embed`.
            provider: Name of the provider to use; None for any.
            parameters: Model parameters by name.
            purpose: Use of the vectors; some models embed queries and documents differently.
            limits: Cancels the call.
            owner: User whose budget is charged for the call.

        Raises:
            GenaiError: The call failed, for example `NoRoute` or a `ProviderError`.
        """
        middleware = self._middleware(owner)
        agent = self._routing.agent("embed", "embed", model, parameters or {}, provider, middleware)
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
            owner: User whose budget is charged for the call.

        Raises:
            GenaiError: The call failed, for example `NoRoute` or a `ProviderError`.
        """
        agent = self._routing.agent(
            "moderate", "moderate", model, {}, provider, self._middleware(owner)
        )
        with self._until(limits) as until:
            verdict: ModerationResult = agent.ask(Moderate(text), until)
            return verdict

    def _recorder(
        self, wanted: Recorder | bool, opened: Opened, owner: str | None, id: str
    ) -> tuple[Recorder | None, StoreError | None]:
        """The event log of a new conversation, and the reason if it is not recorded."""
        if wanted is False:
            return None, None
        if wanted is True and self.store is not None:
            try:
                return self.store_for(owner).create(opened, self.codec, id), None
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
            return self._routing.agent(
                role, feature.roles[role], model, parameters, middleware=middleware
            )

        conversation = Conversation(
            feature,
            began,
            make_agent,
            self.toolbox,
            make_record,
            self.clock,
            self.codec,
            observers=self.observers,
            turn_limits=self._with_budget(turn_limits or TurnLimits()),
            changed=changed,
            output_type=output_type,
        )
        with self._lock:
            if self._closed:
                raise ConversationClosed("the host is closed")
            self._conversations.add(conversation)
        return conversation

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
