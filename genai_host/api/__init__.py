"""The interface for plugins.

    from genai_host.api import Model, hookimpl

Besides this package, plugins import `genai_host.errors` and names of `genai_host`, such as `paths`.

- `messages`: messages and their parts; token usage
- `calls`: calls of a model, independent of API formats
- `results`: results of calls; cost; finish reasons; vectors
- `extra`: fields of API formats that the host does not interpret
- `error_replies`: errors in the replies of services; hints for self-hosted servers
- `dialects`: `Dialect`, the codec of an API format, and helpers to write one
- `tool_calls`: tool calls in replies and streams
- `providers`: `Provider`, the transport of requests; HTTP; expiring tokens
- `http_provider`: base class and factory for providers over HTTP
- `models`: models and offerings, as data; parameters that dialects share
- `features`: `Feature`, its answer, the events of a turn
- `steps`: the steps that features yield
- `tools`: tools, sources of tools, reactions
- `function_tools`: tools from typed functions
- `http_routes`: HTTP routes of plugins; requests, responses and streamed bodies
- `json_reader`: a reader of JSON bodies
- `hooks`: the hooks; commands and executors of plugins
- `cancellation`: `Cancellation`, which any thread can cancel
- `child_process`: a function in another process, within limits
- `services`: the host as HTTP routes and commands see it
- `storage`: documents and bytes in the store; background jobs
- `stream_parsers`: parsers of event streams
- `settings`: settings classes, secrets
- `validators`: validators of the fields of declarations
- `schema`: JSON Schema of a class; validation against a schema
- `closed_schema`: schemas in the subset that services enforce
- `codec`: objects to JSON and back
- `json_text`: JSON values to text and back

Names of modules that few plugins use are imported on first use.
"""

import importlib
from types import ModuleType as _Module
from typing import TYPE_CHECKING, Any

from genai_host.api.calls import (
    Call as Call,
    CancelHandle as CancelHandle,
    CancelToken as CancelToken,
    ChatCall as ChatCall,
    CompleteCall as CompleteCall,
    EmbedCall as EmbedCall,
    ModerateCall as ModerateCall,
    Operation as Operation,
    ToolSchema as ToolSchema,
    TranscribeCall as TranscribeCall,
    VendorTool as VendorTool,
)
from genai_host.api.child_process import (
    ChildLimits as ChildLimits,
    can_run_in_child as can_run_in_child,
    run_in_child as run_in_child,
)
from genai_host.api.codec import Codec as Codec
from genai_host.api.dialects import (
    CountDialect as CountDialect,
    Dialect as Dialect,
    DialectEndpoint as DialectEndpoint,
    StreamDecoder as StreamDecoder,
)
from genai_host.api.dropped import DroppedFields as DroppedFields
from genai_host.api.error_replies import (
    error_object as error_object,
    error_of_reply as error_of_reply,
    explain_reply as explain_reply,
    message_in as message_in,
    one_line as one_line,
    retry_after_of as retry_after_of,
    service_error as service_error,
    with_server_setting as with_server_setting,
)
from genai_host.api.extra import (
    extra_of as extra_of,
    joined_extra as joined_extra,
    merged_extra as merged_extra,
    unknown_fields as unknown_fields,
    with_extra as with_extra,
)
from genai_host.api.features import (
    Answer as Answer,
    Detail as Detail,
    Event as Event,
    Feature as Feature,
    FeatureSteps as FeatureSteps,
    Turn as Turn,
)
from genai_host.api.function_tools import tool as tool
from genai_host.api.hooks import (
    Command as Command,
    ExecutorType as ExecutorType,
    hookimpl as hookimpl,
)
from genai_host.api.http_provider import (
    HttpProvider as HttpProvider,
    http_provider as http_provider,
    listed_models as listed_models,
)
from genai_host.api.http_routes import (
    HttpApi as HttpApi,
    HttpProblem as HttpProblem,
    HttpRoute as HttpRoute,
    RouteRequest as RouteRequest,
    RouteResponse as RouteResponse,
    StreamedBody as StreamedBody,
    http_status as http_status,
    json_response as json_response,
    prefers_events as prefers_events,
    sse_event as sse_event,
)
from genai_host.api.json_reader import (
    JsonReader as JsonReader,
    body_of as body_of,
    bytes_of as bytes_of,
    is_deep as is_deep,
    number_in as number_in,
)
from genai_host.api.json_text import (
    EncodedJson as EncodedJson,
    ValueBudget as ValueBudget,
    check_numbers as check_numbers,
    read_json as read_json,
    well_formed as well_formed,
    write_json as write_json,
    write_long_json as write_long_json,
)
from genai_host.api.messages import (
    NO_USAGE as NO_USAGE,
    PARTS as PARTS,
    Citation as Citation,
    File as File,
    Image as Image,
    Message as Message,
    Part as Part,
    Reasoning as Reasoning,
    Role as Role,
    Text as Text,
    ToolCall as ToolCall,
    ToolResult as ToolResult,
    Usage as Usage,
    VendorPart as VendorPart,
    cited_pages as cited_pages,
    remember_each as remember_each,
)
from genai_host.api.models import (
    EXTRA_BODY as EXTRA_BODY,
    STANDARD as STANDARD,
    Model as Model,
    Offering as Offering,
    merged_parameters as merged_parameters,
    parameter as parameter,
    standard_parameters as standard_parameters,
)
from genai_host.api.provider_requests import (
    HttpRequest as HttpRequest,
    ProviderReply as ProviderReply,
    ProviderRequest as ProviderRequest,
    ReplyStream as ReplyStream,
    StreamEvent as StreamEvent,
)
from genai_host.api.providers import (
    FREE as FREE,
    AccessToken as AccessToken,
    CachedToken as CachedToken,
    Clock as Clock,
    HttpTransport as HttpTransport,
    ListedModel as ListedModel,
    Preparation as Preparation,
    PreparationProgress as PreparationProgress,
    Provider as Provider,
    ProviderType as ProviderType,
    Services as Services,
    StreamParser as StreamParser,
)
from genai_host.api.reply_values import (
    citation_of as citation_of,
    count_in as count_in,
    details_in as details_in,
    fitting_id as fitting_id,
    id_in as id_in,
    index_in as index_in,
    interrupted as interrupted,
    is_blank as is_blank,
    list_in as list_in,
    malformed as malformed,
    merge_consecutive as merge_consecutive,
    object_in as object_in,
    objects_in as objects_in,
    picture_in_words as picture_in_words,
    read_event as read_event,
    read_object as read_object,
    read_reply as read_reply,
    string_in as string_in,
    system_as_user as system_as_user,
    system_parts as system_parts,
    system_texts as system_texts,
    text_in as text_in,
    unsupported as unsupported,
    with_tool_names as with_tool_names,
)
from genai_host.api.results import (
    Completion as Completion,
    Cost as Cost,
    Delta as Delta,
    Embeddings as Embeddings,
    FinishReason as FinishReason,
    ModerationResult as ModerationResult,
    RouteInfo as RouteInfo,
    TokenCount as TokenCount,
    Transcription as Transcription,
    decode_vector as decode_vector,
    finish_word as finish_word,
    must_be_vectors as must_be_vectors,
    read_finish as read_finish,
    read_vector as read_vector,
    weightier as weightier,
)
from genai_host.api.schema import SchemaValidator as SchemaValidator, schema_of as schema_of
from genai_host.api.settings import (
    NoSettings as NoSettings,
    Secret as Secret,
    about as about,
    read_settings as read_settings,
    setting as setting,
)
from genai_host.api.steps import (
    All as All,
    AllSettled as AllSettled,
    CallFunction as CallFunction,
    CallTool as CallTool,
    CallTools as CallTools,
    CountTokens as CountTokens,
    Embed as Embed,
    ListTools as ListTools,
    Moderate as Moderate,
    NewId as NewId,
    Now as Now,
    Pause as Pause,
    Progress as Progress,
    Prompt as Prompt,
    RateLimit as RateLimit,
    Step as Step,
)
from genai_host.api.tools import (
    Approval as Approval,
    AvailableTool as AvailableTool,
    ReactionType as ReactionType,
    Tool as Tool,
    ToolContext as ToolContext,
    ToolOutput as ToolOutput,
    ToolSet as ToolSet,
    ToolSource as ToolSource,
    output_of as output_of,
    tool_message as tool_message,
)
from genai_host.api.validators import (
    BOOLEAN as BOOLEAN,
    FILLED as FILLED,
    TEXT as TEXT,
    TEXT_BY_NAME as TEXT_BY_NAME,
    TEXT_OR_NONE as TEXT_OR_NONE,
    Must as Must,
)
from genai_host.util.text import (
    charset_in_html as charset_in_html,
    charset_of as charset_of,
    decode_base64 as decode_base64,
    decode_text as decode_text,
    encoding_of as encoding_of,
    is_single_byte as is_single_byte,
    is_text as is_text,
)

