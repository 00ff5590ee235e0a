"""Our vendors as clients of our APIs, wire by wire: what one host asks of another is what that
one's model hears, and its answer comes back. A new wire is a row of `WIRES`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

import genai_vendor_anthropic
import genai_vendor_gemini
import genai_vendor_ollama
import genai_vendor_openai
import pytest
from attrs import field, frozen
from genai_server.routes import own_routes
from thinking_model import ThinkingModel

from genai_host import Config, Host
from genai_host.api import (
    Cancellation,
    Completion,
    Delta,
    File,
    Image,
    Message,
    Model,
    Part,
    Prompt,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    ToolSchema,
    Usage,
    VendorPart,
)
from genai_host.config.schema import InstanceConfig
from genai_host.errors import (
    BadRequest,
    IncompleteReply,
    ProviderError,
    RateLimited,
    ServiceUnavailable,
)
from genai_host_testing import FakeModel, InlinePlugin, RouteServer
from genai_host_testing.internal.fixtures import MakeHost

pytestmark = pytest.mark.part

LOOK = ToolSchema("look", "Look at it", {"type": "object", "properties": {"at": {}}})
PICTURE = Image(b"\x89PNG\r\n\x1a\n picture", "image/png")
PAPER = File(b"%PDF-1.4", "application/pdf", "a.pdf")
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
HI = Message("user", "hi")
ANTHROPIC = "anthropic-messages"
SECRETS = (VendorPart("fake", {"secret": 1}),)
RESULTS = (ToolResult("b", "look", "1"), ToolResult("a", "look", "2"))
SIGNED = (
    VendorPart(ANTHROPIC, {"type": "thinking", "thinking": "hm", "signature": "c2ln"}),
    VendorPart(ANTHROPIC, {"type": "redacted_thinking", "data": "c2Vj"}),
)


def openai_model(name: str, dialect: str, **more: Any) -> Model:
    able = {"tools", "schema", "images", "files", "reasoning"}
    return Model(name, dialects=[dialect], at={"openai": name}, **{"capabilities": able, **more})


SEALED = {"openai-responses": {"encrypted_reasoning": True}}
MODELS = InlinePlugin(
    models=[
        openai_model("fake", "openai-chat"),
        openai_model("nobody", "openai-chat"),
        openai_model("fake-moderate", "openai-moderate", operation="moderate", capabilities=set()),
        Model(
            "thinker",
            dialects=["openai-responses"],
            capabilities={"tools", "schema", "images", "files", "reasoning"},
            variant=SEALED,
            at={"openai": "fake"},
        ),
    ]
)


@frozen
class Wire:
    """One format, and what of a conversation it can carry.

    model, nobody   names of a model that is there, and of one that is not
    usage           all that it can tell of tokens
    carries         what a user may say besides text
    parameters           parameters
    always          parameters that it needs
    thoughts        what stands beside a thought and comes back with it
    malformed       whether arguments that are no JSON come back as they were
    results         what tools may give
    finishes        why an answer may end, besides the usual
    seen_schema     the schema as the other's model sees it
    embeds          name of an embedder, if there is one
    """

    provider: str
    model: str
    nobody: str
    usage: Usage
    carries: tuple[Image | File, ...] = (PICTURE, PAPER)
    parameters: Mapping[str, Any] = field(factory=lambda: {"temperature": 0.5, "max_tokens": 9})
    always: Mapping[str, Any] = field(factory=dict)
    thoughts: tuple[VendorPart, ...] = ()
    malformed: bool = False
    results: tuple[ToolResult, ...] = RESULTS
    finishes: tuple[Any, ...] = ("length", "content_filter")
    seen_schema: Mapping[str, Any] = field(factory=lambda: SCHEMA)
    embeds: str = ""


SHOWN = (ToolResult("b", "look", "1"), ToolResult("a", "look", PICTURE))
_DEFAULTS = {"temperature": 0.5, "max_tokens": 9, "stop": ["X"]}
WIRES = {
    "openai": Wire(
        "openai", "fake@openai", "nobody@openai", Usage(9, 5, cached_tokens=3, reasoning_tokens=2),
        parameters={**_DEFAULTS, "seed": 3}, malformed=True, embeds="openai/fake-embed"),
    "responses": Wire(
        "openai", "thinker", "missing@openai+openai-responses",
        Usage(7, 5, cached_tokens=3, reasoning_tokens=2),
        parameters={"temperature": 0.5, "max_tokens": 9, "top_p": 0.5}, thoughts=SECRETS,
        malformed=True,
        results=SHOWN, finishes=("length", "content_filter", "other")),
    "anthropic": Wire(
        "anthropic",
        "anthropic/fake",
        "anthropic/nobody",
        Usage(9, 5, 3, 2, 4, 1),
        parameters={**_DEFAULTS, "top_k": 3},
        always={"max_tokens": 2048},
        thoughts=SIGNED,
        results=(*SHOWN, ToolResult("c", "look", "3", True)),
        seen_schema={**SCHEMA, "additionalProperties": False}),
    "gemini": Wire(
        "gemini", "gemini/fake", "gemini/nobody", Usage(7, 5), (PICTURE,), {**_DEFAULTS, "seed": 3},
        {"include_thoughts": True}, finishes=(), embeds="gemini/fake-embedding"),
    "ollama": Wire(
        "ollama", "ollama/fake", "ollama/nobody", Usage(7, 5), (PICTURE,), {**_DEFAULTS, "seed": 3},
        finishes=(), embeds="ollama/fake-embed"),
}  # fmt: skip


@frozen
class Sides:
    """
    asking   the host whose vendor asks
    fake     the model of the one that answers
    """

    wire: Wire
    in_pieces: bool
    asking: Host
    fake: FakeModel

    def ask(self, *messages: Message, model: str = "", **more: Any) -> Completion:
        """The answer, of which the pieces are the text and the thoughts."""
        more["parameters"] = {**self.wire.always, **more.get("parameters", {})}
        answer = self.asking.prompt(
            Prompt(messages, **more), model=model or self.wire.model, stream=self.in_pieces
        )
        pieces: list[Delta] = []
        while True:
            try:
                pieces.append(next(answer))
            except StopIteration as end:
                completion: Completion = end.value
                break
        if pieces:
            assert "".join(piece.text for piece in pieces) == completion.text
        if pieces and self.in_pieces:
            thoughts = [each.text for each in completion.message.content if is_thought(each)]
            streamed = "".join(piece.reasoning for piece in pieces)
            assert streamed.replace("\n", "") == "".join(thoughts).replace("\n", "")
        return completion


def is_thought(part: Part) -> TypeGuard[Reasoning]:
    return isinstance(part, Reasoning)


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def in_pieces(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(params=WIRES)
def sides(
    request: pytest.FixtureRequest,
    in_pieces: bool,
    make_host: MakeHost,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Sides]:
    fake = ThinkingModel()
    aliases = {"fake-embedding": "fake-embed"}
    answering = make_host(fake=fake, config=Config(models={"chat": "fake"}, aliases=aliases))
    with RouteServer(answering, own_routes()) as server:
        for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
            monkeypatch.setenv(name, "key")
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        at = {"base_url": server.url, "version": "2023-06-01"}
        instances = {
            "anthropic": InstanceConfig("anthropic", settings=at),
            "openai": InstanceConfig("openai", settings={"base_url": f"{server.url}/v1"}),
        }
        asking = make_host(
            models=MODELS, openai=genai_vendor_openai, anthropic=genai_vendor_anthropic,
            gemini=genai_vendor_gemini, ollama=genai_vendor_ollama,
            config=Config(providers=instances),
        )  # fmt: skip
        yield Sides(WIRES[request.param], in_pieces, asking, fake)
        asking.close()


def test_a_conversation(sides: Sides) -> None:
    wire = sides.wire
    messages = [
        Message("system", "be kind"), Message("user", ["look", *wire.carries]),
        Message("assistant", "so"), Message("user", "and?"),
    ]  # fmt: skip
    answer = Completion(Message("assistant", "a" * 20), usage=wire.usage)
    sides.fake.answer = lambda prompt: answer
    completion = sides.ask(*messages, parameters=wire.parameters)
    assert completion.text == "a" * 20
    assert (completion.finish, completion.usage) == ("stop", wire.usage)
    (prompt,) = sides.fake.prompts
    assert list(prompt.messages) == messages
    assert {**wire.always, **prompt.parameters} == {**wire.always, **wire.parameters}


def test_why_it_ended(sides: Sides) -> None:
    finishes = iter(sides.wire.finishes)
    sides.fake.answer = lambda prompt: Completion(Message("assistant", "so"), next(finishes))
    assert tuple(sides.ask(HI).finish for _ in sides.wire.finishes) == sides.wire.finishes


def test_thoughts_and_tools(sides: Sides) -> None:
    """What only the other's model can read comes back to it, where it stood."""
    wire = sides.wire
    second = ToolCall("b", "look", malformed="{") if wire.malformed else ToolCall("b", "look", {})
    calls = [ToolCall("a", "look", {"at": "é"}), second]
    calls += [ToolCall("c", "look", {}) for _ in wire.results[2:]]
    thoughts = [Reasoning("hm"), *wire.thoughts] if wire.thoughts else []
    message = Message("assistant", [*thoughts, Text("so"), *calls])
    sides.fake.answer = lambda prompt: Completion(message, "tool_calls")
    first = sides.ask(HI, tools=[LOOK])
    assert first.finish == "tool_calls"
    assert list(first.tool_calls) == calls
    results = Message("tool", wire.results)
    sides.fake.answer = lambda prompt: "fine"
    assert sides.ask(HI, first.message, results, tools=[LOOK]).text == "fine"
    prompt = sides.fake.prompts[-1]
    assert prompt.tools == ("look",)
    assert list(prompt.messages) == [HI, message, results]


