"""Conversations: open, list, show, change, delete, export."""

from __future__ import annotations

from typing import Any

from genai_host.api import Image, RouteRequest, RouteResponse, json_response
from genai_host.api.json_reader import body_of, number_in
from genai_host.conversations.conversation import Conversation
from genai_host.conversations.replay import replay
from genai_host.conversations.transcript import TurnSummary, turns_of
from genai_host.errors import ConversationBusy, NotFound, ValidationError
from genai_host.host import Host
from genai_host.serializers.conversations import found_row, pause_row, row_of, utc
from genai_host.server.native.fields import (
    answered,
    conversation_in,
    failed,
    feature_in,
    flag_in,
    opened_with,
    title_in,
)
from genai_host.server.native.turns import Live, cancel_elsewhere, must_not_run_elsewhere

_PAGE, _MOST = 20, 200
_TURNS, _MOST_TURNS = 50, 1000
_LATEST = 10**9  # greater than the number of any turn
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")


def create(host: Host, live: Live, request: RouteRequest) -> RouteResponse:
    body = body_of(request)
    title, feature = title_in(body), feature_in(body, host)
    arguments = opened_with(body)
    body.nothing_else()
    host.store_for(request.user)  # raises if there is no store
    with host.open(feature, owner=request.user, **arguments) as conversation:
        if conversation.record_error is not None:
            raise conversation.record_error
        if title:
            host.store_for(request.user).rename(conversation.id, title)
        return json_response(_shown(host, live, request.user, conversation.id), 201)


def listed(host: Host, live: Live, request: RouteRequest) -> RouteResponse:
    limit = number_in(request.query, "limit", _PAGE, _MOST)
    store = host.store_for(request.user)
    words = request.query.get("search", "").strip()
    if words:
        return json_response(
            {"data": [found_row(each) for each in store.search(words, limit=limit)]}
        )
    after = request.query.get("after") or None
    found = store.conversations(limit=limit + 1, after=after)
    page = found[:limit]
    return json_response(
        {
            "data": [_with_status(row_of(each), live) for each in page],
            "next": page[-1].id if len(found) > limit else None,
        }
    )


def show(host: Host, live: Live, request: RouteRequest) -> RouteResponse:
    limit = number_in(request.query, "limit", _TURNS, _MOST_TURNS)
    before = 0
    if request.query.get("before") != "0":
        before = number_in(request.query, "before", _LATEST, _LATEST)
    details = flag_in(request, "details")
    id = conversation_in(request, host)
    return json_response(
        _shown(host, live, request.user, id, limit=limit, before=before, details=details)
    )


def change(host: Host, live: Live, request: RouteRequest) -> RouteResponse:
    """Change a conversation. A null parameter is removed; an empty title, too."""
    id = conversation_in(request, host)
    body = body_of(request)
    title = title_in(body)
    arguments = opened_with(body)
    body.nothing_else()
    if arguments:
        _must_be_idle(live, id)
        with host.conversation(id, owner=request.user) as conversation:
            must_not_run_elsewhere(host, request.user, conversation)
        host.conversation(id, owner=request.user, **arguments).close()
    if title is not None:
        host.store_for(request.user).rename(id, title)
    return json_response(_shown(host, live, request.user, id))


def delete(host: Host, live: Live, request: RouteRequest) -> RouteResponse:
    """Delete a conversation. A turn in progress is cancelled."""
    id = conversation_in(request, host)
    live.cancel(id)
    host.store_for(request.user).delete(id)
    return RouteResponse(status=204)


def cancel(host: Host, live: Live, request: RouteRequest) -> RouteResponse:
    id = conversation_in(request, host)
    is_cancelled = live.cancel(id) or cancel_elsewhere(host, request.user, id)
    return json_response({"cancelled": is_cancelled}, 202)


def undo(host: Host, live: Live, request: RouteRequest) -> RouteResponse:
    """Undo the last turn, and return its message."""
    with _alone(host, live, request) as conversation:
        message = conversation.undo()
    return json_response({"message": None if message is None else host.codec.to_json(message)})


