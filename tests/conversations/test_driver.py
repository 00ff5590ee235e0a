"""Features as generators: each step, the caps, failures, things done at once."""

from __future__ import annotations

import inspect
import json
import threading
from collections.abc import Callable, Generator, Sequence
from typing import Any

import pytest
from genai_vendor_mock import MockProvider

from genai_host import Conversation, Event, Host, InMemoryRecord, TurnLimits
from genai_host.api import (
    All,
    AllSettled,
    Answer,
    CallFunction,
    CallTools,
    Detail,
    Embed,
    Feature,
    FeatureSteps,
    Message,
    NewId,
    NoSettings,
    Now,
    Pause,
    Progress,
    Prompt,
    ToolCall,
    Turn,
)
from genai_host.conversations.record import TurnEnded
from genai_host.errors import (
    Cancelled,
    ConversationBusy,
    FunctionFailed,
    GenaiError,
    LimitExceeded,
    NoRoute,
    PluginError,
    RateLimited,
    ServiceUnavailable,
    TurnPaused,
    ValidationError,
)
from genai_host.tools.toolbox import Toolbox
from genai_host_testing import InlinePlugin, ManualClock

Respond = Callable[[Turn[NoSettings]], FeatureSteps]


class Converse:
    """Opens conversations with a feature that answers as given; the mock replies."""

    def __init__(self, make_host: Callable[..., Host]) -> None:
        self._make_host = make_host

    def __call__(
        self,
        respond: Respond,
        replies: Sequence[Any] = (),
        *,
        clock: Any = None,
        caps: TurnLimits | None = None,
        models: dict[str, str] | None = None,
        record: bool = True,
        **fields: Any,
    ) -> Conversation:
        feature = Feature("story", NoSettings, respond, **fields)
        self.host = self._make_host(story=InlinePlugin(features=[feature]), clock=clock)
        self.host.instances.add("script", "mock", {"replies": list(replies)})
        provider = "script" if "main" in feature.roles else None
        return self.host.open(
            "story", provider=provider, models=models, turn_limits=caps, record=record
        )

    @property
    def calls(self) -> int:
        """How many replies of the script were given."""
        provider = self.host.instances["script"].provider
        assert isinstance(provider, MockProvider)
        return provider.script.index


@pytest.fixture
def converse(make_host: Callable[..., Host]) -> Converse:
    return Converse(make_host)


def says(text: str, **fields: Any) -> Prompt:
    return Prompt([Message("user", text)], **fields)


