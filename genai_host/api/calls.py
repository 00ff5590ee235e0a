"""Calls of a model, independent of API formats.

A dialect writes a `ProviderRequest` from a `Call`, and reads a result, for example a `Completion`,
from the `ProviderReply`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Literal, Protocol

from attrs import field, frozen

from genai_host.api.extra import checked_extra
from genai_host.api.json_text import EncodedJson
from genai_host.api.messages import File, Message

Operation = Literal["chat", "complete", "embed", "moderate", "transcribe", "count"]

"""Kind of call. Each dialect and each model is for one of them. `complete` continues a text, and
`count` counts the tokens of a chat call; both use models of the operation `chat`. `transcribe`
converts speech to text, also with models of the operation `chat`."""

EXTRA_BODY = "extra_body"
"""Parameter for fields that the host does not know: an object whose fields are added to the request
body. See `Provider.extra_body`."""


class CancelToken(Protocol):
    """Signals the cancellation of one attempt; a provider receives it with each request.

    A provider that waits registers a callback that wakes it, then calls `check`:

        woken = threading.Event()
        with limits.on_cancel(woken.set):
            woken.wait(seconds)
            limits.check()
    """

    def check(self) -> None:
        """Raise the error that ends this attempt, if it was cancelled.

        Raises:
            GenaiError: The reason, for example `ProviderTimeout` or `Cancelled`.
        """

    def on_cancel(self, wake: Callable[[], None]) -> CancelHandle:
        """Call a function once when the attempt is cancelled.

        Args:
            wake: Called in the thread that cancels, or immediately if the attempt is already
                cancelled. It must not block or raise.

        Returns:
            A handle that removes the callback.
        """


class CancelHandle(Protocol):
    """A registered callback; a context manager that removes it on exit."""

    def release(self) -> None:
        """Remove the callback."""

    def __enter__(self) -> CancelHandle: ...

    def __exit__(self, *exc: object) -> None: ...


@frozen
class ToolSchema:
    """A tool as sent to the model.

    Attributes:
        name: Name of the tool.
        description: Description for the model.
        parameters: JSON Schema of an object.
        strict: Whether the service must enforce the schema, if it can; None leaves it to the
            dialect.
        extra: See `Part`.
    """

    name: str
    description: str
    parameters: Mapping[str, Any] = field(factory=dict)
    strict: bool | None = None
    extra: Mapping[str, Any] | None = field(
        default=None, kw_only=True, hash=False, repr=False, converter=checked_extra
    )


OF_SERVICE = "service"
"""Value in `server.service_tools` for the tools that the services have themselves."""


@frozen
class VendorTool(ToolSchema):
    """A tool that a service runs or describes itself, for example its web search.

    `extra` has its definition in the request, by dialect. Services with another dialect do not
    receive it. If it has `parameters`, they receive it as a function.

    Attributes:
        kind: Kind of tool, the same for all formats, by which a tool of the host can replace it:
            `web_search`, `web_fetch` or `code_execution`; see `server.service_tools`.
        translated: Whether a service with another dialect receives its own tool of this kind, if it
            has one; see `Dialect.service_tools`.
    """

    kind: str = field(default="", kw_only=True)
    translated: bool = field(default=False, kw_only=True)

    @property
    def function(self) -> ToolSchema | None:
        """The tool for a service that does not have it; None if no tool of the host replaces it."""
        return ToolSchema(self.name, self.description, self.parameters) if self.parameters else None


@frozen(kw_only=True)
class Call:
    """Base of all calls.

    Attributes:
        model_id: Id of the model at the provider.
        parameters: Validated model parameters by the host's names, for example `temperature`.
        variant: Options of the dialect; see `Dialect.variant`.
        stream: Whether to request a streamed reply.
    """

    model_id: str
    parameters: Mapping[str, Any] = field(factory=dict)
    variant: Mapping[str, Any] = field(factory=dict)
    stream: bool = False


@frozen(kw_only=True)
class ChatCall(Call):
    """A call that continues a conversation.

    Attributes:
        messages: The conversation, oldest message first.
        tools: Tools that the model may call.
        tool_choice: `auto`, `none`, `required` or a tool name; None for the model's default.
        schema: JSON Schema of the answer; None for free text.
        strict: Whether the service must enforce the schema, if it can.
        draft: Cache of encoded messages; set by the host.
    """

    messages: Sequence[Message]
    tools: Sequence[ToolSchema] = ()
    tool_choice: str | None = None
    schema: Mapping[str, Any] | None = None
    strict: bool = False
    _draft: Draft = field(factory=lambda: Draft(), eq=False, repr=False)

    def written(self, key: Hashable, write: Callable[[Message], bytes]) -> list[EncodedJson]:
        """Encode the messages, each at most once.

        Args:
            key: Cache key of the form: the dialect, and everything else that the form depends on.
            write: Encodes one message as JSON: one value, several values joined by commas, or
                nothing.

        Returns:
            The encoded messages, for the request body.
        """
        return [EncodedJson(self._draft.written(tuple(self.messages), key, write))]


class Draft:
    """Cache of the encoded messages of a conversation.

    The messages of a call usually begin with those of the call before; only new ones are encoded.
    """

    def __init__(self) -> None:
        self._last: dict[Hashable, tuple[tuple[Message, ...], bytes]] = {}

    def written(
        self, messages: tuple[Message, ...], key: Hashable, write: Callable[[Message], bytes]
    ) -> bytes:
        """The messages as JSON, joined by commas; see `ChatCall.written`."""
        before, data = self._last.get(key, ((), b""))
        if messages[: len(before)] != before:  # fast if they are the same objects
            before, data = (), b""
        new = [message.remember(key, write) for message in messages[len(before) :]]
        data = b",".join(filter(None, [data, *new]))
        self._last[key] = messages, data
        return data


@frozen(kw_only=True)
class CompleteCall(Call):
    """A call that continues texts. They are not messages: no template of a chat is applied.

    Attributes:
        prompts: The texts, each of them a string or its token IDs; see `Dialect.accepts_tokens`.
        suffix: Text after the answer, which fills the gap between the two; empty for none.
    """

    prompts: Sequence[str | Sequence[int]]
    suffix: str = ""


@frozen(kw_only=True)
class EmbedCall(Call):
    """A call that computes one embedding vector per text.

    Attributes:
        texts: The texts; see `Embed`.
        purpose: Use of the vectors; see `Embed`.
    """

    texts: Sequence[str | Sequence[int]]
    purpose: Literal["query", "document"] | None = None


@frozen(kw_only=True)
class ModerateCall(Call):
    """A call that checks a text against the rules of a service.

    Attributes:
        text: The text.
    """

    text: str


@frozen(kw_only=True)
class TranscribeCall(Call):
    """A call that converts speech to text.

    Attributes:
        audio: The recording; services detect its format by the extension of its name.
    """

    audio: File
