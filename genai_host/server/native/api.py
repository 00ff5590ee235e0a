"""The handlers of the native API whose state is shared by all requests of a server."""

from __future__ import annotations

from collections.abc import Callable

from genai_host.api import RouteRequest, RouteResponse
from genai_host.host import Host
from genai_host.server.native import conversations, turns
from genai_host.server.native.idempotency import Replies
from genai_host.server.native.jobs import Jobs
from genai_host.server.native.turns import Live

RouteFunction = Callable[[Host, Live, RouteRequest], RouteResponse]


class Api:
    """Handlers named in `routes`."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._live = Live()
        self._replies = Replies(host)
        self._jobs = Jobs(host, self._live)

    def close(self) -> None:
        self._jobs.close()

    def create(self, request: RouteRequest) -> RouteResponse:
        return self._once(request, conversations.create)

    def listed(self, request: RouteRequest) -> RouteResponse:
        return conversations.listed(self._host, self._live, request)

    def show(self, request: RouteRequest) -> RouteResponse:
        return conversations.show(self._host, self._live, request)

    def change(self, request: RouteRequest) -> RouteResponse:
        return conversations.change(self._host, self._live, request)

    def delete(self, request: RouteRequest) -> RouteResponse:
        return conversations.delete(self._host, self._live, request)

    def cancel(self, request: RouteRequest) -> RouteResponse:
        return conversations.cancel(self._host, self._live, request)

    def undo(self, request: RouteRequest) -> RouteResponse:
        return conversations.undo(self._host, self._live, request)

    def abandon(self, request: RouteRequest) -> RouteResponse:
        return conversations.abandon(self._host, self._live, request)

    def export(self, request: RouteRequest) -> RouteResponse:
        return conversations.export(self._host, self._live, request)

    def image(self, request: RouteRequest) -> RouteResponse:
        return conversations.image(self._host, self._live, request)

    def say(self, request: RouteRequest) -> RouteResponse:
        return self._once(request, turns.say)

    def resume(self, request: RouteRequest) -> RouteResponse:
        return self._once(request, turns.resume)

    def submit(self, request: RouteRequest) -> RouteResponse:
        return self._replies.once(request, lambda: self._jobs.submit(request))

    def job(self, request: RouteRequest) -> RouteResponse:
        return self._jobs.show(request)

    def result(self, request: RouteRequest) -> RouteResponse:
        return self._jobs.result(request)

    def remove_job(self, request: RouteRequest) -> RouteResponse:
        return self._jobs.remove(request)

    def _once(self, request: RouteRequest, act: RouteFunction) -> RouteResponse:
        return self._replies.once(request, lambda: act(self._host, self._live, request))
