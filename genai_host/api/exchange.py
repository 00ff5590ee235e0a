"""What passes between a dialect and a provider: one request, one reply, its events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, Protocol

from attrs import field, frozen

from genai_host.api.json_text import write_json

Operation = Literal["chat", "embed", "moderate", "count"]
"""What a model is asked to do; each dialect and each model is for one of them. A model for
`chat` is the one to `count` for: how many tokens a call of it would take."""


@frozen
class Encoded:
    """JSON that is written already, in UTF-8, to be pasted into a request body.

    It may stand as a value of the body, or in a list that is one; several JSON
    values joined by commas stand for as many items of that list.
    """

    data: bytes


@frozen
class ProviderRequest:
    """One request, as a dialect writes it and a provider sends it.

    operation   what is asked
    dialect     name of the dialect that the body is written in
    model_id    the model's id at this provider
    body        JSON by field name, values may be `Encoded`
    stream      whether the reply is to come as events
    headers     sent with it, beside the provider's own
    path        where the provider serves it, from `Serve`; filled in by the host
    query       the same, for the address's query
    """

    operation: Operation
    dialect: str
    model_id: str
    body: Mapping[str, Any]
    stream: bool = False
    headers: Mapping[str, str] = field(factory=dict)
    path: str = ""
    query: Mapping[str, str] = field(factory=dict)

    def data(self) -> bytes:
        """The body as JSON in UTF-8."""
        pieces: list[bytes] = []
        for name, value in self.body.items():
            pieces += (b"," if pieces else b"{", write_json(name), b":")
            _write(value, pieces)
        return b"".join(pieces or [b"{"]) + b"}"


def _write(value: Any, pieces: list[bytes]) -> None:
    """A value in pieces: what is written already may be large, and is not copied."""
    if isinstance(value, Encoded):
        pieces.append(value.data)
    elif isinstance(value, (list, tuple)) and any(isinstance(item, Encoded) for item in value):
        items = [item.data if isinstance(item, Encoded) else write_json(item) for item in value]
        between = b"["
        for item in filter(None, items):
            pieces += (between, item)
            between = b","
        pieces.append(b"]" if between == b"," else b"[]")
    else:
        pieces.append(write_json(value))


@frozen
class ProviderReply:
    """A whole reply. A status of 400 or more tells of a failure, as over HTTP; names of
    headers are in lower case."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(factory=dict)


@frozen
class StreamEvent:
    """One event of a streamed reply. The name is a hint; codecs do not rely on it."""

    data: bytes
    name: str | None = None


class ReplyStream(Protocol):
    """A streamed reply: iterate once.

    `close` may come from any thread, any number of times; an iteration that it
    finds blocked ends at once.
    """

    def __iter__(self) -> Iterator[StreamEvent]: ...

    def close(self) -> None: ...


class Limits(Protocol):
    """What bounds one attempt: handed to a provider with each request.

    A provider that waits registers how to be woken, and asks `check` then:

        woken = threading.Event()
        with limits.on_cancel(woken.set):
            woken.wait(seconds)
            limits.check()
    """

    def check(self) -> None:
        """Raise the error that ends this attempt, if it is to end."""

    def on_cancel(self, wake: Callable[[], None]) -> Registration:
        """Call `wake` once when the attempt is to end: at once if it is already.

        `wake` runs in the thread that cancels, and must neither block nor raise.
        """


class Registration(Protocol):
    """A registered callback; leaving it as a context, or `release`, takes it back."""

    def release(self) -> None: ...

    def __enter__(self) -> Registration: ...

    def __exit__(self, *exc: object) -> None: ...
