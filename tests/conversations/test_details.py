"""What is behind an answer, each thing told once, and the same when replayed; who plays a role that
a feature can do without."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from conversing import as_json, host_of, recorded, scripted

from genai_host import Config, Host, Message, TurnLimits
from genai_host.api import (
    All,
    Answer,
    CallFunction,
    CallTool,
    CountTokens,
    Detail,
    Embed,
    Feature,
    FeatureSteps,
    Moderate,
    NewId,
    NoSettings,
    Now,
    Prompt,
    ProviderType,
    Step,
    ToolCall,
    Turn,
    hookimpl,
)
from genai_host.api.codec import default_codec
from genai_host.conversations.details import detail_of
from genai_host.errors import GenaiError
from genai_host_testing import FakeModel, InlinePlugin, replay_from_every_entry
from genai_host_testing.internal.fixtures import MakeHost


def added(details: Any) -> Iterator[list[str]]:
    """For each prompt, what it was told to have added."""
    for detail in details:
        if detail.kind == "prompt":
            yield [message["content"][0]["text"] for message in detail.data["added"]]


def loop(rounds: int, text: str = "x" * 1000) -> Callable[[Turn[NoSettings]], FeatureSteps]:
    def respond(turn: Turn[NoSettings]) -> FeatureSteps:
        messages = [*turn.history, turn.message]
        for _ in range(rounds):
            completion = yield from Prompt(messages)
            messages += [completion.message, Message("user", text)]
        return Answer("done")

    return respond


def test_each_message_of_a_turn_is_told_once(make_host: MakeHost) -> None:
    answer = host_of(make_host, loop(3, "more")).open("f", "mock").say("hi")
    assert list(added(answer.details)) == [["hi"], ["more"], ["more"]]
    assert [detail.data["messages"] for detail in answer.details] == [1, 3, 5]
    assert [detail.data["answer"]["content"][0]["text"] for detail in answer.details] == [
        "hi", "more", "more",
    ]  # fmt: skip


def test_a_record_does_not_grow_with_the_square_of_prompts(make_host: MakeHost) -> None:
    def size(rounds: int) -> int:
        limits = TurnLimits(max_model_calls=100)
        conversation = host_of(make_host, loop(rounds)).open("f", "mock", turn_limits=limits)
        conversation.say("hi")
        return len(json.dumps(as_json(conversation)))

    assert size(40) < 2.1 * size(20)


def test_what_a_failed_prompt_was_told_is_not_told_again(make_host: MakeHost) -> None:
    def respond(turn: Turn[NoSettings]) -> FeatureSteps:
        for _ in range(2):
            with suppress(GenaiError):
                yield from Prompt([turn.message])
        return Answer("")

    answer = scripted(host_of(make_host, respond), {"status": 429}, "a", feature="f").say("hi")
    assert list(added(answer.details)) == [["hi"], []]


def concurrent(turn: Turn[NoSettings]) -> FeatureSteps:
    """Prompts at once share messages, whichever of them is done first."""
    shared = Message("user", "shared")
    yield from All([Prompt([turn.message, shared, Message("user", each)]) for each in "ab"])
    try:
        late = Message("user", "late")
        yield from All([Prompt([shared, late], role="absent")])
    except GenaiError:
        pass
    completion = yield from Prompt([shared, turn.message, late, Message("user", "end")])
    again = yield from Prompt([shared, completion.message, turn.message])
    return Answer(again.text)


def test_prompts_at_once_are_told_as_if_alone(make_host: MakeHost) -> None:
    messages = list(added(host_of(make_host, concurrent).open("f", "mock").say("hi").details))
    assert messages[:2] == [["hi", "shared", "a"], ["hi", "shared", "b"]]
    assert messages[-2:] == [["end"], []]


@pytest.mark.parametrize("respond", [loop(4), concurrent])
def test_they_are_the_same_when_replayed(make_host: MakeHost, respond: Any) -> None:
    host = host_of(make_host, respond)
    conversation = host.open("f", "mock")
    for message in ("one", "two"):
        conversation.say(message)
    assert replay_from_every_entry(host, recorded(conversation)) > 10


def test_a_feature_adds_its_own(make_host: MakeHost) -> None:
    def respond(turn: Turn[NoSettings]) -> FeatureSteps:
        yield from Prompt([turn.message])
        return Answer("", details=[Detail("note", "mine")])

    answer = host_of(make_host, respond).open("f", "mock").say("hi")
    assert [detail.kind for detail in answer.details] == ["prompt", "note"]


ASKED = Prompt([Message("user", "hi")])


@pytest.mark.parametrize(("step", "title", "data"), [
    (ASKED, "prompt of main", {"role": "main", "messages": 1, "added": []}),
    (CountTokens(ASKED), "count of tokens", {"role": "main", "messages": 1}),
    (Embed(["a", "b"], role="e"), "embedding", {"role": "e", "texts": 2}),
    (Moderate("a", role="m"), "moderation", {"role": "m", "text": "a"}),
    (CallFunction(len, {"a": 1}), "call of len", {"arguments": {"a": 1}, "result": None}),
    (CallTool(ToolCall("1", "look", {"at": "it"})), "tool look",
     {"tool": "look", "id": "1", "arguments": {"at": "it"}}),
], ids=["prompt", "count", "embed", "moderate", "function", "tool"])  # fmt: skip
def test_a_failed_step_has_its_error(step: Step[Any], title: str, data: dict[str, Any]) -> None:
    detail = detail_of(step, None, GenaiError("no", hint="wait"), [], default_codec())
    assert detail is not None
    assert (detail.kind, detail.title) == (step.step, f"{title} failed: no")
    error = {"code": "error", "message": "no", "hint": "wait", "retryable": False}
    assert detail.data == {**data, "error": error}


@pytest.mark.parametrize("step", [Now(), NewId()], ids=lambda step: step.step)
def test_of_some_steps_nothing_is_told(step: Step[Any]) -> None:
    assert detail_of(step, "x", None, [], default_codec()) is None


class Everywhere(FakeModel):
    """The fake, which is chosen unasked."""

    @hookimpl
    def genai_providers(self) -> Iterable[ProviderType[Any]]:
        yield ProviderType("fake", NoSettings, self._open)


def respond(turn: Turn[NoSettings]) -> FeatureSteps:
    yield from ()
    return Answer(" ".join(sorted(turn.roles)))


FEATURE = Feature(
    "cast",
    NoSettings,
    respond,
    roles={"main": "chat", "judge": "chat", "embed": "embed", "moderate": "moderate"},
    optional_roles={"judge", "embed", "moderate"},
)


@pytest.fixture
def host(make_host: MakeHost) -> Host:
    return make_host(fake=Everywhere(), cast=InlinePlugin(features=[FEATURE]))


def test_one_that_chats_must_be_named_others_not(host: Host, make_host: MakeHost) -> None:
    assert host.open("cast").say("hi").text == "embed main moderate"
    assert host.open("cast", models={"judge": "fake"}).say("hi").text == "embed judge main moderate"
    alone = make_host(cast=InlinePlugin(features=[FEATURE]))
    assert alone.open("cast", "mock").say("hi").text == "main"


def test_one_for_which_the_user_has_chosen_a_model_is_played_by_that(make_host: MakeHost) -> None:
    host = make_host(
        fake=FakeModel(),
        cast=InlinePlugin(features=[FEATURE]),
        config=Config(models={"embed": "fake-embed"}),
    )
    assert host.open("cast", "mock").models == {"main": "mock@mock", "embed": "fake-embed@fake"}


def debate(turn: Turn[NoSettings]) -> FeatureSteps:
    first = yield from Prompt([turn.message], role="critic")
    second = yield from Prompt([turn.message], role="main")
    return Answer(f"{first.place['provider']} {second.place['provider']}")


COUNCIL = Feature("council", NoSettings, debate, roles={"critic": "chat", "main": "chat"})


def test_item_2_a_role_without_a_name_is_played_by_the_main_model(make_host: MakeHost) -> None:
    """What is said to a model of this machine does not reach a service that has a key."""
    elsewhere = Everywhere()
    config = Config(models={"chat": "fake"})
    host = make_host(fake=elsewhere, council=InlinePlugin(features=[COUNCIL]), config=config)
    assert host.open("council", "mock").say("private").text == "mock mock"
    assert host.open("council", provider="mock").say("private").text == "mock mock"
    assert elsewhere.calls == 0
    assert host.open("council").say("hi").text == "fake fake"
    assert host.open("council", "mock", models={"critic": "fake"}).say("hi").text == "fake mock"


def test_item_2_a_later_model_leaves_other_roles(make_host: MakeHost) -> None:
    host = make_host(fake=Everywhere(), council=InlinePlugin(features=[COUNCIL]))
    with host.open("council", "mock") as conversation:
        conversation.use("fake")
        assert conversation.say("hi").text == "mock fake"
