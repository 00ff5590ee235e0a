"""Incorrect features, each with one defect, with the tests that must fail. `only` lists the tests
to run, if not all.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import time
from datetime import datetime
from typing import Any

from genai_host import api
from genai_host.errors import GenaiError
from genai_host_testing import InlinePlugin
from genai_host_testing.suites import FeatureSuite

from .wrong import fail


def _featuring(respond: Any, **more: Any) -> Any:
    return InlinePlugin(
        features=[api.Feature("wrong", api.NoSettings, respond, help="wrong", **more)]
    )


class Wrong(FeatureSuite):
    made = staticmethod(_featuring)
    feature = "wrong"
    only = "not hash_seed"  # which takes long, and is needed for one of them


@fail(Wrong)
def a_right_feature(turn: api.Turn[Any]) -> api.FeatureSteps:
    yield api.Progress("wait a little")
    completion = yield from api.Prompt([*turn.history, turn.message])
    return api.Answer(completion.text)


@fail(
    Wrong,
    "stream_and_say_give_the_same_answer it_takes_the_same_steps_each_time "
    "concurrent_conversations_are_independent time_and_chance_are_steps "
    "resume_after_every_entry",
)
def a_feature_by_chance(turn: api.Turn[Any]) -> api.FeatureSteps:
    text = f"{turn.message.text} {random.random()}"
    completion = yield from api.Prompt([api.Message("user", text)])
    return api.Answer(completion.text)


@fail(Wrong, "time_and_chance_are_steps")
def a_feature_that_looks_at_the_clock(turn: api.Turn[Any]) -> api.FeatureSteps:
    """The text changes once a year, so only an inspection of the calls detects the defect."""
    text = f"{turn.message.text} {datetime.now().astimezone().year} {int(time.time() / 1e9)}"
    completion = yield from api.Prompt([api.Message("user", text)])
    return api.Answer(completion.text)


_TURNS = itertools.count()


@fail(
    Wrong,
    "stream_and_say_give_the_same_answer it_takes_the_same_steps_each_time "
    "concurrent_conversations_are_independent resume_after_every_entry",
)
def a_feature_that_keeps_state(turn: api.Turn[Any]) -> api.FeatureSteps:
    completion = yield from api.Prompt([api.Message("user", f"turn {next(_TURNS):06}")])
    return api.Answer(completion.text)


@fail(Wrong, "replay_with_another_hash_seed", only="")
def a_feature_that_orders_a_set(turn: api.Turn[Any]) -> api.FeatureSteps:
    words = {f"{turn.message.text}-{number}" for number in range(20)}
    completion = yield from api.Prompt([api.Message("user", " ".join(words))])
    return api.Answer(completion.text)


@fail(Wrong, "a_cancel_ends_it stream_can_be_closed_after_any_event")
def a_feature_that_acts_in_finally(turn: api.Turn[Any]) -> api.FeatureSteps:
    try:
        completion = yield from api.Prompt([turn.message])
    finally:
        yield api.Progress("tidying up")
    return api.Answer(completion.text)


@fail(Wrong, "a_failure_leaves_the_history_as_it_was")
def a_feature_that_cannot_handle_a_failure(turn: api.Turn[Any]) -> api.FeatureSteps:
    completion: Any = None
    with contextlib.suppress(GenaiError):
        completion = yield from api.Prompt([turn.message])
    return api.Answer(completion.text)


@fail(Wrong, "history_has_no_duplicate_messages")
def a_feature_that_doubles_the_history(turn: api.Turn[Any]) -> api.FeatureSteps:
    completion = yield from api.Prompt([*turn.history, turn.message])
    messages = [*turn.history, turn.message, api.Message("assistant", completion.text)]
    return api.Answer(completion.text, new_messages=messages)


@fail(
    Wrong, "it_does_without_its_optional_roles", roles={"main": "chat", "support": "chat"},
    optional_roles={"support"},
)  # fmt: skip
def feature_requiring_optional_role(turn: api.Turn[Any]) -> api.FeatureSteps:
    completion = yield from api.Prompt([turn.message], role="support")
    return api.Answer(completion.text)
