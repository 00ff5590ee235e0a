"""`Host`: opens conversations, and calls models without a conversation.

The path of a conversation:

    Host.open → Routing.models_for → Opened → Routing.agent → Conversation
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import evolve

from genai_host.api import Feature, Message
from genai_host.api.models import merged_parameters
from genai_host.api.services import TurnLimits
from genai_host.calls.agent import Agent
from genai_host.calls.middleware import CallMiddleware
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
from genai_host.host.arguments import checked
from genai_host.host.model_calls import ModelCalls

if TYPE_CHECKING:  # importing the store is slow
    from genai_host.store.records import Summary

_V = TypeVar("_V")
_W = TypeVar("_W")


class Host(ModelCalls):
    """Loads plugins, pairs models with providers, and opens conversations.

        with Host() as host:
            print(host.open("chat", model="smollm2").say("hi").text)

    Plugins are loaded when something of them is needed. A broken plugin is then listed in
    `plugins.broken` and does not affect others. Thread-safe.

    An argument of a wrong type raises `ValidationError`, whose `path` is the name of the argument.
    All arguments except `output_type`, `request` and `state` are checked, including the items of
    lists, tuples and mappings. Items of iterators are not checked.

    `config_file` is the path of the configuration file, even if the file does not exist; empty if
    `config` was given. `retry_policy` and `store` can be set until the first call.

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

    @checked
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
            models: Model names for roles of the feature, by role; `main` is the role of `model`.
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

    @checked
    def reopen(
        self,
        record: InMemoryRecord,
        *,
        turn_limits: TurnLimits | None = None,
        output_type: Any = None,
    ) -> Conversation:
        """Restore a conversation from its event log, as of its last entry.

        A turn that has not ended is `pending`; `Conversation.resume` continues it. A model that
        cannot run is an error of the next turn only.

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
            is_restored=True,
            output_type=output_type,
            middleware=self._middleware(None, began.opened.feature),
        )

    @checked
    def conversation(
        self,
        id: str,
        model: str | None = None,
        *,
        provider: str | None = None,
        models: Mapping[str, str | None] | None = None,
        parameters: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        record: bool = True,
        turn_limits: TurnLimits | None = None,
        output_type: Any = None,
        tools: Iterable[str] | None = None,
        owner: str | None = None,
    ) -> Conversation:
        """Open a stored conversation, as of its last entry; see `reopen`.

        Without a model that can run, it can be read, undone and abandoned, and its turns raise
        `NoRoute`. Name another model in its place.

        The arguments that are given replace those of the conversation from here on; see `open`. A
        model, a model parameter or a setting that is None gets its default.

        Args:
            id: Id of the conversation, or a unique prefix.
            model: Name of the model.
            provider: Name of the provider to use.
            models: Model names for roles, by role.
            parameters: Model parameters by name.
            settings: Settings of the feature by name.
            record: False to continue a copy in memory; the stored conversation stays unchanged.
            turn_limits: Limits of each turn; None for the defaults.
            output_type: Class or JSON Schema of `Answer.data`, unless a turn has its own.
            tools: Names of the tools to allow; `*` for all.
            owner: Owner of the conversation; those of other owners are not found. None for the
                store's default owner.

        Raises:
            NotFound: The owner has no such conversation.
            StoreError: The conversation cannot be read.
            ConfigurationError: The host has no store, or an argument is invalid.
            NoRoute: Arguments are given, and no provider can run a model.
            InvalidParameter: Arguments are given, and a model parameter is unknown or invalid.
        """
        kept, entries = self.store_for(owner).record(id, self.codec)
        began = replay(entries)
        feature, now = self.feature(began.opened.feature), began.opened
        changed = None
        if model or provider or models or parameters or settings or tools is not None:
            joined = merged_parameters(now.parameters, parameters or {})
            chosen = self._routing.models_for(
                feature, model, provider, *_split(models or {}, models_in(now))
            )
            given, kept_settings = _split(settings or {}, now.settings)
            changed = Changed(
                **models_on_record(chosen),
                parameters={name: value for name, value in joined.items() if value is not None},
                settings={**kept_settings, **given},
                tools=now.tools if tools is None else self._tools.names(tools),
            )
        recorder: Recorder = kept if record else InMemoryRecord(entries)
        middleware = self._middleware(owner, feature.name, persisted=record)
        return self._converse(
            feature,
            began,
            lambda: (recorder, None),
            turn_limits,
            changed,
            is_restored=True,
            output_type=output_type,
            middleware=middleware,
        )

    @checked
    def conversations(self, *, limit: int | None = 20, after: str | None = None) -> list[Summary]:
        """List stored conversations, most recently used first.

        Args:
            limit: Maximum number; None for all.
            after: `Summary.cursor` of the last conversation of the previous page, or its id, which
                is invalid once it is deleted.
        """
        return self.store_for().conversations(limit=limit, after=after)

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
        *,
        is_restored: bool = False,
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
            is_restored=is_restored,
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


def _split(
    given: Mapping[str, _V | None], before: Mapping[str, _W]
) -> tuple[dict[str, _V], dict[str, _W]]:
    """The values that are given, and those before that stay; None removes one."""
    values = {name: value for name, value in given.items() if value is not None}
    return values, {name: value for name, value in before.items() if name not in given}
