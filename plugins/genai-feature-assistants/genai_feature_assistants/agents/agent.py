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

from genai_feature_assistants.agents.backends import backend_of
from genai_feature_assistants.agents.client import OpenAIServiceConfiguration
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
from genai_feature_assistants.agents.runs import RunOrder, ThreadSettings, settled
from genai_host.api import Clock, Message, Reasoning, Text, Tool, ToolCall, ToolResult

if TYPE_CHECKING:
    from typing import Self

    from genai_feature_assistants.agents.backends import Backend
    from genai_feature_assistants.agents.client import ServiceClient


Given = Iterable[Tool | Callable[..., Any]]


class OpenAIAssistantAgent:
    """An assistant of a service: `create` makes one, `retrieve` takes one that is there.

        with OpenAIAssistantAgent.create(configuration, definition, functions=[roll]) as agent:
            thread = agent.create_thread()
            agent.add_chat_message(thread, "Roll a die.")
            for message in agent.invoke(thread):
                print(message.text)

    It may be used from several threads. `close` ends its connections, and leaves the assistant
    where it is; `delete` deletes that, and the agent does nothing any more then.

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
        functions: Given = (),
        *,
        approve: Approve | None = None,
        polling: PollingOptions | None = None,
        clock: Clock | None = None,
    ) -> Self:
        """Make an assistant, and its agent.

        functions   tools, or typed functions with docstrings, that it may call
        approve     says whether a call of a tool with `approval="ask"` may run; None: none may
        polling     how its runs are waited for
        clock       by which; None for the system's

        Raises `ValidationError` before anything is sent, and a `ProviderError`.
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
        functions: Given = (),
        *,
        approve: Approve | None = None,
        polling: PollingOptions | None = None,
        clock: Clock | None = None,
    ) -> Self:
        """The agent of an assistant that is there; the rest is as for `create`.

        Raises a `ProviderError`, of status 404 where there is none, and `BrokenDefinition`.
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
        find: Callable[[Backend], OpenAIAssistantDefinition],
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
        """All assistants that there are, the newest first. Raises `BrokenDefinition` for one
        that cannot be read."""
        with configuration.create_client() as client:
            return list(backend_of(client).definitions())

    @property
    def definition(self) -> OpenAIAssistantDefinition:
        """As the service had it when the agent was made."""
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
        """For what has no method here: files, vector stores."""
        return self._client

    def create_thread(self, options: OpenAIThreadCreationOptions | None = None) -> str:
        """Make a thread; its id. Raises `ValidationError` before anything is sent."""
        return self._backend.create_thread(options or OpenAIThreadCreationOptions())

    def delete_thread(self, thread_id: str) -> bool:
        """Delete a thread; whether it is gone. What is asked of it later raises."""
        return self._backend.delete_thread(thread_id)

    def add_chat_message(self, thread_id: str, message: str | Message) -> AgentMessage:
        """Add a message to a thread; a string is one of a user. Gives what the thread has then.

        Raises `AgentDeleted`, `ValidationError` for a message of another role than user and
        assistant, and `UnsupportedPart`.
        """
        self._check()
        given = Message("user", message) if isinstance(message, str) else message
        return self._backend.add_message(thread_id, given)

    def get_thread_messages(self, thread_id: str) -> Iterator[AgentMessage]:
        """All messages of a thread, oldest first."""
        return self._backend.messages(thread_id)

    def delete(self) -> bool:
        """Delete the assistant; whether it is gone. The agent does nothing more then, and a
        second time sends nothing."""
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
        """Run the assistant on a thread; what it says, as its steps are completed.

        hidden   whether calls of functions and their results are told of as well; `visible` of
                 a message says which is which

        Raises `AgentDeleted`, `ValidationError` and `UnsupportedPart` at once, and while it is read
        `AgentDeleted`, a `RunError` or a `ProviderError`. A run that is left before its end is
        cancelled.
        """
        told = self._ordered(thread_id, options, self._backend.run)
        return _shown(told, hidden)

    def invoke_stream(
        self,
        thread_id: str,
        options: OpenAIAssistantInvocationOptions | None = None,
        *,
        hidden: bool = False,
    ) -> Generator[AgentMessage | AgentDelta, None, None]:
        """The same as it comes: the pieces of each message, then the message."""
        told = self._ordered(thread_id, options, self._backend.stream)
        return _shown(told, hidden)

    def get_channel_keys(self) -> Iterator[str]:
        """What tells the channels of agents apart: `channel_hash` makes one text of them."""
        yield type(self).__name__
        yield self.id
        yield self.name or ""
        yield self._client.base_url

    def create_channel(self, thread_id: str | None = None) -> OpenAIAssistantChannel:
        """A channel, on a thread that is there or else on a new one."""

        self._check()
        return OpenAIAssistantChannel(self._backend, thread_id or self.create_thread())

    def close(self) -> None:
        """End its connections. The assistant stays, and so do threads."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={self.id!r}, name={self.name!r})"

    def _ordered(
        self,
        thread_id: str,
        options: OpenAIAssistantInvocationOptions | None,
        run: Callable[[RunOrder, Pace], Iterator[Any]],
    ) -> Generator[Any, None, None]:
        self._check()
        given = options or OpenAIAssistantInvocationOptions()
        for message in given.additional_messages:
            self._backend.check(message)
        settled(self._definition, ThreadSettings(), given)  # what is wrong is refused at once
        return self._run(thread_id, given, run)

    def _run(
        self,
        thread_id: str,
        options: OpenAIAssistantInvocationOptions,
        run: Callable[[RunOrder, Pace], Iterator[Any]],
    ) -> Generator[Any, None, None]:
        self._check()  # it may have been deleted since
        thread = self._pace.tried(lambda: self._backend.thread(thread_id))
        settings = settled(self._definition, thread, options)
        order = RunOrder(thread_id, self._definition, options, settings, self._functions)
        yield from run(order, self._pace)

    def _check(self) -> None:
        if self._deleted:
            raise AgentDeleted(
                f"the assistant {self.id} was deleted, and its agent with it",
                assistant_id=self.id,
            )


