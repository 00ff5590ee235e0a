"""Conversations: open, list, show, change, delete, export."""

from __future__ import annotations

from typing import Any

from genai_host.api import Image, RouteRequest, RouteResponse, json_response
from genai_host.api.json_reader import body_of, number_in
from genai_host.conversations.conversation import Conversation
from genai_host.conversations.replay import replay
from genai_host.conversations.transcript import TurnSummary, turns_of
from genai_host.errors import NotFound, ValidationError
from genai_host.host import Host
from genai_host.serializers.conversations import found_row, pause_row, row_of, utc
from genai_server.native.fields import (
    answer_json,
    conversation_id,
    error_json,
    read_changes,
    read_feature,
    read_flag,
    read_open_arguments,
    read_title,
)
from genai_server.native.turns import RunningTurns, cancel_elsewhere, check_not_running_elsewhere

_PAGE_SIZE, _MAX_PAGE_SIZE = 20, 200
_TURNS, _MAX_TURNS = 50, 1000
_LATEST = 10**9  # greater than the number of any turn
_IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")


class Conversations:
    """Handlers of conversations, named in `routes`."""

    def __init__(self, host: Host, running_turns: RunningTurns) -> None:
        self._host = host
        self._running_turns = running_turns

    def create(self, request: RouteRequest) -> RouteResponse:
        body = body_of(request)
        title, feature = read_title(body), read_feature(body, self._host)
        arguments = read_open_arguments(body)
        body.nothing_else()
        self._host.store_for(request.user)  # raises if there is no store
        with self._host.open(feature, owner=request.user, **arguments) as conversation:
            if conversation.record_error is not None:
                raise conversation.record_error
            if title:
                self._host.store_for(request.user).rename(conversation.id, title)
            return json_response(self._conversation_json(request.user, conversation.id), 201)

    def listed(self, request: RouteRequest) -> RouteResponse:
        limit = number_in(request.query, "limit", _PAGE_SIZE, _MAX_PAGE_SIZE)
        store = self._host.store_for(request.user)
        query = request.query.get("search", "").strip()
        if query:
            return json_response(
                {"data": [found_row(each) for each in store.search(query, limit=limit)]}
            )
        after = request.query.get("after") or None
        found = store.conversations(limit=limit + 1, after=after)
        page = found[:limit]
        return json_response(
            {
                "data": [self._with_status(row_of(each)) for each in page],
                "next": page[-1].cursor if len(found) > limit else None,
            }
        )

    def show(self, request: RouteRequest) -> RouteResponse:
        limit = number_in(request.query, "limit", _TURNS, _MAX_TURNS)
        before = 0
        if request.query.get("before") != "0":
            before = number_in(request.query, "before", _LATEST, _LATEST)
        details = read_flag(request, "details")
        id = conversation_id(request, self._host)
        return json_response(
            self._conversation_json(request.user, id, limit=limit, before=before, details=details)
        )

    def change(self, request: RouteRequest) -> RouteResponse:
        """Change a conversation. What is null gets its default; an empty title is removed."""
        id = conversation_id(request, self._host)
        body = body_of(request)
        title = "" if body.value.get("title", "") is None else read_title(body)
        entries = self._host.store_for(request.user).entries(id, self._host.codec)
        arguments = read_changes(body, replay(entries).opened)
        body.nothing_else()
        if arguments:
            self._running_turns.check_idle(id)
            with self._host.conversation(id, owner=request.user) as conversation:
                check_not_running_elsewhere(self._host, request.user, conversation)
            self._host.conversation(id, owner=request.user, **arguments).close()
        if title is not None:
            self._host.store_for(request.user).rename(id, title)
        return json_response(self._conversation_json(request.user, id))

    def delete(self, request: RouteRequest) -> RouteResponse:
        """Delete a conversation. A turn in progress is cancelled."""
        id = conversation_id(request, self._host)
        self._running_turns.cancel(id)
        self._host.store_for(request.user).delete(id)
        return RouteResponse(status=204)

    def cancel(self, request: RouteRequest) -> RouteResponse:
        id = conversation_id(request, self._host)
        is_cancelled = self._running_turns.cancel(id) or cancel_elsewhere(
            self._host, request.user, id
        )
        return json_response({"cancelled": is_cancelled}, 202)

    def undo(self, request: RouteRequest) -> RouteResponse:
        """Undo the last turn, and return its message."""
        with self._idle_conversation(request) as conversation:
            message = conversation.undo()
        return json_response({"message": self._host.codec.to_json(message)})

    def abandon(self, request: RouteRequest) -> RouteResponse:
        """Abandon a paused or interrupted turn. It is recorded as failed."""
        with self._idle_conversation(request) as conversation:
            conversation.abandon()
        return json_response(self._conversation_json(request.user, conversation.id))

    def export(self, request: RouteRequest) -> RouteResponse:
        store, id = self._host.store_for(request.user), conversation_id(request, self._host)
        form = request.query.get("format", "json")
        if form == "markdown":
            kind = {"content-type": "text/markdown; charset=utf-8"}
            return RouteResponse(store.markdown(id, self._host.codec).encode(), headers=kind)
        if form != "json":
            raise ValidationError("format must be json or markdown", path="?format")
        return json_response(store.export(id))

    def image(self, request: RouteRequest) -> RouteResponse:
        """Return an image of an answer. Other types are sent as `application/octet-stream`."""
        turn, number = request.parameters["turn"], request.parameters["number"]
        id = conversation_id(request, self._host)
        entries = self._host.store_for(request.user).entries(id, self._host.codec)
        for stored_turn in turns_of(entries):
            if str(stored_turn.number) == turn and stored_turn.answer is not None:
                for place, each in enumerate(stored_turn.answer.images):
                    if str(place) == number and each.data:
                        return RouteResponse(
                            each.data, headers={"content-type": _media_type_of(each)}
                        )
        raise NotFound("unknown image")

    def _idle_conversation(self, request: RouteRequest) -> Conversation:
        id = conversation_id(request, self._host)
        self._running_turns.check_idle(id)
        conversation = self._host.conversation(id, owner=request.user)
        check_not_running_elsewhere(self._host, request.user, conversation)
        return conversation

    def _conversation_json(
        self,
        user: str,
        id: str,
        *,
        limit: int = _TURNS,
        before: int = _LATEST,
        details: bool = False,
    ) -> dict[str, Any]:
        """A conversation with its last turns before a turn number."""
        store, codec = self._host.store_for(user), self._host.codec
        summary = store.summary(id)
        entries = store.entries(summary.id, codec)
        opened, turns = replay(entries).opened, turns_of(entries)
        times = store.times(summary.id)
        configured = opened.configured
        older = [turn for turn in turns if turn.number < before]
        last = turns[-1] if turns else None
        return {
            **self._with_status(row_of(summary)),
            "configurations": {name: each.configuration for name, each in configured.items()},
            "parameters": codec.to_json(opened.parameters),
            "settings": codec.to_json(opened.settings),
            "tools": None if opened.tools is None else list(opened.tools),
            "pause": None if last is None or last.pause is None else pause_row(last.pause),
            "turns": [self._turn_row(each, times[each.number], details) for each in older[-limit:]],
            "more": len(older) > limit,
        }

    def _turn_row(self, turn: TurnSummary, at: float, details: bool) -> dict[str, Any]:
        codec, answer = self._host.codec, None
        if turn.answer is not None:
            answer = answer_json(turn.answer, codec, turn.number)
            if not details:
                del answer["details"]
        return {
            "turn": turn.number,
            "at": utc(at),
            "status": turn.outcome,
            "message": codec.to_json(turn.message),
            "answer": answer,
            "partial": turn.partial,
            "error": None if turn.error is None else error_json(turn.error),
            "pause": None if turn.pause is None else pause_row(turn.pause),
        }

    def _with_status(self, row: dict[str, Any]) -> dict[str, Any]:
        """For turns of this process, the store can be behind."""
        return {**row, "status": "running"} if self._running_turns.is_busy(row["id"]) else row


def _media_type_of(picture: Image) -> str:
    kind = picture.media_type or "image/png"
    return kind if kind in _IMAGE_TYPES else "application/octet-stream"
