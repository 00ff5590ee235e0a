"""Our own vendors as clients of our APIs: what one host asks of another is what that one's
model hears, and its answer comes back."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import genai_vendor_gemini
import genai_vendor_ollama
import pytest
from attrs import frozen
from fixtures import MakeHost

from genai_host import Config, Host
from genai_host.api import (
    Completion,
    Image,
    Message,
    Prompt,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    ToolSchema,
    Usage,
)
from genai_host.api.cancellation import Cancellation
from genai_host.errors import IncompleteReply, ProviderError, RateLimited, RequestRefused
from genai_host.server.gemini.problems import problem_reply as gemini_reply
from genai_host.server.gemini.routes import ROUTES as GEMINI
from genai_host.server.ollama.problems import problem_reply as ollama_reply
from genai_host.server.ollama.routes import ROUTES as OLLAMA
from genai_host.testing import FakeModel, RouteServer

CONFIG = Config(models={"chat": "fake"}, aliases={"fake-embedding": "fake-embed"})
LOOK = ToolSchema("look", "Look at it", {"type": "object", "properties": {"at": {}}})
PICTURE = Image(b"\x89PNG\r\n\x1a\n picture", "image/png")


def whole(answer: Generator[Any, None, Completion]) -> tuple[str, Completion]:
    """The pieces of an answer, joined, and all of it."""
    pieces = []
    while True:
        try:
            pieces.append(next(answer).text)
        except StopIteration as end:
            return "".join(pieces), end.value


@frozen
class Sides:
    """
    asking   the host whose vendor asks
    fake     the model of the one that answers
    vendor   name of the provider
    """

    asking: Host
    fake: FakeModel
    vendor: str

    def ask(self, *messages: Message, in_pieces: bool, **more: Any) -> tuple[str, Completion]:
        """The pieces of an answer, joined, and the whole."""
        answer = self.asking.prompt(
            Prompt(messages, **more), model=f"{self.vendor}/fake", in_pieces=in_pieces
        )
        return whole(answer)


@pytest.fixture(params=["gemini", "ollama"])
def sides(
    request: pytest.FixtureRequest, make_host: MakeHost, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Sides]:
    fake = FakeModel()
    answering = make_host(fake=fake, config=CONFIG)
    form = gemini_reply if request.param == "gemini" else ollama_reply
    with RouteServer(
        answering, (*GEMINI, *OLLAMA), form=lambda path, headers, problem: form(problem)
    ) as server:
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
        monkeypatch.setenv("GEMINI_API_KEY", "key")
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        asking = make_host(gemini=genai_vendor_gemini, ollama=genai_vendor_ollama)
        yield Sides(asking, fake, request.param)
        asking.close()


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def in_pieces(request: pytest.FixtureRequest) -> bool:
    found: bool = request.param
    return found


def test_a_conversation(sides: Sides, in_pieces: bool) -> None:
    usage = Usage(7, 5)
    sides.fake.answer = lambda heard: Completion(Message("assistant", "a" * 20), usage=usage)
    said = [
        Message("system", "be kind"),
        Message("user", ["look", PICTURE]),
        Message("assistant", "so"),
        Message("user", "and?"),
    ]
    parameters = {"temperature": 0.5, "max_tokens": 9, "stop": ["X"], "seed": 3}
    text, whole = sides.ask(*said, in_pieces=in_pieces, parameters=parameters)
    assert text == whole.text == "a" * 20
    assert (whole.finish, whole.usage) == ("stop", usage)
    (heard,) = sides.fake.prompts
    assert list(heard.messages) == said
    assert heard.parameters == parameters


def test_thoughts(sides: Sides, in_pieces: bool) -> None:
    said = Message("assistant", [Reasoning("hm"), Text("so")])
    sides.fake.answer = lambda heard: Completion(said)
    more: dict[str, Any] = (
        {"parameters": {"include_thoughts": True}} if sides.vendor == "gemini" else {}
    )
    _, whole = sides.ask(Message("user", "hi"), in_pieces=in_pieces, **more)
    assert set(whole.message.content) == set(said.content)


def test_tools(sides: Sides, in_pieces: bool) -> None:
    calls = [ToolCall("a", "look", {"at": "it"}), ToolCall("b", "look", {})]
    sides.fake.answer = lambda heard: Completion(Message("assistant", calls), "tool_calls")
    hi = Message("user", "hi")
    _, whole = sides.ask(hi, in_pieces=in_pieces, tools=[LOOK])
    assert (whole.finish, list(whole.tool_calls)) == ("tool_calls", calls)
    results = Message("tool", [ToolResult("b", "look", "1"), ToolResult("a", "look", "2")])
    sides.ask(hi, whole.message, results, in_pieces=in_pieces, tools=[LOOK])
    assert list(sides.fake.prompts[-1].messages) == [hi, whole.message, results]
    assert sides.fake.prompts[-1].tools == ("look",)


def test_a_schema(sides: Sides, in_pieces: bool) -> None:
    sides.fake.answer = lambda heard: '{"a": 1}'
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    _, whole = sides.ask(Message("user", "hi"), in_pieces=in_pieces, schema=schema)
    assert whole.value == {"a": 1}
    assert sides.fake.prompts[-1].schema == schema


def test_errors(sides: Sides, in_pieces: bool) -> None:
    hi = Message("user", "hi")
    sides.fake.faults[0] = RateLimited("slowly", retry_after=99)
    with pytest.raises(RateLimited, match="slowly") as caught:
        sides.ask(hi, in_pieces=in_pieces)
    assert caught.value.retry_after == 99
    with pytest.raises(RequestRefused) as refused:
        whole(sides.asking.prompt(Prompt([hi]), model=f"{sides.vendor}/nobody"))
    assert refused.value.status == 404


def test_an_error_in_mid_stream(sides: Sides) -> None:
    sides.fake.answer = lambda heard: "{" if heard.schema else "so"
    with pytest.raises((ProviderError, IncompleteReply)):
        sides.ask(Message("user", "hi"), in_pieces=True, schema={"type": "object"})


def test_embeddings_and_models(sides: Sides) -> None:
    name = "fake-embedding" if sides.vendor == "gemini" else "fake-embed"
    found = sides.asking.embed(["a", "b"], model=f"{sides.vendor}/{name}").vectors
    assert len(found) == 2
    with sides.asking.instances[sides.vendor].attempt(Cancellation()) as attempt:
        listed = {each.id: each for each in attempt.provider.list_models(attempt.limits)}
    assert {"fake@fake", "fake-embed@fake", "feature:chat"} <= listed.keys()
