"""The agent over assistants or responses, and its channel.

`OpenAIAssistantAgent` is an assistant of a service with the functions that it may call.
`OpenAIAssistantChannel` is one thread of a service that several agents share.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import attrs

from genai_feature_assistants.agents.assistants_backend import AssistantsBackend
from genai_feature_assistants.agents.configuration import OpenAIServiceConfiguration
from genai_feature_assistants.agents.content import AgentDelta, AgentMessage
from genai_feature_assistants.agents.definitions import OpenAIAssistantDefinition
from genai_feature_assistants.agents.errors import AgentDeleted
from genai_feature_assistants.agents.functions import Approve, Functions
from genai_feature_assistants.agents.options import (
    OpenAIAssistantInvocationOptions,
    OpenAIThreadCreationOptions,
    Pace,
    PollingOptions,
)
from genai_feature_assistants.agents.responses_backend import ResponsesBackend
from genai_feature_assistants.agents.runs import RunOrder, ThreadSettings, settled
from genai_host.api import Clock, Message, Reasoning, Text, Tool, ToolCall, ToolResult

if TYPE_CHECKING:
    from typing import Self

    from genai_feature_assistants.agents.client import ServiceClient


AgentBackend = AssistantsBackend | ResponsesBackend
Callables = Iterable[Tool | Callable[..., Any]]


def backend_of(client: ServiceClient) -> AgentBackend:
    """Return the backend that the configuration of a client names."""
    is_new = client.configuration.api == "responses"
    return ResponsesBackend(client) if is_new else AssistantsBackend(client)


class OpenAIAssistantAgent:
    """An assistant of a service, with the functions that it may call. Thread-safe.

        with OpenAIAssistantAgent.create(configuration, definition, functions=[roll]) as agent:
            thread = agent.create_thread()
            agent.add_chat_message(thread, "Roll a die.")
            for message in agent.invoke(thread):
                print(message.text)

    `create` makes an assistant, and `retrieve` uses an existing one. `close` closes the connections
    and leaves the assistant at the service. `delete` deletes the assistant; other methods of the
    agent then raise `AgentDeleted`.

    Source: document 002, "Agent implementation".
    """

    def __init__(
        self,
        client: ServiceClient,
        definition: OpenAIAssistantDefinition,
        *,
        functions: Functions,
        pace: Pace,
    ) -> None:
        self._client = client
        self._backend = backend_of(client)
        self._definition = definition
        self._functions = functions
        self._pace = pace
        self._deleted = False

    @classmethod
    def create(
        cls,
        configuration: OpenAIServiceConfiguration,
        definition: OpenAIAssistantDefinition,
        functions: Callables = (),
        *,
        approve: Approve | None = None,
        polling: PollingOptions | None = None,
        clock: Clock | None = None,
    ) -> Self:
        """Make an assistant, and return its agent.

        Args:
            configuration: The service.
            definition: What the assistant is made from.
            functions: Tools, or typed functions with docstrings, that it may call.
            approve: Decides whether a call of a tool with `approval="ask"` may run. None refuses
                them all.
            polling: How its runs are polled.
            clock: Clock for polling. None for the clock of the system.

        Raises:
            ValidationError: The definition exceeds a limit. Nothing was sent.
            ProviderError: The service failed.
        """
        return cls._made(
            configuration,
            lambda backend: backend.create(definition),
            Functions(functions, approve),
            Pace(polling or PollingOptions(), clock),
        )

    @classmethod
    def retrieve(
        cls,
        configuration: OpenAIServiceConfiguration,
        id: str,
        functions: Callables = (),
        *,
        approve: Approve | None = None,
        polling: PollingOptions | None = None,
        clock: Clock | None = None,
    ) -> Self:
        """Return the agent of an existing assistant. The other arguments are those of `create`.

        Raises:
            ProviderError: The service failed; status 404 if the assistant does not exist.
            BrokenDefinition: The assistant cannot be read.
        """
        return cls._made(
            configuration,
            lambda backend: backend.definition(id),
            Functions(functions, approve),
            Pace(polling or PollingOptions(), clock),
        )

    @classmethod
    def _made(
        cls,
        configuration: OpenAIServiceConfiguration,
        find: Callable[[AgentBackend], OpenAIAssistantDefinition],
        functions: Functions,
        pace: Pace,
    ) -> Self:
        client = configuration.create_client()
        try:
            found = find(backend_of(client))
            return cls(client, found, functions=functions, pace=pace)
        except BaseException:
            client.close()
            raise

    @staticmethod
    def list_definitions(
        configuration: OpenAIServiceConfiguration,
    ) -> list[OpenAIAssistantDefinition]:
        """Return all assistants, newest first.

        Raises:
            BrokenDefinition: An assistant cannot be read.
        """
        with configuration.create_client() as client:
            return list(backend_of(client).definitions())

    @property
    def definition(self) -> OpenAIAssistantDefinition:
        """The definition that the service had when the agent was made."""
        return self._definition

    @property
    def id(self) -> str:
        return self._definition.id or ""

    @property
    def name(self) -> str | None:
        return self._definition.name

    @property
    def is_deleted(self) -> bool:
        return self._deleted

    @property
    def client(self) -> ServiceClient:
        """Client of the service, for files and vector stores."""
        return self._client

    def create_thread(self, options: OpenAIThreadCreationOptions | None = None) -> str:
        """Make a thread, and return its id.

        Raises:
            ValidationError: The options exceed a limit. Nothing was sent.
        """
        return self._backend.create_thread(options or OpenAIThreadCreationOptions())

    def delete_thread(self, thread_id: str) -> bool:
        """Delete a thread, and return whether it was deleted."""
        return self._backend.delete_thread(thread_id)

    def add_chat_message(self, thread_id: str, message: str | Message) -> AgentMessage:
        """Add a message to a thread, and return it as the service stored it.

        Args:
            thread_id: Id of the thread.
            message: The message. A string is a message of the user.

        Raises:
            AgentDeleted: The assistant was deleted.
            ValidationError: The role is neither user nor assistant.
            UnsupportedPart: A thread cannot have a part of the message.
        """
        self._check()
        given = Message("user", message) if isinstance(message, str) else message
        return self._backend.add_message(thread_id, given)

    def get_thread_messages(self, thread_id: str) -> Iterator[AgentMessage]:
        """Return all messages of a thread, oldest first."""
        return self._backend.messages(thread_id)

    def delete(self) -> bool:
        """Delete the assistant, and return whether it was deleted. May be called again."""
        if not self._deleted:
            self._deleted = self._backend.delete(self.id)
        return self._deleted

    def invoke(
        self,
        thread_id: str,
        options: OpenAIAssistantInvocationOptions | None = None,
        *,
        hidden: bool = False,
    ) -> Generator[AgentMessage, None, None]:
        """Run the assistant on a thread, and yield its messages as steps are completed.

        A run that is not read to its end is cancelled.

        Args:
            thread_id: Id of the thread.
            options: Options of this run.
            hidden: Whether to yield calls of functions and their results too. Their `visible` is
                False.

        Raises:
            AgentDeleted: The assistant was deleted.
            ValidationError: The options are invalid. Raised at once, as is `UnsupportedPart`.
            RunError: The run did not complete. Raised while it is read, as is `ProviderError`.
        """
        return _shown(self._ordered(thread_id, options, streamed=False), hidden)

    def invoke_stream(
        self,
        thread_id: str,
        options: OpenAIAssistantInvocationOptions | None = None,
        *,
        hidden: bool = False,
    ) -> Generator[AgentMessage | AgentDelta, None, None]:
        """Like `invoke`, but yield the deltas of each message before the message."""
        return _shown(self._ordered(thread_id, options, streamed=True), hidden)

    def get_channel_keys(self) -> Iterator[str]:
        """Yield what distinguishes the channels of agents.

        `channel_hash` makes one text of them.
        """
        yield type(self).__name__
        yield self.id
        yield self.name or ""
        yield self._client.base_url

    def create_channel(self, thread_id: str | None = None) -> OpenAIAssistantChannel:
        """Return a channel on an existing thread, or on a new one."""
        self._check()
        return OpenAIAssistantChannel(self._backend, thread_id or self.create_thread())

    def close(self) -> None:
        """Close the connections. Assistant and threads stay at the service."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={self.id!r}, name={self.name!r})"

    def _ordered(
        self, thread_id: str, options: OpenAIAssistantInvocationOptions | None, *, streamed: bool
    ) -> Generator[Any, None, None]:
        self._check()
        given = options or OpenAIAssistantInvocationOptions()
        for message in given.additional_messages:
            self._backend.check(message)
        settled(self._definition, ThreadSettings(), given)  # rejects invalid values immediately

        def updates() -> Generator[Any, None, None]:
            self._check()  # it may have been deleted since
            thread = self._pace.tried(lambda: self._backend.thread(thread_id))
            settings = settled(self._definition, thread, given)
            order = RunOrder(thread_id, self._definition, given, settings, self._functions)
            yield from self._backend.run(order, self._pace, streamed=streamed)

        return updates()

    def _check(self) -> None:
        if self._deleted:
            raise AgentDeleted(
                f"the assistant {self.id} was deleted, and its agent with it",
                assistant_id=self.id,
            )