def _shown(told: Generator[Any, None, None], hidden: bool) -> Generator[Any, None, None]:
    with closing(told):
        for each in told:
            if hidden or each.visible:
                yield each


_INNER = (Reasoning, ToolCall, ToolResult)


def channel_hash(keys: Iterable[str]) -> str:
    """The keys of an agent's channel as one text: SHA-256 of them with colons between, in
    base64."""
    return base64.b64encode(hashlib.sha256(":".join(keys).encode()).digest()).decode()


class OpenAIAssistantChannel:
    """One thread of a service, for agents that are asked in turn; several may share it.

    Source: document 002, "Class inventory".
    """

    def __init__(self, backend: Backend, thread_id: str) -> None:
        self._backend = backend
        self.thread_id = thread_id

    def receive(self, history: Iterable[Message]) -> None:
        """Add what was said elsewhere, oldest first. What agents did among themselves, calls of
        functions and hidden messages, is left out.

        Raises `ValidationError` for messages of other roles, and `UnsupportedPart`, before any is
        added.
        """
        said = [each for each in map(_said, history) if each is not None]
        for message in said:
            self._backend.check(message)
        for message in said:
            self._backend.add_message(self.thread_id, message)

    def invoke(
        self, agent: OpenAIAssistantAgent, options: OpenAIAssistantInvocationOptions | None = None
    ) -> Generator[tuple[bool, AgentMessage], None, None]:
        """Let an agent answer; each message, hidden ones too, and whether it is for users."""
        told = agent.invoke(self.thread_id, options, hidden=True)
        return _seen(told)

    def invoke_stream(
        self, agent: OpenAIAssistantAgent, options: OpenAIAssistantInvocationOptions | None = None
    ) -> Generator[tuple[bool, AgentMessage | AgentDelta], None, None]:
        """The same as it comes: the pieces of each message, then the message."""
        told = agent.invoke_stream(self.thread_id, options, hidden=True)
        return _seen(told)

    def history(self) -> Iterator[AgentMessage]:
        """All that was said, oldest first."""
        return self._backend.messages(self.thread_id)


def _said(message: Message) -> Message | None:
    """What others are to know of a message; None if there is nothing."""
    if message.role == "tool" or not getattr(message, "visible", True):
        return None
    parts = tuple(
        each for each in message.content if not isinstance(each, _INNER) and each != Text("")
    )
    return attrs.evolve(message, content=parts) if parts else None


def _seen(told: Generator[Any, None, None]) -> Generator[tuple[bool, Any], None, None]:
    with closing(told):
        for each in told:
            yield each.visible, each
