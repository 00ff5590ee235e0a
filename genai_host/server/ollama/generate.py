"""`/api/generate`: one prompt, one answer.

Source: Ollama's `docs/api.md`, "Generate a completion".
"""

from __future__ import annotations

from genai_host.api import Message, RouteReply, RouteRequest, json_reply
from genai_host.api.given import body_of
from genai_host.host import Host
from genai_host.server.able import able
from genai_host.server.asking import Asked
from genai_host.server.ollama.chat import what_is_wanted
from genai_host.server.ollama.messages import images_in
from genai_host.server.ollama.names import model_in
from genai_host.server.ollama.options import (
    parameters_in,
    refuse_what_is_not_done,
    schema_in,
    thinking_in,
)
from genai_host.server.ollama.replies import Writer, as_response, reply


def generate(request: RouteRequest, host: Host) -> RouteReply:
    """In pieces unless told otherwise."""
    body = body_of(request)
    sent, model = model_in(body)
    can = able(host, model)
    schema = schema_in(body)
    in_pieces = body.flag("stream") is not False
    thoughts, thinking = thinking_in(body, can)
    refuse_what_is_not_done(
        body, "suffix", "template", "raw", "context", "width", "height", "steps"
    )
    system, prompt = body.text("system"), body.text("prompt")
    images = images_in(body)
    parameters = {**parameters_in(body, can.parameters), **thinking}
    writer = Writer(sent, thoughts, as_response, host.clock)
    if not (prompt or images):
        return json_reply(writer.nothing(what_is_wanted(body)))
    asked = Asked(
        model=model,
        messages=[
            *([Message("system", system)] if system else []),
            Message("user", [*([prompt] if prompt else []), *images]),
        ],
        schema=schema,
        parameters=parameters,
        in_pieces=in_pieces,
    )
    return reply(writer, host, asked, request)
