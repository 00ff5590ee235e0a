"""Features that are wrong, each in one way, with the suites that must find it.

`fails` are the tests that must fail, and no others; `only` which of them are run, if not
all. test_suites.py runs them.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import time
from datetime import datetime
from typing import Any, ClassVar

from genai_host.api import (
    Answer,
    Feature,
    FeatureSteps,
    Message,
    NoSettings,
    Progress,
    Prompt,
    Turn,
)
from genai_host.errors import GenaiError
from genai_host.testing import InlinePlugin
from genai_host.testing.suites import FeatureSuite


def _featuring(respond: Any, **more: Any) -> Any:
    return InlinePlugin(features=[Feature("wrong", NoSettings, respond, help="wrong", **more)])


class _Wrong(FeatureSuite):
    fails: ClassVar[set[str]]
    feature = "wrong"
    only = "not hash_seed"  # which takes long, and is for one of them


def _right(turn: Turn[Any]) -> FeatureSteps:
    yield Progress("wait a little")
    completion = yield from Prompt([*turn.history, turn.message])
    return Answer(completion.text)


class TestARightFeature(_Wrong):
    plugin = _featuring(_right)
    fails = set()


def _by_chance(turn: Turn[Any]) -> FeatureSteps:
    said = f"{turn.message.text} {random.random()}"
    completion = yield from Prompt([Message("user", said)])
    return Answer(completion.text)


class TestAFeatureByChance(_Wrong):
    plugin = _featuring(_by_chance)
    fails = {
        "test_streaming_and_saying_are_alike",
        "test_it_takes_the_same_steps_each_time",
        "test_conversations_at_once_do_not_know_of_each_other",
        "test_time_and_chance_are_steps",
        "test_it_goes_on_from_wherever_it_was_cut",
    }


def _by_year(turn: Turn[Any]) -> FeatureSteps:
    """Nothing but looking at what it calls can tell, for a year."""
    said = f"{turn.message.text} {datetime.now().astimezone().year} {int(time.time() / 1e9)}"
    completion = yield from Prompt([Message("user", said)])
    return Answer(completion.text)


class TestAFeatureThatLooksAtTheClock(_Wrong):
    plugin = _featuring(_by_year)
    fails = {"test_time_and_chance_are_steps"}


_TURNS = itertools.count()


def _remembering(turn: Turn[Any]) -> FeatureSteps:
    completion = yield from Prompt([Message("user", f"turn {next(_TURNS):06}")])
    return Answer(completion.text)


class TestAFeatureThatKeepsState(_Wrong):
    plugin = _featuring(_remembering)
    fails = {
        "test_streaming_and_saying_are_alike",
        "test_it_takes_the_same_steps_each_time",
        "test_conversations_at_once_do_not_know_of_each_other",
        "test_it_goes_on_from_wherever_it_was_cut",
    }


def _unordered(turn: Turn[Any]) -> FeatureSteps:
    words = {f"{turn.message.text}-{number}" for number in range(20)}
    completion = yield from Prompt([Message("user", " ".join(words))])
    return Answer(completion.text)


class TestAFeatureThatOrdersASet(_Wrong):
    plugin = _featuring(_unordered)
    only = ""
    fails = {"test_it_goes_on_under_another_hash_seed"}


def _tidying(turn: Turn[Any]) -> FeatureSteps:
    try:
        completion = yield from Prompt([turn.message])
    finally:
        yield Progress("tidying up")
    return Answer(completion.text)


class TestAFeatureThatActsInFinally(_Wrong):
    plugin = _featuring(_tidying)
    fails = {"test_a_cancel_ends_it", "test_it_can_be_left_anywhere"}


def _clumsy(turn: Turn[Any]) -> FeatureSteps:
    completion: Any = None
    with contextlib.suppress(GenaiError):
        completion = yield from Prompt([turn.message])
    return Answer(completion.text)


class TestAFeatureThatCannotHandleAFailure(_Wrong):
    plugin = _featuring(_clumsy)
    fails = {"test_a_failure_leaves_the_history_as_it_was"}


def _doubling(turn: Turn[Any]) -> FeatureSteps:
    completion = yield from Prompt([*turn.history, turn.message])
    said = [*turn.history, turn.message, Message("assistant", completion.text)]
    return Answer(completion.text, adds=said)


class TestAFeatureThatDoublesTheHistory(_Wrong):
    plugin = _featuring(_doubling)
    fails = {"test_the_history_says_nothing_twice"}


def _needing_support(turn: Turn[Any]) -> FeatureSteps:
    completion = yield from Prompt([turn.message], role="support")
    return Answer(completion.text)


class TestAFeatureThatNeedsWhatIsOptional(_Wrong):
    plugin = _featuring(
        _needing_support, roles={"main": "chat", "support": "chat"}, optional={"support"}
    )
    fails = {"test_it_does_without_its_optional_roles"}
