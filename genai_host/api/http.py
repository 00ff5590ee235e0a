"""HTTP as the host does it for its plugins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from attrs import field, frozen

from genai_host.api.exchange import Limits, ProviderReply, ReplyStream, StreamEvent

Framing = Callable[[Iterable[bytes]], Iterator[StreamEvent]]
"""Reads the events of a streamed reply from its bytes, as they come in blocks."""


@frozen
class HttpRequest:
    """One HTTP request. Headers and body are not in its repr: they hold keys."""

    method: str
    url: str
    headers: Mapping[str, str] = field(factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)


class Http(Protocol):
    """The host's transport, as `Services.http`: one attempt each, never a redirect,
    never a key from anywhere but the request's own headers.

    Both raise `Unavailable` if the service cannot be reached, `IncompleteReply` if the
    reply is cut, `MalformedReply` if it is too large or is no HTTP, and whatever ends
    `limits`. A reply of status 400 or more is returned as it came.
    """

    def send(self, request: HttpRequest, limits: Limits) -> ProviderReply:
        """Send a request and wait for the whole reply."""

    def stream(
        self,
        request: HttpRequest,
        limits: Limits,
        framings: Mapping[str, Framing] | None = None,
    ) -> ReplyStream | ProviderReply:
        """Send a request whose reply comes as events: server-sent ones or lines of
        JSON, by the reply's content type; the whole reply if it is of another type.

        framings   for further content types, by their name
        """
