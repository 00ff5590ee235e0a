"""The interface for plugins.

    from genai_host.api import Model, hookimpl

Besides this package, plugins import `genai_host.errors` and names of `genai_host`, such as `paths`.

- `messages`: messages and their parts; token usage
- `calls`: calls of a model and their results, independent of API formats; cost
- `error_replies`: errors in the replies of services
- `dialects`: `Dialect`, the codec of an API format, and helpers to write one
- `finish_reasons`: finish reasons of services
- `tool_calls`: tool calls in replies and streams
- `providers`: `Provider`, the transport of requests; HTTP; expiring tokens
- `http_provider`: base class and factory for providers over HTTP
- `models`: models and offerings, as data; parameters that dialects share
- `features`: `Feature`, its answer, the events of a turn
- `steps`: the steps that features yield
- `tools`: tools, sources of tools, reactions
- `function_tools`: tools from typed functions
- `http_routes`: HTTP routes of plugins; requests and responses
- `json_reader`: a reader of JSON bodies
- `hooks`: the hooks; commands and executors of plugins
- `cancellation`: `Cancellation`, which any thread can cancel
- `child_process`: a function in another process, within limits
- `services`: the host as HTTP routes and commands see it
- `storage`: documents and bytes in the store
- `jobs`: background jobs
- `settings`: settings classes, secrets
- `validators`: validators of the fields of declarations
- `schema`: JSON Schema of a class; validation against a schema
- `closed_schema`: schemas in the subset that services enforce
- `codec`: objects to JSON and back
- `json_text`: JSON values to text and back

Names of modules that few plugins use are imported on first use.
"""

import importlib
from typing import TYPE_CHECKING, Any

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
from genai_host.api.dialects import (
    CountDialect,
    Dialect,
    DialectEndpoint,
    StreamDecoder,
    count_in,
    details_in,
    fitting_id,
    id_in,
    list_in,
    malformed,
    must_be_vectors,
    object_in,
    picture_in_words,
    read_event,
    read_object,
    read_reply,
    read_vector,
    string_in,
    system_texts,
    text_in,
    unsupported,
)
from genai_host.api.error_replies import (
    error_of_reply,
    explain_reply,
    message_in,
    one_line,
    service_error,
)
from genai_host.api.features import Answer, Detail, Event, Feature, FeatureSteps, Turn
from genai_host.api.function_tools import tool
from genai_host.api.hooks import Command, ExecutorType, hookimpl
from genai_host.api.http_provider import HttpProvider, http_provider, listed_models
from genai_host.api.http_routes import (
    HttpProblem,
    HttpRoute,
    RouteRequest,
    RouteResponse,
    http_status,
    json_response,
)
from genai_host.api.json_reader import JsonReader, body_of, bytes_of, number_in
from genai_host.api.json_text import (
    ValueBudget,
    check_numbers,
    read_json,
    well_formed,
    write_json,
    write_long_json,
)
from genai_host.api.messages import (
    PARTS,
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
    remember_each,
)
from genai_host.api.models import STANDARD, Model, Offering, standard_parameters
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
from genai_host.api.settings import NoSettings, Secret, about, read_settings
from genai_host.api.steps import (
    All,
    AllSettled,
    CallFunction,
    CallTool,
    CallTools,
    CountTokens,
    Embed,
    ListTools,
    Moderate,
    NewId,
    Now,
    Pause,
    Progress,
    Prompt,
    RateLimit,
    Step,
)
from genai_host.api.streamed_body import StreamedBody, prefers_events, sse_event
from genai_host.api.tools import (
    Approval,
    AvailableTool,
    ReactionType,
    Tool,
    ToolContext,
    ToolOutput,
    ToolSet,
    ToolSource,
    output_of,
    tool_message,
)
from genai_host.api.validators import BOOLEAN, FILLED, TEXT, TEXT_BY_NAME, TEXT_OR_NONE, Must
from genai_host.util.text_encoding import decode_base64, decode_text, encoding_of, is_text

