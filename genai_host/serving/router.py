"""What is answered over HTTP: the route that a request is for, and its reply.

    HttpRoutes.answer → _found → _handler (imported once) → the function of the route

Nothing is raised: what goes wrong is a reply as well, in the form that the API has for it, or

    {"error": {"code": "invalid_data", "message": "...", "hint": "...", "path": "$.message"}}
"""

from __future__ import annotations

import importlib
import logging
import math
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from attrs import evolve

from genai_host.api import HttpProblem, HttpRoute, RouteRequest, RouteResponse, json_response
from genai_host.api.http_routes import MOST_DROPPED
from genai_host.errors import GenaiError
from genai_host.host import Host
from genai_host.util.text import short_repr

Handler = Callable[[RouteRequest], RouteResponse]
Form = Callable[[str, Mapping[str, str], HttpProblem], RouteResponse]
"""A problem as a reply, of a path and the headers of a request."""
Begins = Callable[[RouteResponse], None]
Found = tuple[HttpRoute, Mapping[str, str]]

_log = logging.getLogger(__name__)


def problem_reply(path: str, headers: Mapping[str, str], problem: HttpProblem) -> RouteResponse:
    """A problem in the form of routes that have no other."""
    error = {
        "code": problem.code,
        "message": problem.message,
        **({"hint": problem.hint} if problem.hint else {}),
        **({"path": problem.path} if problem.path else {}),
    }
    return json_response({"error": error}, problem.status, with_retry_after(problem))


DROPPED = "x-genai-host-dropped"
"""The header that names the fields of a request that were left out."""

_LONGEST_NAME = 100
_NOT_IN_NAMES = re.compile(r"[^\w.\[\]$-]", re.ASCII)


def _naming(dropped: Sequence[str], reply: RouteResponse) -> RouteResponse:
    """The reply with the fields that were left out of the request."""
    names = [_NOT_IN_NAMES.sub("_", name)[:_LONGEST_NAME] for name in dropped[:MOST_DROPPED]]
    told = ", ".join([*names, "..."] if len(dropped) > MOST_DROPPED else names)
    _log.debug("left out of the request: %s", told)
    return evolve(reply, headers={**reply.headers, DROPPED: told})


def with_retry_after(problem: HttpProblem) -> dict[str, str]:
    """The headers of the reply to a problem: whole seconds, as RFC 9110 has it."""
    if problem.retry_after is None:
        return dict(problem.headers)
    return {**problem.headers, "retry-after": str(math.ceil(problem.retry_after))}


