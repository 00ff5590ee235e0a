"""Our own Anthropic vendor as a client of our Anthropic API: what one host asks of another is
what that one's model hears, and its answer comes back."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import genai_vendor_anthropic
import pytest
from attrs import frozen
from fixtures import MakeHost
from thinking_model import ThinkingModel

from genai_host import Config, Host
from genai_host.api import (
    Completion,
    Delta,
    File,
    Image,
    Message,
    Opaque,
    Prompt,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    ToolSchema,
    Usage,
)
from genai_host.api.cancellation import Cancellation
from genai_host.config.values import InstanceConfig
from genai_host.errors import (
    IncompleteReply,
    ProviderError,
    RateLimited,
    RequestRefused,
    Unavailable,
)
from genai_host.server import listing
from genai_host.server.anthropic.problems import problem_reply
from genai_host.server.anthropic.routes import ROUTES
from genai_host.testing import FakeModel, RouteServer

LOOK = ToolSchema("look", "Look at it", {"type": "object", "properties": {"at": {}}})
PICTURE = Image(b"\x89PNG\r\n\x1a\n picture", "image/png")
PAPER = File(b"%PDF-1.4", "application/pdf", "a.pdf")
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
HI = Message("user", "hi")
OWN = "anthropic-messages"


def signed(thought: str, signature: str) -> Opaque:
    return Opaque(OWN, {"type": "thinking", "thinking": thought, "signature": signature})


SECRET = Opaque(OWN, {"type": "redacted_thinking", "data": "c2Vj"})


@frozen
class Sides:
    """
    asking   the host whose vendor asks
    fake     the model of the one that answers
    """

    asking: Host
    fake: FakeModel

    def ask(
        self, *messages: Message, in_pieces: bool, model: str = "fake", **more: Any
    ) -> tuple[list[Delta], Completion]:
        """The pieces of an answer, and the whole."""
        more.setdefault("parameters", {"max_tokens": 2048})
        answer = self.asking.prompt(
            Prompt(messages, **more), model=f"anthropic/{model}", in_pieces=in_pieces
        )
        return whole(answer)


def whole(answer: Generator[Delta, None, Completion]) -> tuple[list[Delta], Completion]:
    pieces = []
    while True:
        try:
            pieces.append(next(answer))
        except StopIteration as end:
            return pieces, end.value


@pytest.fixture
def sides(make_host: MakeHost, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sides]:
    fake = ThinkingModel()
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key")
    answering = make_host(fake=fake, config=Config(models={"chat": "fake"}))
    with RouteServer(
        answering,
        (*ROUTES, *listing.ROUTES),
        form=lambda path, headers, problem: problem_reply(problem),
    ) as server:
        settings = {"base_url": server.url, "version": "2023-06-01"}
        config = Config(providers={"anthropic": InstanceConfig("anthropic", settings=settings)})
        asking = make_host(anthropic=genai_vendor_anthropic, config=config)
        yield Sides(asking, fake)
        asking.close()


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def in_pieces(request: pytest.FixtureRequest) -> bool:
    found: bool = request.param
    return found


def test_a_conversation(sides: Sides, in_pieces: bool) -> None:
    usage = Usage(9, 5, cached_input=3, cache_written=2)
    sides.fake.answer = lambda heard: Completion(Message("assistant", "a" * 20), usage=usage)
    said = [
        Message("system", "be kind"),
        Message("user", ["look", PICTURE, PAPER]),
        Message("assistant", "so"),
        Message("user", "and?"),
    ]
    parameters = {"temperature": 0.5, "max_tokens": 9, "stop": ["X"]}
    pieces, completion = sides.ask(*said, in_pieces=in_pieces, parameters=parameters)
    assert "".join(piece.text for piece in pieces) == completion.text == "a" * 20
    assert (completion.finish, completion.usage) == ("stop", usage)
    (heard,) = sides.fake.prompts
    assert list(heard.messages) == said
    assert heard.parameters == parameters


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_why_it_ended(sides: Sides, in_pieces: bool, finish: Any) -> None:
    sides.fake.answer = lambda heard: Completion(Message("assistant", "so"), finish)
    assert sides.ask(HI, in_pieces=in_pieces)[1].finish == finish


def test_thoughts_and_tools(sides: Sides, in_pieces: bool) -> None:
    """Thoughts come back to the model as they were signed, where they stood."""
    calls = [ToolCall("a", "look", {"at": "é"}), ToolCall("b", "look", {})]
    said = [Reasoning("hm"), signed("hm", "c2ln"), SECRET, Text("so"), *calls]
    sides.fake.answer = lambda heard: Completion(Message("assistant", said), "tool_calls")
    pieces, first = sides.ask(HI, in_pieces=in_pieces, tools=[LOOK])
    assert first.finish == "tool_calls"
    assert list(first.message.content) == said
    if in_pieces:
        assert "".join(piece.reasoning for piece in pieces) == "hm"
    results = Message("tool", [ToolResult("b", "look", "1"), ToolResult("a", "look", [PICTURE])])
    sides.fake.answer = lambda heard: "fine"
    _, second = sides.ask(HI, first.message, results, in_pieces=in_pieces, tools=[LOOK])
    assert second.text == "fine"
    heard = sides.fake.prompts[-1].messages
    assert list(heard[1].content) == said
    assert heard[2] == results


def test_each_thought_has_its_own_signature(sides: Sides, in_pieces: bool) -> None:
    thoughts = [signed("one", "MQ"), signed("two", "Mg")]
    shown = [Reasoning("one"), thoughts[0], Reasoning("\n\ntwo"), thoughts[1], Text("so")]
    sides.fake.answer = lambda heard: Completion(Message("assistant", shown))
    _, completion = sides.ask(HI, in_pieces=in_pieces)
    found = [part for part in completion.message.content if isinstance(part, Opaque)]
    assert found == thoughts


def test_a_schema(sides: Sides, in_pieces: bool) -> None:
    sides.fake.answer = lambda heard: '{"a": 1}'
    _, completion = sides.ask(HI, in_pieces=in_pieces, schema=SCHEMA)
    assert completion.value == {"a": 1}
    assert "a" in str(sides.fake.prompts[-1].schema)


def test_errors(sides: Sides, in_pieces: bool) -> None:
    sides.fake.faults = {0: RateLimited("slowly", retry_after=99), 1: Unavailable("away")}
    with pytest.raises(RateLimited, match="slowly") as caught:
        sides.ask(HI, in_pieces=in_pieces)
    assert caught.value.retry_after == 99
    with pytest.raises(Unavailable, match="away"):
        sides.ask(HI, in_pieces=in_pieces)
    with pytest.raises(RequestRefused) as refused:
        sides.ask(HI, in_pieces=in_pieces, model="nobody")
    assert refused.value.status == 404


def test_an_error_amid_a_stream(sides: Sides) -> None:
    sides.fake.answer = lambda heard: "{"
    with pytest.raises((ProviderError, IncompleteReply), match="JSON"):
        sides.ask(HI, in_pieces=True, schema=SCHEMA)


def test_tokens_and_models(sides: Sides) -> None:
    found = sides.asking.count_tokens([Message("user", "one two")], model="anthropic/fake")
    assert found.tokens == 2
    with sides.asking.instances["anthropic"].attempt(Cancellation()) as attempt:
        listed = {each.id for each in attempt.provider.list_models(attempt.limits)}
    assert {"fake@fake", "feature:chat"} <= listed