class TestSteps:
    def test_a_prompt_gives_the_completion(self, converse: Converse) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            completion = yield from Prompt([turn.message])
            return Answer(completion.text, data=[completion.finish, completion.usage.output_tokens])

        answer = converse(respond, ["hello you"]).say("hi")
        assert (answer.text, answer.data) == ("hello you", ["stop", 2])
        assert answer.usage.output_tokens == 2

    def test_an_embedding_gives_a_vector_for_each_text(self, converse: Converse) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            vectors = yield from Embed(["a", "b", "a"])
            first, second, third = vectors.vectors
            return Answer("", data=[len(first), first == third, first == second])

        conversation = converse(respond, roles={"embed": "embed"}, models={"embed": "mock-embed"})
        assert conversation.say("hi").data == [16, True, False]

    def test_a_function_is_called_and_its_result_is_as_on_record(self, converse: Converse) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            result = yield from CallFunction(divide, {"a": 6, "b": 3})
            return Answer(str(result))

        assert converse(respond, roles={}).say("hi").text == "[2.0, 0]"

    def test_what_a_function_raises_reaches_the_feature(self, converse: Converse) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            try:
                yield from CallFunction(divide, {"a": 1, "b": 0})
            except FunctionFailed as error:
                return Answer(error.exception)
            raise AssertionError

        assert converse(respond, roles={}).say("hi").text == "ZeroDivisionError"

    def test_time_and_ids_are_steps(self, converse: Converse) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            now = yield from Now()
            first = yield from NewId("x-")
            second = yield from NewId("x-")
            return Answer(now, data=[first, second])

        answer = converse(respond, roles={}, clock=ManualClock()).say("hi")
        assert answer.text == "2026-01-01T00:00:00+00:00"
        first, second = answer.data
        assert first != second
        assert len(first) == len("x-") + 24

    def test_progress_is_told_and_is_no_step(self, converse: Converse) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            yield from Progress("half way", {"share": 0.5})
            yield from Now()
            return Answer("done")

        conversation = converse(respond, roles={})
        events = list(conversation.stream("hi"))
        assert [event.kind for event in events] == ["progress", "answer"]
        assert events[0].data.text == "half way"
        steps = [e for e in conversation.record.to_json() if e["entry"] == "step_started"]  # type: ignore[union-attr]
        assert [step["step"] for step in steps] == ["now"]

    def test_prompts_of_other_roles_go_to_their_own_models(
        self, make_host: Callable[..., Host]
    ) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            draft = yield from Prompt([turn.message])
            judged = yield from says(draft.text, role="judge", stream=False)
            return Answer(judged.text)

        feature = Feature("f", NoSettings, respond, roles={"main": "chat", "judge": "chat"})
        host = make_host(story=InlinePlugin(features=[feature]))
        host.instances.add("one", "mock", {"replies": ["draft"]})
        host.instances.add("two", "mock", {"replies": ["judged"]})
        conversation = host.open("f", provider="one", models={"judge": "mock@two"})
        assert conversation.models == {"main": "mock@one", "judge": "mock@two"}
        events = list(conversation.stream("hi"))
        assert "".join(event.text for event in events) == "draft"
        assert events[-1].data.text == "judged"

    def test_a_role_without_a_model_is_an_error_the_feature_may_handle(
        self, converse: Converse
    ) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            assert turn.roles == {"main"}
            try:
                yield from says("x", role="judge")
            except NoRoute as error:
                return Answer(str(error))
            raise AssertionError

        conversation = converse(
            respond, roles={"main": "chat", "judge": "chat"}, optional_roles={"judge"}
        )
        assert "no model for role 'judge'" in conversation.say("hi").text

    @pytest.mark.parametrize("wrong", [3, None, "prompt", object()])
    def test_what_is_no_step_is_a_bug_of_the_feature(
        self, converse: Converse, wrong: object
    ) -> None:
        def respond(turn: Turn[NoSettings]) -> Generator[Any, Any, Answer]:
            yield wrong
            return Answer("")

        with pytest.raises(PluginError, match=r"the feature story yields .* which is not a step"):
            converse(respond, roles={}).say("hi")

    def test_what_is_no_answer_is_a_bug_of_the_feature(self, converse: Converse) -> None:
        def respond(turn: Turn[NoSettings]) -> Generator[Any, Any, Any]:
            yield from Now()
            return "text"

        with pytest.raises(PluginError, match="the feature story returns 'text', not an Answer"):
            converse(respond, roles={}).say("hi")

    @pytest.mark.parametrize(
        "given", [Answer("x"), None, iter([Now()])], ids=["answer", "none", "iterator"]
    )
    def test_what_is_no_generator_is_a_bug_of_the_feature(
        self, converse: Converse, given: Any
    ) -> None:
        kind = type(given).__name__
        with pytest.raises(PluginError, match=f"respond of feature story returns .*{kind}") as e:
            converse(lambda turn: given, roles={}).say("hi")
        assert "yield" in e.value.hint

    def test_a_step_that_cannot_be_put_on_record_is_a_bug_of_the_feature(
        self, converse: Converse
    ) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            try:
                yield from CallFunction(divide, {"a": object()})
            except GenaiError:
                raise AssertionError("the feature is not asked") from None
            return Answer("")

        with pytest.raises(PluginError, match=r"the feature story .* cannot be recorded"):
            converse(respond, roles={}).say("hi")


def divide(a: float, b: float) -> tuple[float, int]:
    return (a / b, 0)