class HttpRoutes:
    """Of one host. May be used from many threads.

    Args:
        own: Routes of whoever serves it, which come before those of plugins.
        form: How problems are told.
    """

    def __init__(
        self, host: Host, own: Iterable[HttpRoute] = (), form: Form = problem_reply
    ) -> None:
        self._host = host
        self._form = form
        every = (tuple(own), tuple(host.registry.http_routes.values()))
        self._own, self._routes = map(_Patterns, every)
        self._starting = [route for routes in every for route in routes if route.starts]
        self._handlers: dict[str, Handler] = {}
        self._lock = threading.Lock()
        self._made: dict[type, Any] = {}

    def start(self) -> None:
        """Load those that are to be loaded before anybody asks. One that cannot be keeps no
        other from it: whoever asks is told."""
        for route in self._starting:
            try:
                self._handler(route)
            except GenaiError as error:  # as where nothing is kept: expected
                _log.info("the route %s has nothing to go on with: %s", route.key, error)
            except Exception:  # noqa: BLE001 - a plugin's fault must not end the server
                _log.exception("the route %s cannot be loaded", route.key)

    def limit(self, method: str, path: str) -> int:
        """Bytes of a body that may be sent there; 0 where there is no route."""
        found = self.find(method, path)
        return 0 if isinstance(found, HttpProblem) else found[0].size

    def answer(
        self,
        request: RouteRequest,
        found: Found | HttpProblem | None = None,
        begins: Begins | None = None,
    ) -> RouteResponse:
        """The reply to a request, its `parameters` still empty. It has begun.

        Args:
            found: What `find` gave for it, where that was asked before.
            begins: Is given a reply before it begins, which may take its time; it may send that
                even if it fails to begin, and has to close it. None where nobody waits.
        """
        found = found or self.find(request.method, request.path)
        reply = self._answered(request, found, begins)
        if isinstance(reply, HttpProblem):
            return self._form(request.path, request.headers, reply)
        return reply

    def _answered(
        self, request: RouteRequest, found: Found | HttpProblem, begins: Begins | None
    ) -> RouteResponse | HttpProblem:
        if isinstance(found, HttpProblem):
            return found
        route, parameters = found
        if len(request.body) > route.size:
            return HttpProblem(413, "too_large", f"at most {route.size} bytes are taken here")
        dropped: list[str] = []
        try:
            reply = self._handler(route)(evolve(request, parameters=parameters, dropped=dropped))
            if not isinstance(reply, RouteResponse):
                raise TypeError(
                    f"{route.load} gave {short_repr(reply)}, which is not a RouteResponse"
                )
            reply = _naming(dropped, reply) if dropped else reply
            if reply.begin is not None:
                _begin(reply, reply.begin, begins)
        except GenaiError as error:
            return HttpProblem.of(error)
        except Exception:  # noqa: BLE001 - a plugin's fault must not end the server
            _log.exception("the route %s failed", route.key)
            return HttpProblem(500, "internal", "this failed; the log of the server says why")
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

    def find(self, method: str, path: str) -> Found | HttpProblem:
        """The route for a request, and what stands in the path for each name."""
        segments = [unquote(segment) for segment in _segments(path)]
        exact = self._own.exact(method, segments)
        if exact is not None:
            return exact, {}
        fitting = self._own.fitting(segments) or self._routes.fitting(segments)
        if not fitting:
            return HttpProblem(404, "not_found", "there is nothing here")
        able = [each for each in fitting if each[0].route.method == method]
        if not able:
            methods = ", ".join(sorted({pattern.route.method for pattern, _ in fitting}))
            return HttpProblem(
                405, "method_not_allowed", f"use {methods}", headers={"allow": methods}
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


def _begin(reply: RouteResponse, begin: Callable[[], None], begins: Begins | None) -> None:
    if begins is not None:
        begins(reply)
    try:
        begin()
    except BaseException:
        close = getattr(reply.body, "close", None)
        if begins is None and close is not None:
            close()
        raise


class _Pattern:
    """The path of a route, in segments.

    Attributes:
        rank: Of paths that fit, the greatest is taken: literal segments count from the left.
    """

    def __init__(self, route: HttpRoute) -> None:
        self.route = route
        self.segments = _segments(route.path)
        self.rank = [not segment.startswith("{") for segment in self.segments]

    @property
    def is_plain(self) -> bool:
        """Whether it fits one path alone."""
        return all(self.rank)

    def match(self, segments: Sequence[str]) -> Mapping[str, str] | None:
        """What stands for each name; None for a path that does not fit.

        Args:
            segments: As many as it has, percent-decoded.
        """
        parameters = {}
        for mine, given in zip(self.segments, segments, strict=True):
            if mine.startswith("{") and given:
                parameters[mine[1:-1]] = given
            elif mine != given:
                return None
        return parameters


class _Patterns:
    """Those that fit are found without a look at all of them."""

    def __init__(self, routes: Iterable[HttpRoute]) -> None:
        self._plain: dict[tuple[str, ...], list[_Pattern]] = {}
        self._named: dict[int, list[_Pattern]] = {}
        for pattern in map(_Pattern, routes):
            if pattern.is_plain:
                self._plain.setdefault(tuple(pattern.segments), []).append(pattern)
            else:
                self._named.setdefault(len(pattern.segments), []).append(pattern)

    def exact(self, method: str, segments: Sequence[str]) -> HttpRoute | None:
        """The route of that path, if it has nothing in braces: none comes before it."""
        for pattern in self._plain.get(tuple(segments), ()):
            if pattern.route.method == method:
                return pattern.route
        return None

    def fitting(self, segments: Sequence[str]) -> list[tuple[_Pattern, Mapping[str, str]]]:
        nothing: Mapping[str, str] = {}
        return [(pattern, nothing) for pattern in self._plain.get(tuple(segments), ())] + [
            (pattern, parameters)
            for pattern in self._named.get(len(segments), ())
            if (parameters := pattern.match(segments)) is not None
        ]


def _segments(path: str) -> Sequence[str]:
    return path.split("/")[1:]
