"""Who plays a role that a feature can do without."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from fixtures import MakeHost

from genai_host import Config, Host
from genai_host.api import Answer, Feature, FeatureSteps, NoSettings, ProviderType, Turn, hookimpl
from genai_host.testing import FakeModel, InlinePlugin


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
    optional={"judge", "embed", "moderate"},
)


def roles(host: Host, **models: str) -> str:
    return host.open("cast", models=models).say("hi").text


@pytest.fixture
def host(make_host: MakeHost) -> Host:
    return make_host(fake=Everywhere(), cast=InlinePlugin(features=[FEATURE]))


def test_one_that_embeds_or_moderates_is_played_by_what_there_is(host: Host) -> None:
    assert roles(host) == "embed main moderate"


def test_one_that_chats_is_played_by_whom_one_names(host: Host) -> None:
    assert roles(host, judge="fake") == "embed judge main moderate"


def test_one_for_which_there_is_nothing_is_left_out(make_host: MakeHost) -> None:
    host = make_host(cast=InlinePlugin(features=[FEATURE]))
    assert host.open("cast", "mock").say("hi").text == "main"


def test_one_for_which_the_user_has_chosen_a_model_is_played_by_that(make_host: MakeHost) -> None:
    host = make_host(
        fake=FakeModel(),
        cast=InlinePlugin(features=[FEATURE]),
        config=Config(models={"embed": "fake-embed"}),
    )
    assert host.open("cast", "mock").models == {"main": "mock@mock", "embed": "fake-embed@fake"}
