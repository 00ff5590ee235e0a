"""One call of a tool, as a request of a client.

Calls.answer → _taken_up → Work.go_on → News (progress)
                                      → Question (Asking.ask, or Waiting.keep)
                                      → Done (the result)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from genai_host.errors import GenaiError
from genai_mcp.rpc import INVALID_PARAMS, Id, Request, RpcError
from genai_mcp.server import messages
from genai_mcp.server.asking import Asking
from genai_mcp.server.caller import Caller
from genai_mcp.server.exchange import Exchange, Sending
from genai_mcp.server.messages import Outgoing
from genai_mcp.server.results import failed, result_of_error
from genai_mcp.server.service import Service
from genai_mcp.server.steps import News, Question
from genai_mcp.server.work import Done, Work
from genai_mcp.texts import one_line

MOST_NEWS = 1000
"""Notifications of one call on how it goes; there are no more then."""

_APPROVAL = "approval"  # under which a client is asked, and answers


class Calls:
    """Those of one session. May be used from many threads."""

    def __init__(self, service: Service, asking: Asking) -> None:
        self._service = service
        self._asking = asking

    def answer(self, exchange: Exchange, caller: Caller) -> Sending:
        """What is sent back for a call. Raises `RpcError`."""
        request = exchange.request
        work, question, given = self._taken_up(request, caller)
        step: News | Question | Done | None = question
        exchange.begin(work)
        token, count, is_kept = _token(request.params), 0, False
        try:
            while True:
                step = step or _next(work, given)
                if exchange.cancelled:
                    return
                given = None
                if isinstance(step, Done):
                    yield messages.result(request.id, step.result, modern=caller.modern)
                    return
                if isinstance(step, Question):
                    if not caller.asks:
                        yield _refused(request, step, caller)
                        return
                    if caller.modern:
                        is_kept = True
                        yield self._input_required(request, work, step)
                        return
                    given = yield from self._asking.ask(step, work.limits)
                elif token is not None and count < MOST_NEWS:
                    count += 1
                    yield _progress(token, count, step)
                step = None
        finally:
            if not is_kept:
                work.drop()

    def _taken_up(
        self, request: Request, caller: Caller
    ) -> tuple[Work, Question | None, bool | None]:
        """What is to be done: from its beginning, or from where its client was asked
        something, with the answer, or with the question, if that is not answered. Raises
        `RpcError`."""
        name, arguments = request.params.get("name"), request.params.get("arguments", {})
        if not isinstance(name, str) or not isinstance(arguments, Mapping):
            raise RpcError(INVALID_PARAMS, "a call needs a name, and arguments that are an object")
        state = request.params.get("requestState")
        if caller.modern and state is not None:
            kept = self._service.waiting.take(str(state), name, arguments)
            if kept is None:
                raise RpcError(INVALID_PARAMS, "its requestState is not known, or not any more")
            responses = request.params.get("inputResponses")
            if not isinstance(responses, Mapping) or _APPROVAL not in responses:
                return kept.work, kept.question, None
            return kept.work, None, messages.is_allowed(responses[_APPROVAL])
        offered = self._service.offer.tool(name)
        if offered is None:
            raise RpcError(INVALID_PARAMS, f"Unknown tool: {one_line(name)}")
        begin = self._service.offer.begin
        return Work(name, arguments, lambda limits: begin(offered, arguments, limits)), None, None

    def _input_required(self, request: Request, work: Work, question: Question) -> Outgoing:
        """The answer that asks the client to ask its user, and to call again."""
        asked = {"method": messages.ELICIT, "params": messages.elicitation(question)}
        value = {
            "resultType": "input_required",
            "inputRequests": {_APPROVAL: asked},
            "requestState": self._service.waiting.keep(work, question),
        }
        return messages.result(request.id, value, modern=True)


def _next(work: Work, given: bool | None) -> News | Question | Done:
    try:
        return work.go_on(given)
    except GenaiError as error:
        return Done(result_of_error(error))


def _refused(request: Request, question: Question, caller: Caller) -> Outgoing:
    """The answer where a client would have to ask its user, and cannot."""
    if not caller.modern:
        return messages.result(request.id, failed(question.refusal), modern=False)
    needed: Mapping[str, Any] = {"requiredCapabilities": {"elicitation": {}}}
    return messages.error(request.id, messages.MISSING_CAPABILITY, question.refusal, needed)


def _token(params: Mapping[str, Any]) -> Id | None:
    meta = params.get("_meta")
    token = meta.get("progressToken") if isinstance(meta, Mapping) else None
    return token if type(token) in (int, str) else None


def _progress(token: Id, count: int, news: News) -> Outgoing:
    params = {"progressToken": token, "progress": count, "message": news.text}
    return messages.notification("notifications/progress", params)
