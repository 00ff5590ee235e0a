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
    from genai_feature_assistants.agents.agent import OpenAIAssistantAgent
    from genai_feature_assistants.agents.channel import OpenAIAssistantChannel, channel_hash
    from genai_feature_assistants.agents.client import ServiceClient
    from genai_feature_assistants.agents.configuration import OpenAIServiceConfiguration
    from genai_feature_assistants.agents.content import (
        AgentDelta,
        AgentMessage,
        AnnotatedText,
        Annotation,
        Code,
        FileImage,
    )
    from genai_feature_assistants.agents.definition import OpenAIAssistantDefinition
    from genai_feature_assistants.agents.definitions import FileDefinitions, MemoryDefinitions
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
    from genai_feature_assistants.agents.execution_options import OpenAIAssistantExecutionOptions
    from genai_feature_assistants.agents.invocation_options import (
        OpenAIAssistantInvocationOptions,
    )
    from genai_feature_assistants.agents.json_form import from_json, to_json
    from genai_feature_assistants.agents.polling import PollingOptions
    from genai_feature_assistants.agents.thread_options import OpenAIThreadCreationOptions
    from genai_feature_assistants.agents.tool_call_behavior import OpenAIAssistantToolCallBehavior

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
    "OpenAIAssistantChannel": "channel",
    "OpenAIAssistantDefinition": "definition",
    "OpenAIAssistantExecutionOptions": "execution_options",
    "OpenAIAssistantInvocationOptions": "invocation_options",
    "OpenAIAssistantToolCallBehavior": "tool_call_behavior",
    "OpenAIServiceConfiguration": "configuration",
    "OpenAIThreadCreationOptions": "thread_options",
    "PollingOptions": "polling",
    "RunCancelled": "errors",
    "RunError": "errors",
    "RunExpired": "errors",
    "RunFailed": "errors",
    "RunIncomplete": "errors",
    "RunStuck": "errors",
    "RunTimedOut": "errors",
    "ServiceClient": "client",
    "channel_hash": "channel",
    "from_json": "json_form",
    "to_json": "json_form",
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
