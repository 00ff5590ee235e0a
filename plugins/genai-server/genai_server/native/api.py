"""The handlers of the native API whose state is shared by all requests of a server."""

from __future__ import annotations

from genai_host.api import RouteRequest, RouteResponse
from genai_host.host import Host
from genai_server.native import turns
from genai_server.native.conversations import Conversations
from genai_server.native.idempotency import Replies
from genai_server.native.jobs import Jobs
from genai_server.native.turns import RunningTurns


class Api:
    """Handlers named in `routes`. Those defined here support idempotency keys."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._running_turns = RunningTurns(host)
        self._replies = Replies(host)
        self.conversations = Conversations(host, self._running_turns)
        self.jobs = Jobs(host, self._running_turns)

    def close(self) -> None:
        self.jobs.close()

    def create(self, request: RouteRequest) -> RouteResponse:
        return self._replies.once(request, lambda: self.conversations.create(request))

    def say(self, request: RouteRequest) -> RouteResponse:
        return self._replies.once(
            request, lambda: turns.say(self._host, self._running_turns, request)
        )

    def resume(self, request: RouteRequest) -> RouteResponse:
        return self._replies.once(
            request, lambda: turns.resume(self._host, self._running_turns, request)
        )

    def submit(self, request: RouteRequest) -> RouteResponse:
        return self._replies.once(request, lambda: self.jobs.submit(request))
