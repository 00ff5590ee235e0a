"""A scripted vendor for tests and tutorials: deterministic, without network or key.

- provider `mock`: replies from a script, or repeats its input
- model `mock`: for chat, in the dialect `plain`
- model `mock-embed`: for embeddings, in the dialect `plain-embed`
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from attrs import frozen

from genai_host.api import (
    Codec,
    FinishReason,
    Model,
    Provider,
    ProviderType,
    Services,
    ToolCall,
    Usage,
    hookimpl,
    setting,
)
from genai_host.errors import ConfigurationError, ServiceUnavailable, ValidationError

__all__ = ["MockProvider", "Script", "ScriptedReply", "Settings"]

Fault = Literal[
    "refused", "reset", "hang", "cut", "garbage", "html", "empty", "crash", "overflow", "filtered"
]
"""Type of failure.

refused    no connection
reset      the connection breaks before the reply
hang       no reply, until the call is cancelled
cut        the stream ends after `pieces` pieces, without its end; a whole reply fails
garbage    the body is no JSON
html       the body is a web page
empty      the body is empty
crash      the provider raises what no provider should
overflow   the prompt is too long
filtered   the answer ends with `content_filter`
"""


@frozen
class ScriptedReply:
    """One reply of the script.

    Attributes:
        text: The text.
        reasoning: Reasoning before the text.
        tool_calls: The tool calls.
        finish: Finish reason; None to derive it.
        usage: Usage to report; None to count words.
        delay: Seconds before the first chunk.
        pace: Seconds before each further chunk.
        fault: Type of failure; None for a success.
        pieces: Number of chunks before the fault `cut`.
        status: HTTP error status; 0 for none.
        retry_after: Seconds of the Retry-After header with that status.
    """

    text: str = ""
    reasoning: str = ""
    tool_calls: Sequence[ToolCall] = ()
    finish: FinishReason | None = None
    usage: Usage | None = None
    delay: float = 0.0
    pace: float = 0.0
    fault: Fault | None = None
    pieces: int = 0
    status: int = 0
    retry_after: float | None = None


@frozen
class Settings:
    replies: Sequence[Any] = setting(
        (), "answers in order: strings or tables; if empty, the message is repeated"
    )
    repeat: bool = setting(False, "start over when all replies are used")
    missing: str = setting("", "reason why the provider is reported as unavailable")
    priced_as: str = setting(
        "", "provider whose prices are used, for example openai; free for none"
    )


class Script:
    """Replies in sequence. Thread-safe.

    Attributes:
        index: Number of replies returned.
    """

    def __init__(self, replies: Sequence[Any], repeat: bool = False) -> None:
        self._replies = [_read(reply, number) for number, reply in enumerate(replies)]
        self._repeat = repeat
        self._lock = threading.Lock()
        self.index = 0

    def __bool__(self) -> bool:
        return bool(self._replies)

    def next(self) -> ScriptedReply:
        """Return the next reply. Raises `ServiceUnavailable` if there are no more."""
        with self._lock:
            number = self.index
            if number >= len(self._replies) and not (self._repeat and self._replies):
                raise ServiceUnavailable(
                    f"the script has {len(self._replies)} replies, and this is call {number + 1}",
                    retryable=False,
                )
            self.index += 1
            return self._replies[number % len(self._replies)]

    def reset(self) -> None:
        """Restart with the first reply."""
        with self._lock:
            self.index = 0


@cache
def codec() -> Codec:
    """The codec of all instances; creating one takes milliseconds."""
    return Codec()


def _read(reply: Any, number: int) -> ScriptedReply:
    if isinstance(reply, ScriptedReply):
        return reply
    if isinstance(reply, str):
        return ScriptedReply(reply)
    try:
        if isinstance(reply, Mapping) and isinstance(reply.get("tool_calls"), (list, tuple)):
            reply = {**reply, "tool_calls": [_with_tag(call) for call in reply["tool_calls"]]}
        read: ScriptedReply = codec().from_json(reply, ScriptedReply)
        return read
    except ValidationError as error:
        raise ConfigurationError(f"reply {number} of the script: {error}") from error


def _with_tag(call: Any) -> Any:
    """Add the tag of the type, which is optional here because only one is possible."""
    return {"type": ToolCall.type, **call} if isinstance(call, Mapping) else call


if TYPE_CHECKING:
    from genai_vendor_mock.provider import MockProvider as MockProvider


def _open(settings: Settings, services: Services) -> Provider:
    from genai_vendor_mock.provider import MockProvider

    return MockProvider(settings, services)


def __getattr__(name: str) -> Any:
    if name == "MockProvider":
        from genai_vendor_mock.provider import MockProvider

        return MockProvider
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@hookimpl
def genai_providers() -> Iterable[ProviderType[Any]]:
    yield ProviderType("mock", Settings, _open, automatic=False)


@hookimpl
def genai_models() -> Iterable[Model]:
    yield Model(
        "mock",
        dialects=["plain"],
        capabilities={"tools", "schema", "images", "files", "reasoning"},
        window=1_000_000,
        at={"mock": "mock"},
    )
    yield Model(
        "mock-embed", dialects=["plain-embed"], operation="embed", at={"mock": "mock-embed"}
    )