if TYPE_CHECKING:
    from genai_host.api.cancellation import Cancellation, ended_with
    from genai_host.api.closed_schema import asked_in_words, held_form
    from genai_host.api.finish_reasons import finish_word, read_finish, weightier
    from genai_host.api.jobs import BackgroundQueue, BackgroundWorker, Job, Work
    from genai_host.api.services import CommandState, ConversationHandle, HostServices, TurnLimits
    from genai_host.api.storage import BlobStore, Document, DocumentCollection, OwnerStore
    from genai_host.api.tool_calls import arguments_as_text, read_tool_call

_HOMES = {
    "BackgroundQueue": "jobs",
    "BackgroundWorker": "jobs",
    "BlobStore": "storage",
    "Cancellation": "cancellation",
    "CommandState": "services",
    "ConversationHandle": "services",
    "Document": "storage",
    "DocumentCollection": "storage",
    "HostServices": "services",
    "Job": "jobs",
    "OwnerStore": "storage",
    "TurnLimits": "services",
    "Work": "jobs",
    "arguments_as_text": "tool_calls",
    "asked_in_words": "closed_schema",
    "ended_with": "cancellation",
    "finish_word": "finish_reasons",
    "held_form": "closed_schema",
    "read_finish": "finish_reasons",
    "read_tool_call": "tool_calls",
    "weightier": "finish_reasons",
}
"""Module of each name that is imported on first use."""

__all__ = [
    "BOOLEAN",
    "FILLED",
    "FREE",
    "PARTS",
    "STANDARD",
    "TEXT",
    "TEXT_BY_NAME",
    "TEXT_OR_NONE",
    "AccessToken",
    "All",
    "AllSettled",
    "Answer",
    "Approval",
    "AvailableTool",
    "BackgroundQueue",
    "BackgroundWorker",
    "BlobStore",
    "CachedToken",
    "Call",
    "CallFunction",
    "CallTool",
    "CallTools",
    "CancelHandle",
    "CancelToken",
    "Cancellation",
    "ChatCall",
    "ChildLimits",
    "Clock",
    "Codec",
    "Command",
    "CommandState",
    "Completion",
    "ConversationHandle",
    "Cost",
    "CountDialect",
    "CountTokens",
    "Delta",
    "Detail",
    "Dialect",
    "DialectEndpoint",
    "Document",
    "DocumentCollection",
    "Embed",
    "EmbedCall",
    "Embeddings",
    "EncodedJson",
    "Event",
    "ExecutorType",
    "Feature",
    "FeatureSteps",
    "File",
    "FinishReason",
    "HostServices",
    "HttpProblem",
    "HttpProvider",
    "HttpRequest",
    "HttpRoute",
    "HttpTransport",
    "Image",
    "Job",
    "JsonReader",
    "ListTools",
    "ListedModel",
    "Message",
    "Model",
    "Moderate",
    "ModerateCall",
    "ModerationResult",
    "Must",
    "NewId",
    "NoSettings",
    "Now",
    "Offering",
    "Operation",
    "OwnerStore",
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
    "TurnLimits",
    "Usage",
    "ValueBudget",
    "VendorPart",
    "Work",
    "about",
    "arguments_as_text",
    "asked_in_words",
    "body_of",
    "bytes_of",
    "can_run_in_child",
    "check_numbers",
    "count_in",
    "decode_base64",
    "decode_text",
    "details_in",
    "encoding_of",
    "ended_with",
    "error_of_reply",
    "explain_reply",
    "finish_word",
    "fitting_id",
    "held_form",
    "hookimpl",
    "http_provider",
    "http_status",
    "id_in",
    "is_text",
    "json_response",
    "list_in",
    "listed_models",
    "malformed",
    "message_in",
    "must_be_vectors",
    "number_in",
    "object_in",
    "one_line",
    "output_of",
    "picture_in_words",
    "prefers_events",
    "read_event",
    "read_finish",
    "read_json",
    "read_object",
    "read_reply",
    "read_settings",
    "read_tool_call",
    "read_vector",
    "remember_each",
    "run_in_child",
    "schema_of",
    "service_error",
    "sse_event",
    "standard_parameters",
    "string_in",
    "system_texts",
    "text_in",
    "tool",
    "tool_message",
    "unsupported",
    "weightier",
    "well_formed",
    "write_json",
    "write_long_json",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