def test_thoughts(sides: Sides) -> None:
    message = Message("assistant", [Reasoning("hm"), *sides.wire.thoughts, Text("so")])
    sides.fake.answer = lambda prompt: Completion(message)
    parts = [each for each in sides.ask(HI).message.content if not isinstance(each, VendorPart)]
    assert sorted(map(str, parts)) == sorted(map(str, [Reasoning("hm"), Text("so")]))


def test_a_schema(sides: Sides) -> None:
    sides.fake.answer = lambda prompt: '{"a": 1}'
    assert sides.ask(HI, schema=SCHEMA).value == {"a": 1}
    assert sides.fake.prompts[-1].schema == sides.wire.seen_schema


def test_errors(sides: Sides) -> None:
    sides.fake.faults = {0: RateLimited("slowly", retry_after=99), 1: ServiceUnavailable("away")}
    with pytest.raises(RateLimited, match="slowly") as caught:
        sides.ask(HI)
    assert caught.value.retry_after == 99
    with pytest.raises(ServiceUnavailable, match="away"):
        sides.ask(HI)
    with pytest.raises(BadRequest) as refused:
        sides.ask(HI, model=sides.wire.nobody)
    assert refused.value.status == 404


def test_an_error_amid_a_stream(sides: Sides) -> None:
    sides.fake.answer = lambda prompt: "{"
    with pytest.raises((ProviderError, IncompleteReply)):
        sides.ask(HI, schema=SCHEMA)


