"""Requests that pass through to a service that has this format; see `genai_host.serving`.

Only requests that nothing is stored for: the service would not know what this host has stored.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from genai_host import Host
from genai_host.api import (
    EXTRA_BODY,
    EncodedJson,
    HttpProblem,
    RouteRequest,
    RouteResponse,
    StreamEvent,
    read_json,
    sse_event,
)
from genai_host.errors import GenaiError
from genai_host.serving import (
    PassingFormat,
    ReplyWriter,
    fields_to_pass,
    named_sse_of,
    pass_through,
    value_of,
)
from genai_wire_openai.dialect.response_replies import NAME
from genai_wire_openai.responses.items import Unseal
from genai_wire_openai.responses.replies import error_of

_OF_THIS_HOST = ("background", "conversation", "previous_response_id", "prompt")
"""Fields that refer to what is stored, or store something."""

_NEUTRAL = frozenset({"encrypted_reasoning", "image_detail", "object_root", "strict"})
"""Options of the dialect for what a client writes itself."""


def passed(
    request: RouteRequest, host: Host, unseal: Unseal, writer: ReplyWriter
) -> RouteResponse | None:
    """The reply of a service that has the same format; None if there is none. `unseal` reads
    reasoning that this host has sealed, and `writer` writes the answer of a service that did not
    stream as requested."""
    fields = fields_to_pass(host, request)
    if fields is None or EXTRA_BODY in fields or value_of(fields, "store") is not False:
        return None
    model, stream = value_of(fields, "model"), value_of(fields, "stream")
    if not isinstance(model, str) or stream not in (None, False, True):
        return None
    if any(value_of(fields, name) for name in _OF_THIS_HOST) or _is_checked(fields):
        return None
    given = fields.get("input")
    if given is None or _has_items_of_this_host(fields, given, unseal):
        return None
    has_system = b'"system"' in given.data
    events = _Events(model, int(host.clock.now().timestamp()))
    form = PassingFormat(
        dialect=NAME,
        neutral=_NEUTRAL.union(() if has_system else {"system_role"}),
        write_event=events.write,
        write_error=events.failed,
        writer=writer,
    )
    return pass_through(host, request, fields, form, model=model, stream=bool(stream))


def _is_checked(fields: Mapping[str, EncodedJson]) -> bool:
    """Whether the answer is checked against a schema, or the field cannot be read."""
    text = value_of(fields, "text") or {}
    form = text.get("format") or {} if isinstance(text, dict) else None
    return not isinstance(form, dict) or form.get("type") == "json_schema"


def _has_items_of_this_host(
    fields: Mapping[str, EncodedJson], given: EncodedJson, unseal: Unseal
) -> bool:
    """Whether there are items that only this host can read: references, and sealed reasoning."""
    marks = (
        b'"id"',
        b'"encrypted_content"',
        b'"reasoning"',
        b"\\u",
    )  # the last may spell any other
    items = value_of(fields, "input") if any(mark in given.data for mark in marks) else ()
    for item in items if isinstance(items, list) else ():
        if not isinstance(item, dict):
            return True
        kind = item.get("type") or ("message" if "role" in item else "item_reference")
        if kind == "item_reference":
            return True
        sealed = item.get("encrypted_content")
        if isinstance(sealed, str) and sealed:
            if unseal(sealed) is not None:
                return True
        elif kind == "reasoning":  # the service knows only its own
            return True
    return False


class _Events:
    """The events of one response. If it is interrupted, its last event continues those before."""

    def __init__(self, model: str, created: int) -> None:
        self._usual = {
            "id": f"resp_{os.urandom(24).hex()}",
            "object": "response",
            "created_at": created,
            "model": model,
            "output": [],
        }
        self._first = self._last = b""

    def write(self, event: StreamEvent) -> bytes:
        if not event.is_done:
            self._first = self._first or event.data
            self._last = event.data
        return named_sse_of(event)

    def failed(self, error: GenaiError) -> bytes:
        """The last event of an interrupted response."""
        begun, number = _object(self._first).get("response"), "sequence_number"
        response = {
            **(begun if isinstance(begun, dict) else self._usual),
            "status": "failed",
            "error": error_of(HttpProblem.of(error)),
        }
        last = _object(self._last).get(number)
        place = {number: last + 1} if type(last) is int else {}
        kind = "response.failed"
        return sse_event(kind, {"type": kind, **place, "response": response})


def _object(data: bytes) -> dict[str, Any]:
    try:
        value = read_json(data)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
