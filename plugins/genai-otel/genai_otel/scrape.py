"""`GET /metrics` for Prometheus, for administrators: its numbers include all users."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genai_host.api import RouteRequest, RouteResponse
from genai_host.errors import PermissionDenied
from genai_otel import plugin
from genai_otel.gathered import Gathered
from genai_otel.shared_folder import forget_dead, shared_folder

if TYPE_CHECKING:
    from genai_host.api import HostServices


class Scrape:
    """Listens from its creation, at the start of the server, until it is closed."""

    def __init__(self, host: HostServices) -> None:
        self._folder = shared_folder(host.config.server.workers)
        self._gathered = Gathered(self._folder)
        plugin.telemetry.add(self._gathered)

    def answer(self, request: RouteRequest) -> RouteResponse:
        from prometheus_client.exposition import choose_encoder

        if request.user:
            raise PermissionDenied(
                "only the operator of the server can read the metrics",
                hint="use the token of the server",
            )
        if self._folder:
            forget_dead(self._folder)
        encode, kind = choose_encoder(request.headers.get("accept", ""))
        headers = {"content-type": kind, "cache-control": "no-store"}
        return RouteResponse(encode(self._gathered.registry), headers=headers)

    def close(self) -> None:
        plugin.telemetry.remove(self._gathered)
