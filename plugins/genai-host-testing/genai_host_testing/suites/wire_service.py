"""A service and a client of an API format, for `WireSuite`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from genai_host.api import (
    Cancellation,
    CancelToken,
    Completion,
    DialectEndpoint,
    Model,
    NoSettings,
    Provider,
    ProviderReply,
    ProviderRequest,
    ProviderType,
    ReplyStream,
    RouteRequest,
    Services,
    StreamEvent,
    Usage,
    hookimpl,
)
from genai_host.api.dialects import CAPABILITIES
from genai_host.errors import ServiceUnavailable
from genai_host.serving import HttpRoutes
from genai_host.serving.router import DROPPED
from genai_host_testing.fake_model import EventList
from genai_host_testing.plugins import InlinePlugin

Json = Any

MODEL = "tested"


class WireService(InlinePlugin):
    """A service of the format, in this process.

    Attributes:
        reply: Body of its replies.
        events: Events of its streams.
        bodies: Bodies of its requests.
        usage: Usage of the answers.
    """

    def __init__(
        self, dialect: str, endpoint: DialectEndpoint | None = None, failing: str = ""
    ) -> None:
        opened = {"failing": lambda *given: FailingProvider(failing), "service": self._open}
        model = Model(
            MODEL,
            dialects=filter(None, (failing, dialect)),
            capabilities=set(CAPABILITIES),
            at=dict.fromkeys(opened, "m-1"),
        )
        super().__init__(
            providers=[ProviderType(n, NoSettings, o, automatic=True) for n, o in opened.items()],
            models=[model],
        )
        self.serves = {dialect: endpoint or DialectEndpoint()}
        self.reply: Json = {}
        self.events: Sequence[StreamEvent] = ()
        self.bodies: list[Json] = []
        self.usage: list[Usage] = []

    def _open(self, settings: NoSettings, services: Services) -> Provider:
        return ServiceProvider(self)

    @hookimpl
    def genai_on_call_end(self, result: Any) -> None:
        if isinstance(result, Completion):
            self.usage.append(result.usage)


class ServiceProvider(Provider):
    """Answers with what its service says."""

    extra_body = {}

    def __init__(self, service: WireService) -> None:
        self._service = service
        self.serves = service.serves

    def send(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
        self._service.bodies.append(json.loads(request.data()))
        return ProviderReply(json.dumps(self._service.reply).encode())

    def stream(self, request: ProviderRequest, limits: CancelToken) -> ReplyStream:
        self._service.bodies.append(json.loads(request.data()))
        return EventList(self._service.events)


class FailingProvider(Provider):
    """Always fails, so that the next provider is tried."""

    extra_body = {}

    def __init__(self, dialect: str) -> None:
        self.serves = {dialect: DialectEndpoint()} if dialect else {}

    def send(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
        raise ServiceUnavailable("it always fails", retry_after=3600)

    def stream(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
        return self.send(request, limits)


class WireClient:
    """Sends requests to the routes of a host."""

    def __init__(self, routes: HttpRoutes) -> None:
        self._routes = routes

    def send(self, path: str, body: Json, **further: str) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers and body of a reply; `further` are headers of the request."""
        path, _, query = path.partition("?")
        given = dict(pair.split("=", 1) for pair in query.split("&") if pair)
        headers = {"content-type": "application/json", **further}
        text = json.dumps(body).encode()
        request = RouteRequest("POST", path, {}, given, headers, text, limits=Cancellation())
        reply = self._routes.answer(request)
        answer = reply.body if isinstance(reply.body, bytes) else b"".join(reply.body)
        return reply.status, reply.headers, answer

    def dropped(self, path: str, body: Json) -> set[str] | None:
        """The names of dropped fields; None if the request is refused."""
        status, headers, _ = self.send(path, body)
        return None if status >= 400 else {*headers.get(DROPPED, "").split(", ")} - {""}

    def post(self, path: str, body: Json) -> bytes:
        status, _, text = self.send(path, body)
        assert status < 400, text.decode()
        return text
