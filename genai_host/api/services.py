"""Services of the host that plugins are handed.

The functions of HTTP routes receive a `HostServices`, and commands find a `CommandState` in
`ctx.obj`:

    def order(request: RouteRequest, host: HostServices) -> RouteResponse:
        with host.open("chat", owner=request.user) as conversation:
            return json_response({"text": conversation.say("hi").text})

These protocols have what plugins need of the classes of the host. Providers receive `Services`,
and functions that can take long a `CancelToken`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from attrs import frozen

from genai_host.api.calls import CancelToken
from genai_host.api.codec import Codec
from genai_host.api.features import Answer, Event, Feature
from genai_host.api.messages import Message, Part
from genai_host.api.providers import Clock
from genai_host.api.results import Embeddings
from genai_host.api.steps import Pause
from genai_host.api.tools import AvailableTool, Tool, ToolOutput
from genai_host.errors import GenaiError

if TYPE_CHECKING:
    from typing import Self

    from genai_host.api.storage import BackgroundQueue, OwnerStore
    from genai_host.config import Config


@frozen
class TurnLimits:
    """Limits of one turn.

    Attributes:
        max_model_calls: Model calls.
        steps: Steps of any kind, except `Progress`.
        seconds: Duration, without waits for a `RateLimit`; None for no limit.
        parallel: Steps that run concurrently.
        cost: US dollars at list price; None for no limit. Checked before each model call, so the
            last call can exceed it. After a call of unknown cost, no other is made.
        allow_unknown_cost: Whether calls of unknown cost count as free.
    """

    max_model_calls: int = 50
    steps: int = 1000
    seconds: float | None = 600.0
    parallel: int = 8
    cost: float | None = None
    allow_unknown_cost: bool = False


class ConversationHandle(Protocol):
    """An open conversation with a feature; a context manager that closes it on exit.

    It runs one turn at a time. `close` can be called from any thread.
    """

    @property
    def id(self) -> str:
        """Id for `HostServices.conversation`; empty if the conversation is not stored."""

    @property
    def history(self) -> tuple[Message, ...]:
        """The messages of successful turns, oldest first."""

    @property
    def state(self) -> Any:
        """State of the feature, from the last answer."""

    @property
    def turns(self) -> int:
        """Number of turns started."""

    @property
    def status(self) -> str:
        """`idle`, `running`, `closed`, `paused` (for a result) or `pending` (a turn
        in the event log has not ended)."""

    @property
    def current_pause(self) -> Pause[Any] | None:
        """The pause that the turn is in; None if it is not paused."""

    def say(
        self,
        message: str | Part | Message | Iterable[str | Part] | None = None,
        *,
        context: Mapping[str, Any] | None = None,
        output_type: Any = None,
    ) -> Answer:
        """Send a message and wait for the answer, as `Conversation.say`. None takes a turn without
        a message."""

    def stream(
        self,
        message: str | Part | Message | Iterable[str | Part] | None = None,
        *,
        context: Mapping[str, Any] | None = None,
        output_type: Any = None,
    ) -> Generator[Event, None, None]:
        """Send a message and yield the events of the turn, as `Conversation.stream`."""

    def resume(self, result: Any = None, *, output_type: Any = None) -> Answer:
        """Resume a turn that is paused or was interrupted, as `Conversation.resume`."""

    def resume_stream(
        self, result: Any = None, *, output_type: Any = None
    ) -> Generator[Event, None, None]:
        """Resume a turn and yield its events, as `Conversation.resume_stream`."""

    def close(self, reason: GenaiError | None = None) -> None:
        """Close the conversation, as `Conversation.close`."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...


class RouteCandidate(Protocol):
    """A route for a model."""

    @property
    def runs(self) -> bool:
        """Whether the model can run there."""


class Declarations(Protocol):
    """What plugins declare."""

    @property
    def features(self) -> Mapping[str, Feature[Any]]:
        """Features by name."""


class HostServices(Protocol):
    """The host, for HTTP routes and commands of plugins. Thread-safe."""

    @property
    def clock(self) -> Clock:
        """Source of time; use it instead of the module `time`."""

    @property
    def codec(self) -> Codec:
        """Converts objects to JSON and back, with the message parts of all plugins."""

    @property
    def config(self) -> Config:
        """The configuration."""

    @property
    def registry(self) -> Declarations:
        """What plugins declare."""

    def feature(self, name: str) -> Feature[Any]:
        """A feature by its name, as `Host.feature`."""

    def open(
        self,
        feature: str | None = None,
        model: str | None = None,
        *,
        models: Mapping[str, str] | None = None,
        parameters: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        history: Iterable[Message] = (),
        state: Any = None,
        record: bool = True,
        turn_limits: TurnLimits | None = None,
        output_type: Any = None,
        tools: Iterable[str] | None = None,
        owner: str | None = None,
        id: str = "",
    ) -> ConversationHandle:
        """Open a conversation, as `Host.open`, with these arguments only. `record` is whether the
        store keeps the event log; without it, only this object can resume a paused turn."""

    def conversation(self, id: str, *, owner: str | None = None) -> ConversationHandle:
        """Open a stored conversation, as of its last entry, as `Host.conversation`."""

    def store_for(self, owner: str | None = None) -> OwnerStore:
        """The store, limited to one owner, as `Host.store_for`."""

    def jobs(self, queue: str) -> BackgroundQueue:
        """A queue of background jobs in the store, as `Host.jobs`."""

    def offered_tools(self) -> Sequence[AvailableTool]:
        """The tools that a model is offered. It queries all sources, which can be slow."""

    def tool(self, name: str) -> Tool:
        """A tool by its name, as `Host.tool`."""

    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        context: Mapping[str, Any] | None = None,
        approved: bool = False,
        limits: CancelToken | None = None,
    ) -> ToolOutput:
        """Call a tool, and wait for its output, as `Host.call_tool`."""

    def embed(
        self,
        texts: Iterable[str],
        *,
        model: str | None = None,
        purpose: Literal["query", "document"] | None = None,
        limits: CancelToken | None = None,
        owner: str | None = None,
    ) -> Embeddings:
        """Compute embedding vectors, one per text, in order, as `Host.embed`."""

    def explain(self, model: str | None) -> Sequence[RouteCandidate]:
        """The routes for a model, best first, including those that cannot run, as
        `Host.explain`. Raises `NoRoute`: the model is unknown."""


class CommandState(Protocol):
    """State of one run of the command line, which a command finds in `ctx.obj`."""

    @property
    def host(self) -> HostServices:
        """The host. It has no store, unless `recording_host` was used."""

    @property
    def recording_host(self) -> HostServices:
        """The host, with the store of the command line. Importing the store is slow."""
