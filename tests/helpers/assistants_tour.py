"""A tour of our Assistants API by an official `openai` SDK, of whatever version is installed:
what its parts, `assistants_tour_*`, have in common."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import genai_feature_assistants
import openai
import pytest
from attrs import field, frozen

from genai_host import Config, Host
from genai_host.api import Completion, Message, Part, Text, ToolCall, ToolResult, Usage
from genai_host.store import Store
from genai_host.testing import FakeModel
from genai_host.testing.clock import ManualClock
from genai_host.testing.fake_model import RecordedPrompt, Said
from genai_host_testing.fixtures import MakeHost
from genai_host_testing.serving import served

POLL = 10
"""Milliseconds between the questions of the SDK how far something is."""

QUIET = [
    pytest.mark.filterwarnings(f"ignore:{message}:DeprecationWarning:{module}")
    for message in ("deprecated$", "The Assistants API is deprecated")
    for module in ("assistants_tour", r"(openai|semantic_kernel|tests\.assistants_peers)\.")
]
"""The SDK calls the whole API deprecated, wherever it is called, by itself as well."""

CONFIG = Config(models={"chat": "fake", "embed": "fake-embed"})
CLOCK: Any = {
    "type": "function",
    "function": {
        "name": "clock",
        "description": "what time it is",
        "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}},
        "strict": False,
    },
}
SEARCH: Any = {"type": "file_search"}
CALL = ToolCall("c1", "clock", {"zone": "CET"})
NOTE = "The harbour opens at nine."
"""A text, of which a vector store of a tour has a file; its model finds it by just these words."""

_MARK = re.compile("【[^】]*】")


@frozen
class Side:
    """The SDK as a client of a host that is served."""

    client: openai.OpenAI
    fake: FakeModel
    host: Host
    url: str

    @property
    def beta(self) -> Any:
        return self.client.beta

    @property
    def runs(self) -> Any:
        return self.client.beta.threads.runs

    @property
    def stores(self) -> Any:
        return self.client.vector_stores

    def assistant(self, **more: Any) -> Any:
        """The id of a new one."""
        return self.beta.assistants.create(model="fake", **more).id

    def thread(self, *texts: str, **more: Any) -> Any:
        """The id of a new one in which a user has said this."""
        messages = [{"role": "user", "content": text} for text in texts or ("hi",)]
        return self.beta.threads.create(messages=messages, **more).id

    def file(self, name: str = "notes.txt", text: str = NOTE) -> Any:
        """The id of a new one."""
        return self.client.files.create(file=(name, text.encode()), purpose="assistants").id

    def store(self, **texts: str) -> Any:
        """The id of a new vector store with a text file of each name, ready to be searched."""
        store = self.stores.create(name="notes").id
        if texts:
            files = [self.file(f"{name}.txt", text) for name, text in texts.items()]
            self.stores.file_batches.create_and_poll(store, file_ids=files, poll_interval_ms=POLL)
        return store

    def ran(self, thread: Any, assistant: Any, **more: Any) -> Any:
        """A run that has come to an end, or waits for its client."""
        return self.runs.create_and_poll(
            thread_id=thread, assistant_id=assistant, poll_interval_ms=POLL, **more
        )

    def polled(self, run: Any) -> Any:
        return self.runs.poll(run.id, thread_id=run.thread_id, poll_interval_ms=POLL)

    def said(self, run: Any) -> list[str]:
        """The texts of its messages, oldest first."""
        found = self.beta.threads.messages.list(run.thread_id, run_id=run.id, order="asc")
        return [message.content[0].text.value for message in found]


@contextmanager
def touring(make_host: MakeHost, **given: Any) -> Iterator[Side]:
    """
    given   to the host
    """
    fake = FakeModel()
    plugins = {"fake": fake, "assistants": genai_feature_assistants}
    with (
        Store() as store,
        served(host := make_host(**plugins, config=CONFIG, store=store, **given)) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="key", max_retries=0) as client,
    ):
        yield Side(client, fake, host, server.url)


class Tour:
    """A part of it; `test_*` of those that subclass it are its tests.

    plugins   that its host has besides
    """

    plugins: Mapping[str, object] = {}

    @pytest.fixture
    def side(self, make_host: MakeHost) -> Iterator[Side]:
        with touring(make_host, **self.plugins) as side:
            yield side

    @pytest.fixture
    def late(self, make_host: MakeHost, clock: ManualClock) -> Iterator[Side]:
        """One whose time passes as the test says."""
        with touring(make_host, clock=clock) as side:
            yield side


def completion(*parts: Part | str, usage: Usage | None = None) -> Completion:
    """What a model says that asks for tools, if it does."""
    message = Message("assistant", list(parts))
    return Completion(message, "tool_calls" if message.tool_calls else "stop", usage or Usage(7, 3))


def calling(
    *calls: ToolCall, text: str = "", then: Callable[[RecordedPrompt], Said] | None = None
) -> Callable[[RecordedPrompt], Said]:
    """A model that asks for tools first, and tells then what they gave, or what `then` says."""

    def answer(heard: RecordedPrompt) -> Said:
        if heard.messages[-1].role == "tool":
            return then(heard) if then else completion(f"It gave {', '.join(results(heard))}.")
        return completion(*([Text(text)] if text else []), *calls)

    return answer


def results(heard: RecordedPrompt) -> list[str]:
    """What the tools gave that were called last."""
    return [
        "".join(part.text for part in result.content if isinstance(part, Text))
        for result in heard.messages[-1].content
        if isinstance(result, ToolResult)
    ]


def cites(heard: RecordedPrompt) -> Completion:
    """Tells of all passages that were found, each with its mark."""
    found = [mark for result in results(heard) for mark in _MARK.findall(result)]
    return completion(f"At nine{''.join(found)}.")


@frozen
class Holding:
    """A model that says nothing until it may.

    asked   set once it was asked
    """

    says: str = "at last"
    asked: threading.Event = field(factory=threading.Event)
    may: threading.Event = field(factory=threading.Event)

    def __call__(self, heard: RecordedPrompt) -> str:
        self.asked.set()
        assert self.may.wait(30)
        return self.says


def ids(objects: Sequence[Any]) -> list[Any]:
    return [each.id for each in objects]