def _shown(updates: Generator[Any, None, None], hidden: bool) -> Generator[Any, None, None]:
    with closing(updates):
        for each in updates:
            if hidden or each.visible:
                yield each


_INNER = (Reasoning, ToolCall, ToolResult)


def channel_hash(keys: Iterable[str]) -> str:
    """Return the SHA-256 of the keys, joined by colons, in base64."""
    return base64.b64encode(hashlib.sha256(":".join(keys).encode()).digest()).decode()


class OpenAIAssistantChannel:
    """One thread of a service that several agents share, one after the other.

    Source: document 002, "Class inventory".
    """

    def __init__(self, backend: AgentBackend, thread_id: str) -> None:
        self._backend = backend
        self.thread_id = thread_id

    def receive(self, history: Iterable[Message]) -> None:
        """Add messages from elsewhere, oldest first.

        Calls of functions, their results and hidden messages are left out.

        Raises:
            ValidationError: A message has another role. No message was added.
            UnsupportedPart: A thread cannot have a part of a message. No message was added.
        """
        messages = [each for each in map(_public_part, history) if each is not None]
        for message in messages:
            self._backend.check(message)
        for message in messages:
            self._backend.add_message(self.thread_id, message)

    def invoke(
        self, agent: OpenAIAssistantAgent, options: OpenAIAssistantInvocationOptions | None = None
    ) -> Generator[tuple[bool, AgentMessage], None, None]:
        """Run an agent, and yield each message with whether it is visible to users.

        Hidden messages are included.
        """
        return _seen(agent.invoke(self.thread_id, options, hidden=True))

    def invoke_stream(
        self, agent: OpenAIAssistantAgent, options: OpenAIAssistantInvocationOptions | None = None
    ) -> Generator[tuple[bool, AgentMessage | AgentDelta], None, None]:
        """Like `invoke`, but yield the deltas of each message before the message."""
        return _seen(agent.invoke_stream(self.thread_id, options, hidden=True))

    def history(self) -> Iterator[AgentMessage]:
        """Return all messages, oldest first."""
        return self._backend.messages(self.thread_id)


def _public_part(message: Message) -> Message | None:
    """Return what other agents may know of a message; None if that is nothing."""
    if message.role == "tool" or not getattr(message, "visible", True):
        return None
    parts = tuple(
        each for each in message.content if not isinstance(each, _INNER) and each != Text("")
    )
    return attrs.evolve(message, content=parts) if parts else None


def _seen(updates: Generator[Any, None, None]) -> Generator[tuple[bool, Any], None, None]:
    with closing(updates):
        for each in updates:
            yield each.visible, each
