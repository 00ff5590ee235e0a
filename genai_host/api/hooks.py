"""The hooks of plugins.

A plugin is an entry point in the group `genai_host`. It names a module or an object with functions
marked `@hookimpl`, which implement hooks:

    from genai_host.api import Model, hookimpl

    @hookimpl
    def genai_models():
        yield Model("my-model", dialects=["openai-chat"], at={"openai": "my-model-1"})

The host calls declaring hooks when it needs a contribution of the plugin. They must not import
large modules, or open files or connections. Except for tool sources, their results may depend only
on the installed distributions, because the host saves the names that a plugin declares, and reads
them again only after distributions were installed or removed. A plugin is loaded at each start if
it is installed as editable, has a hook that observes, or its `genai_tool_sources` returned a
`ToolSource` or nothing.

Hooks that observe (`genai_on_...`, `genai_call_headers`) run in pluggy's order: wrappers, then
`tryfirst`, then the last registered plugin first. An exception of a hook is logged and affects
neither the host nor other plugins. They run in the thread that they observe, which waits for them:
a hook must not block. One that runs for more than 10 seconds is logged, and until it returns no
other of these hooks of the plugin is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pluggy
from attrs import field, frozen

from genai_host.api.calls import Call, Operation
from genai_host.api.dialects import Dialect
from genai_host.api.features import Answer, Feature, Turn
from genai_host.api.http_routes import HttpApi, HttpRoute, RouteRequest
from genai_host.api.messages import Part, ToolCall
from genai_host.api.models import Model, Offering
from genai_host.api.providers import ProviderType
from genai_host.api.results import (
    Completion,
    Embeddings,
    ModerationResult,
    RouteInfo,
    TokenCount,
    Transcription,
)
from genai_host.api.settings import SETTINGS
from genai_host.api.tools import ReactionType, Tool, ToolOutput, ToolSet, ToolSource
from genai_host.api.validators import ADDRESS, CALLABLE, TEXT
from genai_host.util.names import GROUP

if TYPE_CHECKING:
    from concurrent.futures import Executor


@frozen
class Command:
    """A declaration of a subcommand of `genai-host`.

    Attributes:
        name: Name on the command line; `[a-z0-9-]+`.
        help: One line for `--help`.
        load: The Click command, `package.module:name`; imported when it runs. Its `ctx.obj` is a
            `CommandState`.
    """

    name: str = field(validator=TEXT)
    help: str = field(validator=TEXT)
    load: str = field(validator=ADDRESS)


S = TypeVar("S")


@frozen
class ExecutorType(Generic[S]):
    """A declaration of an executor for batches, for example on a cluster.

        ExecutorType("dask", Settings, lambda settings: Client(settings.address).get_executor())

    Attributes:
        name: Unique among all plugins; `[a-z0-9-]+`.
        settings: Attrs class of its settings; see `genai_host.api.settings`.
        open: Returns a `concurrent.futures.Executor`. Its processes have the host installed, with
            their own configuration. Submitted functions can be pickled, and may run again if a
            process is lost. May raise `GenaiError`.
    """

    name: str = field(validator=TEXT)
    settings: type[S] = field(validator=SETTINGS)
    open: Callable[[S], Executor] = field(validator=CALLABLE)


hookspec = pluggy.HookspecMarker(GROUP)
hookimpl = pluggy.HookimplMarker(GROUP)


@hookspec
def genai_api() -> int:
    """Version of this interface that the plugin was written for: `API_VERSION`. A plugin without
    this hook counts as compatible."""


@hookspec
def genai_providers() -> Iterable[ProviderType[Any]]:
    """Declare provider types."""


@hookspec
def genai_dialects() -> Iterable[Dialect[Any, Any]]:
    """Declare dialects."""


@hookspec
def genai_models() -> Iterable[Model]:
    """Declare models."""


@hookspec
def genai_offerings() -> Iterable[Offering]:
    """Declare which provider offers which model, with its id there."""


@hookspec
def genai_features() -> Iterable[Feature[Any]]:
    """Declare features."""


@hookspec
def genai_tools() -> Iterable[Tool]:
    """Declare tools."""


@hookspec
def genai_tool_sources() -> Iterable[ToolSource | ToolSet[Any]]:
    """Declare sources of tools, and tools with settings."""


@hookspec
def genai_reactions() -> Iterable[ReactionType]:
    """Declare types of reactions (client actions), and how the command line renders them."""


@hookspec
def genai_parts() -> Iterable[type[Part]]:
    """Declare kinds of message part."""


@hookspec
def genai_executors() -> Iterable[ExecutorType[Any]]:
    """Declare executors for batches."""


@hookspec
def genai_http_routes() -> Iterable[HttpRoute]:
    """Declare HTTP routes of the server."""


@hookspec
def genai_http_apis() -> Iterable[HttpApi]:
    """Declare APIs of the server, with a form of errors and of the list of models."""


@hookspec
def genai_commands() -> Iterable[Command]:
    """Declare subcommands of the command line."""


@hookspec
def genai_on_change(kind: str, name: str, added: bool) -> None:
    """Called when something was added to a running host, or removed.

    Args:
        kind: `provider`.
        name: Name of the provider.
        added: Whether it was added; False if it was removed.
    """


@hookspec
def genai_on_turn_start(
    id: str, feature: str, turn: Turn[Any], conversation: str, model: str
) -> None:
    """Called when a turn starts, or resumes after a pause, in the thread of the turn, which waits.

    Args:
        id: Pairs the start with its end, and is the `parent` of the calls of the turn.
        feature: Name of the feature.
        turn: The message and its context.
        conversation: Id of the stored conversation; empty if it is not stored.
        model: Model of the main role, for example `name@provider`; empty if there is none.
    """


@hookspec
def genai_on_turn_end(
    id: str,
    feature: str,
    turn: Turn[Any],
    conversation: str,
    model: str,
    answer: Answer | None,
    error: Exception | None,
    seconds: float,
) -> None:
    """Called when a turn has ended, or pauses. The arguments are those of the start, and:

    - `answer`: the answer; None if the turn failed or pauses
    - `error`: the error; `TurnPaused` for a pause; None if there is an answer
    - `seconds`: duration
    """


@hookspec
def genai_on_call_start(
    id: str, parent: str, operation: Operation, route: RouteInfo, call: Call
) -> None:
    """Called before each attempt of a call of a model.

    Args:
        id: Pairs the start with its end.
        parent: Id of the turn; empty if there is none.
        operation: Kind of call; `count` has the same calls as `chat`.
        route: Model, provider and dialect.
        call: The call.
    """


@hookspec
def genai_call_headers(id: str, route: RouteInfo) -> Mapping[str, str]:
    """Headers to add to the request of a call that has started, for example `traceparent`.

    Headers of the dialect take precedence. `id` and `route` are those of `genai_on_call_start`.
    """


@hookspec
def genai_on_call_end(
    id: str,
    parent: str,
    operation: Operation,
    route: RouteInfo,
    call: Call,
    result: Completion | Embeddings | ModerationResult | TokenCount | Transcription | None,
    first_token_seconds: float | None,
    error: Exception | None,
    seconds: float,
) -> None:
    """Called when an attempt of a call has ended. The arguments are those of the start, and:

    - `result`: the result; None if the call failed
    - `first_token_seconds`: seconds until the first chunk of the answer; None if not streamed
    - `error`: the error; None if there is a result
    - `seconds`: duration
    """


@hookspec
def genai_on_tool_start(id: str, parent: str, call: ToolCall) -> None:
    """Called before a tool runs, after its approval.

    The tool inherits the context (`contextvars`) that is current after all hooks were called.

    Args:
        id: Pairs the start with its end.
        parent: Id of the turn; empty if there is none.
        call: The call.
    """


@hookspec
def genai_on_tool_end(
    id: str,
    parent: str,
    call: ToolCall,
    output: ToolOutput | None,
    error: Exception | None,
    seconds: float,
) -> None:
    """Called when a tool has ended. The arguments are those of the start, and:

    - `output`: the output, which can report a failure; None if the turn ended
    - `error`: the error that ended the turn; None if there is an output
    - `seconds`: duration
    """


@hookspec
def genai_on_request_start(id: str, request: RouteRequest, route: str) -> None:
    """Called before the server handles an admitted request, in the thread that handles it.

    Args:
        id: Pairs the start with its end.
        request: The request.
        route: Path of the route, for example `/api/shop/orders/{id}`; empty if there is none.
    """


@hookspec
def genai_on_request_end(
    id: str, request: RouteRequest, route: str, status: int, error: Exception | None, seconds: float
) -> None:
    """Called when the reply was sent, or the client disconnected. The arguments are those of the
    start, and:

    - `status`: HTTP status of the reply
    - `error`: the exception of the handler, if there was one
    - `seconds`: duration
    """


@hookspec
def genai_on_close() -> None:
    """Called when the host was closed; no hook is called afterwards."""
