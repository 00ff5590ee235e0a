"""The steps of runs: messages that were made, tools that were called.

Source: OpenAI API reference, "Run steps"; OpenAPI document 2.3.0.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from genai_feature_assistants.service.shelf import Object, Shelf, shown
from genai_host.api import RouteRequest, RouteResponse, json_response

if TYPE_CHECKING:
    from genai_host.host import Host

_USED = ("prompt_tokens", "completion_tokens", "total_tokens")
_STAMPS = {"cancelled": "cancelled_at", "failed": "failed_at", "expired": "expired_at"}
_CONTENT = "step_details.tool_calls[*].file_search.results[*].content"


def id_of(kind: str, run: str, round: int, what: str) -> str:
    """Always the same for the same part of a run: who does it again writes it again."""
    digest = hashlib.sha256(f"{run}/{round}/{what}".encode()).hexdigest()
    return f"{kind}_{digest[:24]}"


def new_step(run: Object, round: int, kind: str, details: Any, now: int) -> dict[str, Any]:
    """A step that has begun.

    kind   `message_creation` or `tool_calls`
    """
    return {
        "id": id_of("step", run["id"], round, kind),
        "object": "thread.run.step",
        "created_at": now,
        "run_id": run["id"],
        "assistant_id": run["assistant_id"],
        "thread_id": run["thread_id"],
        "type": kind,
        "status": "in_progress",
        "cancelled_at": None,
        "completed_at": None,
        "expired_at": None,
        "failed_at": None,
        "last_error": None,
        "step_details": {"type": kind, kind: details},
        "metadata": {},
        "usage": None,
    }


def end_steps(steps: Shelf, status: str, **fields: Any) -> list[Object]:
    """What a run had begun ends with it: those steps, as they are then.

    status   that the run ends with
    """
    ended = {"status": "cancelled" if status == "incomplete" else status, **fields}
    if status in _STAMPS:
        ended[_STAMPS[status]] = steps.now()
    begun = list(steps.all({"status": "in_progress"}))
    return [steps.update(step["id"], **ended) for step in begun]


def usage_of(steps: Shelf) -> dict[str, int]:
    """The tokens that all steps took."""
    used = [step["usage"] for step in steps.all() if step["usage"]]
    return {name: sum(each[name] for each in used) for name in _USED}


def shown_step(step: Object, *, content: bool = False) -> dict[str, Any]:
    """A step as clients see it.

    content   whether the texts that were found are shown
    """
    found = shown(step)
    if content or found["type"] != "tool_calls":
        return found
    calls = [without_content(call) for call in found["step_details"]["tool_calls"]]
    return {**found, "step_details": {"type": "tool_calls", "tool_calls": calls}}


def without_content(call: Mapping[str, Any]) -> Mapping[str, Any]:
    """A call without the texts that were found by it."""
    if call["type"] != "file_search" or "results" not in call["file_search"]:
        return call
    results = [
        {name: value for name, value in result.items() if name != "content"}
        for result in call["file_search"]["results"]
    ]
    return {**call, "file_search": {**call["file_search"], "results": results}}


class Steps:
    """Of all users of one host."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def shelf(self, user: str, run: str) -> Shelf:
        return Shelf(self._host, user, "step", run)

    def show(self, request: RouteRequest) -> RouteResponse:
        step = self._shelf(request).get(request.parameters["step"])
        return json_response(shown_step(step, content=wants_content(request)))

    def page(self, request: RouteRequest) -> RouteResponse:
        content = wants_content(request)
        shelf = self._shelf(request)
        return json_response(
            shelf.page(request.query, lambda each: shown_step(each, content=content))
        )

    def _shelf(self, request: RouteRequest) -> Shelf:
        names = request.parameters
        Shelf(self._host, request.user, "run", names["thread"]).get(names["run"])
        return self.shelf(request.user, names["run"])


def wants_content(request: RouteRequest) -> bool:
    """Whether the texts that were found are asked for."""
    names = ("include", "include[]", "include[0]")
    return any(_CONTENT in request.query.get(name, "") for name in names)
