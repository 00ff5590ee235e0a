"""`/api/chat`.

Source: Ollama's `docs/api.md`, "Generate a chat completion".
"""

from __future__ import annotations

from genai_host.api import RouteReply, RouteRequest, json_reply
from genai_host.api.given import Given, body_of
from genai_host.host import Host
from genai_host.server.able import able
from genai_host.server.asking import Asked
from genai_host.server.ollama.messages import messages_in, tools_in
from genai_host.server.ollama.names import model_in
from genai_host.server.ollama.options import (
    parameters_in,
    refuse_what_is_not_done,
    schema_in,
    thinking_in,
)
from genai_host.server.ollama.replies import Writer, as_message, reply


def chat(request: RouteRequest, host: Host) -> RouteReply:
    """In pieces unless told otherwise."""
    body = body_of(request)
    sent, model = model_in(body)
    can = able(host, model)
    schema = schema_in(body)
    in_pieces = body.flag("stream") is not False
    thoughts, thinking = thinking_in(body, can)
    refuse_what_is_not_done(body)
    messages = messages_in(body)
    tools = tools_in(body)
    parameters = {**parameters_in(body, can.parameters), **thinking}
    writer = Writer(sent, thoughts, as_message, host.clock)
    if not messages:
        return json_reply(writer.nothing(what_is_wanted(body)))
    asked = Asked(
        model=model,
        messages=messages,
        tools=tools,
        schema=schema,
        parameters=parameters,
        in_pieces=in_pieces,
    )
    return reply(writer, host, asked, request)


def what_is_wanted(body: Given) -> str:
    """By who says nothing to the model: models are loaded when they are asked, and unloaded
    as their provider sees fit."""
    return "unload" if body.raw("keep_alive") in (0, "0", "0s") else "load"
