"""The routes that plugins answer over HTTP: which of them a request is for, and its reply.

    HttpRoutes.answer → _found → _handler (imported once) → the plugin's function

Nothing is raised: what goes wrong is a reply as well, in the form

    {"error": {"code": "invalid_data", "message": "...", "hint": "...", "path": "$.message"}}
"""

from __future__ import annotations

import importlib
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from attrs import evolve

from genai_host.api import HttpRoute, RouteReply, RouteRequest, json_reply, status_of
from genai_host.errors import GenaiError, InvalidData
from genai_host.host import Host
from genai_host.telling import shown

Handler = Callable[[RouteRequest], RouteReply]

_log = logging.getLogger(__name__)


class HttpRoutes:
    """Of one host. May be used from many threads."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._routes = [_Pattern(route) for route in host.registry.http_routes.values()]
        self._handlers: dict[str, Handler] = {}
        self._lock = threading.Lock()
        self._made: dict[type, Any] = {}

    def limit(self, method: str, path: str) -> int:
        """Bytes of a body that may be sent there; 0 where there is no route."""
        found = self._found(method, path)
        return found[0].size if isinstance(found, tuple) else 0

    def answer(self, request: RouteRequest) -> RouteReply:
        """The reply to a request, its `parameters` still empty."""
        found = self._found(request.method, request.path)
        if isinstance(found, RouteReply):
            return found
        route, parameters = found
        if len(request.body) > route.size:
            return failure(413, "too_large", f"at most {route.size} bytes are taken here")
        try:
            reply = self._handler(route)(evolve(request, parameters=parameters))
            if not isinstance(reply, RouteReply):
                raise TypeError(f"{route.load} gave {shown(reply)}, which is no RouteReply")
        except GenaiError as error:
            return error_reply(error)
        except Exception:  # noqa: BLE001 - a plugin's fault must not end the server
            _log.exception("the route %s failed", route.key)
            return failure(500, "internal", "this failed; the log of the server says why")
        return reply

    def close(self) -> None:
        """Close what was made for routes, as far as it can be."""
        with self._lock:
            made = list(self._made.values())
            self._made.clear()
            self._handlers.clear()
        for each in made:
            close = getattr(each, "close", None)
            try:
                if close is not None:
                    close()
            except Exception:  # noqa: BLE001 - a plugin's fault must not keep others open
                _log.warning("%s failed to close", type(each).__name__, exc_info=True)

    def _found(self, method: str, path: str) -> tuple[HttpRoute, Mapping[str, str]] | RouteReply:
        fitting = [
            (pattern, parameters)
            for pattern in self._routes
            if (parameters := pattern.match(path)) is not None
        ]
        if not fitting:
            return failure(404, "not_found", "there is nothing here")
        methods = sorted({pattern.route.method for pattern, _ in fitting})
        able = [each for each in fitting if each[0].route.method == method]
        if not able:
            return failure(
                405,
                "method_not_allowed",
                f"use {', '.join(methods)}",
                {"allow": ", ".join(methods)},
            )
        pattern, parameters = max(able, key=lambda each: each[0].rank)
        return pattern.route, parameters

    def _handler(self, route: HttpRoute) -> Handler:
        if route.key not in self._handlers:
            with self._lock:
                self._handlers[route.key] = self._loaded(route)
        return self._handlers[route.key]

    def _loaded(self, route: HttpRoute) -> Handler:
        module, _, name = route.load.partition(":")
        found: Any = importlib.import_module(module)
        made = None
        for part in name.split("."):
            found = getattr(found, part)
            if isinstance(found, type):
                if found not in self._made:
                    self._made[found] = found(self._host)
                found = made = self._made[found]
        return found if made is not None else lambda request: found(request, self._host)


class _Pattern:
    """The path of a route, in segments.

    rank   of paths that fit, the greatest is taken: literal segments count from the left
    """

    def __init__(self, route: HttpRoute) -> None:
        self.route = route
        self._segments = _segments(route.path)
        self.rank = [not segment.startswith("{") for segment in self._segments]

    def match(self, path: str) -> Mapping[str, str] | None:
        """What stands for each name; None for a path that does not fit."""
        segments = _segments(path)
        if len(segments) != len(self._segments):
            return None
        parameters = {}
        for mine, given in zip(self._segments, map(unquote, segments), strict=True):
            if mine.startswith("{") and given:
                parameters[mine[1:-1]] = given
            elif mine != given:
                return None
        return parameters


def error_reply(error: GenaiError) -> RouteReply:
    """An error as a reply, with its next step, and for data the place in it."""
    path = error.path if isinstance(error, InvalidData) else ""
    return failure(status_of(error), error.code, error.message, hint=error.hint, path=path)


def failure(
    status: int,
    code: str,
    message: str,
    headers: Mapping[str, str] | None = None,
    **more: str,
) -> RouteReply:
    """The reply for what went wrong; of what more there is to say, empty texts are left out."""
    error = {"code": code, "message": message, **{name: more[name] for name in more if more[name]}}
    return json_reply({"error": error}, status, headers)


def _segments(path: str) -> Sequence[str]:
    return path.split("/")[1:]
