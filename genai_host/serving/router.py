"""Routes HTTP requests to their handlers, and writes replies.

    HttpRoutes.answer → _found → _handler (imported once) → the function of the route

Errors are not raised: they become replies in the form of the API; see `apis`.
"""

from __future__ import annotations

import importlib
import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from attrs import evolve

from genai_host.api import CancelToken, HttpProblem, HttpRoute, RouteRequest, RouteResponse
from genai_host.api.dropped import MAX_DROPPED, DroppedFields, shortened
from genai_host.errors import GenaiError
from genai_host.host import Host
from genai_host.plugins.watchdog import Watched
from genai_host.serving.apis import error_reply, unknown_path
from genai_host.util.names import HTTP_PATHS
from genai_host.util.text import short_repr

Handler = Callable[[RouteRequest], RouteResponse]
Begins = Callable[[RouteResponse], None]
RouteMatch = tuple[HttpRoute, Mapping[str, str]]

_log = logging.getLogger(__name__)


DROPPED = "x-genai-host-dropped"
"""Header with the names of ignored fields."""

_NOT_IN_NAMES = re.compile(r"[^\w.\[\]$-]", re.ASCII)


def _naming(dropped: DroppedFields, reply: RouteResponse) -> RouteResponse:
    """The reply with the header for ignored fields, which changes with the service until the reply
    begins."""
    headers = dict(reply.headers)

    def name(every: Sequence[str]) -> None:  # without `dropped`, which would be a cycle
        names = [_NOT_IN_NAMES.sub("_", shortened(each)) for each in every[:MAX_DROPPED]]
        if names:
            headers[DROPPED] = ", ".join([*names, "..."] if len(every) > MAX_DROPPED else names)
            _log.debug("ignored fields of the request: %s", headers[DROPPED])
        else:
            headers.pop(DROPPED, None)

    name(dropped.all())
    dropped.changed = name
    return evolve(reply, headers=headers)


