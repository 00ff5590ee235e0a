"""What plugins are written with: they import this, `genai_host.errors` and
`genai_host.paths`, and nothing else of the host.

    from genai_host.api import Model, hookimpl

messages    roles, parts, messages, usage
costs       what calls cost
exchange    requests and replies as they pass between dialect and provider
count_dialect   what formats in which tokens are counted have in common
calls       one call of a model, free of wire formats, and what comes back
dialects    the codec of a wire format; how a provider serves it
http        HTTP as the host does it for plugins
providers   transport: what carries a request
tokens      keys that expire
http_provider   providers over HTTP, in a few lines
models      models and offerings, as data
parameters  the model parameters that all dialects call by the same name
steps       what a feature asks of the host
executors   where the rows of batches are done
features    what a user converses with
tools       what a model may ask for
tool_functions   tools made from typed functions
reactions   what tools may tell a front end to do
http_routes   what plugins answer over HTTP
cancellation  limits that whoever holds them can end
given       what clients of these send, read with care
commands    commands that plugins add
hookspecs   the hooks
settings    settings classes, secrets
schema      class to JSON Schema
checker     values against a JSON Schema
codec       objects to JSON and back
json_text   JSON values to text and back
closed_schema   schemas in the subset that services hold answers to
request_parts  what formats write alike
reply_fields   the fields of replies in JSON, each of the kind that it has to be
reply_vectors  the embeddings in replies
"""

from genai_host.api.calls import (
    Call,
    ChatCall,
    Completion,
    Delta,
    EmbedCall,
    Finish,
    ModerateCall,
    RouteInfo,
    TokenCount,
    ToolSchema,
    Vectors,
    Verdict,
)
from genai_host.api.checker import Checker
from genai_host.api.codec import Codec
from genai_host.api.commands import Command
from genai_host.api.costs import Cost
from genai_host.api.count_dialect import CountDialect
from genai_host.api.dialects import Decoder, Dialect, Serve
from genai_host.api.exchange import (
    Encoded,
    Limits,
    Operation,
    ProviderReply,
    ProviderRequest,
    Registration,
    ReplyStream,
    StreamEvent,
)
from genai_host.api.executors import ExecutorType
from genai_host.api.features import Answer, Detail, Feature, Story, Turn
from genai_host.api.hookspecs import hookimpl
from genai_host.api.http import Framing, Http, HttpRequest
from genai_host.api.http_provider import HttpProvider, http_provider
from genai_host.api.http_routes import (
    HttpRoute,
    Problem,
    RouteReply,
    RouteRequest,
    json_reply,
    status_of,
)
from genai_host.api.messages import (
    File,
    Image,
    Message,
    Opaque,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from genai_host.api.models import Model, Offering
from genai_host.api.parameters import standard
from genai_host.api.providers import FREE, Clock, Listed, Provider, ProviderType, Services
from genai_host.api.reactions import ReactionType
from genai_host.api.schema import schema_of
from genai_host.api.settings import NoSettings, Secret, about
from genai_host.api.steps import (
    All,
    CallFunction,
    CallTool,
    CallTools,
    CountTokens,
    Embed,
    Moderate,
    NewId,
    Now,
    OfferedTools,
    Progress,
    Prompt,
    Rate,
    Settled,
    Step,
    Wait,
)
from genai_host.api.tokens import AccessToken, CachedToken
from genai_host.api.tool_functions import tool
from genai_host.api.tool_sources import ToolSet, ToolSource
from genai_host.api.tools import (
    Approval,
    OfferedTool,
    Tool,
    ToolOutput,
    ToolRun,
    tool_message,
)

__all__ = [
    "FREE",
    "AccessToken",
    "All",
    "Answer",
    "Approval",
    "CachedToken",
    "Call",
    "CallFunction",
    "CallTool",
    "CallTools",
    "ChatCall",
    "Checker",
    "Clock",
    "Codec",
    "Command",
    "Completion",
    "Cost",
    "CountDialect",
    "CountTokens",
    "Decoder",
    "Delta",
    "Detail",
    "Dialect",
    "Embed",
    "EmbedCall",
    "Encoded",
    "ExecutorType",
    "Feature",
    "File",
    "Finish",
    "Framing",
    "Http",
    "HttpProvider",
    "HttpRequest",
    "HttpRoute",
    "Image",
    "Limits",
    "Listed",
    "Message",
    "Model",
    "Moderate",
    "ModerateCall",
    "NewId",
    "NoSettings",
    "Now",
    "OfferedTool",
    "OfferedTools",
    "Offering",
    "Opaque",
    "Operation",
    "Part",
    "Problem",
    "Progress",
    "Prompt",
    "Provider",
    "ProviderReply",
    "ProviderRequest",
    "ProviderType",
    "Rate",
    "ReactionType",
    "Reasoning",
    "Registration",
    "ReplyStream",
    "Role",
    "RouteInfo",
    "RouteReply",
    "RouteRequest",
    "Secret",
    "Serve",
    "Services",
    "Settled",
    "Step",
    "Story",
    "StreamEvent",
    "Text",
    "TokenCount",
    "Tool",
    "ToolCall",
    "ToolOutput",
    "ToolResult",
    "ToolRun",
    "ToolSchema",
    "ToolSet",
    "ToolSource",
    "Turn",
    "Usage",
    "Vectors",
    "Verdict",
    "Wait",
    "about",
    "hookimpl",
    "http_provider",
    "json_reply",
    "schema_of",
    "standard",
    "status_of",
    "tool",
    "tool_message",
]
