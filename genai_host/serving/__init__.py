"""Parts from which the APIs of the server are made, for plugins with HTTP routes.

- `completion`: answers of models and features, complete or streamed
- `client_tools`: tools that clients define; pairing of calls and results
- `passthrough`: requests that pass through to a service of the same format
- `models`: the list of models
- `router`: the HTTP routes of a host, which answer requests
- `apis`: errors in the form of an API
- `memory`: documents in memory, for hosts without a store
"""

from types import ModuleType as _Module

from genai_host.calls.passthrough import PassedRequest as PassedRequest
from genai_host.conversations.recorder import warn_unrecorded as warn_unrecorded
from genai_host.prompts.attachments import part_of as part_of
from genai_host.serving.apis import (
    status_of as status_of,
)
from genai_host.serving.apis import (
    with_retry_after as with_retry_after,
)
from genai_host.serving.client_tools import (
    CHOICES as CHOICES,
)
from genai_host.serving.client_tools import (
    MOST_TOOLS as MOST_TOOLS,
)
from genai_host.serving.client_tools import (
    CallReader as CallReader,
)
from genai_host.serving.client_tools import (
    Pairing as Pairing,
)
from genai_host.serving.client_tools import (
    check_schema as check_schema,
)
from genai_host.serving.client_tools import (
    each_once as each_once,
)
from genai_host.serving.client_tools import (
    merge_consecutive as merge_consecutive,
)
from genai_host.serving.client_tools import (
    offered_tool as offered_tool,
)
from genai_host.serving.client_tools import (
    one_of as one_of,
)
from genai_host.serving.client_tools import (
    result_and_files as result_and_files,
)
from genai_host.serving.completion import (
    FEATURE as FEATURE,
)
from genai_host.serving.completion import (
    Capabilities as Capabilities,
)
from genai_host.serving.completion import (
    ChatRequest as ChatRequest,
)
from genai_host.serving.completion import (
    CompletionStream as CompletionStream,
)
from genai_host.serving.completion import (
    answer as answer,
)
from genai_host.serving.completion import (
    api_finish_reason as api_finish_reason,
)
from genai_host.serving.completion import (
    capabilities as capabilities,
)
from genai_host.serving.completion import (
    streamed as streamed,
)
from genai_host.serving.completion import (
    suspends_for as suspends_for,
)
from genai_host.serving.completion import (
    text_completions as text_completions,
)
from genai_host.serving.completion import (
    whole as whole,
)
from genai_host.serving.memory import (
    DocumentCollection as DocumentCollection,
)
from genai_host.serving.memory import (
    MemoryCache as MemoryCache,
)
from genai_host.serving.memory import (
    StoredDocument as StoredDocument,
)
from genai_host.serving.models import (
    ServedModel as ServedModel,
)
from genai_host.serving.models import (
    name_in as name_in,
)
from genai_host.serving.models import (
    served_model as served_model,
)
from genai_host.serving.models import (
    served_models as served_models,
)
from genai_host.serving.passthrough import (
    PassingFormat as PassingFormat,
)
from genai_host.serving.passthrough import (
    ReplyWriter as ReplyWriter,
)
from genai_host.serving.passthrough import (
    fields_to_pass as fields_to_pass,
)
from genai_host.serving.passthrough import (
    is_empty as is_empty,
)
from genai_host.serving.passthrough import (
    named_sse_of as named_sse_of,
)
from genai_host.serving.passthrough import (
    pass_through as pass_through,
)
from genai_host.serving.passthrough import (
    sse_of as sse_of,
)
from genai_host.serving.passthrough import (
    value_of as value_of,
)
from genai_host.serving.passthrough import (
    with_model as with_model,
)
from genai_host.serving.router import (
    HttpRoutes as HttpRoutes,
)

__all__ = sorted(
    name for name, value in vars().items() if name[0] != "_" and not isinstance(value, _Module)
)