class TestFunctions:
    """What a function does must not hang the turn, nor spoil the record."""

    @staticmethod
    def leave(kind: type[BaseException]) -> None:
        raise kind("bye")

    @pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit, ValueError])
    def test_whatever_it_raises_reaches_the_feature(
        self, converse: Converse, kind: type[BaseException]
    ) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            try:
                yield from CallFunction(self.leave, {"kind": kind})
            except FunctionFailed as error:
                return Answer(f"{error.exception} {error}")
            raise AssertionError

        text = converse(respond, roles={}).say("hi").text
        assert text.startswith(kind.__name__)
        assert text.endswith(f"leave failed: {kind.__name__}: bye")

    def test_it_may_raise_what_cannot_say_what_it_is(self, converse: Converse) -> None:
        class Mute(Exception):
            def __str__(self) -> str:
                raise LookupError

        def raise_it() -> None:
            raise Mute

        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            try:
                yield from CallFunction(raise_it)
            except FunctionFailed as error:
                return Answer(error.exception)
            raise AssertionError

        assert converse(respond, roles={}).say("hi").text == "Mute"

    def test_it_cannot_pause_the_turn(self, converse: Converse) -> None:
        def elsewhere() -> None:
            raise TurnPaused("another turn waits")

        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            try:
                yield from CallFunction(elsewhere)
            except FunctionFailed as error:
                return Answer(error.exception)
            raise AssertionError

        assert converse(respond, roles={}).say("hi").text == "TurnPaused"

    @pytest.mark.parametrize(
        ("result", "returns"),
        [(object(), None), (float("nan"), None), ("text", int)],
        ids=["object", "nan", "class"],
    )
    def test_a_result_that_cannot_be_put_on_record_is_a_failure_of_it(
        self, converse: Converse, result: object, returns: Any
    ) -> None:
        def give() -> Any:
            return result

        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            try:
                yield from CallFunction(give, returns=returns)
            except FunctionFailed as error:
                return Answer(str(error))
            raise AssertionError

        conversation = converse(respond, roles={})
        assert "give returned a value that cannot be recorded" in conversation.say("hi").text
        json.dumps(conversation.record.to_json(), allow_nan=False)  # type: ignore[union-attr]


class TestFailures:
    def test_a_failure_is_thrown_in_and_may_be_handled(self, converse: Converse) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            try:
                completion = yield from says("a")
            except RateLimited as error:
                assert (error.provider, error.model, error.status) == ("script", "mock", 429)
                completion = yield from says("b")
            return Answer(completion.text)

        answer = converse(respond, [{"status": 429}, "second try"]).say("hi")
        assert answer.text == "second try"
        assert [detail.title for detail in answer.details] == [
            "prompt of main failed: the service answered with status 429",
            "prompt of main to mock@script",
        ]

    def test_what_is_not_handled_reaches_the_caller(self, converse: Converse) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            yield from says("a")
            raise AssertionError("not reached")

        with pytest.raises(ServiceUnavailable, match="refused"):
            converse(respond, [{"fault": "refused"}]).say("hi")

    def test_a_feature_may_raise_errors_of_its_own(self, converse: Converse) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            yield from Now()
            raise GenaiError("not today", hint="tomorrow")

        with pytest.raises(GenaiError, match="not today"):
            converse(respond, roles={}).say("hi")

    def test_a_bug_of_a_feature_is_a_bug(self, converse: Converse) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            yield from Now()
            raise LookupError("bug")

        with pytest.raises(PluginError, match="the feature story failed: LookupError: bug") as e:
            converse(respond, roles={}).say("hi")
        assert isinstance(e.value.__cause__, LookupError)
        assert "-v shows where" in e.value.hint

    def test_a_bug_before_the_first_step_is_one_too(self, converse: Converse) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            raise LookupError("bug")

        with pytest.raises(PluginError, match="LookupError: bug"):
            converse(respond, roles={}).say("hi")

    def test_an_error_after_a_handled_one_does_not_hide_it(self, converse: Converse) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            try:
                yield from says("a")
            except RateLimited as error:
                raise GenaiError("gave up") from error
            raise AssertionError

        with pytest.raises(GenaiError, match="gave up") as caught:
            converse(respond, [{"status": 429}]).say("hi")
        assert isinstance(caught.value.__cause__, RateLimited)


