"""A response, with all of its fields."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from genai_host.api import Completion, Finish, Problem, Usage
from genai_host.server.responses.items import Item
from genai_host.server.responses.output import joined
from genai_host.server.responses.request import Request

_STATUS: Mapping[Finish, tuple[str, Any]] = {
    "stop": ("completed", None),
    "tool_calls": ("completed", None),
    "length": ("incomplete", {"reason": "max_output_tokens"}),
    "content_filter": ("incomplete", {"reason": "content_filter"}),
    "other": ("incomplete", {}),  # the API has no word for it
}
_ERRORS = {"rate_limited": "rate_limit_exceeded", "budget_exceeded": "rate_limit_exceeded"}
_HEX = 24  # bytes


class Reply:
    """What becomes of a request.

    id    of the response; those of its items end in the same and a number, so that an item
          is found by its id alone
    """

    def __init__(self, request: Request, created: int) -> None:
        self.request = request
        self.created = created
        self._tail = secrets.token_hex(_HEX)
        self._count = 0
        self.id = f"resp_{self._tail}"

    def new_id(self, prefix: str) -> str:
        return f"{prefix}_{self.new_tail()}"

    def new_tail(self) -> str:
        """Of an id of an item."""
        self._count += 1
        return item_tail(self._tail, self._count)

    def items(self, completion: Completion) -> list[Item]:
        """Of an answer that comes whole."""
        return joined(completion.message, (), self.new_id)[0]

    def told(self, status: str = "in_progress", output: Sequence[Item] = ()) -> dict[str, Any]:
        """It, as far as it is known before it is whole."""
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "completed_at": None,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": None,
            "model": self.request.model or "default",
            "output": [*output],
            "service_tier": "default",
            "store": self.request.store is not False,
            "top_logprobs": 0,
            "truncation": "disabled",
            **self.request.told,
        }

    def finished(self, completion: Completion, output: Sequence[Item], now: int) -> dict[str, Any]:
        """It, once the answer is whole. Its last item is incomplete where it is."""
        status, why = _STATUS[completion.finish]
        if status == "incomplete" and output and "status" in output[-1]:
            output[-1]["status"] = status
        return {
            **self.told(status, output),
            "completed_at": now if status == "completed" else None,
            "incomplete_details": why,
            "usage": _usage(completion.usage),
            **self._model(completion),
        }

    def failed(self, problem: Problem, output: Sequence[Item]) -> dict[str, Any]:
        """It, where the answer broke off."""
        known = "server_error" if problem.status >= 500 else "invalid_prompt"
        error = {"code": _ERRORS.get(problem.code, known), "message": problem.message}
        return {**self.told("failed", output), "error": error}

    def _model(self, completion: Completion) -> dict[str, str]:
        """Which model it was, where the client named none."""
        route = completion.route
        if self.request.model is not None or route is None:
            return {}
        return {"model": f"{route.model}@{route.provider}"}


def item_tail(tail: str, number: int) -> str:
    """The end of the id of an item.

    tail   that of the id of what it belongs to
    """
    return f"{tail}{number:04x}"


def belongs_to(id: str) -> str:
    """The tail of what an item belongs to, by its id; empty if that does not say."""
    tail = id.rpartition("_")[2][: 2 * _HEX]
    return tail if len(tail) == 2 * _HEX else ""


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {
            "cached_tokens": usage.cached_input,
            "cache_write_tokens": usage.cache_written,
        },
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.total,
    }
