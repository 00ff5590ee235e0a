"""`/v1/messages`, and the count of the tokens of one.

    create → read → asking.whole → Writer.whole
                  → asking.answer → Writer.events
    count  → read → Host.count_tokens

Source: Claude API reference, "Create a Message", "Count tokens in a Message".
"""

from __future__ import annotations

from genai_host.api import RouteReply, RouteRequest, json_reply
from genai_host.api.given import body_of
from genai_host.errors import InvalidData, NotFound
from genai_host.host import Host
from genai_host.server.anthropic.problems import NO_THREADS, problem_reply
from genai_host.server.anthropic.replies import Writer
from genai_host.server.anthropic.requests import Wanted, read
from genai_host.server.asking import FEATURE, answer, streamed, whole


def create(request: RouteRequest, host: Host) -> RouteReply:
    """In pieces where `stream` says so."""
    body = body_of(request)
    if "thread" in body:
        return problem_reply(NO_THREADS)
    wanted = read(body, host)
    asked = wanted.asked
    if "max_tokens" not in asked.parameters:
        raise InvalidData("it is needed", path="$.max_tokens")
    writer = _writer(wanted)
    if asked.in_pieces:
        return streamed(answer(host, asked, request), writer.events)
    return json_reply(writer.whole(whole(host, asked, request)))


def count(request: RouteRequest, host: Host) -> RouteReply:
    """As the service counts that would answer. Raises `NoRoute` where none does."""
    asked = read(body_of(request), host).asked
    if asked.model is not None and asked.model.startswith(FEATURE):
        raise InvalidData(f"{asked.model} is no model: it counts no tokens", path="$.model")
    found = host.count_tokens(
        asked.messages,
        model=asked.model,
        parameters=asked.parameters,
        tools=asked.tools,
        schema=asked.schema,
        limits=request.limits,
    )
    return json_reply({"input_tokens": found.tokens})


def no_batches(request: RouteRequest, host: Host) -> RouteReply:
    raise NotFound(
        "there are no batches of messages here", hint="POST /v1/messages answers each at once"
    )


def _writer(wanted: Wanted) -> Writer:
    stop = wanted.asked.parameters.get("stop", ())
    return Writer(
        wanted.asked.model or "",
        shows_thoughts=wanted.shows_thoughts,
        stop=stop[0] if len(stop) == 1 else None,
    )