class TestAtOnce:
    def test_results_come_in_the_order_of_the_steps(self, converse: Converse) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            completions = yield from All([says(f"q{number}") for number in range(20)])
            return Answer(" ".join(completion.text for completion in completions))

        answer = converse(respond).say("hi")
        assert answer.text == " ".join(f"q{number}" for number in range(20))
        assert len(answer.details) == 20

    def test_nothing_at_once_is_done_at_once(self, converse: Converse) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            return Answer(str([(yield from All([])), (yield from AllSettled([]))]))

        assert converse(respond, roles={}).say("hi").text == "[(), ()]"

    def test_they_run_in_parallel_up_to_the_cap(self, converse: Converse) -> None:
        meeting = threading.Barrier(3, timeout=30)
        running: list[int] = []
        most: list[int] = []

        def meet(number: int) -> int:
            running.append(number)
            most.append(len(running))
            meeting.wait()  # fails unless three are here
            running.remove(number)
            return number

        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            steps = [CallFunction(meet, {"number": number}) for number in range(9)]
            return Answer(str((yield from All(steps))))

        answer = converse(respond, roles={}, caps=TurnLimits(parallel=3)).say("hi")
        assert answer.text == str(tuple(range(9)))
        assert max(most) <= 3

    def test_the_first_failure_cancels_the_others(self, converse: Converse) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            try:
                yield from All([says("a"), says("b"), says("c")])
            except GenaiError as error:
                return Answer(type(error).__name__)
            raise AssertionError

        replies = [{"fault": "hang"}, {"fault": "hang"}, {"status": 429}]
        assert converse(respond, replies).say("hi").text == "RateLimited"

    def test_settled_gives_each_result_or_error(self, converse: Converse) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            steps = [CallFunction(divide, {"a": 1, "b": b}) for b in (1, 0, 2)]
            outcomes = yield from AllSettled(steps)
            return Answer(" ".join(type(outcome).__name__ for outcome in outcomes))

        assert converse(respond, roles={}).say("hi").text == "list FunctionFailed list"

    def test_they_may_be_nested(self, converse: Converse) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            inner = [All([says(f"{a}{b}") for b in "xy"]) for a in "12"]
            outcomes = yield from All(inner)
            return Answer(" ".join(completion.text for pair in outcomes for completion in pair))

        assert converse(respond).say("hi").text == "1x 1y 2x 2y"

    def test_a_bug_in_one_of_them_is_a_bug(self, converse: Converse) -> None:
        def respond(turn: Turn[NoSettings]) -> Generator[Any, Any, Answer]:
            yield All([says("a"), 3])  # type: ignore[list-item]
            return Answer("")

        with pytest.raises(PluginError, match="yields 3, which is not a step"):
            converse(respond).say("hi")

    def test_none_of_them_may_wait(self, converse: Converse) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            yield from All([Pause("approval")])
            return Answer("")

        with pytest.raises(PluginError, match="pauses within All"):
            converse(respond, roles={}).say("hi")

    def test_their_answers_are_not_streamed_their_progress_is_told(
        self, converse: Converse
    ) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            yield from All([says("a"), says("b")])
            return Answer("done")

        events = list(converse(respond).stream("hi"))
        assert [event.kind for event in events] == ["step", "step", "answer"]


def test_an_error_of_calls_of_tools_is_raised(
    converse: Converse, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: Any, **more: Any) -> None:
        raise ServiceUnavailable("down")

    def respond(turn: Turn[NoSettings]) -> FeatureSteps:
        try:
            yield from CallTools([ToolCall("1", "look")])
        except ServiceUnavailable as error:
            return Answer(error.message)
        return Answer("no error")

    monkeypatch.setattr(Toolbox, "call", fail)
    assert converse(respond, roles={}).say("hi").text == "down"


