"""What stands before a server: a proxy that mounts it elsewhere, or a guard with a token."""

from __future__ import annotations

from attrs import evolve

from genai_host.api import Problem, RouteReply, RouteRequest
from genai_host.http_routes import HttpRoutes, problem_reply
from genai_host.server.page.routes import OPEN

_REFUSED = Problem(401, "unauthorized", "a token is needed")


class Front:
    """
    root    what stands before all paths, as `/host`
    token   what requests must have; empty for none
    """

    def __init__(self, routes: HttpRoutes, root: str = "", token: str = "") -> None:
        self._routes = routes
        self._root = root
        self._token = token

    def limit(self, method: str, path: str) -> int:
        return self._routes.limit(method, path.removeprefix(self._root))

    def answer(self, request: RouteRequest) -> RouteReply:
        if not request.path.startswith(self._root):
            return problem_reply(request.path, {}, Problem(404, "not_found", "outside"))
        inner = evolve(request, path=request.path.removeprefix(self._root))
        if self._token and not self._is_let_in(inner):
            return problem_reply(inner.path, {}, _REFUSED)
        return self._routes.answer(inner)

    def _is_let_in(self, request: RouteRequest) -> bool:
        if request.headers.get("authorization") == f"Bearer {self._token}":
            return True
        paths = (key.removeprefix("GET ").split("{")[0] for key in OPEN)
        return request.method == "GET" and any(
            request.path == path
            or (path.endswith("/") and len(path) > 1 and request.path.startswith(path))
            for path in paths
        )

    def close(self) -> None:
        self._routes.close()
