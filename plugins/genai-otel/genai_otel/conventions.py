"""Names and values of OpenTelemetry's semantic conventions for generative AI, and of those for
HTTP servers.

The former are in development and unversioned. These are as of version 1.42 of the semantic
conventions (repository `semantic-conventions-genai`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from attrs import frozen

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
MODEL = "gen_ai.request.model"
AGENT = "gen_ai.agent.name"
CONVERSATION = "gen_ai.conversation.id"
TOOL = "gen_ai.tool.name"
TOKEN_TYPE = "gen_ai.token.type"  # noqa: S105 - the name of it
ERROR = "error.type"
METHOD = "http.request.method"
ROUTE = "http.route"
STATUS = "http.response.status_code"

OTHER = "_OTHER"
"""Value in metrics for undeclared names, whose number is unlimited."""

METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})

OPERATIONS: Mapping[str, str] = {
    "chat": "chat",
    "complete": "text_completion",
    "embed": "embeddings",
    "moderate": "moderation",
    "transcribe": "transcription",
    "count": "count_tokens",
}
"""Operation names; the last three are not in the conventions."""

PROVIDERS: Mapping[str, str] = {
    "azure": "azure.ai.openai",
    "azure-openai": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "vertex": "gcp.vertex_ai",
    "watsonx": "ibm.watsonx.ai",
    "xai": "x_ai",
}
"""Names of instances in the conventions, where they differ from the usual names."""

PARAMETERS: Mapping[str, str] = {
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "top_k": "gen_ai.request.top_k",
    "max_tokens": "gen_ai.request.max_tokens",
    "presence_penalty": "gen_ai.request.presence_penalty",
    "frequency_penalty": "gen_ai.request.frequency_penalty",
    "seed": "gen_ai.request.seed",
    "stop": "gen_ai.request.stop_sequences",
}
"""Attributes by the host's names of parameters."""


@frozen
class Instrument:
    """A metric instrument.

    Attributes:
        unit: Unit in UCUM, or an annotation in braces.
        labels: Attributes of its points, each with few values.
        buckets: Bucket boundaries of a histogram.
    """

    name: str
    kind: Literal["histogram", "counter", "gauge"]
    unit: str
    about: str
    labels: tuple[str, ...]
    buckets: tuple[float, ...] = ()


_SECONDS = tuple(0.01 * 2**power for power in range(14))
_OF_CALL = (OPERATION, PROVIDER, MODEL, AGENT)

DURATION = Instrument(
    "gen_ai.client.operation.duration",
    "histogram",
    "s",
    "Duration of model calls.",
    (*_OF_CALL, ERROR),
    _SECONDS,
)
FIRST = Instrument(
    "gen_ai.client.operation.time_to_first_chunk",
    "histogram",
    "s",
    "Time to the first chunk of an answer.",
    _OF_CALL,
    _SECONDS,
)
TOKENS = Instrument(
    "gen_ai.client.token.usage",
    "histogram",
    "{token}",
    "Tokens used by model calls.",
    (*_OF_CALL, TOKEN_TYPE),
    tuple(4.0**power for power in range(14)),
)
COST = Instrument(
    "genai_host.client.cost",
    "counter",
    "{dollar}",
    "Cost of model calls in US dollars, at list prices.",
    _OF_CALL,
)
UNPRICED = Instrument(
    "genai_host.client.unpriced",
    "counter",
    "{call}",
    "Successful model calls of unknown cost.",
    _OF_CALL,
)
ACTIVE_CALLS = Instrument(
    "genai_host.client.active_calls",
    "gauge",
    "{call}",
    "Model calls in progress.",
    (OPERATION, PROVIDER, MODEL),
)
TURNS = Instrument(
    "gen_ai.invoke_agent.duration",
    "histogram",
    "s",
    "Duration of turns of features.",
    (AGENT, ERROR),
    tuple(0.1 * 2**power for power in range(13)),
)
TOOLS = Instrument(
    "gen_ai.execute_tool.duration",
    "histogram",
    "s",
    "Duration of tool calls.",
    (TOOL, AGENT, ERROR),
    _SECONDS,
)
REQUESTS = Instrument(
    "http.server.request.duration",
    "histogram",
    "s",
    "Duration of HTTP requests, until the reply was written.",
    (METHOD, ROUTE, STATUS),
    (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
)
ACTIVE_REQUESTS = Instrument(
    "http.server.active_requests",
    "gauge",
    "{request}",
    "HTTP requests in progress.",
    (METHOD,),
)

INSTRUMENTS = (
    DURATION,
    FIRST,
    TOKENS,
    COST,
    UNPRICED,
    ACTIVE_CALLS,
    TURNS,
    TOOLS,
    REQUESTS,
    ACTIVE_REQUESTS,
)