class TestCaps:
    def test_round_trips_are_counted_before_the_call(self, converse: Converse) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            while True:
                yield from says("again")

        conversation = converse(respond, ["x"] * 10, caps=TurnLimits(max_model_calls=6))
        with pytest.raises(LimitExceeded) as caught:
            conversation.say("hi")
        assert caught.value.limit == "round_trips"
        assert converse.calls == 6

    def test_a_feature_may_conclude_when_it_has_no_more_round_trips(
        self, converse: Converse
    ) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            try:
                while True:
                    yield from says("again")
            except LimitExceeded:
                return Answer("that is all")

        assert converse(respond, caps=TurnLimits(max_model_calls=2)).say("hi").text == "that is all"

    def test_a_feature_that_will_not_end_is_ended(self, converse: Converse) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            while True:
                try:
                    yield from says("again")
                except GenaiError:
                    continue

        with pytest.raises(LimitExceeded) as caught:
            converse(respond, caps=TurnLimits(max_model_calls=2, steps=50)).say("hi")
        assert caught.value.limit == "steps"

    def test_time_is_bounded(self, converse: Converse) -> None:
        clock = ManualClock()

        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            try:
                yield from says("x")
            except GenaiError:
                raise AssertionError("out of time: the feature is not asked") from None
            return Answer("")

        conversation = converse(
            respond, [{"fault": "hang"}], clock=clock, caps=TurnLimits(seconds=60)
        )
        failure: list[GenaiError] = []

        def run() -> None:
            with pytest.raises(LimitExceeded) as caught:
                conversation.say("hi")
            failure.append(caught.value)

        thread = threading.Thread(target=run)
        thread.start()
        clock.wait_for_alarms(2)  # that of the turn, and that of the call
        assert clock.due_in()[0] == 60
        clock.advance(60)
        thread.join(30)
        assert [error.limit for error in failure] == ["seconds"]  # type: ignore[attr-defined]
        assert clock.due_in() == []

    def test_time_is_bounded_where_nothing_is_done_but_progress(self, converse: Converse) -> None:
        clock = ManualClock()

        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            while True:
                try:
                    yield from Progress("not yet")
                except GenaiError:
                    raise AssertionError("out of time: the feature is not asked") from None

        stream = converse(
            respond, roles={}, clock=clock, caps=TurnLimits(seconds=60, steps=1)
        ).stream("x")
        for _ in range(5):  # it is no step
            assert next(stream).kind == "progress"
        clock.advance(60)
        with pytest.raises(LimitExceeded, match="60 seconds"):
            next(stream)

    def test_no_alarm_is_left_behind(self, converse: Converse) -> None:
        clock = ManualClock()

        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            yield from says("x")
            return Answer("")

        converse(respond, clock=clock).say("hi")
        assert clock.due_in() == []


class TestCancelling:
    def test_cancelling_ends_a_blocked_read_without_asking_the_feature(
        self, converse: Converse
    ) -> None:
        reached = threading.Event()

        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            yield from Progress("begins")
            try:
                yield from says("x")
            except GenaiError:
                raise AssertionError("the feature is not asked") from None
            return Answer("")

        conversation = converse(respond, [{"fault": "hang"}])
        errors: list[GenaiError] = []

        def run() -> None:
            try:
                for event in conversation.stream("hi"):
                    if event.kind == "progress":
                        reached.set()
            except GenaiError as error:
                errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        assert reached.wait(30)
        while thread.is_alive():  # it may not have come to the prompt yet
            conversation.cancel()
            thread.join(0.05)
        assert errors == [Cancelled("cancelled")]
        assert conversation.status == "idle"

    def test_cancelling_ends_a_feature_that_only_tells_how_it_goes(
        self, converse: Converse
    ) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            while True:
                yield from Progress("not yet")

        conversation = converse(respond, roles={})
        stream = conversation.stream("hi")
        next(stream)
        conversation.cancel()
        with pytest.raises(Cancelled):
            next(stream)
        assert conversation.status == "idle"

    def test_cancelling_ends_a_function_that_will_not(self, converse: Converse) -> None:
        entered, never = threading.Event(), threading.Event()

        def stuck() -> None:
            entered.set()
            never.wait(60)

        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            yield from CallFunction(stuck)
            return Answer("")

        conversation = converse(respond, roles={})
        errors: list[GenaiError] = []

        def run() -> None:
            with pytest.raises(Cancelled) as caught:
                conversation.say("hi")
            errors.append(caught.value)

        thread = threading.Thread(target=run)
        thread.start()
        assert entered.wait(30)
        conversation.cancel()
        thread.join(30)
        never.set()
        assert errors == [Cancelled("cancelled")]

    def test_closing_the_stream_closes_the_feature(self, converse: Converse) -> None:
        closed: list[bool] = []

        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            try:
                yield from says("a b c d")
            finally:
                closed.append(True)
            return Answer("")

        def remember(turn: Turn[NoSettings]) -> FeatureSteps:
            begun.append(respond(turn))
            return begun[-1]

        begun: list[FeatureSteps] = []
        conversation = converse(remember, ["a b c d"])
        events = conversation.stream("hi")
        assert next(events).text == "a"
        events.close()
        assert closed == [True]
        assert [inspect.getgeneratorstate(each) for each in begun] == ["GEN_CLOSED"]
        assert isinstance(conversation.record, InMemoryRecord)
        assert conversation.record.entries[-1] == TurnEnded(0, error=Cancelled("abandoned"))
        assert conversation.status == "idle"
        assert conversation.history == ()


