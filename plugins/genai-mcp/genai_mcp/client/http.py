"""Connection to a server over HTTP ("Streamable HTTP"). Each message is a POST. The reply is the
answer, or an event stream that ends with the answer.

    HttpConnection.request → Transport.stream → _of_whole    one reply
                                              → _of_events   events

Providers get a transport from `Services.http`. Tool sources do not, so it is created here.

The versions differ. Up to 2025-11-25 there is a session, and the client sends a notification to
cancel a request. Later versions have no session, headers repeat fields of the body, and closing the
connection cancels the request.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from genai_host import Transport
from genai_host.api import CancelToken, HttpRequest, ProviderReply, ReplyStream
from genai_host.errors import (
    AuthenticationFailed,
    ConfigurationError,
    GenaiError,
    IncompleteReply,
    MalformedReply,
    ServiceUnavailable,
    ValidationError,
    error_of_status,
)
from genai_mcp import rpc
from genai_mcp.client.servers import McpServer, SessionGone, filled
from genai_mcp.mirrored import header_value
from genai_mcp.rpc import CANCELLED, CHANGED, HEARD, LARGEST, MODERN, one_line
from genai_mcp.within import Within

MOST_EVENTS = 100_000
"""Maximum number of events in the reply to one request."""

_ACCEPT = "application/json, text/event-stream"
_SECONDS = 3600.0  # maximum for any reply; the limits of each call are lower
_GRACE = 2.0  # seconds for notifications without a waiting caller

_log = logging.getLogger(__name__)


class HttpConnection:
    """Connection over HTTP.

    Raises:
        ConfigurationError: The address or a header is invalid.
    """

    def __init__(self, server: McpServer) -> None:
        self.version = ""
        self.changed = False
        self._name = server.name
        self._url = filled(server, server.url)
        if not self._url.startswith(("https://", "http://")):
            raise ConfigurationError(f"the url of {server.name} must be an http(s) URL")
        self._headers = {
            name.lower(): filled(server, value) for name, value in server.headers.items()
        }
        self._numbers = itertools.count(1)
        self._session = ""
        self._ended = Within(None, f"listening to {server.name}")
        self._is_closed = False
        self._heard = False
        self._transport = Transport(timeout=_SECONDS)

    @property
    def alive(self) -> bool:
        return not self._is_closed

    @property
    def listens(self) -> bool:
        return self._heard

    def request(
        self,
        method: str,
        params: Mapping[str, Any],
        limits: CancelToken,
        headers: Mapping[str, str],
    ) -> Any:
        number, session = next(self._numbers), self._session
        body = rpc.write_request(number, method, params)
        try:
            with (
                Within(None, f"talking to {self._name}", limits) as both,
                self._ended.on_cancel(both.end),
            ):
                reply = self._post(body, both, self._mirrored(method, params, headers))
                if isinstance(reply, ProviderReply):
                    return self._of_whole(reply, number, session)
                return self._of_events(reply, number, both)
        except GenaiError as error:
            if self._is_closed:
                raise ServiceUnavailable(f"{self._name} was closed") from error
            if self.version not in ("", MODERN):
                self._cancel(number, limits)
            raise

    def notify(self, method: str, params: Mapping[str, Any], limits: CancelToken) -> None:
        reply = self._post(rpc.write_notification(method, params), limits, {})
        if not isinstance(reply, ProviderReply):
            reply.close()
        elif reply.status >= 400:
            raise self._refusal(reply)

    def listen(self, method: str, params: Mapping[str, Any]) -> None:
        threading.Thread(
            target=self._listen, args=(method, params), name=f"{self._name} listen", daemon=True
        ).start()

    def restart(self) -> None:
        self._session = self.version = ""

    def close(self) -> None:
        self._is_closed = True
        self._ended.end()
        if self._session:
            with (
                Within(_GRACE, f"closing {self._name}") as limits,
                contextlib.suppress(GenaiError),
            ):
                self._transport.send(self._made("DELETE", b"", {}), limits)
        self._transport.close()

    def _post(
        self, body: bytes, limits: CancelToken, headers: Mapping[str, str]
    ) -> ReplyStream | ProviderReply:
        more = {"content-type": "application/json", "accept": _ACCEPT, **headers}
        reply = self._transport.stream(self._made("POST", body, more), limits)
        session = reply.headers.get("mcp-session-id", "")
        if session and not self.version:  # opening the session
            self._session = session
        return reply

    def _made(self, method: str, body: bytes, headers: Mapping[str, str]) -> HttpRequest:
        own = {**self._headers, **headers}
        if self.version:
            own["mcp-protocol-version"] = self.version
        if self._session:
            own["mcp-session-id"] = self._session
        return HttpRequest(method, self._url, own, body)

    def _mirrored(
        self, method: str, params: Mapping[str, Any], headers: Mapping[str, str]
    ) -> dict[str, str]:
        if self.version != MODERN:
            return {}
        mirrored = {"mcp-method": method, **headers}
        if method == "tools/call":
            mirrored["mcp-name"] = params["name"]
        return {name: header_value(value) for name, value in mirrored.items()}

    def _of_whole(self, reply: ProviderReply, number: int, session: str) -> Any:
        try:
            messages = rpc.read_messages(reply.body)
        except ValidationError as error:
            if reply.status < 400:
                raise MalformedReply(f"{self._name} sent an invalid reply: {error}") from error
            messages = []
        if reply.status == 404 and session:
            raise SessionGone
        for message in messages:
            if isinstance(message, rpc.RpcAnswer) and (
                message.id == number or (message.id is None and message.error is not None)
            ):
                return message.value()
        if reply.status >= 400:
            raise self._refusal(reply)
        raise MalformedReply(f"{self._name} sent a response to an unknown request")

    def _of_events(self, events: ReplyStream, number: int, limits: CancelToken) -> Any:
        try:
            with limits.on_cancel(events.close):
                for message in self._messages(events):
                    if isinstance(message, rpc.RpcAnswer):
                        if message.id == number:
                            return message.value()
                    elif isinstance(message, rpc.Notification):
                        self.changed = self.changed or message.method == CHANGED
                    elif self.version != MODERN:
                        self._post(rpc.write_answer(message), limits, {})
        finally:
            events.close()
        limits.check()
        raise IncompleteReply(f"{self._name} ended its reply before the response")

    def _messages(self, events: ReplyStream) -> Iterator[rpc.Message]:
        size = 0
        for count, event in enumerate(events):
            size += len(event.data)
            if size > LARGEST or count >= MOST_EVENTS:
                raise MalformedReply(f"{self._name} sent too many events in a reply")
            if not event.data.strip():  # an id to resume from, which is unsupported
                continue
            try:
                yield from rpc.read_messages(event.data)
            except ValidationError as error:
                raise MalformedReply(f"{self._name} sent an invalid event: {error}") from error

    def _listen(self, method: str, params: Mapping[str, Any]) -> None:
        """Receive change notifications until their stream ends; lists expire anyway."""
        headers = {"accept": "text/event-stream"}
        request = self._made("GET", b"", headers)
        if method:
            body = rpc.write_request(next(self._numbers), method, params)
            headers = {"content-type": "application/json", "accept": _ACCEPT}
            request = self._made("POST", body, {**headers, **self._mirrored(method, params, {})})
        try:
            events = self._transport.stream(request, self._ended)
            if not isinstance(events, ProviderReply):
                with contextlib.closing(events), self._ended.on_cancel(events.close):
                    self._hear(events, heard=not method)
        except GenaiError as error:
            _log.debug("lost the connection to %s: %s", self._name, error)
        finally:
            self._heard, self.changed = False, True  # changes may have been missed

    def _hear(self, events: ReplyStream, *, heard: bool) -> None:
        """Process events; `heard` is whether the server is already known to send notifications."""
        self._heard = self.changed = heard
        for message in self._messages(events):
            if isinstance(message, rpc.RpcAnswer):
                return
            if isinstance(message, rpc.Notification):
                if message.method == HEARD:
                    self._heard = self.changed = True  # since the last listing
                self.changed = self.changed or message.method == CHANGED
            elif self.version != MODERN:
                self._post(rpc.write_answer(message), self._ended, {})

    def _refusal(self, reply: ProviderReply) -> GenaiError:
        said = one_line(reply.body[:2000].decode(errors="replace"))
        error = error_of_status(
            reply.status,
            f"{self._name} responded with status {reply.status}: {said or 'no reason given'}",
        )
        if isinstance(error, AuthenticationFailed):
            error.hint = 'set "headers", for example {"Authorization": "Bearer ${A_VARIABLE}"}'
        return error

    def _cancel(self, number: int, limits: CancelToken) -> None:
        """Notify the server of a cancelled request, in a separate thread."""
        try:
            limits.check()
        except GenaiError:
            threading.Thread(
                target=self._tell_cancelled, args=(number,), name="cancel", daemon=True
            ).start()

    def _tell_cancelled(self, number: int) -> None:
        with Within(_GRACE, f"cancelling at {self._name}") as limits:
            try:
                self.notify(CANCELLED, {"requestId": number}, limits)
            except GenaiError as error:
                _log.debug("cannot notify %s of a cancellation: %s", self._name, error)
