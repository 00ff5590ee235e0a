"""Our own vendor as a client of our Anthropic API: what one host asks of another is what that
one's model hears, and its answer comes back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import genai_vendor_anthropic
import pytest
from anthropic_api import anthropic_api
from anthropic_service import KEY, THOUGHT
from attrs import frozen
from fixtures import MakeHost

from genai_host import Config, Host
from genai_host.api import (
    Completion,
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
from genai_host.config import InstanceConfig
from genai_host.errors import IncompleteReply, ProviderError, RateLimited, RequestRefused
from genai_host.testing import FakeModel

LOOK = ToolSchema("look", "Look at it", {"type": "object", "properties": {"at": {}}})
PICTURE = Image(b"\x89PNG\r\n\x1a\n picture", "image/png")


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def in_pieces(request: pytest.FixtureRequest) -> bool:
    found: bool = request.param
    return found


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
        answer = self.asking.prompt(
            Prompt(messages, **more), model="anthropic/fake", in_pieces=in_pieces
        )
        pieces = []
        while True:
            try:
                pieces.append(next(answer).text)
            except StopIteration as end:
                return "".join(pieces), end.value


@pytest.fixture
def sides(make_host: MakeHost, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sides]:
    with anthropic_api(make_host, FakeModel()) as api:
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        settings = {"base_url": api.url, "version": "2023-06-01"}
        config = Config(providers={"anthropic": InstanceConfig("anthropic", settings=settings)})
        asking = make_host(anthropic=genai_vendor_anthropic, config=config)
        yield Sides(asking, api.fake)
        asking.close()


def test_a_conversation(sides: Sides, in_pieces: bool) -> None:
    usage = Usage(9, 5, 3, 2, 4, 1)
    sides.fake.answer = lambda heard: Completion(Message("assistant", "a" * 20), usage=usage)
    paper = File(b"%PDF", "application/pdf", "a.pdf")
    said = [
        Message("system", "be kind"),
        Message("user", ["look", PICTURE, paper]),
        Message("assistant", "so"),
        Message("user", "and?"),
    ]
    parameters = {"temperature": 0.5, "max_tokens": 9, "stop": ["X"], "top_k": 3}
    text, whole = sides.ask(*said, in_pieces=in_pieces, parameters=parameters)
    assert text == whole.text == "a" * 20
    assert (whole.finish, whole.usage) == ("stop", usage)
    (heard,) = sides.fake.prompts
    assert list(heard.messages) == said
    assert heard.parameters == parameters


def test_thoughts(sides: Sides, in_pieces: bool) -> None:
    own = [Reasoning("hm"), Opaque("anthropic-messages", THOUGHT), Text("so")]
    sides.fake.answer = lambda heard: Completion(Message("assistant", own))
    hi = Message("user", "hi")
    _, whole = sides.ask(hi, in_pieces=in_pieces)
    found = list(whole.message.content)
    # the fake says its text first, in pieces
    assert found == ([own[2], *own[:2]] if in_pieces else own)
    sides.ask(hi, Message("assistant", own), hi, in_pieces=in_pieces)
    assert list(sides.fake.prompts[-1].messages[1].content) == own


def test_tools(sides: Sides, in_pieces: bool) -> None:
    calls = [ToolCall("a", "look", {"at": "it"}), ToolCall("b", "look", malformed="{")]
    sides.fake.answer = lambda heard: Completion(Message("assistant", calls), "tool_calls")
    hi = Message("user", "hi")
    _, whole = sides.ask(hi, in_pieces=in_pieces, tools=[LOOK], tool_choice="required")
    assert whole.finish == "tool_calls"
    assert whole.tool_calls[0] == calls[0]
    results = Message(
        "tool", [ToolResult("a", "look", ("1", PICTURE)), ToolResult("b", "look", "2", True)]
    )
    sides.ask(hi, Message("assistant", calls), results, in_pieces=in_pieces, tools=[LOOK])
    assert list(sides.fake.prompts[-1].messages) == [hi, Message("assistant", calls), results]
    assert sides.fake.prompts[-1].tools == ("look",)


def test_a_schema(sides: Sides, in_pieces: bool) -> None:
    sides.fake.answer = lambda heard: '{"a": 1}'
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    _, whole = sides.ask(Message("user", "hi"), in_pieces=in_pieces, schema=schema)
    assert whole.value == {"a": 1}
    heard = sides.fake.prompts[-1].schema
    assert heard == {**schema, "additionalProperties": False}


def test_errors(sides: Sides, in_pieces: bool) -> None:
    hi = Message("user", "hi")
    sides.fake.faults[0] = RateLimited("slowly", retry_after=99)
    with pytest.raises(RateLimited, match="slowly") as caught:
        sides.ask(hi, in_pieces=in_pieces)
    assert caught.value.retry_after == 99
    with pytest.raises(RequestRefused) as refused:
        next(sides.asking.prompt(Prompt([hi]), model="anthropic/nobody", in_pieces=in_pieces))
    assert refused.value.status == 404


def test_an_error_in_mid_stream(sides: Sides) -> None:
    sides.fake.answer = lambda heard: "{" if heard.schema else "so"
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    with pytest.raises((ProviderError, IncompleteReply)):
        sides.ask(Message("user", "hi"), in_pieces=True, schema=schema)


def test_tokens_and_models(sides: Sides) -> None:
    assert sides.asking.count_tokens("one two", model="anthropic/fake").tokens == 2
    with sides.asking.instances["anthropic"].attempt(Cancellation()) as attempt:
        listed = {each.id: each for each in attempt.provider.list_models(attempt.limits)}
    assert {"fake@fake", "feature:chat"} <= listed.keys()
    able = listed["fake@fake"].capabilities
    assert able == frozenset({"tools", "schema", "images", "files", "reasoning"})
