"""Texts to vectors: `embedContent` and `batchEmbedContents`.

Source: Gemini API reference, "Embeddings".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Literal, NamedTuple

from genai_host.api import RouteReply, RouteRequest, Usage, json_reply
from genai_host.api.given import Given, body_of
from genai_host.errors import InvalidData
from genai_host.host import Host
from genai_host.server.able import able
from genai_host.server.gemini.contents import text_of

_MOST = 100
"""Texts at once, as many as the service of that API takes."""

_TASKS = (
    "TASK_TYPE_UNSPECIFIED", "RETRIEVAL_QUERY", "RETRIEVAL_DOCUMENT", "SEMANTIC_SIMILARITY",
    "CLASSIFICATION", "CLUSTERING", "QUESTION_ANSWERING", "FACT_VERIFICATION",
    "CODE_RETRIEVAL_QUERY",
)  # fmt: skip
_QUERIES = {"RETRIEVAL_QUERY", "QUESTION_ANSWERING", "FACT_VERIFICATION", "CODE_RETRIEVAL_QUERY"}


class _Wanted(NamedTuple):
    """
    task        one of `_TASKS`
    dimensions  None for as many as the model gives
    """

    text: str
    task: str
    dimensions: int | None


def one(model: str, request: RouteRequest, host: Host) -> RouteReply:
    vectors, usage = _embedded([_wanted(body_of(request, camel=True))], model, request, host)
    return json_reply({"embedding": {"values": vectors[0]}, **_usage(usage)})


def several(model: str, request: RouteRequest, host: Host) -> RouteReply:
    body = body_of(request, camel=True)
    wanted = [_wanted(each) for each in body.objects("requests")]
    body.raw("model")
    body.nothing_else()
    if not 0 < len(wanted) <= _MOST:
        raise InvalidData(f"there are {len(wanted)}, not 1 to {_MOST}", path=body.at("requests"))
    vectors, usage = _embedded(wanted, model, request, host)
    return json_reply({"embeddings": [{"values": each} for each in vectors], **_usage(usage)})


def _wanted(given: Given) -> _Wanted:
    content = given.object("content")
    if content is None:
        raise InvalidData("content is not specified", path=given.at("content"))
    text = text_of(content)
    if not text:
        raise InvalidData("there is no text", path=content.path)
    task = given.choice("taskType", _TASKS, _TASKS[0])
    dimensions = given.whole("outputDimensionality")
    given.refuse("title")
    given.raw("model")
    given.nothing_else()
    return _Wanted(text, task, dimensions)


def _embedded(
    wanted: Sequence[_Wanted], model: str, request: RouteRequest, host: Host
) -> tuple[list[Sequence[float]], Usage]:
    """What follows each other and is wanted alike is asked for at once."""
    taken = able(host, model, "embed").parameters
    vectors: list[Sequence[float]] = []
    usage = Usage()
    for (task, dimensions), alike in groupby(wanted, key=lambda each: each[1:]):
        purpose: Literal["query", "document"] = "query" if task in _QUERIES else "document"
        found = host.embed(
            [each.text for each in alike],
            model=model,
            parameters=_parameters(task, dimensions, taken),
            purpose=purpose,
            limits=request.limits,
            owner=request.user,
        )
        vectors += found.vectors
        usage += found.usage
    return vectors, usage


def _parameters(task: str, dimensions: int | None, taken: Mapping[str, Any]) -> dict[str, Any]:
    """A model that knows no tasks is told whether it is a query or a document."""
    parameters: dict[str, Any] = {}
    if dimensions is not None:
        parameters["dimensions"] = dimensions
    if task != _TASKS[0] and "task_type" in taken:
        parameters["task_type"] = task
    return parameters


def _usage(usage: Usage) -> dict[str, Any]:
    return {"usageMetadata": {"promptTokenCount": usage.input}} if usage.input else {}
