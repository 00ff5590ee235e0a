"""Who plays a role that a feature can do without."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from genai_host import Config, Host
from genai_host.api import (
    Answer,
    Feature,
    FeatureSteps,
    NoSettings,
    Prompt,
    ProviderType,
    Turn,
    hookimpl,
)
from genai_host_testing import FakeModel, InlinePlugin
from genai_host_testing.internal.fixtures import MakeHost


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
