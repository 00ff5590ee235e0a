"""`GET /metrics` for Prometheus, for administrators: its numbers include all users."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from genai_host.api import RouteRequest, RouteResponse
from genai_host.errors import PermissionDenied
from genai_otel import plugin
from genai_otel.sums import Sums
from genai_otel.workers import SharedSums, shared_folder

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from genai_host.api import Clock, HostServices
    from genai_otel.operation import ObservedOperation

_DELAY = 0.25  # seconds until other processes see a measurement


class Gathered:
    """Listener that sums up the metrics.

    Args:
        clock: Starts the writing for other processes.
        folder: Directory shared by worker processes; empty for a single process.
    """

    def __init__(self, clock: Clock, folder: str = "") -> None:
        self._sums = Sums()
        self._shared = SharedSums(folder, self._sums) if folder else None
        self._clock = clock
        self._lock = threading.Lock()
        self._is_due = False

    def begin(self, operation: ObservedOperation) -> None:
        self._sums.add(operation.moved(1))
        self._write_later()

    def end(self, operation: ObservedOperation) -> None:
        self._sums.add((*operation.moved(-1), *operation.points))
        self._write_later()

    def _write_later(self) -> None:
        if self._shared is not None and not self._is_due:
            self._is_due = True
            self._clock.call_later(_DELAY, self._write_in_thread)

    def _write_in_thread(self) -> None:
        """Write where no timer waits for a slow file system."""
        threading.Thread(target=self.write, name="genai-otel", daemon=True).start()

    def write(self) -> None:
        """Write the sums for other processes."""
        if self._shared is not None:
            with self._lock:
                self._is_due = False  # first, so that no measurement is missed
                self._shared.write()

    def registry(self) -> CollectorRegistry:
        """The metrics of all processes."""
        from prometheus_client import CollectorRegistry
        from prometheus_client.gc_collector import GCCollector
        from prometheus_client.platform_collector import PlatformCollector
        from prometheus_client.process_collector import ProcessCollector

        registry = CollectorRegistry()
        if self._shared is not None:
            registry.register(self._shared)
        else:
            registry.register(self._sums)
            ProcessCollector(registry=registry)
            PlatformCollector(registry=registry)
            GCCollector(registry=registry)
        return registry


class Scrape:
    """Listens from its creation, at the start of the server, until it is closed."""

    def __init__(self, host: HostServices) -> None:
        self._gathered = Gathered(host.clock, shared_folder(host.config.server.workers))
        self._registry = self._gathered.registry()
        plugin.telemetry.add(self._gathered)

    def answer(self, request: RouteRequest) -> RouteResponse:
        from prometheus_client.exposition import choose_encoder

        if request.user:
            raise PermissionDenied(
                "only the operator of the server can read the metrics",
                hint="use the token of the server",
            )
        encode, kind = choose_encoder(request.headers.get("accept", ""))
        headers = {"content-type": kind, "cache-control": "no-store"}
        return RouteResponse(encode(self._registry), headers=headers)

    def close(self) -> None:
        plugin.telemetry.remove(self._gathered)
        self._gathered.write()
