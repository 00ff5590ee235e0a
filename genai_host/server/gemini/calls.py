"""What is asked of a model: `/models/NAME:METHOD`.

    call → _generate | _stream → asking.whole, asking.answer
         → _count → Host.count_tokens
         → embedding.one, embedding.several → Host.embed

Source: Gemini API reference, "Generating content", "Counting tokens"; `alt` is one of the
system parameters of Google's APIs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import frozen

from genai_host.api import RouteReply, RouteRequest, json_reply
from genai_host.api.given import Given, body_of
from genai_host.errors import InvalidData, NotFound
from genai_host.host import Host
from genai_host.server.able import able
from genai_host.server.asking import FEATURE, Asked, answer, streamed, whole
from genai_host.server.gemini import embedding
from genai_host.server.gemini.configs import configured, safety
from genai_host.server.gemini.contents import messages_in
from genai_host.server.gemini.names import model_named
from genai_host.server.gemini.replies import Writer
from genai_host.server.gemini.tools import chosen, tools_in

_Method = Callable[[str, RouteRequest, Host], RouteReply]


@frozen
class _Read:
    asked: Asked
    thoughts: bool

    @property
    def writer(self) -> Writer:
        return Writer(self.asked.model or "", self.thoughts)


def call(request: RouteRequest, host: Host) -> RouteReply:
    """The model's name ends at the last colon."""
    name, _, method = request.parameters["call"].rpartition(":")
    if method not in _METHODS or not name:
        raise NotFound(
            f"there is no method {method!r} of models", hint=f"there are {', '.join(_METHODS)}"
        )
    return _METHODS[method](model_named({**request.parameters, "call": name}), request, host)


def _generate(model: str, request: RouteRequest, host: Host) -> RouteReply:
    read = _read(body_of(request, camel=True), model, host, in_pieces=False)
    return json_reply(read.writer.whole(whole(host, read.asked, request)))


def _stream(model: str, request: RouteRequest, host: Host) -> RouteReply:
    """Events if that is asked for, or else an array."""
    form = request.query.get("alt") or request.query.get("$alt") or "json"
    if form not in ("json", "sse"):
        raise InvalidData(f"alt: {form!r} is neither json nor sse")
    read = _read(body_of(request, camel=True), model, host, in_pieces=True)
    answering = answer(host, read.asked, request)
    if form == "sse":
        return streamed(answering, read.writer.events)
    return streamed(answering, read.writer.array, "application/json")


def _count(model: str, request: RouteRequest, host: Host) -> RouteReply:
    body = body_of(request, camel=True)
    inner = body.object("generateContentRequest")
    if inner is not None:
        body.nothing_else()
    asked = _read(inner or body, model, host, in_pieces=False).asked
    if model.startswith(FEATURE):
        raise InvalidData(f"{model} is no model: it counts no tokens")
    count = host.count_tokens(
        asked.messages,
        model=model,
        parameters=asked.parameters,
        tools=asked.tools,
        schema=asked.schema,
        limits=request.limits,
    )
    return json_reply({"totalTokens": count.tokens})


def _read(body: Given, model: str, host: Host, *, in_pieces: bool) -> _Read:
    taken = able(host, model).parameters
    config = configured(body.object("generationConfig"), taken)
    tools, choice = chosen(body, tools_in(body))
    asked = Asked(
        model=model,
        messages=messages_in(body),
        tools=tools,
        tool_choice=choice,
        schema=config.schema,
        parameters={**config.parameters, **safety(body, taken)},
        in_pieces=in_pieces,
    )
    body.refuse("cachedContent")
    for neutral in ("model", "labels", "store", "serviceTier"):
        body.raw(neutral)
    body.nothing_else()
    return _Read(asked, config.thoughts)


_METHODS: Mapping[str, _Method] = {
    "generateContent": _generate,
    "streamGenerateContent": _stream,
    "countTokens": _count,
    "embedContent": embedding.one,
    "batchEmbedContents": embedding.several,
}