class TestWaiting:
    def respond(self, turn: Turn[NoSettings]) -> FeatureSteps:
        proposal = yield from Prompt([turn.message])
        approved = yield from Pause("approval", {"proposal": proposal.text})
        return Answer(f"{proposal.text}: {approved}")

    def test_a_turn_pauses_and_goes_on_with_the_result(self, converse: Converse) -> None:
        conversation = converse(self.respond, ["pay 5"])
        with pytest.raises(TurnPaused) as caught:
            conversation.say("hi")
        assert caught.value.kind == "approval"
        assert conversation.status == "paused"
        assert conversation.current_pause == Pause("approval", {"proposal": "pay 5"})
        assert conversation.history == ()
        answer = conversation.resume({"ok": True})
        assert answer.text == "pay 5: {'ok': True}"
        assert converse.calls == 1
        assert conversation.status == "idle"
        assert len(conversation.history) == 2

    def test_without_a_record_it_goes_on_as_well(self, converse: Converse) -> None:
        conversation = converse(self.respond, ["pay 5"], record=False)
        with pytest.raises(TurnPaused):
            conversation.say("hi")
        assert conversation.resume("yes").text == "pay 5: yes"
        assert (converse.calls, conversation.record) == (1, None)

    def test_who_listens_hears_what_it_waits_for(self, converse: Converse) -> None:
        conversation = converse(self.respond, ["pay 5"])
        events: list[Event] = []
        with pytest.raises(TurnPaused):
            for event in conversation.stream("hi"):
                events.append(event)
        assert events[-1] == Event("paused", conversation.current_pause)

    def test_a_result_has_the_class_that_was_asked_for(self, converse: Converse) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            message = yield from Pause("message", returns=Message)
            return Answer(message.text)

        conversation = converse(respond, roles={})
        with pytest.raises(TurnPaused):
            conversation.say("hi")
        assert conversation.resume(Message("user", "given")).text == "given"

    @pytest.mark.parametrize(
        "wrong", ["garbage", None, 1, object()], ids=["str", "none", "int", "object"]
    )
    def test_what_it_does_not_wait_for_is_refused_and_it_waits_on(
        self, converse: Converse, wrong: object
    ) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            try:
                approved = yield from Pause("approval", {"sum": 5}, returns=bool)
            except GenaiError:
                raise AssertionError("the feature is not asked") from None
            return Answer(f"approved: {approved}")

        conversation = converse(respond, roles={})
        with pytest.raises(TurnPaused):
            conversation.say("hi")
        entries = conversation.record.entries  # type: ignore[union-attr]
        for _ in range(2):
            with pytest.raises(ValidationError, match="approval"):
                conversation.resume(wrong)
            assert conversation.status == "paused"
            assert conversation.current_pause == Pause("approval", {"sum": 5}, returns=bool)
            assert conversation.record.entries == entries  # type: ignore[union-attr]
        assert conversation.resume(True).text == "approved: True"

    @pytest.mark.parametrize("wrong", [object(), float("nan")], ids=["object", "nan"])
    def test_what_has_no_json_form_is_refused_too(self, converse: Converse, wrong: object) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            return Answer(str((yield from Pause("anything"))))

        conversation = converse(respond, roles={})
        with pytest.raises(TurnPaused):
            conversation.say("hi")
        with pytest.raises(ValidationError, match="JSON"):
            conversation.resume(wrong)
        assert conversation.resume((1, 2)).text == "[1, 2]"

    def test_each_wait_needs_a_result_of_its_own(self, converse: Converse) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            first = yield from Pause("first")
            second = yield from Pause("second")
            return Answer(f"{first} {second}")

        conversation = converse(respond, roles={})
        with pytest.raises(TurnPaused):
            conversation.say("hi")
        with pytest.raises(TurnPaused, match="waits for second"):
            conversation.resume(1)
        assert conversation.current_pause == Pause("second")
        assert conversation.resume(2).text == "1 2"

    def test_what_is_shown_to_who_decides_must_have_a_json_form(self, converse: Converse) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            yield from Pause("approval", {"by": Answer})
            return Answer("")

        conversation = converse(respond, roles={})
        with pytest.raises(PluginError, match="cannot be recorded"):
            conversation.say("hi")
        assert conversation.status == "idle"

    def test_a_waiting_turn_can_be_dropped(self, converse: Converse) -> None:
        conversation = converse(self.respond, ["one", "two"])
        with pytest.raises(TurnPaused):
            conversation.say("first")
        assert conversation.undo() == Message("user", "first")
        assert conversation.status == "idle"
        with pytest.raises(TurnPaused):
            conversation.say("second")

    def test_forgetting_all_drops_it(self, converse: Converse) -> None:
        conversation = converse(self.respond, ["one", "two"])
        with pytest.raises(TurnPaused):
            conversation.say("first")
        conversation.reset()
        assert (conversation.status, conversation.current_pause) == ("idle", None)
        again = converse.host.reopen(InMemoryRecord(conversation.record.entries))  # type: ignore[union-attr]
        assert again.status == "idle"
        with pytest.raises(TurnPaused):
            conversation.say("second")

    def test_nothing_else_is_changed_meanwhile(self, converse: Converse) -> None:
        conversation = converse(self.respond, ["one"])
        with pytest.raises(TurnPaused):
            conversation.say("first")
        for attempt in (
            lambda: conversation.say("second"),
            lambda: conversation.use(temperature=1),
            conversation.configure,
        ):
            with pytest.raises(ConversationBusy) as caught:
                attempt()
            assert "resume" in caught.value.hint
        assert conversation.resume("yes").text == "one: yes"