if TYPE_CHECKING:
    from genai_host.api.cancellation import Cancellation as Cancellation, ended_with as ended_with
    from genai_host.api.closed_schema import (
        asked_in_words as asked_in_words,
        held_form as held_form,
    )
    from genai_host.api.services import (
        CommandState as CommandState,
        ConversationHandle as ConversationHandle,
        HostServices as HostServices,
        TurnLimits as TurnLimits,
    )
    from genai_host.api.storage import (
        BackgroundQueue as BackgroundQueue,
        BackgroundWorker as BackgroundWorker,
        BlobStore as BlobStore,
        Document as Document,
        DocumentCollection as DocumentCollection,
        Job as Job,
        OwnerStore as OwnerStore,
        Work as Work,
    )
    from genai_host.api.stream_parsers import read_sse as read_sse
    from genai_host.api.tool_calls import (
        ToolCallAssembler as ToolCallAssembler,
        arguments_as_text as arguments_as_text,
        distinct_calls as distinct_calls,
        read_tool_call as read_tool_call,
    )

_HOMES = {
    name: module
    for module, names in {
        "cancellation": "Cancellation ended_with",
        "closed_schema": "asked_in_words held_form",
        "services": "CommandState ConversationHandle HostServices TurnLimits",
        "storage": "BackgroundQueue BackgroundWorker BlobStore Document DocumentCollection Job "
        "OwnerStore Work",
        "stream_parsers": "read_sse",
        "tool_calls": "ToolCallAssembler arguments_as_text distinct_calls read_tool_call",
    }.items()
    for name in names.split()
}
"""Module of each name that is imported on first use."""

__all__ = sorted(
    name
    for name, value in {**globals(), **_HOMES}.items()
    if name not in ("Any", "TYPE_CHECKING")
    and not name.startswith("_")
    and not isinstance(value, _Module)
)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
