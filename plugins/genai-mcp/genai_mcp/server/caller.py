"""Who sent a request, as far as that decides how it is answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from genai_mcp.protocol import HANDSHAKES, MODERN, OWN
from genai_mcp.rpc import INVALID_PARAMS, Request, RpcError
from genai_mcp.server import messages

_ASK_SINCE = HANDSHAKES[:2]  # clients of older versions cannot be asked
_VERSION, _CAPABILITIES = f"{OWN}protocolVersion", f"{OWN}clientCapabilities"
_OF_REQUEST = (_VERSION, _CAPABILITIES, f"{OWN}clientInfo")


@frozen
class Caller:
    """modern   whether the request stands for itself
    asks     whether its user can be asked something
    """

    modern: bool
    asks: bool


def is_alone(request: Request) -> bool:
    """Whether a request says of itself what a session would know."""
    meta = request.params.get("_meta")
    return isinstance(meta, Mapping) and any(name in meta for name in _OF_REQUEST)


def caller_of(request: Request, version: str, capabilities: Mapping[str, Any]) -> Caller:
    """Who sent a request in a session.

    version        that was agreed on in the session; empty if none was
    capabilities   that the client has named in it

    Raises `RpcError` if the request does not say what it has to.
    """
    if is_alone(request):
        return _of_meta(request.params["_meta"])
    if request.method in ("initialize", "ping"):
        return Caller(modern=False, asks=False)
    if not version:
        raise RpcError(
            INVALID_PARAMS,
            f"a request is to have {_VERSION} and {_CAPABILITIES} in its _meta, for {MODERN}, or "
            "to come after initialize",
        )
    return Caller(modern=False, asks=version in _ASK_SINCE and messages.can_ask(capabilities))


def _of_meta(meta: Mapping[str, Any]) -> Caller:
    version, capabilities = meta.get(_VERSION), meta.get(_CAPABILITIES)
    if not isinstance(version, str) or not isinstance(capabilities, Mapping):
        raise RpcError(
            INVALID_PARAMS, f"its _meta lacks {_VERSION} or {_CAPABILITIES}, or they are wrong"
        )
    if version != MODERN:
        raise messages.wrong_version(version)
    return Caller(modern=True, asks=messages.can_ask(capabilities))
