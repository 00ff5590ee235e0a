"""Our own OpenAI vendor as a client of our OpenAI API, in chat: what one host asks of another is
what that one's model hears, and its answer comes back."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import genai_vendor_openai
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
    Model,
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
from genai_host.server.openai.problems import problem_reply
from genai_host.server.openai.routes import ROUTES
from genai_host.testing import FakeModel, MadePlugin, RouteServer

LOOK = ToolSchema("look", "Look at it", {"type": "object", "properties": {"at": {}}})
PICTURE = Image(b"\x89PNG\r\n\x1a\n picture", "image/png")
PAPER = File(b"%PDF-1.4", "application/pdf", "a.pdf")
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
HI = Message("user", "hi")


def model(name: str, dialect: str, **more: Any) -> Model:
    return Model(name, dialects=[dialect], at={"openai": name}, **more)


ABLE = {"tools", "schema", "images", "files"}
MODELS = MadePlugin(
    models=[
        model("fake", "openai-chat", capabilities=ABLE),
        model("nobody", "openai-chat", capabilities=ABLE),
        model("fake-moderate", "openai-moderate", operation="moderate"),
    ]
)


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
        answer = self.asking.prompt(
            Prompt(messages, **more), model=f"{model}@openai", in_pieces=in_pieces
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
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    answering = make_host(fake=fake, config=Config(models={"chat": "fake"}))
    with RouteServer(
        answering,
        (*ROUTES, *listing.ROUTES),
        form=lambda path, headers, problem: problem_reply(problem),
    ) as server:
        settings = {"base_url": f"{server.url}/v1"}
        config = Config(providers={"openai": InstanceConfig("openai", settings=settings)})
        asking = make_host(models=MODELS, openai=genai_vendor_openai, config=config)
        yield Sides(asking, fake)
        asking.close()


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def in_pieces(request: pytest.FixtureRequest) -> bool:
    found: bool = request.param
    return found


def test_a_conversation(sides: Sides, in_pieces: bool) -> None:
    usage = Usage(9, 5, cached_input=3, reasoning=2)
    sides.fake.answer = lambda heard: Completion(Message("assistant", "a" * 20), usage=usage)
    said = [
        Message("system", "be kind"),
        Message("user", ["look", PICTURE, PAPER]),
        Message("assistant", "so"),
        Message("user", "and?"),
    ]
    parameters = {"temperature": 0.5, "max_tokens": 9, "stop": ["X"], "seed": 3}
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


def test_thoughts(sides: Sides, in_pieces: bool) -> None:
    said = Message("assistant", [Reasoning("hm"), Text("so")])
    sides.fake.answer = lambda heard: Completion(said)
    pieces, completion = sides.ask(HI, in_pieces=in_pieces)
    assert completion.message == said
    if in_pieces:
        assert "".join(piece.reasoning for piece in pieces) == "hm"


def test_tools(sides: Sides, in_pieces: bool) -> None:
    """Also such as the model wrote wrongly: it is to see what it wrote."""
    calls = [ToolCall("a", "look", {"at": "é"}), ToolCall("b", "look", malformed="{")]
    said = Message("assistant", [Text("so"), *calls])
    sides.fake.answer = lambda heard: Completion(said, "tool_calls")
    _, first = sides.ask(HI, in_pieces=in_pieces, tools=[LOOK])
    assert (first.finish, first.message) == ("tool_calls", said)
    results = Message("tool", [ToolResult("b", "look", "1"), ToolResult("a", "look", "2")])
    sides.fake.answer = lambda heard: "fine"
    _, second = sides.ask(HI, first.message, results, in_pieces=in_pieces, tools=[LOOK])
    assert second.text == "fine"
    assert list(sides.fake.prompts[-1].messages) == [HI, said, results]


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


def test_embeddings_judgements_and_models(sides: Sides) -> None:
    embedder = "openai/fake-embed"
    found = sides.asking.embed(["a", "b"], model=embedder).vectors
    assert len(found) == 2
    sides.fake.flags = lambda text: text == "bad"
    assert sides.asking.moderate("bad", model="fake-moderate@openai").flagged
    assert not sides.asking.moderate("good", model="fake-moderate@openai").flagged
    with sides.asking.instances["openai"].attempt(Cancellation()) as attempt:
        listed = {each.id for each in attempt.provider.list_models(attempt.limits)}
    assert {"fake@fake", "fake-embed@fake", "feature:chat"} <= listed