def test_details_of_a_feature_are_as_they_will_be_when_they_are_read_again(
    make_host: Callable[..., Host],
) -> None:
    def respond(turn: Turn[NoSettings]) -> FeatureSteps:
        yield from Now()
        return Answer("so", details=[Detail("note", "t", {"said": (Message("user", "hi"),)})])

    host = make_host(story=InlinePlugin(features=[Feature("f", NoSettings, respond, roles={})]))
    conversation = host.open("f")
    detail = conversation.say("hi").details[-1]
    said = {"role": "user", "content": [{"type": "text", "text": "hi"}]}
    assert detail == Detail("note", "t", {"said": [said]})
    assert isinstance(conversation.record, InMemoryRecord)
    ended = conversation.record.to_json()[-1]
    assert ended["answer"]["details"][-1]["data"] == detail.data


def test_a_feature_without_models_uses_none(make_host: Callable[..., Host]) -> None:
    def respond(turn: Turn[NoSettings]) -> FeatureSteps:
        assert turn.roles == frozenset()
        yield from Now()
        return Answer("by myself", details=[Detail("note", "done")])

    host = make_host(story=InlinePlugin(features=[Feature("f", NoSettings, respond, roles={})]))
    conversation = host.open("f")
    answer = conversation.say("hi")
    assert [detail.title for detail in answer.details] == ["done"]
    assert [message.text for message in conversation.history] == ["hi", "by myself"]