class HttpRoutes:
    """The HTTP routes of a host. Thread-safe.

    It loads all plugins of the host when it is created, so that no request has to.

    Args:
        host: The host.
        own: Routes of the server, which take precedence over those of plugins.
    """

    def __init__(self, host: Host, own: Iterable[HttpRoute] = ()) -> None:
        self._host = host
        host.registry.load_all()
        every = (tuple(own), tuple(host.registry.http_routes.values()))
        self._own, self._routes = map(_Patterns, every)
        apis = host.registry.http_apis.values()
        aliases = [alias for api in apis for alias in api.aliases.items()]
        self._aliases = sorted(aliases, key=lambda alias: len(alias[0]), reverse=True)
        self._starting = [route for routes in every for route in routes if route.run_at_startup]
        self._handlers: dict[str, Handler] = {}
        self._lock = threading.Lock()
        self._made: dict[type, tuple[Any, str]] = {}  # with the key of a route

    def start(self) -> None:
        """Load the routes with `run_at_startup`. A failure is logged and does not affect others."""
        for route in self._starting:
            try:
                self._handler(route)
            except GenaiError as error:  # expected, for example without a store
                _log.info("route %s cannot resume work: %s", route.key, error)
            except Exception:  # noqa: BLE001 - a faulty plugin must not end the server
                _log.exception("cannot load route %s", route.key)

    def limit(self, method: str, path: str) -> int:
        """Maximum size of a body in bytes; 0 if there is no route."""
        found = self.find(method, path)
        return 0 if isinstance(found, HttpProblem) else found[0].max_body_size

    def answer(
        self,
        request: RouteRequest,
        found: RouteMatch | HttpProblem | None = None,
        begins: Begins | None = None,
    ) -> RouteResponse:
        """Route a request and return the reply, which has begun. `request.parameters` is set here.

        Args:
            request: The request.
            found: Result of `find`, if it was called before.
            begins: Receives a reply before it begins, which may take long. It may send the headers
                before, even if the reply then fails, and must close the reply. None if no client
                waits.
        """
        found = found or self.find(request.method, request.path)
        reply = self._answered(request, found, begins)
        if isinstance(reply, HttpProblem):
            return error_reply(self._host, request.path, request.headers, reply, request.request_id)
        return reply

    def _answered(
        self, request: RouteRequest, found: RouteMatch | HttpProblem, begins: Begins | None
    ) -> RouteResponse | HttpProblem:
        if isinstance(found, HttpProblem):
            return _without_websocket(found, request)
        route, parameters = found
        if len(request.body) > route.max_body_size:
            return HttpProblem(
                413, "too_large", f"the body must be at most {route.max_body_size} bytes"
            )
        dropped = DroppedFields(strict=self._host.config.server.strict)
        try:
            handler = self._handler(route)
            with self._watching(route, "handler", request.limits):
                reply = handler(evolve(request, parameters=parameters, dropped=dropped))
            if not isinstance(reply, RouteResponse):
                raise TypeError(
                    f"{route.load} returned {short_repr(reply)}, which is not a RouteResponse"
                )
            reply = _naming(dropped, reply) if dropped or dropped.may_change else reply
            if reply.begin is not None:
                with self._watching(route, "begin", request.limits):
                    reply = _begin(reply, reply.begin, begins)
        except GenaiError as error:
            return HttpProblem.of(error)
        except Exception:  # noqa: BLE001 - a faulty plugin must not end the server
            _log.exception("route %s failed for request %s", route.key, request.request_id or "-")
            return HttpProblem(500, "internal", "internal error; see the log of the server")
        return reply

    def close(self) -> None:
        """Close the objects that were created for routes."""
        made = list(self._made.values())  # without the lock: loading a handler may hang
        self._made.clear()
        self._handlers.clear()
        run = self._host.observers.watchdog.run
        for each, key in made:
            close = getattr(each, "close", None)
            try:
                if close is not None:
                    run("HTTP route", key, "close", close)
            except Exception:  # noqa: BLE001 - the others must be closed, too
                _log.warning("close() of %s failed", type(each).__name__, exc_info=True)

    def find(self, method: str, path: str) -> RouteMatch | HttpProblem:
        """The route of a request, and the values of its path parameters."""
        found = self._find(method, path)
        if isinstance(found, HttpProblem):
            for other in self._other_paths(path):
                again = self._find(method, other)
                if not isinstance(again, HttpProblem):
                    return again
                found = max(found, again, key=lambda problem: problem.status)  # 405 before 404
        return found

    def _other_paths(self, path: str) -> Iterator[str]:
        """Paths that the path is an alias of."""
        for alias, prefix in self._aliases:
            if _is_below(path, alias) and not _is_below(path, prefix):
                yield prefix + path[len(alias) :]

    def _find(self, method: str, path: str) -> RouteMatch | HttpProblem:
        segments = _segments(path)
        if "%" in path:
            segments = [unquote(segment) for segment in segments]
        exact = self._own.exact(method, segments) or self._routes.exact(method, segments)
        if exact is not None:
            return exact, {}
        is_of_host = any(_is_below(path, each) for each in HTTP_PATHS)
        fitting = self._own.fitting(segments)
        if not is_of_host:
            fitting = [*fitting, *self._routes.fitting(segments)]
        if not fitting:
            return unknown_path(self._host, path)
        able = [each for each in fitting if each[0].route.method == method]
        if not able:
            methods = ", ".join(sorted({pattern.route.method for pattern, _ in fitting}))
            return HttpProblem(
                405, "method_not_allowed", f"use {methods}", headers={"allow": methods}
            )
        pattern, parameters = max(able, key=lambda each: each[0].rank)
        return pattern.route, parameters

    def _handler(self, route: HttpRoute) -> Handler:
        handler = self._handlers.get(route.key)
        if handler is None:
            with self._lock, self._watching(route, "load"):
                self._handlers[route.key] = handler = self._loaded(route)
        return handler

    def _watching(
        self, route: HttpRoute, method: str, limits: CancelToken | None = None
    ) -> Watched:
        return self._host.observers.watchdog.watch("HTTP route", route.key, method, limits=limits)

    def _loaded(self, route: HttpRoute) -> Handler:
        module, _, name = route.load.partition(":")
        found: Any = importlib.import_module(module)
        made = None
        for part in name.split("."):
            found = getattr(found, part)
            if isinstance(found, type):
                if found not in self._made:
                    self._made[found] = found(self._host), route.key
                found = made = self._made[found][0]
        return found if made is not None else lambda request: found(request, self._host)


