"""What plugins are written with: they import this, `genai_host.errors` and
`genai_host.util.paths`, and nothing else of the host.

    from genai_host.api import Model, hookimpl

messages        roles, parts, messages, usage
calls           calls of a model, free of wire formats, what comes back, what it costs
dialects        the codec of a wire format, and the helpers that it is written with
providers       transport: what carries a request; HTTP, tokens that expire
http_provider   providers over HTTP, in a few lines
models          models and offerings, as data; parameters that dialects share
features        what a user converses with; its steps; the events of a turn
tools           what a model may ask for; sources of tools; reactions
function_tools  tools made from typed functions
http_routes     what plugins answer over HTTP, and how they read what is sent
hooks           the hooks; commands and executors that plugins add
cancellation    limits that whoever holds them can end
settings        settings classes, secrets
validators      what the fields of declarations must be
schema          class to JSON Schema; values against one
closed_schema   schemas in the subset that services hold answers to
codec           objects to JSON and back
json_text       JSON values to text and back
"""

from genai_host.api.calls import (
    Call,
    ChatCall,
    Completion,
    Cost,
    Delta,
    EmbedCall,
    Encoded,
    Finish,
    Limits,
    ModerateCall,
    Operation,
    ProviderReply,
    ProviderRequest,
    Registration,
    ReplyStream,
    RouteInfo,
    StreamEvent,
    TokenCount,
    ToolSchema,
    Vectors,
    Verdict,
)
from genai_host.api.codec import Codec
from genai_host.api.dialects import CountDialect, Decoder, Dialect, Serve
from genai_host.api.features import (
    All,
    Answer,
    CallFunction,
    CallTool,
    CallTools,
    CountTokens,
    Detail,
    Embed,
    Feature,
    Moderate,
    NewId,
    Now,
    OfferedTools,
    Progress,
    Prompt,
    Rate,
    Settled,
    Step,
    Story,
    Turn,
    Wait,
)
from genai_host.api.function_tools import tool
from genai_host.api.hooks import Command, ExecutorType, hookimpl
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
from genai_host.api.models import Model, Offering, standard
from genai_host.api.providers import (
    FREE,
    AccessToken,
    CachedToken,
    Clock,
    Framing,
    Http,
    HttpRequest,
    Listed,
    Provider,
    ProviderType,
    Services,
)
from genai_host.api.schema import Checker, schema_of
from genai_host.api.settings import NoSettings, Secret, about
from genai_host.api.tools import (
    Approval,
    OfferedTool,
    ReactionType,
    Tool,
    ToolOutput,
    ToolRun,
    ToolSet,
    ToolSource,
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
