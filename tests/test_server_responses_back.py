"""Our own OpenAI vendor as a client of our Responses API: what one host asks of another is what
that one's model hears, and its answer comes back. The dialect writes and reads the same wire from
the other side."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import genai_vendor_openai
import pytest
from attrs import frozen
from fixtures import MakeHost
from responses_api import CONFIG, serving

from genai_host import Config, Host
from genai_host.api import (
    Completion,
    File,
    Image,
    Message,
    Model,
    Opaque,
    Prompt,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    ToolSchema,
    Usage,
)
from genai_host.config.values import InstanceConfig
from genai_host.errors import IncompleteReply, ProviderError, RateLimited, RequestRefused
from genai_host.testing import FakeModel, MadePlugin
from genai_host.testing.fake_model import Heard

LOOK = ToolSchema("look", "Look at it", {"type": "object", "properties": {"at": {}}})
PICTURE = Image(b"\x89PNG\r\n\x1a\n picture", "image/png")
PAPER = File(b"%PDF-1.4", "application/pdf", "a.pdf")
HI = Message("user", "hi")
THINKER = MadePlugin(
    models=[
        Model(
            "thinker",
            dialects=["openai-responses"],
            capabilities={"tools", "schema", "images", "files", "reasoning"},
            variant={"openai-responses": {"encrypted_reasoning": True}},
            at={"openai": "fake"},
        )
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

    def ask(self, *messages: Message, in_pieces: bool, **more: Any) -> tuple[str, Completion]:
        """The pieces of an answer, joined, and the whole."""
        answer = self.asking.prompt(Prompt(messages, **more), model="thinker", in_pieces=in_pieces)
        return whole(answer)


def whole(answer: Generator[Any, None, Completion]) -> tuple[str, Completion]:
    pieces = []
    while True:
        try:
            pieces.append(next(answer).text)
        except StopIteration as end:
            return "".join(pieces), end.value


@pytest.fixture
def sides(make_host: MakeHost, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sides]:
    fake = FakeModel()
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    with serving(make_host(fake=fake, config=CONFIG), fake) as api:
        settings = {"base_url": f"{api.url}/v1"}
        config = Config(providers={"openai": InstanceConfig("openai", settings=settings)})
        asking = make_host(openai=genai_vendor_openai, thinker=THINKER, config=config)
        yield Sides(asking, fake)
        asking.close()


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def in_pieces(request: pytest.FixtureRequest) -> bool:
    found: bool = request.param
    return found


def test_a_conversation(sides: Sides, in_pieces: bool) -> None:
    usage = Usage(7, 5, cached_input=3, reasoning=2)
    sides.fake.answer = lambda heard: Completion(Message("assistant", "a" * 20), usage=usage)
    said = [
        Message("system", "be kind"),
        Message("user", ["look", PICTURE, PAPER]),
        Message("assistant", "so"),
        Message("user", "and?"),
    ]
    parameters = {"temperature": 0.5, "max_tokens": 9, "top_p": 0.5}
    text, completion = sides.ask(*said, in_pieces=in_pieces, parameters=parameters)
    assert text == completion.text == "a" * 20
    assert (completion.finish, completion.usage) == ("stop", usage)
    (heard,) = sides.fake.prompts
    assert list(heard.messages) == said
    assert heard.parameters == parameters


@pytest.mark.parametrize("finish", ["length", "content_filter", "other"])
def test_why_it_ended(sides: Sides, in_pieces: bool, finish: Any) -> None:
    sides.fake.answer = lambda heard: Completion(Message("assistant", "so"), finish)
    assert sides.ask(HI, in_pieces=in_pieces)[1].finish == finish


def test_thoughts_and_tools(sides: Sides, in_pieces: bool) -> None:
    """What only the other's model can read comes back to it."""
    calls = [ToolCall("a", "look", {"at": "é"}), ToolCall("b", "look", malformed="{")]
    secret = Opaque("fake", {"secret": 1})

    def answer(heard: Heard) -> str | Completion:
        if heard.number:
            return "fine"
        return Completion(
            Message("assistant", [Reasoning("hm"), secret, "so", *calls]), "tool_calls"
        )

    sides.fake.answer = answer
    _, first = sides.ask(HI, in_pieces=in_pieces, tools=[LOOK])
    assert (first.finish, list(first.tool_calls)) == ("tool_calls", calls)
    assert Reasoning("hm") in first.message.content
    results = Message("tool", [ToolResult("b", "look", "1"), ToolResult("a", "look", PICTURE)])
    _, second = sides.ask(HI, first.message, results, in_pieces=in_pieces, tools=[LOOK])
    assert second.text == "fine"
    heard = sides.fake.prompts[-1].messages
    assert heard[1].content == (Reasoning("hm"), secret, Text("so"), *calls)
    assert heard[2] == results


def test_phases(sides: Sides, in_pieces: bool) -> None:
    phase = Opaque("openai-responses", {"phase": "commentary"})
    sides.fake.answer = lambda heard: Completion(Message("assistant", [phase, "so"]))
    _, completion = sides.ask(HI, in_pieces=in_pieces)
    assert completion.message.content == (phase, Text("so"))
    sides.ask(HI, completion.message, HI, in_pieces=in_pieces)
    assert sides.fake.prompts[-1].messages[1] == completion.message


def test_a_schema(sides: Sides, in_pieces: bool) -> None:
    sides.fake.answer = lambda heard: '{"a": 1}'
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    _, completion = sides.ask(HI, in_pieces=in_pieces, schema=schema)
    assert completion.value == {"a": 1}
    assert sides.fake.prompts[-1].schema == schema


def test_errors(sides: Sides, in_pieces: bool) -> None:
    sides.fake.faults[0] = RateLimited("slowly", retry_after=99)
    with pytest.raises(RateLimited, match="slowly") as caught:
        sides.ask(HI, in_pieces=in_pieces)
    assert caught.value.retry_after == 99
    with pytest.raises(RequestRefused) as refused:
        whole(sides.asking.prompt(Prompt([HI]), model="nobody@openai+openai-responses"))
    assert refused.value.status == 404


def test_an_error_amid_a_stream(sides: Sides) -> None:
    sides.fake.answer = lambda heard: "{"
    with pytest.raises((ProviderError, IncompleteReply), match="JSON"):
        sides.ask(HI, in_pieces=True, schema={"type": "object"})
