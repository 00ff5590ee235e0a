"""The suites find what is wrong: each wrong plugin fails the tests that it must, and no others."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from _pytest.mark.expression import Expression

from genai_host import Host, api
from genai_host.errors import Cancelled, RateLimited
from genai_host_testing import FakeModel, InlinePlugin, RecordedPrompt
from genai_host_testing.fake_model import ASKING
from genai_host_testing.fake_service import HANG
from genai_host_testing.pytest_plugin import MakeHost
from genai_host_testing.suites import Suite

from . import (
    deviations,
    wrong,
    wrong_dialects,
    wrong_features,  # noqa: F401  # which registers what is wrong
    wrong_providers,
    wrong_tool_sources,  # noqa: F401
    wrong_tools,  # noqa: F401
)
from .wrong import SUITES

for module in (wrong_dialects, wrong_providers, deviations):
    SUITES.update({name: suite for name, suite in vars(module).items() if name.startswith("Test")})
QUICKLY = [
    *("-p", "no:cacheprovider"),
    *("-p", "no:unraisableexception"),  # it collects all garbage, several times
    *("-p", "no:hypothesispytest"),  # it imports all of it anew
]


_AT_ONCE = 16  # a run of pytest takes longer than the tests of a suite
_RUNS = -(-len(SUITES) // _AT_ONCE)
_GROUPS = [[*SUITES][number::_RUNS] for number in range(_RUNS)]


class Only:
    """A plugin of pytest that applies the expressions of suites, as `pytest -k` applies one."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [each for each in items if _is_chosen(each)]


def _is_chosen(item: pytest.Item) -> bool:
    only = getattr(getattr(item, "cls", None), "only", "")
    return not only or Expression.compile(only).evaluate(lambda word, /, **_: word in item.name)


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("names", _GROUPS, ids=lambda names: names[0])
def test_wrong_plugins_fail_the_right_tests(pytester: pytest.Pytester, names: list[str]) -> None:
    suites = f"sys.modules[{wrong.__name__!r}].SUITES"
    lines = [f"Test_{name} = {suites}[{name!r}]" for name in names]
    pytester.makepyfile("\n".join(["import sys", *lines]))
    passed, _, failed = pytester.inline_run(*QUICKLY, plugins=[Only()]).listoutcomes()
    ran = {_place(each)[0] for each in (*passed, *failed)}
    assert ran == {f"Test_{name}" for name in names}
    actual = {_place(each) for each in failed}
    assert actual == {(f"Test_{name}", test) for name in names for test in SUITES[name].fails}


def _place(report: pytest.CollectReport | pytest.TestReport) -> tuple[str, str]:
    """The names of the suite and of the test."""
    _, suite, test = report.nodeid.split("::", 2)
    return suite, test.partition("[")[0]


def test_deviations_are_listed(pytester: pytest.Pytester) -> None:
    name = "TestDeviationsWithReasons"
    pytester.makepyfile(f"import sys\n{name} = sys.modules[{deviations.__name__!r}].{name}")
    output = pytester.runpytest_inprocess(*QUICKLY, "-rA").stdout.str()
    assert (
        "TestDeviationsWithReasons deviates from "
        "test_a_reply_is_read: the reply is read by somebody else; "
        "test_a_stream_that_is_cut_is_no_answer: tested in another way"
    ) in output
    assert "TestDeviationsWithReasons deviates: the reply is read by somebody else" in output
    assert "::TestDeviationsWithReasons::test_a_stream_that_is_cut_is_no_answer" in output


def test_nobody_deviates_from_the_test_of_deviations() -> None:
    with pytest.raises(TypeError, match="cannot be overridden"):
        type("TestMine", (Suite,), {"test_deviations_have_reasons": None})


def respond(turn: api.Turn[api.NoSettings]) -> api.FeatureSteps:
    tools = [api.ToolSchema("look", "looks")]
    completion = yield from api.Prompt([turn.message], tools=tools, parameters={"seed": 3})
    vectors = yield from api.Embed(["one", "two", "one"])
    verdict = yield from api.Moderate(turn.message.text)
    calls = [call.name for call in completion.tool_calls]
    first, second, third = vectors.vectors
    data = {"calls": calls, "same": first == third, "other": first != second}
    return api.Answer(completion.text, data={**data, "flagged": verdict.flagged})


ROLES: Any = {"main": "chat", "embed": "embed", "moderate": "moderate"}
ALL = api.Feature("all", api.NoSettings, respond, roles=ROLES)


@pytest.fixture
def fake() -> FakeModel:
    return FakeModel()


@pytest.fixture
def host(make_host: MakeHost, fake: FakeModel) -> Host:
    return make_host(fake=fake, features=InlinePlugin(features=[ASKING, ALL]))


def test_it_repeats_what_it_hears_unless_told_otherwise(host: Host, fake: FakeModel) -> None:
    conversation = host.open("asking", "fake")
    assert conversation.say("hello you").text == "hello you"
    assert "".join(event.text for event in conversation.stream("hello again")) == "hello again"
    assert [prompt.number for prompt in fake.prompts] == [0, 1]
    assert [len(prompt.messages) for prompt in fake.prompts] == [1, 3]


def test_it_hears_all_of_a_prompt(host: Host, fake: FakeModel) -> None:
    def answer(prompt: RecordedPrompt) -> api.Completion:
        assert (prompt.text, prompt.tools, prompt.parameters) == ("hi", ("look",), {"seed": 3})
        return api.Completion(
            api.Message("assistant", ["so", api.ToolCall("1", "look")]), "tool_calls"
        )

    fake.answer = answer
    fake.flags = lambda text: text == "hi"
    models = {"embed": "fake-embed", "moderate": "fake-moderate"}
    answered = host.open("all", "fake", models=models).say("hi")
    data = {"calls": ["look"], "same": True, "other": True, "flagged": True}
    assert (answered.text, answered.data) == ("so", data)
    assert fake.calls == 3


def test_a_call_may_fail(host: Host, fake: FakeModel) -> None:
    fake.faults[1] = RateLimited("not now")
    conversation = host.open("asking", "fake")
    conversation.say("one")
    with pytest.raises(RateLimited, match="not now"):
        conversation.say("two")
    assert conversation.say("two").text == "two"


@pytest.mark.parametrize("by", ["fault", "answer"])
def test_a_call_may_hang_until_it_is_cancelled(host: Host, fake: FakeModel, by: str) -> None:
    if by == "fault":
        fake.faults[0] = HANG
    else:
        fake.answer = lambda prompt: HANG
    conversation = host.open("asking", "fake")

    def cancel() -> None:
        fake.hanging.wait(30)
        conversation.cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(Cancelled):
        conversation.say("hi")
    thread.join()
