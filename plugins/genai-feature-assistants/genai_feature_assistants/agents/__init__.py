"""What a program holds: assistants of a service, as agents.

    from genai_feature_assistants.agents import (
        OpenAIAssistantAgent,
        OpenAIAssistantDefinition,
        OpenAIServiceConfiguration,
    )

    configuration = OpenAIServiceConfiguration.for_host()
    definition = OpenAIAssistantDefinition("my-model", instructions="Be brief.")
    with OpenAIAssistantAgent.create(configuration, definition) as agent:
        ...

agent           the agent
channel         a thread that several agents share
configuration   which service, and its client
definition      what an assistant is
...options      of threads, of runs, of waiting for them
content         what assistants say
errors          what goes wrong
backend         the seam between the Assistants API and Responses with Conversations

Source: document 002, an ADR of Semantic Kernel. Names are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from genai_feature_assistants.agents.agent import (
        OpenAIAssistantAgent,
        OpenAIAssistantChannel,
        channel_hash,
    )
    from genai_feature_assistants.agents.client import OpenAIServiceConfiguration, ServiceClient
    from genai_feature_assistants.agents.content import (
        AgentDelta,
        AgentMessage,
        AnnotatedText,
        Annotation,
        Code,
        FileImage,
    )
    from genai_feature_assistants.agents.definitions import (
        FileDefinitions,
        MemoryDefinitions,
        OpenAIAssistantDefinition,
        from_json,
        to_json,
    )
    from genai_feature_assistants.agents.errors import (
        AgentDeleted,
        BrokenDefinition,
        RunCancelled,
        RunError,
        RunExpired,
        RunFailed,
        RunIncomplete,
        RunStuck,
        RunTimedOut,
    )
    from genai_feature_assistants.agents.options import (
        OpenAIAssistantExecutionOptions,
        OpenAIAssistantInvocationOptions,
        OpenAIAssistantToolCallBehavior,
        OpenAIThreadCreationOptions,
        PollingOptions,
    )

_FILES = {
    "AgentDeleted": "errors",
    "AgentDelta": "content",
    "AgentMessage": "content",
    "AnnotatedText": "content",
    "Annotation": "content",
    "BrokenDefinition": "errors",
    "Code": "content",
    "FileDefinitions": "definitions",
    "FileImage": "content",
    "MemoryDefinitions": "definitions",
    "OpenAIAssistantAgent": "agent",
    "OpenAIAssistantChannel": "agent",
    "OpenAIAssistantDefinition": "definitions",
    "OpenAIAssistantExecutionOptions": "options",
    "OpenAIAssistantInvocationOptions": "options",
    "OpenAIAssistantToolCallBehavior": "options",
    "OpenAIServiceConfiguration": "client",
    "OpenAIThreadCreationOptions": "options",
    "PollingOptions": "options",
    "RunCancelled": "errors",
    "RunError": "errors",
    "RunExpired": "errors",
    "RunFailed": "errors",
    "RunIncomplete": "errors",
    "RunStuck": "errors",
    "RunTimedOut": "errors",
    "ServiceClient": "client",
    "channel_hash": "agent",
    "from_json": "definitions",
    "to_json": "definitions",
}

__all__ = [
    "AgentDeleted",
    "AgentDelta",
    "AgentMessage",
    "AnnotatedText",
    "Annotation",
    "BrokenDefinition",
    "Code",
    "FileDefinitions",
    "FileImage",
    "MemoryDefinitions",
    "OpenAIAssistantAgent",
    "OpenAIAssistantChannel",
    "OpenAIAssistantDefinition",
    "OpenAIAssistantExecutionOptions",
    "OpenAIAssistantInvocationOptions",
    "OpenAIAssistantToolCallBehavior",
    "OpenAIServiceConfiguration",
    "OpenAIThreadCreationOptions",
    "PollingOptions",
    "RunCancelled",
    "RunError",
    "RunExpired",
    "RunFailed",
    "RunIncomplete",
    "RunStuck",
    "RunTimedOut",
    "ServiceClient",
    "channel_hash",
    "from_json",
    "to_json",
]


def __getattr__(name: str) -> Any:
    if name not in _FILES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_FILES[name]}"), name)
