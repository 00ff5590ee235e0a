"""`GET /metrics`, as Prometheus asks for it. It is for whoever runs the server: its numbers are
of all users."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genai_host.api import RouteReply, RouteRequest
from genai_host.errors import Forbidden
from genai_otel import plugin
from genai_otel.gathered import Gathered
from genai_otel.shared_folder import forget_dead, shared_folder

if TYPE_CHECKING:
    from genai_host.host import Host


class Scrape:
    """Listens from when it is made, which is when the server starts, until it is closed."""

    def __init__(self, host: Host) -> None:
        self._folder = shared_folder(host.config.server.workers)
        self._gathered = Gathered(self._folder)
        plugin.telemetry.add(self._gathered)

    def answer(self, request: RouteRequest) -> RouteReply:
        from prometheus_client.exposition import choose_encoder

        if request.user:
            raise Forbidden(
                "the metrics of all users are for whoever runs this server",
                hint="use the token of the server",
            )
        if self._folder:
            forget_dead(self._folder)
        encode, kind = choose_encoder(request.headers.get("accept", ""))
        headers = {"content-type": kind, "cache-control": "no-store"}
        return RouteReply(encode(self._gathered.registry), headers=headers)

    def close(self) -> None:
        plugin.telemetry.remove(self._gathered)
