"""A model that is asked once: no feature, no record."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import pytest
from attrs import evolve
from genai_wire_openai.dialect.chat import OpenAIChat

from genai_host import Host
from genai_host.api import (
    Cancellation,
    CancelToken,
    Completion,
    Delta,
    DialectEndpoint,
    FinishReason,
    HttpProvider,
    Message,
    Model,
    NoSettings,
    Prompt,
    ProviderReply,
    ProviderRequest,
    ProviderType,
    ReplyStream,
    Services,
    ToolCall,
    ToolSchema,
    hookimpl,
)
from genai_host.api.stream_parsers import read_sse
from genai_host.errors import (
    Cancelled,
    ConversationClosed,
    InvalidParameter,
    NoRoute,
    OutputValidationError,
)
from genai_host_testing import FakeModel, InlinePlugin
from genai_host_testing.fake_service import HANG
from genai_host_testing.internal.fixtures import MakeHost

HI = Prompt([Message("user", "hi")])


def run_prompt(host: Host, prompt: Prompt, **options: Any) -> tuple[list[Delta], Completion]:
    """The pieces, and the whole."""
    story = host.prompt(prompt, model="fake", **options)
    pieces = []
    while True:
        try:
            pieces.append(next(story))
        except StopIteration as end:
            return pieces, end.value


def test_a_model_answers_in_pieces_or_at_once(make_host: MakeHost) -> None:
    host = make_host(fake=FakeModel(lambda prompt: "a long answer to " + prompt.text))
    pieces, completion = run_prompt(host, HI)
    assert "".join(piece.text for piece in pieces) == completion.text == "a long answer to hi"
    assert len(pieces) > 1
    assert len(run_prompt(host, HI, stream=False)[0]) == 1


@pytest.mark.parametrize(("finish", "cut"), [("length", True), ("length", False), ("stop", True)])
def test_an_answer_that_was_cut_need_not_match_its_schema(
    make_host: MakeHost, finish: FinishReason, cut: bool
) -> None:
    answer = Completion(Message("assistant", '{"n": '), finish)
    host = make_host(fake=FakeModel(lambda prompt: answer))
    prompt = evolve(HI, schema={"type": "object"})
    if finish == "length" and cut:
        assert run_prompt(host, prompt, cut=cut)[1].text == '{"n": '
    else:
        with pytest.raises(OutputValidationError):
            run_prompt(host, prompt, cut=cut)


def test_tools_are_the_callers(make_host: MakeHost) -> None:
    call = Completion(Message("assistant", [ToolCall("1", "clock", {})]), "tool_calls")
    fake = FakeModel(lambda prompt: call)
    tools = (ToolSchema("clock", "what time it is", {"type": "object"}),)
    _, completion = run_prompt(make_host(fake=fake), Prompt([Message("user", "hi")], tools=tools))
    assert [each.name for each in completion.tool_calls] == ["clock"]
    assert fake.prompts[0].tools == ("clock",)


def test_what_is_wrong_is_told_before_anything_is_sent(make_host: MakeHost) -> None:
    fake = FakeModel()
    host = make_host(fake=fake)
    with pytest.raises(InvalidParameter):
        run_prompt(host, Prompt([Message("user", "hi")], parameters={"nonsense": 1}))
    with pytest.raises(NoRoute):
        list(host.prompt(HI, model="nobody"))
    assert not fake.calls


def test_it_ends_when_the_limits_of_the_caller_end(make_host: MakeHost) -> None:
    host = make_host(fake=FakeModel(lambda prompt: HANG))
    limits = Cancellation()
    story = host.prompt(HI, model="fake", limits=limits)
    limits.cancel()
    with pytest.raises(Cancelled):
        next(story)


def test_a_closed_host_is_asked_nothing(make_host: MakeHost) -> None:
    fake = FakeModel()
    host = make_host(fake=fake)
    host.close()
    with pytest.raises(ConversationClosed):
        list(host.prompt(HI, model="fake"))
    assert not fake.calls


def test_texts_become_vectors_and_are_judged(make_host: MakeHost) -> None:
    fake = FakeModel()
    fake.flags = lambda text: "bad" in text
    host = make_host(fake=fake)
    first, second, third = host.embed(["a", "b", "a"], model="fake-embed").vectors
    assert first == third != second
    assert host.moderate("so bad", model="fake-moderate").flagged
    assert not host.moderate("so good", model="fake-moderate").flagged


class _OwnStream(HttpProvider):
    def stream(self, request: ProviderRequest, limits: CancelToken) -> ReplyStream | ProviderReply:
        return super().stream(request, limits)


class _OwnFraming(HttpProvider):
    framings = MappingProxyType({"application/x-own": read_sse})


class _Observing(InlinePlugin):
    @hookimpl
    def genai_on_call_end(self) -> None:
        pass


def _provider(base: type[HttpProvider]) -> InlinePlugin:
    class Opened(base):  # type: ignore[valid-type, misc]  # made for each test
        serves: ClassVar = {"openai-chat": DialectEndpoint(), "own": DialectEndpoint()}

        def __init__(self, settings: Any, services: Services) -> None:
            super().__init__(services, "http://127.0.0.1:9")

    return InlinePlugin(
        providers=[ProviderType("own", NoSettings, Opened)],
        models=[
            Model("usual", dialects=["openai-chat"], at={"own": "usual"}),
            Model("strange", dialects=["own"], at={"own": "strange"}),
        ],
    )


class _OwnDialect(OpenAIChat):
    name = "own"


OWN_DIALECT = InlinePlugin(dialects=[_OwnDialect()])


@pytest.mark.parametrize(
    ("plugins", "model", "suspends"),
    [
        ({"own": _provider(HttpProvider)}, "usual", True),
        ({"own": _provider(_OwnStream)}, "usual", False),
        ({"own": _provider(_OwnFraming)}, "usual", False),
        ({"own": _provider(HttpProvider), "observing": _Observing()}, "usual", False),
        ({"own": _provider(HttpProvider), "dialect": OWN_DIALECT}, "strange", False),
        ({}, "mock", False),
    ],
    ids=["http", "own stream", "own framing", "observer", "dialect of a third party", "no http"],
)
def test_streams_are_read_in_an_event_loop_if_no_code_of_third_parties_can_block_it(
    make_host: MakeHost, plugins: Mapping[str, Any], model: str, suspends: bool
) -> None:
    assert make_host(**plugins).suspends(model) is suspends
