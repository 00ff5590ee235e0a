"""What a dialect and a provider exchange: requests, replies, and events of streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from attrs import field, frozen

from genai_host.api.calls import Operation
from genai_host.api.json_text import EncodedJson, write_json, write_long_json
from genai_host.api.messages import File


@frozen
class ProviderRequest:
    """A request, written by a dialect and sent by a provider.

    Attributes:
        operation: Kind of call.
        dialect: Name of the dialect of the body.
        model_id: Id of the model at this provider.
        body: JSON values by field name; they may contain `EncodedJson`.
        stream: Whether to request a streamed reply.
        headers: Headers that the provider adds to its own.
        path: Path of the endpoint; the host sets it from `DialectEndpoint`.
        query: Query parameters; the host sets them from `DialectEndpoint`.
        file: File to upload: the request is a form (multipart/form-data) with the fields of the
            body and the file, in the field `file`. None for a request in JSON.
    """

    operation: Operation
    dialect: str
    model_id: str
    body: Mapping[str, Any]
    stream: bool = False
    headers: Mapping[str, str] = field(factory=dict)
    path: str = ""
    query: Mapping[str, str] = field(factory=dict)
    file: File | None = None

    def at_endpoint(self, path: str, query: Mapping[str, str]) -> ProviderRequest:
        """The request, sent to an endpoint.

        Args:
            path: Path of the endpoint.
            query: Query parameters.
        """
        # each call does this, and `evolve` takes three times as long
        return ProviderRequest(
            self.operation,
            self.dialect,
            self.model_id,
            self.body,
            self.stream,
            self.headers,
            path,
            query,
            self.file,
        )

    def data(self) -> bytes:
        """The body as JSON in UTF-8."""
        pieces: list[bytes] = []
        for name, value in self.body.items():
            pieces += (b"," if pieces else b"{", write_json(name), b":")
            _write(value, pieces)
        return b"".join([*(pieces or [b"{"]), b"}"])


def _write(value: Any, pieces: list[bytes]) -> None:
    """Append a value in chunks, without copying encoded JSON, which can be large."""
    if isinstance(value, EncodedJson):
        pieces.append(value.data)
    elif isinstance(value, (list, tuple)) and any(isinstance(item, EncodedJson) for item in value):
        items = [
            item.data if isinstance(item, EncodedJson) else write_long_json(item) for item in value
        ]
        between = b"["
        for item in filter(None, items):
            pieces += (between, item)
            between = b","
        pieces.append(b"]" if between == b"," else b"[]")
    else:
        pieces.append(write_long_json(value))


@frozen
class ProviderReply:
    """A complete reply.

    Attributes:
        body: The body.
        status: HTTP status; 400 or more is an error.
        headers: Headers, with names in lower case.
    """

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(factory=dict)


@frozen
class StreamEvent:
    """One event of a streamed reply.

    Attributes:
        data: Data of the event.
        name: Name of the event, if it has one. Dialects rely on it only for `error`.
    """

    data: bytes
    name: str | None = None

    @property
    def is_done(self) -> bool:
        """Whether the data is `[DONE]`, with which many services end a stream."""
        size = len(self.data)
        return size < _MAX_MARK and self.data.strip(b' \t\r\n"').upper() == b"[DONE]"

    @property
    def is_keepalive(self) -> bool:
        """Whether the event only keeps the connection open."""
        if self.name in _KEEPALIVES and not self.data.lstrip().startswith(b"{"):
            return True
        return not self.data or self.data == b"null" or self.data.isspace()


_MAX_MARK = 16

_KEEPALIVES = frozenset({"heartbeat", "keep-alive", "keep_alive", "keepalive", "ping"})

"""Names of events that some services send between the others, with a text or nothing."""


class ReplyStream(Protocol):
    """A streamed reply, which can be iterated once.

    `close` can be called from any thread, more than once. It ends a blocked iteration immediately.
    """

    def __iter__(self) -> Iterator[StreamEvent]: ...

    def close(self) -> None:
        """Stop reading and release the connection."""


@frozen
class HttpRequest:
    """An HTTP request. Its repr omits headers and body, since they contain keys.

    Attributes:
        method: HTTP method.
        url: Absolute URL.
        headers: Headers by name.
        body: The body.
    """

    method: str
    url: str
    headers: Mapping[str, str] = field(factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)