def _begin(
    reply: RouteResponse, begin: Callable[[], RouteResponse | None], begins: Begins | None
) -> RouteResponse:
    if begins is not None:
        begins(reply)
    begun: RouteResponse | None = None
    try:
        begun = begin() or reply
        return begun
    finally:
        close = getattr(reply.body, "close", None)
        if begins is None and begun is not reply and close is not None:
            close()


def _without_websocket(problem: HttpProblem, request: RouteRequest) -> HttpProblem:
    """Use status 426 for a WebSocket request: clients then fall back to HTTP immediately."""
    if problem.status != 405 or request.headers.get("upgrade", "").lower() != "websocket":
        return problem
    message = f"WebSocket is not supported: {problem.message}"
    return HttpProblem(426, problem.code, message, headers={"upgrade": "HTTP/1.1"})


class _Pattern:
    """The path of a route, in segments.

    Attributes:
        is_plain: Whether it has no parameters.
        rank: Of the matching paths, the one with the highest rank is used: literal segments count
            from the left, and then parameters of one segment.
        long: Index of the parameter of several segments; -1 if there is none.
    """

    def __init__(self, route: HttpRoute) -> None:
        self.route = route
        self.segments = _segments(route.path)
        is_literal = [not segment.startswith("{") for segment in self.segments]
        is_long = [segment.endswith(":path}") for segment in self.segments]
        self.rank = is_literal, [not each for each in is_long]
        self.is_plain = all(is_literal)
        self.long = is_long.index(True) if True in is_long else -1

    def match(self, segments: Sequence[str]) -> Mapping[str, str] | None:
        """Values of the parameters; None if the path does not match.

        Args:
            segments: Segments of the path, percent-decoded.
        """
        further = len(segments) - len(self.segments)
        if further < 0 or (further and not all(segments)):
            return None
        if further:
            end = self.long + further + 1
            joined = "/".join(segments[self.long : end])
            segments = [*segments[: self.long], joined, *segments[end:]]
        parameters = {}
        for mine, given in zip(self.segments, segments, strict=True):
            if mine.startswith("{") and given:
                parameters[mine[1:-1].removesuffix(":path")] = given
            elif mine != given:
                return None
        return parameters


class _Patterns:
    """Finds matching patterns without checking all of them."""

    def __init__(self, routes: Iterable[HttpRoute]) -> None:
        self._plain: dict[tuple[str, ...], list[_Pattern]] = {}
        self._named: dict[int, list[_Pattern]] = {}
        self._long: list[_Pattern] = []
        for pattern in map(_Pattern, routes):
            if pattern.is_plain:
                self._plain.setdefault(tuple(pattern.segments), []).append(pattern)
            elif pattern.long >= 0:
                self._long.append(pattern)
            else:
                self._named.setdefault(len(pattern.segments), []).append(pattern)

    def exact(self, method: str, segments: Sequence[str]) -> HttpRoute | None:
        """The route of a path without parameters, which takes precedence."""
        for pattern in self._plain.get(tuple(segments), ()):
            if pattern.route.method == method:
                return pattern.route
        return None

    def fitting(self, segments: Sequence[str]) -> list[tuple[_Pattern, Mapping[str, str]]]:
        nothing: Mapping[str, str] = {}
        return [(pattern, nothing) for pattern in self._plain.get(tuple(segments), ())] + [
            (pattern, parameters)
            for pattern in (*self._named.get(len(segments), ()), *self._long)
            if (parameters := pattern.match(segments)) is not None
        ]


def _is_below(path: str, folder: str) -> bool:
    return f"{path}/".startswith(f"{folder}/")


def _segments(path: str) -> Sequence[str]:
    return path.split("/")[1:]
