"""Features as generators: each step, the caps, failures, things done at once."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import wait
from typing import Any

import pytest
from conversing import as_json, host_of, mock_of, paused, recorded, says, texts

from genai_host import Conversation, Event, TurnLimits
from genai_host.api import (
    All,
    AllSettled,
    Answer,
    CallFunction,
    CallTools,
    Detail,
    Embed,
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
from genai_host.conversations.record import StepStarted, TurnEnded
from genai_host.errors import (
    Cancelled,
    ConversationBusy,
    FunctionFailed,
    GenaiError,
    LimitExceeded,
    PluginError,
    RateLimited,
    ServiceUnavailable,
    TurnPaused,
    ValidationError,
)
from genai_host.tools.toolbox import Toolbox
from genai_host_testing import ManualClock
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.suites.base import in_background


class Converse:
    """Opens conversations with a feature that answers as given; the mock replies."""

    def __init__(self, make_host: MakeHost) -> None:
        self._make_host = make_host

    def __call__(
        self, respond: Callable[..., Any], replies: Sequence[Any] = (), *, clock: Any = None,
        caps: TurnLimits | None = None, models: dict[str, str] | None = None, record: bool = True,
        **fields: Any,
    ) -> Conversation:  # fmt: skip
        self.host = host_of(self._make_host, respond, clock=clock, **fields)
        self.host.instances.add("script", "mock", {"replies": list(replies)})
        provider = "script" if "main" in fields.get("roles", ["main"]) else None
        return self.host.open(
            "f", provider=provider, models=models, turn_limits=caps, record=record
        )

    @property
    def calls(self) -> int:
        """How many replies of the script were given."""
        return mock_of(self.host).script.index


@pytest.fixture
def converse(make_host: MakeHost) -> Converse:
    return Converse(make_host)


def coming_to(*steps: Any) -> Callable[..., FeatureSteps]:
    """A feature that answers with what the last of these steps comes to, or with an error."""

    def respond(turn: Turn[NoSettings]) -> FeatureSteps:
        results: list[Any] = []
        try:
            for step in steps:
                results.append((yield from step))
        except GenaiError as error:
            return Answer(type(error).__name__, data=str(error))
        return Answer(str(results[-1]), data=results)

    return respond


def not_asked(*steps: Any) -> Callable[..., FeatureSteps]:
    """A feature that must not hear of the errors of its steps."""

    def respond(turn: Turn[NoSettings]) -> FeatureSteps:
        for step in steps:
            try:
                yield from step
            except GenaiError:
                raise AssertionError("the feature is not asked") from None
        return Answer("")

    return respond


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
        conversation = converse(coming_to(CallFunction(divide, {"a": 6, "b": 3})), roles={})
        assert conversation.say("hi").text == "[2.0, 0]"

    def test_time_and_ids_are_steps(self, converse: Converse) -> None:
        respond = coming_to(Now(), NewId("x-"), NewId("x-"))
        now, first, second = converse(respond, roles={}, clock=ManualClock()).say("hi").data
        assert now == "2026-01-01T00:00:00+00:00"
        assert first != second
        assert len(first) == len("x-") + 24

    def test_progress_is_told_and_is_no_step(self, converse: Converse) -> None:
        conversation = converse(coming_to(Progress("half way", {"share": 0.5}), Now()), roles={})
        events = list(conversation.stream("hi"))
        assert [event.kind for event in events] == ["progress", "answer"]
        assert events[0].data.text == "half way"
        entries = recorded(conversation).entries
        assert [each.step for each in entries if isinstance(each, StepStarted)] == ["now"]

    def test_prompts_of_other_roles_go_to_their_own_models(self, converse: Converse) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            draft = yield from Prompt([turn.message])
            judged = yield from says(draft.text, role="judge", stream=False)
            return Answer(judged.text)

        roles, models = {"main": "chat", "judge": "chat"}, {"judge": "mock@mock"}
        conversation = converse(respond, ["draft"], roles=roles, models=models)
        assert conversation.models == {"main": "mock@script", "judge": "mock@mock"}
        events = list(conversation.stream("hi"))
        assert "".join(event.text for event in events) == "draft"
        assert events[-1].data.text == "draft"
        assert len(mock_of(converse.host, "mock").requests) == 1

    def test_a_role_without_a_model_is_an_error_of_the_feature(self, converse: Converse) -> None:
        roles, step = {"main": "chat", "judge": "chat"}, says("x", role="judge")
        answer = converse(coming_to(step), roles=roles, optional_roles={"judge"}).say("hi")
        assert answer.text == "NoRoute"
        assert "no model for role 'judge'" in answer.data

    def test_what_is_no_answer_is_a_bug_of_the_feature(self, converse: Converse) -> None:
        def respond(turn: Turn[NoSettings]) -> Generator[Any, Any, Any]:
            yield from Now()
            return "text"

        with pytest.raises(PluginError, match="the feature f returns 'text', not an Answer"):
            converse(respond, roles={}).say("hi")

    @pytest.mark.parametrize(
        "value", [Answer("x"), None, iter([Now()])], ids=lambda e: str(type(e))
    )
    def test_what_is_no_generator_is_a_bug(self, converse: Converse, value: Any) -> None:
        kind = type(value).__name__
        with pytest.raises(PluginError, match=f"respond of feature f returns .*{kind}") as caught:
            converse(lambda turn: value, roles={}).say("hi")
        assert "yield" in caught.value.hint


class TestBugs:
    """What a feature must not yield, return or raise."""

    @pytest.mark.parametrize(("step", "message"), [
        *((each, "f yields .* which is not a step") for each in (3, None, "prompt", object())),
        (All([says("a"), 3]), "yields 3, which is not a step"),  # type: ignore[list-item]  # on purpose
        (All([Pause("approval")]), "pauses within All"),
        (CallFunction(len, {"a": object()}), r"the feature f .* cannot be recorded"),
        (Pause("approval", {"by": Answer}), "cannot be recorded"),
    ], ids=lambda value: type(value).__name__)  # fmt: skip
    def test_a_wrong_step(self, converse: Converse, step: Any, message: str) -> None:
        def respond(turn: Turn[NoSettings]) -> Generator[Any, Any, Answer]:
            try:
                yield step
            except GenaiError:
                raise AssertionError("the feature is not asked") from None
            return Answer("")

        conversation = converse(respond)
        with pytest.raises(PluginError, match=message):
            conversation.say("hi")
        assert conversation.status == "idle"


def divide(a: float, b: float) -> tuple[float, int]:
    return (a / b, 0)


class Mute(Exception):
    """It cannot say what it is."""

    def __str__(self) -> str:
        raise LookupError


class TestFunctions:
    """What a function does must not hang the turn, nor spoil the record."""

    @pytest.mark.parametrize("error", [
        *(SystemExit("bye"), KeyboardInterrupt("bye"), GeneratorExit("bye")),
        *(ValueError("bye"), TurnPaused("bye"), Mute("bye")),
    ], ids=lambda error: type(error).__name__)  # fmt: skip
    def test_the_feature_hears_of_errors(self, converse: Converse, error: BaseException) -> None:
        def leave() -> None:
            raise error

        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            try:
                yield from CallFunction(leave)
            except FunctionFailed as failure:
                return Answer(failure.exception, data=str(failure))
            raise AssertionError

        answer = converse(respond, roles={}).say("hi")
        assert answer.text == type(error).__name__
        if not isinstance(error, Mute):
            assert answer.data.endswith(f"leave failed: {answer.text}: bye")

    @pytest.mark.parametrize(
        ("result", "returns"),
        [(object(), None), (float("nan"), None), ("text", int)],
        ids=["object", "nan", "class"],
    )
    def test_results_that_cannot_be_recorded_fail(
        self, converse: Converse, result: object, returns: Any
    ) -> None:
        def give() -> Any:
            return result

        conversation = converse(coming_to(CallFunction(give, returns=returns)), roles={})
        answer = conversation.say("hi")
        assert answer.text == "FunctionFailed"
        assert "give returned a value that cannot be recorded" in answer.data
        as_json(conversation)


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

    @pytest.mark.parametrize("steps", [0, 1])
    @pytest.mark.parametrize(("error", "kind", "message"), [
        (GenaiError("not today", hint="tomorrow"), GenaiError, "not today"),
        (LookupError("bug"), PluginError, "the feature f failed: LookupError: bug"),
    ])  # fmt: skip
    def test_errors_of_a_feature(
        self, converse: Converse, error: Exception, kind: type[GenaiError], message: str, steps: int
    ) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            for _ in range(steps):
                yield from Now()
            raise error

        with pytest.raises(GenaiError, match=message) as caught:
            converse(respond, roles={}).say("hi")
        assert type(caught.value) is kind
        if kind is PluginError:
            assert caught.value.__cause__ is error
            assert "-v shows where" in caught.value.hint

    def test_an_error_that_is_not_handled_or_leads_to_another(self, converse: Converse) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            try:
                yield from says("a")
            except RateLimited as error:
                raise GenaiError("gave up") from error
            raise AssertionError("not reached")

        conversation = converse(respond, [{"status": 429}, {"fault": "refused"}])
        with pytest.raises(GenaiError, match="gave up") as caught:
            conversation.say("hi")
        assert isinstance(caught.value.__cause__, RateLimited)
        with pytest.raises(ServiceUnavailable, match="refused"):
            conversation.say("hi")


class TestAtOnce:
    @pytest.mark.parametrize(("steps", "results"), [
        ([says(f"q{number}") for number in range(20)], [f"q{number}" for number in range(20)]),
        ([All([says(f"{a}{b}") for b in "xy"]) for a in "12"], [["1x", "1y"], ["2x", "2y"]]),
        ([], []),
    ], ids=["many", "nested", "none"])  # fmt: skip
    def test_results_are_in_order(self, converse: Converse, steps: Any, results: list[Any]) -> None:
        def texts_of(outcome: Any) -> Any:
            return [*map(texts_of, outcome)] if isinstance(outcome, Sequence) else outcome.text

        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            together = texts_of((yield from All(steps)))
            return Answer("", data=[together, texts_of((yield from AllSettled(steps)))])

        answer = converse(respond, caps=TurnLimits(max_model_calls=50)).say("hi")
        assert answer.data == [results, results]

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
        replies = [{"fault": "hang"}, {"fault": "hang"}, {"status": 429}]
        step = All([says("a"), says("b"), says("c")])
        assert converse(coming_to(step), replies).say("hi").text == "RateLimited"

    def test_settled_gives_each_result_or_error(self, converse: Converse) -> None:
        step = AllSettled([CallFunction(divide, {"a": 1, "b": b}) for b in (1, 0, 2)])
        kinds: list[type] = []

        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            kinds.extend(map(type, (yield from step)))
            return Answer("")

        converse(respond, roles={}).say("hi")
        assert kinds == [list, FunctionFailed, list]

    def test_their_progress_is_told_their_texts_are_not(self, converse: Converse) -> None:
        events = list(converse(coming_to(All([says("a"), says("b")]))).stream("hi"))
        assert [event.kind for event in events] == ["step", "step", "answer"]


def test_errors_of_tools_are_raised(converse: Converse, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **more: Any) -> None:
        raise ServiceUnavailable("down")

    monkeypatch.setattr(Toolbox, "call", fail)
    answer = converse(coming_to(CallTools([ToolCall("1", "look")])), roles={}).say("hi")
    assert (answer.text, answer.data) == ("ServiceUnavailable", "down")


class TestCaps:
    @staticmethod
    def endless(turn: Turn[NoSettings]) -> FeatureSteps:
        while True:
            yield from says("again")

    def test_round_trips_are_counted_before_the_call(self, converse: Converse) -> None:
        conversation = converse(self.endless, ["x"] * 10, caps=TurnLimits(max_model_calls=6))
        with pytest.raises(LimitExceeded) as caught:
            conversation.say("hi")
        assert caught.value.limit == "max_model_calls"
        assert converse.calls == 6

    def test_a_feature_may_conclude_without_more_round_trips(self, converse: Converse) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            try:
                yield from self.endless(turn)
            except LimitExceeded:
                return Answer("that is all")
            raise AssertionError

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

        conversation = converse(
            not_asked(says("x")), [{"fault": "hang"}], clock=clock, caps=TurnLimits(seconds=60)
        )
        saying = in_background(conversation.say, "hi")
        clock.wait_for_alarms(2)  # that of the turn, and that of the call
        assert clock.due_in()[0] == 60
        clock.advance(60)
        error = saying.exception(30)
        assert isinstance(error, LimitExceeded)
        assert error.limit == "seconds"
        assert clock.due_in() == []

    def test_time_is_bounded_where_nothing_is_done_but_progress(self, converse: Converse) -> None:
        clock = ManualClock()

        caps = TurnLimits(seconds=60, steps=1)
        respond = not_asked(*[Progress("not yet")] * 9)
        stream = converse(respond, roles={}, clock=clock, caps=caps).stream("x")
        for _ in range(5):  # it is no step
            assert next(stream).kind == "progress"
        clock.advance(60)
        with pytest.raises(LimitExceeded, match="60 seconds"):
            next(stream)

    def test_no_alarm_is_left_behind(self, converse: Converse) -> None:
        clock = ManualClock()
        converse(coming_to(says("x")), clock=clock).say("hi")
        assert clock.due_in() == []


class TestCancelling:
    def test_cancelling_ends_a_read_and_does_not_ask(self, converse: Converse) -> None:
        reached = threading.Event()

        conversation = converse(not_asked(Progress("begins"), says("x")), [{"fault": "hang"}])

        def listen() -> None:
            for event in conversation.stream("hi"):
                if event.kind == "progress":
                    reached.set()

        listening = in_background(listen)
        assert reached.wait(30)
        while not listening.done():  # it may not have come to the prompt yet
            conversation.cancel()
            wait([listening], 0.05)
        assert listening.exception() == Cancelled("cancelled")
        assert conversation.status == "idle"

    def test_cancelling_ends_a_feature_that_only_tells(self, converse: Converse) -> None:
        conversation = converse(not_asked(*[Progress("not yet")] * 9), roles={})
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

        conversation = converse(not_asked(CallFunction(stuck)), roles={})
        saying = in_background(conversation.say, "hi")
        assert entered.wait(30)
        conversation.cancel()
        assert saying.exception(30) == Cancelled("cancelled")
        never.set()

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
        assert recorded(conversation).entries[-1] == TurnEnded(0, error=Cancelled("abandoned"))
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
        assert conversation.resume({"ok": True}).text == "pay 5: {'ok': True}"
        assert converse.calls == 1
        assert conversation.status == "idle"
        assert len(conversation.history) == 2

    def test_without_a_record_it_goes_on_as_well(self, converse: Converse) -> None:
        conversation = paused(converse(self.respond, ["pay 5"], record=False))
        assert conversation.resume("yes").text == "pay 5: yes"
        assert (converse.calls, conversation.record) == (1, None)

    def test_stream_ends_with_paused_event(self, converse: Converse) -> None:
        conversation = converse(self.respond, ["pay 5"])
        events: list[Event] = []
        with pytest.raises(TurnPaused):
            for event in conversation.stream("hi"):
                events.append(event)
        assert events[-1] == Event("paused", conversation.current_pause)

    def test_a_result_has_the_class_that_was_asked_for(self, converse: Converse) -> None:
        conversation = paused(converse(coming_to(Pause("message", returns=Message)), roles={}))
        given = Message("user", "given")
        assert conversation.resume(given).text == str(given)

    @pytest.mark.parametrize(
        "wrong", ["garbage", None, 1, object()], ids=["str", "none", "int", "object"]
    )
    def test_what_it_does_not_wait_for_is_refused(self, converse: Converse, wrong: object) -> None:
        pause = Pause("approval", {"sum": 5}, returns=bool)
        conversation = paused(converse(coming_to(pause), roles={}))
        entries = recorded(conversation).entries
        for _ in range(2):
            with pytest.raises(ValidationError, match="approval"):
                conversation.resume(wrong)
            assert (conversation.status, conversation.current_pause) == ("paused", pause)
            assert recorded(conversation).entries == entries
        assert conversation.resume(True).text == "True"

    @pytest.mark.parametrize("wrong", [object(), float("nan")], ids=["object", "nan"])
    def test_what_has_no_json_form_is_refused_too(self, converse: Converse, wrong: object) -> None:
        conversation = paused(converse(coming_to(Pause("anything")), roles={}))
        with pytest.raises(ValidationError, match="JSON"):
            conversation.resume(wrong)
        assert conversation.resume((1, 2)).text == "[1, 2]"

    def test_each_wait_needs_a_result_of_its_own(self, converse: Converse) -> None:
        conversation = paused(converse(coming_to(Pause("first"), Pause("second")), roles={}))
        with pytest.raises(TurnPaused, match="waits for second"):
            conversation.resume(1)
        assert conversation.current_pause == Pause("second")
        assert conversation.resume(2).data == [1, 2]

    @pytest.mark.parametrize("drop", ["undo", "reset"])
    def test_a_waiting_turn_can_be_dropped(self, converse: Converse, drop: str) -> None:
        conversation = paused(converse(self.respond, ["one", "two"]), "first")
        dropped = getattr(conversation, drop)()
        assert dropped == (Message("user", "first") if drop == "undo" else None)
        assert (conversation.status, conversation.current_pause) == ("idle", None)
        assert converse.host.reopen(recorded(conversation)).status == "idle"
        paused(conversation, "second")

    def test_nothing_else_is_changed_meanwhile(self, converse: Converse) -> None:
        conversation = paused(converse(self.respond, ["one"]), "first")
        for attempt in (
            lambda: conversation.say("second"),
            lambda: conversation.use(temperature=1),
            conversation.configure,
        ):
            with pytest.raises(ConversationBusy) as caught:
                attempt()
            assert "resume" in caught.value.hint
        assert conversation.resume("yes").text == "one: yes"


def test_details_of_a_feature_are_as_they_are_read_again(converse: Converse) -> None:
    def respond(turn: Turn[NoSettings]) -> FeatureSteps:
        assert turn.roles == frozenset()
        yield from Now()
        return Answer("so", details=[Detail("note", "t", {"said": (Message("user", "hi"),)})])

    conversation = converse(respond, roles={})
    [detail] = conversation.say("hi").details
    message = {"role": "user", "content": [{"type": "text", "text": "hi"}]}
    assert detail == Detail("note", "t", {"said": [message]})
    assert as_json(conversation)[-1]["answer"]["details"][-1]["data"] == detail.data
    assert texts(conversation) == ["hi", "so"]
