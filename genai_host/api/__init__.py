"""The interface for plugins.

    from genai_host.api import Model, hookimpl

Besides this package, plugins import `genai_host.errors` and `from genai_host import paths`.

- `messages`: messages and their parts; token usage
- `calls`: calls of a model and their results, independent of API formats; cost
- `error_replies`: errors in the replies of services
- `dialects`: `Dialect`, the codec of an API format, and helpers to write one
- `finish_reasons`: finish reasons of services
- `tool_calls`: tool calls in replies and streams
- `providers`: `Provider`, the transport of requests; HTTP; expiring tokens
- `http_provider`: base class and factory for providers over HTTP
- `models`: models and offerings, as data; parameters that dialects share
- `features`: `Feature`, its steps, its answer, the events of a turn
- `tools`: tools, sources of tools, reactions
- `function_tools`: tools from typed functions
- `http_routes`: HTTP routes of plugins; requests and responses; a reader of JSON bodies
- `hooks`: the hooks; commands and executors of plugins
- `cancellation`: `Cancellation`, which any thread can cancel
- `child_process`: a function in another process, within limits
- `jobs`: background jobs
- `settings`: settings classes, secrets
- `validators`: validators of the fields of declarations
- `schema`: JSON Schema of a class; validation against a schema
- `closed_schema`: schemas in the subset that services enforce
- `codec`: objects to JSON and back
- `json_text`: JSON values to text and back
"""

from genai_host.api.calls import (
    Call,
    CancelHandle,
    CancelToken,
    ChatCall,
    Completion,
    Cost,
    Delta,
    EmbedCall,
    Embeddings,
    EncodedJson,
    FinishReason,
    ModerateCall,
    ModerationResult,
    Operation,
    ProviderReply,
    ProviderRequest,
    ReplyStream,
    RouteInfo,
    StreamEvent,
    TokenCount,
    ToolSchema,
)
from genai_host.api.child_process import ChildLimits, can_run_in_child, run_in_child
from genai_host.api.codec import Codec
from genai_host.api.dialects import CountDialect, Dialect, DialectEndpoint, StreamDecoder
from genai_host.api.features import (
    All,
    AllSettled,
    Answer,
    CallFunction,
    CallTool,
    CallTools,
    CountTokens,
    Detail,
    Embed,
    Feature,
    FeatureSteps,
    ListTools,
    Moderate,
    NewId,
    Now,
    Pause,
    Progress,
    Prompt,
    RateLimit,
    Step,
    Turn,
)
from genai_host.api.function_tools import tool
from genai_host.api.hooks import Command, ExecutorType, hookimpl
from genai_host.api.http_provider import HttpProvider, http_provider
from genai_host.api.http_routes import (
    HttpProblem,
    HttpRoute,
    RouteRequest,
    RouteResponse,
    http_status,
    json_response,
)
from genai_host.api.messages import (
    File,
    Image,
    Message,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    VendorPart,
)
from genai_host.api.models import Model, Offering, standard_parameters
from genai_host.api.providers import (
    FREE,
    AccessToken,
    CachedToken,
    Clock,
    HttpRequest,
    HttpTransport,
    ListedModel,
    Preparation,
    PreparationProgress,
    Provider,
    ProviderType,
    Services,
    StreamParser,
)
from genai_host.api.schema import SchemaValidator, schema_of
from genai_host.api.settings import NoSettings, Secret, about
from genai_host.api.streamed_body import StreamedBody
from genai_host.api.tools import (
    Approval,
    AvailableTool,
    ReactionType,
    Tool,
    ToolContext,
    ToolOutput,
    ToolSet,
    ToolSource,
    tool_message,
)
from genai_host.util.text_encoding import decode_base64, decode_text, encoding_of, is_text

__all__ = [
    "FREE",
    "AccessToken",
    "All",
    "AllSettled",
    "Answer",
    "Approval",
    "AvailableTool",
    "CachedToken",
    "Call",
    "CallFunction",
    "CallTool",
    "CallTools",
    "CancelHandle",
    "CancelToken",
    "ChatCall",
    "ChildLimits",
    "Clock",
    "Codec",
    "Command",
    "Completion",
    "Cost",
    "CountDialect",
    "CountTokens",
    "Delta",
    "Detail",
    "Dialect",
    "DialectEndpoint",
    "Embed",
    "EmbedCall",
    "Embeddings",
    "EncodedJson",
    "ExecutorType",
    "Feature",
    "FeatureSteps",
    "File",
    "FinishReason",
    "HttpProblem",
    "HttpProvider",
    "HttpRequest",
    "HttpRoute",
    "HttpTransport",
    "Image",
    "ListTools",
    "ListedModel",
    "Message",
    "Model",
    "Moderate",
    "ModerateCall",
    "ModerationResult",
    "NewId",
    "NoSettings",
    "Now",
    "Offering",
    "Operation",
    "Part",
    "Pause",
    "Preparation",
    "PreparationProgress",
    "Progress",
    "Prompt",
    "Provider",
    "ProviderReply",
    "ProviderRequest",
    "ProviderType",
    "RateLimit",
    "ReactionType",
    "Reasoning",
    "ReplyStream",
    "Role",
    "RouteInfo",
    "RouteRequest",
    "RouteResponse",
    "SchemaValidator",
    "Secret",
    "Services",
    "Step",
    "StreamDecoder",
    "StreamEvent",
    "StreamParser",
    "StreamedBody",
    "Text",
    "TokenCount",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolOutput",
    "ToolResult",
    "ToolSchema",
    "ToolSet",
    "ToolSource",
    "Turn",
    "Usage",
    "VendorPart",
    "about",
    "can_run_in_child",
    "decode_base64",
    "decode_text",
    "encoding_of",
    "hookimpl",
    "http_provider",
    "http_status",
    "is_text",
    "json_response",
    "run_in_child",
    "schema_of",
    "standard_parameters",
    "tool",
    "tool_message",
]
