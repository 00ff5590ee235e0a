"""Parts from which the APIs of the server are made, for plugins with HTTP routes.

- `completion`: answers of models and features, complete or streamed
- `client_tools`: tools that clients define; pairing of calls and results
- `service_tools`: tools of services that tools of the host replace
- `passthrough`: requests that pass through to a service of the same format
- `models`: the list of models, and what a model or a feature supports
- `router`: the HTTP routes of a host, which answer requests
- `apis`: errors in the form of an API
- `memory`: documents in memory, for hosts without a store
"""

from types import ModuleType as _Module

from genai_host.api import merge_consecutive as merge_consecutive
from genai_host.calls.passthrough import PassedRequest as PassedRequest
from genai_host.conversations.recorder import warn_unrecorded as warn_unrecorded
from genai_host.prompts.attachments import part_of as part_of
from genai_host.serving.apis import status_of as status_of, with_retry_after as with_retry_after
from genai_host.serving.client_tools import (
    CHOICES as CHOICES,
    MAX_TOOLS as MAX_TOOLS,
    CallReader as CallReader,
    Pairing as Pairing,
    check_schema as check_schema,
    each_once as each_once,
    offered_tool as offered_tool,
    one_of as one_of,
    result_and_files as result_and_files,
    vendor_tool as vendor_tool,
)
from genai_host.serving.completion import (
    ChatRequest as ChatRequest,
    CompletionStream as CompletionStream,
    answer as answer,
    api_finish_reason as api_finish_reason,
    complete_texts as complete_texts,
    count_tokens as count_tokens,
    streamed as streamed,
    whole as whole,
)
from genai_host.serving.memory import (
    DocumentCollection as DocumentCollection,
    MemoryCache as MemoryCache,
)
from genai_host.serving.models import (
    FEATURE as FEATURE,
    Capabilities as Capabilities,
    ServedModel as ServedModel,
    capabilities as capabilities,
    replaced_kinds as replaced_kinds,
    served_model as served_model,
    served_models as served_models,
    suspends_for as suspends_for,
    text_completions as text_completions,
)
from genai_host.serving.passthrough import (
    PassingFormat as PassingFormat,
    ReplyWriter as ReplyWriter,
    fields_to_pass as fields_to_pass,
    is_empty as is_empty,
    named_sse_of as named_sse_of,
    pass_through as pass_through,
    sse_of as sse_of,
    value_of as value_of,
    with_model as with_model,
)
from genai_host.serving.router import HttpRoutes as HttpRoutes

__all__ = sorted(
    name for name, value in vars().items() if name[0] != "_" and not isinstance(value, _Module)
)