def test_what_else_there_is(sides: Sides) -> None:
    wire, asking = sides.wire, sides.asking
    with asking.instances[wire.provider].attempt(Cancellation()) as attempt:
        listed = {each.id for each in attempt.provider.list_models(attempt.limits)}
    assert {"fake@fake", "feature:chat"} <= listed
    if wire.embeds:
        assert len(asking.embed(["a", "b"], model=wire.embeds).vectors) == 2
    if wire.provider == "anthropic":
        assert asking.count_tokens("one two", model=wire.model).tokens == 2
    if wire.provider == "openai":
        sides.fake.flags = lambda text: text == "bad"
        flagged = [asking.moderate(each, model="fake-moderate@openai") for each in ("bad", "good")]
        assert [each.flagged for each in flagged] == [True, False]


def test_each_thought_has_its_own_signature(sides: Sides) -> None:
    if sides.wire.provider != "anthropic":
        return
    thoughts = [
        VendorPart(ANTHROPIC, {"type": "thinking", "thinking": word, "signature": signature})
        for word, signature in (("one", "MQ"), ("two", "Mg"))
    ]
    shown = [Reasoning("one"), thoughts[0], Reasoning("\n\ntwo"), thoughts[1], Text("so")]
    sides.fake.answer = lambda prompt: Completion(Message("assistant", shown))
    assert [
        each for each in sides.ask(HI).message.content if isinstance(each, VendorPart)
    ] == thoughts


def test_phases(sides: Sides) -> None:
    if sides.wire.model != "thinker":
        return
    phase = VendorPart("openai-responses", {"phase": "commentary"})
    sides.fake.answer = lambda prompt: Completion(Message("assistant", [phase, "so"]))
    completion = sides.ask(HI)
    assert completion.message.content == (phase, Text("so"))
    sides.ask(HI, completion.message, HI)
    assert sides.fake.prompts[-1].messages[1] == completion.message
