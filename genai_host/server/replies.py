"""The heads of replies, with what is the same for all of them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from genai_host.api import RouteReply

Pairs = list[tuple[bytes, bytes]]

_USUAL = {
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_USUAL_PAIRS = [(name.encode(), value.encode()) for name, value in _USUAL.items()]
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # token, RFC 9110
_VALUE = re.compile(r"[\t -~\xa0-\xff]*")
_OF_THE_SERVER = frozenset({"content-length", "transfer-encoding", "connection", "date", "server"})
_BODILESS = (204, 205, 304)


def is_sendable(reply: RouteReply) -> bool:
    """Whether its headers are: one with an end of line would begin another, and a status
    that has no body must have none."""
    return all(
        _NAME.fullmatch(name) and _VALUE.fullmatch(value) for name, value in reply.headers.items()
    ) and not (reply.status in _BODILESS and reply.body != b"")


def pairs_of(reply: RouteReply, more: Mapping[str, str]) -> Pairs:
    """Its headers, those of the server besides, and the usual ones that neither has.

    more   come after those of the reply; `vary` is joined
    """
    given = {
        name.lower(): value
        for name, value in reply.headers.items()
        if name.lower() not in _OF_THE_SERVER
    }
    for name, value in more.items():
        is_both = name == "vary" and name in given
        given[name] = f"{given[name]}, {value}" if is_both else value
    pairs = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in given.items()]
    pairs += [pair for name, pair in zip(_USUAL, _USUAL_PAIRS, strict=True) if name not in given]
    if isinstance(reply.body, bytes) and reply.status not in (204, 304):
        pairs.append((b"content-length", b"%d" % len(reply.body)))
    return pairs
