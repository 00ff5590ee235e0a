"""A way to a server: one of the two transports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from genai_host.api import CancelToken


class SessionGone(Exception):
    """The server has forgotten the session, and has not done what it was asked for."""


class Connection(Protocol):
    """May be used from many threads.

    version   the version of the protocol that is spoken; set by the `Session`
    changed   whether the server said that it has other tools now; set back by who asks
    listens   whether it is sure to hear that
    """

    version: str
    changed: bool

    @property
    def alive(self) -> bool:
        """Whether it can still be used; one that cannot will never be again."""

    @property
    def listens(self) -> bool: ...

    def request(
        self,
        method: str,
        params: Mapping[str, Any],
        limits: CancelToken,
        headers: Mapping[str, str],
    ) -> Any:
        """Ask for something, and wait for the result.

        headers   for a transport that has some

        Raises `RpcError` for the server's own error, `SessionGone`, `ProviderError` where
        the server or the way to it fails, and whatever ends `limits`; the server is told
        then that nobody waits any more.
        """

    def notify(self, method: str, params: Mapping[str, Any], limits: CancelToken) -> None:
        """Tell something. Raises as `request`."""

    def listen(self, method: str, params: Mapping[str, Any]) -> None:
        """Hear of changes from now on. Before 2026-07-28 nothing is to be asked for that:
        `method` is empty then. Raises nothing."""

    def restart(self) -> None:
        """Forget the session: it will be opened anew."""

    def close(self) -> None:
        """End it, within some seconds, whatever is under way."""
