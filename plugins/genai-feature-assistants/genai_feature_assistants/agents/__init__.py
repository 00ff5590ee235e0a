"""Agents: the assistants of a service, as objects of a program.

    from genai_feature_assistants.agents import (
        OpenAIAssistantAgent,
        OpenAIAssistantDefinition,
        OpenAIServiceConfiguration,
    )

    configuration = OpenAIServiceConfiguration.for_host()
    definition = OpenAIAssistantDefinition("my-model", instructions="Be brief.")
    with OpenAIAssistantAgent.create(configuration, definition) as agent:
        ...

agent               the agent, and the channel that several agents share
configuration       the configuration of a service
client              the client of a service
definitions         definitions of assistants, and where they are stored
options             options of threads, of runs and of polling
content             messages, their parts and their JSON form
errors              errors of assistants and their runs
functions           the functions of an agent, called when its assistant asks for them
assistants_backend  the Assistants API
responses_backend   Responses and Conversations
runs                settings and outcomes of runs, for both backends

Source: document 002, an ADR of Semantic Kernel.
"""

from __future__ import annotations

from genai_feature_assistants.agents.agent import (
    OpenAIAssistantAgent as OpenAIAssistantAgent,
    OpenAIAssistantChannel as OpenAIAssistantChannel,
    channel_hash as channel_hash,
)
from genai_feature_assistants.agents.client import ServiceClient as ServiceClient
from genai_feature_assistants.agents.configuration import (
    OpenAIServiceConfiguration as OpenAIServiceConfiguration,
)
from genai_feature_assistants.agents.content import (
    AgentDelta as AgentDelta,
    AgentMessage as AgentMessage,
    AnnotatedText as AnnotatedText,
    Annotation as Annotation,
    Code as Code,
    FileImage as FileImage,
)
from genai_feature_assistants.agents.definitions import (
    FileDefinitions as FileDefinitions,
    MemoryDefinitions as MemoryDefinitions,
    OpenAIAssistantDefinition as OpenAIAssistantDefinition,
    from_json as from_json,
    to_json as to_json,
)
from genai_feature_assistants.agents.errors import (
    AgentDeleted as AgentDeleted,
    BrokenDefinition as BrokenDefinition,
    RunCancelled as RunCancelled,
    RunError as RunError,
    RunExpired as RunExpired,
    RunFailed as RunFailed,
    RunIncomplete as RunIncomplete,
    RunStuck as RunStuck,
    RunTimedOut as RunTimedOut,
)
from genai_feature_assistants.agents.options import (
    OpenAIAssistantExecutionOptions as OpenAIAssistantExecutionOptions,
    OpenAIAssistantInvocationOptions as OpenAIAssistantInvocationOptions,
    OpenAIAssistantToolCallBehavior as OpenAIAssistantToolCallBehavior,
    OpenAIThreadCreationOptions as OpenAIThreadCreationOptions,
    PollingOptions as PollingOptions,
)

__all__ = sorted(
    name
    for name, value in globals().items()
    if getattr(value, "__module__", "").startswith(f"{__name__}.")
)
