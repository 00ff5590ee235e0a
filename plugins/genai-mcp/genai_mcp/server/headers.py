"""Headers that repeat what a body says (2026-07-28): what lies between believes the headers,
so they must say the same."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from genai_host.errors import ValidationError
from genai_mcp import mirrored
from genai_mcp.protocol import OWN
from genai_mcp.rpc import Request, RpcError
from genai_mcp.server.messages import HEADER_MISMATCH
from genai_mcp.server.offer import Offer


def check_headers(request: Request, headers: Mapping[str, str], offer: Offer) -> None:
    """Raises `RpcError` if they differ.

    headers   by name in lower case
    """
    version = request.params["_meta"].get(f"{OWN}protocolVersion")
    if isinstance(version, str):  # else it is refused for that
        _check("mcp-protocol-version", headers.get("mcp-protocol-version"), version)
    _check("mcp-method", headers.get("mcp-method"), request.method)
    if request.method != "tools/call":
        return
    name, arguments = request.params.get("name"), request.params.get("arguments", {})
    if isinstance(name, str):
        _check("mcp-name", _decoded(headers, "mcp-name"), name)
        if isinstance(arguments, Mapping):
            _check_arguments(name, arguments, headers, offer)


def _check_arguments(
    name: str, arguments: Mapping[str, Any], headers: Mapping[str, str], offer: Offer
) -> None:
    offered = offer.tool(name)
    if offered is None or not offered.mirrored:
        return
    try:
        values = mirrored.values(offered.mirrored, arguments)
    except ValidationError as error:
        raise RpcError(HEADER_MISMATCH, str(error)) from error
    for header in offered.mirrored:
        given, expected = _decoded(headers, header), values.get(header)
        if given is None or expected is None or not _are_equal_numbers(given, expected):
            _check(header, given, expected)


def _decoded(headers: Mapping[str, str], name: str) -> str | None:
    """What a header stands for; None if it is not there."""
    value = headers.get(name)
    if value is None:
        return None
    text = mirrored.header_text(value.strip())
    if text is None:
        raise RpcError(HEADER_MISMATCH, f"the header {name} has characters that none may have")
    return text


def _check(name: str, given: str | None, expected: str | None) -> None:
    if given is None and expected is not None:
        raise RpcError(HEADER_MISMATCH, f"the header {name} is missing")
    if given != expected:
        raise RpcError(HEADER_MISMATCH, f"the header {name} says something else than the body")


def _are_equal_numbers(one: str, other: str) -> bool:
    """As `42.0` and `42` are."""
    try:
        return Decimal(one) == Decimal(other)
    except InvalidOperation:
        return False
