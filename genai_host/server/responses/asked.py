"""A request as the host is asked it."""

from __future__ import annotations

from collections.abc import Iterable

from genai_host.api import Limits
from genai_host.errors import InvalidData
from genai_host.host import Host
from genai_host.server.able import able
from genai_host.server.asking import FEATURE, Asked
from genai_host.server.responses.fields import MissingParameter
from genai_host.server.responses.items import Item
from genai_host.server.responses.messages import messages_of
from genai_host.server.responses.request import Request

_SUMMARY = "reasoning_summary"


def asked_of(host: Host, request: Request, items: Iterable[Item]) -> Asked:
    """Raises `InvalidData` for what cannot be asked, and `NoRoute` for an unknown model."""
    messages = messages_of(items, request.instructions)
    if len(messages) == (request.instructions is not None):
        raise MissingParameter("there is nothing to answer", path="$.input")
    model = request.model
    if model is not None and model.startswith(FEATURE) and messages[-1].role != "user":
        raise InvalidData("what is said last must be the user's", path="$.input")
    parameters = dict(request.parameters)
    if parameters.get(_SUMMARY) == "auto" and not (
        model is not None and _SUMMARY in able(host, model).parameters
    ):
        del parameters[_SUMMARY]  # what there is of it is shown anyway
    return Asked(
        model=model,
        messages=messages,
        tools=request.tools.offered,
        tool_choice=request.tools.choice,
        schema=request.schema,
        parameters=parameters,
        in_pieces=request.stream,
    )


def counted(host: Host, request: Request, items: Iterable[Item], limits: Limits) -> int:
    """How many tokens it would take. Raises `NoRoute` where no service counts for the model."""
    asked = asked_of(host, request, items)
    if asked.model is not None and asked.model.startswith(FEATURE):
        raise InvalidData("tokens are counted for models, not for features", path="$.model")
    return host.count_tokens(
        asked.messages,
        model=asked.model,
        parameters=asked.parameters,
        tools=asked.tools,
        schema=asked.schema,
        limits=limits,
    ).tokens