def abandon(host: Host, live: Live, request: RouteRequest) -> RouteResponse:
    """Abandon a paused or interrupted turn. It is recorded as failed."""
    with _alone(host, live, request) as conversation:
        conversation.abandon()
    return json_response(_shown(host, live, request.user, conversation.id))


def export(host: Host, live: Live, request: RouteRequest) -> RouteResponse:
    store, id = host.store_for(request.user), conversation_in(request, host)
    form = request.query.get("format", "json")
    if form == "markdown":
        kind = {"content-type": "text/markdown; charset=utf-8"}
        return RouteResponse(store.markdown(id, host.codec).encode(), headers=kind)
    if form != "json":
        raise ValidationError("format must be json or markdown", path="?format")
    return json_response(store.export(id))


def image(host: Host, live: Live, request: RouteRequest) -> RouteResponse:
    """Return an image of an answer. Other media types are sent as `application/octet-stream`."""
    turn, number = request.parameters["turn"], request.parameters["number"]
    entries = host.store_for(request.user).entries(conversation_in(request, host), host.codec)
    for told in turns_of(entries):
        if str(told.number) == turn and told.answer is not None:
            for place, each in enumerate(told.answer.images):
                if str(place) == number and each.data:
                    return RouteResponse(each.data, headers={"content-type": _kind_of(each)})
    raise NotFound("unknown image")


def _kind_of(picture: Image) -> str:
    kind = picture.media_type or "image/png"
    return kind if kind in _PICTURES else "application/octet-stream"


def _alone(host: Host, live: Live, request: RouteRequest) -> Conversation:
    id = conversation_in(request, host)
    _must_be_idle(live, id)
    conversation = host.conversation(id, owner=request.user)
    must_not_run_elsewhere(host, request.user, conversation)
    return conversation


def _must_be_idle(live: Live, id: str) -> None:
    if live.is_busy(id):
        raise ConversationBusy("a turn is in progress", hint="wait for it, or cancel it")


def _shown(
    host: Host,
    live: Live,
    user: str,
    id: str,
    *,
    limit: int = _TURNS,
    before: int = _LATEST,
    details: bool = False,
) -> dict[str, Any]:
    """A conversation with its last turns before a turn number."""
    store = host.store_for(user)
    summary = store.summary(id)
    entries = store.entries(summary.id, host.codec)
    opened, turns = replay(entries).opened, turns_of(entries)
    times = store.times(summary.id)
    older = [turn for turn in turns if turn.number < before]
    last = turns[-1] if turns else None
    return {
        **_with_status(row_of(summary), live),
        "configurations": {role: each.configuration for role, each in opened.configured.items()},
        "parameters": host.codec.to_json(opened.parameters),
        "settings": host.codec.to_json(opened.settings),
        "tools": None if opened.tools is None else list(opened.tools),
        "pause": None if last is None or last.pause is None else pause_row(last.pause),
        "turns": [_turn_row(host, each, times[each.number], details) for each in older[-limit:]],
        "more": len(older) > limit,
    }


def _turn_row(host: Host, turn: TurnSummary, at: float, details: bool) -> dict[str, Any]:
    answer = None if turn.answer is None else answered(turn.answer, host.codec, turn.number)
    if answer is not None and not details:
        del answer["details"]
    return {
        "turn": turn.number,
        "at": utc(at),
        "status": turn.outcome,
        "message": host.codec.to_json(turn.message),
        "answer": answer,
        "partial": turn.partial,
        "error": None if turn.error is None else failed(turn.error),
        "pause": None if turn.pause is None else pause_row(turn.pause),
    }


def _with_status(row: dict[str, Any], live: Live) -> dict[str, Any]:
    """For turns of this process, the store can be behind."""
    return {**row, "status": "running"} if live.is_busy(row["id"]) else row
