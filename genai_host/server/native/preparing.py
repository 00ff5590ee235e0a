"""Listing the models of a provider, and preparing a provider with streamed progress.

Source of the stream: HTML Living Standard, "Server-sent events".
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from attrs import asdict

from genai_host.api import (
    CancelToken,
    Operation,
    Preparation,
    PreparationProgress,
    RouteRequest,
    RouteResponse,
    json_response,
)
from genai_host.api.cancellation import Cancellation
from genai_host.api.json_reader import body_of
from genai_host.api.streamed_body import sse_event
from genai_host.errors import Conflict, GenaiError, PermissionDenied, PluginError, ProviderTimeout
from genai_host.host import Host
from genai_host.providers.instance import ProviderInstance
from genai_host.serializers.listings import listed_rows
from genai_host.server.native.fields import failed
from genai_host.server.native.providers import instance_named, instance_row
from genai_host.serving.completion import COMMENT
from genai_host.util.text import describe_exception

_LISTING = 15.0  # seconds
_PREPARING = 3600.0  # seconds


def models(request: RouteRequest, host: Host) -> RouteResponse:
    """List the models that a provider reports; `for` is empty if it does not report operations."""
    instance = instance_named(host, request.parameters["name"])
    with _bounded(host, request.limits, _LISTING, "list its models") as limits:
        rows = listed_rows(instance, limits)
    return json_response({"data": [_listed(host, instance, row) for row in rows]})


def _listed(host: Host, instance: ProviderInstance, row: dict[str, Any]) -> dict[str, Any]:
    dialects = host.registry.dialects
    operations: set[Operation] = {
        dialects[name].operation for name in row["dialects"] if name in dialects
    }
    return {"name": f"{instance.name}/{row['id']}", **row, "for": sorted(operations)}


def prepare(request: RouteRequest, host: Host) -> RouteResponse:
    """Run the preparation step of a provider. Closing the stream cancels it."""
    if request.user:
        raise PermissionDenied("only the operator of the server can prepare a provider")
    body = body_of(request)
    model = body.text("model")
    body.nothing_else()
    instance = instance_named(host, request.parameters["name"])
    preparation = instance.preparation(_id_of(host, model, instance.name) if model else "")
    if preparation is None:
        raise Conflict(f"provider {instance.name} requires no preparation")

    def row() -> dict[str, Any]:
        host.refresh()
        host.probe(again=instance)
        return instance_row(host, instance)

    stream = PreparationStream(preparation, host, request.limits, row)
    headers = {"content-type": "text/event-stream", "cache-control": "no-store"}
    return RouteResponse(stream, headers=headers, keepalive=COMMENT)


def _id_of(host: Host, model: str, provider: str) -> str:
    """The id of a model at a provider. Raises `NoRoute`."""
    found = host.explain(model, provider)
    return found[0].id if found else ""


class PreparationStream:
    """The body of a reply: events `progress`, and `done` or `error`.

    The step runs in a separate thread, which is cancelled by the limits, by `close`, and after an
    hour.

    Args:
        preparation: The step.
        host: The host.
        limits: Cancel the step.
        row: Returns the data of `done`: the current state of the instance.
    """

    def __init__(
        self,
        preparation: Preparation,
        host: Host,
        limits: CancelToken,
        row: Callable[[], dict[str, Any]],
    ) -> None:
        self._row = row
        self._reports: queue.SimpleQueue[PreparationProgress | GenaiError | None]
        self._reports = queue.SimpleQueue()
        self._open = ExitStack()
        bounded = _bounded(host, limits, _PREPARING, "become ready")
        self._limits = self._open.enter_context(bounded)
        self._open.callback(self._limits.cancel)
        threading.Thread(
            target=self._run, args=(preparation,), name="genai-host-prepare", daemon=True
        ).start()
        self._events = self._written()

    def __iter__(self) -> Iterator[bytes]:
        return self._events

    def close(self) -> None:
        self._events.close()
        self._open.close()

    def _run(self, preparation: Preparation) -> None:
        end: GenaiError | None = None
        try:
            preparation.run(self._reports.put, self._limits)
        except GenaiError as error:
            end = error
        except BaseException as error:  # noqa: BLE001 - a plugin may raise anything
            end = PluginError(f"the preparation failed: {describe_exception(error)}")
        self._reports.put(end)

    def _written(self) -> Generator[bytes, None, None]:
        try:
            while isinstance(report := self._reports.get(), PreparationProgress):
                yield sse_event("progress", asdict(report))
            if report is None:
                yield sse_event("done", self._row())
            else:
                yield sse_event("error", failed(report))
        finally:
            self._open.close()


@contextmanager
def _bounded(host: Host, limits: CancelToken, seconds: float, what: str) -> Iterator[Cancellation]:
    """A cancellation with the given limits and a timeout."""
    late = ProviderTimeout(f"the provider took more than {seconds:g} s to {what}")
    bound = Cancellation()
    with (
        bound,
        limits.on_cancel(bound.cancel),
        host.clock.call_later(seconds, lambda: bound.cancel(late)),
    ):
        yield bound
