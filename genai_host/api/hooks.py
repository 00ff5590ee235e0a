"""The hooks: all that a plugin can tell the host, and the host a plugin.

A plugin is an entry point in the group `genai_host` that names a module, or an
object, with functions marked `@hookimpl`. It implements the hooks it needs:

    from genai_host.api import Model, hookimpl

    @hookimpl
    def genai_models():
        yield Model("my-model", dialects=["openai-chat"], at={"openai": "my-model-1"})

Hooks that declare are called when the host starts, so they import nothing heavy and open
nothing. Hooks that observe (`genai_on_...`, `genai_call_headers`) run as pluggy runs them:
wrappers run, `tryfirst` comes first, and of others the plugin that was registered last. One that
raises is logged and affects neither the host nor other plugins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pluggy
from attrs import field, frozen

from genai_host.api.calls import (
    Call,
    Completion,
    Embeddings,
    ModerationResult,
    Operation,
    RouteInfo,
    TokenCount,
)
from genai_host.api.dialects import Dialect
from genai_host.api.features import Answer, Feature, Turn
from genai_host.api.http_routes import HttpRoute, RouteRequest
from genai_host.api.messages import Part, ToolCall
from genai_host.api.models import Model, Offering
from genai_host.api.providers import ProviderType
from genai_host.api.settings import SETTINGS
from genai_host.api.tools import ReactionType, Tool, ToolOutput, ToolSet, ToolSource
from genai_host.api.validators import ADDRESS, CALLABLE, TEXT
from genai_host.util.names import GROUP

if TYPE_CHECKING:
    from concurrent.futures import Executor


@frozen
class Command:
    """A subcommand of `genai-host`.

    Attributes:
        name: What the user types; `[a-z0-9-]+`.
        help: One line for `--help`.
        load: The click command, for example `package.module:name`; imported when it runs.
    """

    name: str = field(validator=TEXT)
    help: str = field(validator=TEXT)
    load: str = field(validator=ADDRESS)


S = TypeVar("S")


@frozen
class ExecutorType(Generic[S]):
    """What a plugin registers to have batches done somewhere else, as on a cluster.

        ExecutorType("dask", Settings, lambda settings: Client(settings.address).get_executor())

    Attributes:
        name: Unique among all plugins; `[a-z0-9-]+`.
        settings: Attrs class of its settings; see `genai_host.api.settings`.
        open: Gives an executor of the standard library's kind (`concurrent.futures`). What is
            submitted to it can be pickled and is safe to be done again where the process that did
            it is gone; it is done in processes that have the host installed, and a configuration of
            their own. It may raise `GenaiError`.
    """

    name: str = field(validator=TEXT)
    settings: type[S] = field(validator=SETTINGS)
    open: Callable[[S], Executor] = field(validator=CALLABLE)


hookspec = pluggy.HookspecMarker(GROUP)
hookimpl = pluggy.HookimplMarker(GROUP)


@hookspec
def genai_api() -> int:
    """The version of this interface that the plugin was written for: `API_VERSION`.
    A plugin that leaves it out is taken to fit."""


@hookspec
def genai_providers() -> Iterable[ProviderType[Any]]:
    """The provider types that the plugin brings."""


@hookspec
def genai_dialects() -> Iterable[Dialect[Any, Any]]:
    """The dialects that the plugin brings."""


@hookspec
def genai_models() -> Iterable[Model]:
    """The models that the plugin declares."""


@hookspec
def genai_offerings() -> Iterable[Offering]:
    """Which provider has which model, under which id."""


@hookspec
def genai_features() -> Iterable[Feature[Any]]:
    """The features that the plugin brings."""


@hookspec
def genai_tools() -> Iterable[Tool]:
    """The tools that the plugin brings, for models to ask for."""


@hookspec
def genai_tool_sources() -> Iterable[ToolSource | ToolSet[Any]]:
    """Where the plugin has tools from that have settings, or that it does not know
    beforehand."""


@hookspec
def genai_reactions() -> Iterable[ReactionType]:
    """The types of reactions, by which tools tell front ends what to do, and how the
    command line shows them: as text, or as a picture."""


@hookspec
def genai_parts() -> Iterable[type[Part]]:
    """The kinds of message part that the plugin brings."""


@hookspec
def genai_executors() -> Iterable[ExecutorType[Any]]:
    """Where the plugin can have the rows of batches done."""


@hookspec
def genai_http_routes() -> Iterable[HttpRoute]:
    """What the plugin answers over HTTP, under paths of its own."""


@hookspec
def genai_commands() -> Iterable[Command]:
    """The subcommands that the plugin adds to the command line."""


@hookspec
def genai_on_change(kind: str, name: str, added: bool) -> None:
    """Something was added to a running host, or removed (`added` is False).

    Args:
        kind: `provider`: a provider instance.
        name: Its name.
    """


@hookspec
def genai_on_turn_start(
    id: str, feature: str, turn: Turn[Any], conversation: str, model: str
) -> None:
    """A turn of a feature begins, or goes on after a pause; `id` pairs the start with its
    end, and is the `parent` of the calls that are made for it, in whatever thread that is.
    What happens is told in the thread where it happens, and waits for whoever is told.

    Args:
        turn: What was said, and what it is to be answered with.
        conversation: Where it is kept; empty if it is not.
        model: That plays the main role, for example `name@provider`; empty if none does.
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
    """A turn has ended, with an answer or with an error: `TurnPaused` if it pauses."""


@hookspec
def genai_on_call_start(
    id: str, parent: str, operation: Operation, route: RouteInfo, call: Call
) -> None:
    """A model is about to be called; `id` pairs the start with its end. Each try is a call.

    Args:
        parent: The id of the turn that it is for; empty if it is for none.
        operation: What the model is called for: to `count` is asked as to `chat`.
        call: What is asked.
    """


@hookspec
def genai_call_headers(id: str, route: RouteInfo) -> Mapping[str, str]:
    """Headers for the request of a call that was told of, as `traceparent`: a service may
    go on with a trace. Those that the dialect has come before them."""


@hookspec
def genai_on_call_end(
    id: str,
    parent: str,
    operation: Operation,
    route: RouteInfo,
    call: Call,
    result: Completion | Embeddings | ModerationResult | TokenCount | None,
    first: float | None,
    error: Exception | None,
    seconds: float,
) -> None:
    """A call has ended, with a result or with an error.

    Args:
        first: Seconds until the first piece of the answer came; None if it came in no pieces.
    """


@hookspec
def genai_on_tool_start(id: str, parent: str, call: ToolCall) -> None:
    """A tool is about to run: there is one of that name, and it may; `parent` is as for
    calls of models. What the tool does itself inherits the context (`contextvars`) that is
    current when all have been told."""


@hookspec
def genai_on_tool_end(
    id: str,
    parent: str,
    call: ToolCall,
    output: ToolOutput | None,
    error: Exception | None,
    seconds: float,
) -> None:
    """A tool has ended, with an output, which may tell of a failure, or with what ended the
    turn."""


@hookspec
def genai_on_request_start(id: str, request: RouteRequest, route: str) -> None:
    """The server is about to answer a request that it has let in. All that is done for the
    reply in the thread that is told, up to the end, is done for this request.

    Args:
        route: The path of its route, for example `/api/shop/orders/{id}`; empty if there is none.
    """


@hookspec
def genai_on_request_end(
    id: str,
    request: RouteRequest,
    route: str,
    status: int,
    error: Exception | None,
    seconds: float,
) -> None:
    """A request has been answered, its reply written to the end, as far as it was wanted."""


@hookspec
def genai_on_close() -> None:
    """The host is closed: nothing more is told."""
