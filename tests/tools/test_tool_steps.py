"""Features that offer and call tools: at once, approved of, on record, and replayed."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from genai_host import Conversation, Host, InMemoryRecord, Message, TurnLimits
from genai_host.api import (
    All,
    AllSettled,
    Answer,
    CallTool,
    CallTools,
    Cancellation,
    Completion,
    Detail,
    Feature,
    FeatureSteps,
    Image,
    ListTools,
    NoSettings,
    Now,
    Pause,
    Prompt,
    Tool,
    ToolCall,
    ToolContext,
    ToolOutput,
    Turn,
    tool_message,
)
from genai_host.conversations.record import StepEnded, StepStarted, TurnEnded
from genai_host.errors import (
    Cancelled,
    ConversationClosed,
    LimitExceeded,
    ServiceUnavailable,
    TurnPaused,
)
from genai_host_testing import FakeModel, InlinePlugin, RecordedPrompt, replay_from_every_entry
from genai_host_testing.suites.base import in_background

MakeHost = Callable[..., Host]
Respond = Callable[[Turn[NoSettings]], FeatureSteps]


class Counting:
    """A tool that repeats what it is told, and counts how often it was called."""

    def __init__(self, name: str, **fields: Any) -> None:
        self.calls = 0
        self.tool = Tool(name, "repeats what it is told", self, **fields)

    def __call__(self, arguments: Mapping[str, Any], run: ToolContext) -> str:
        self.calls += 1
        return f"{arguments.get('say', '')}{run.context.get('page', '')}"


class Hanging:
    """A tool that hangs until the test lets it go, or its call is to end if it `heeds` that."""

    def __init__(self, heeds: bool = False) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        self.heeds = heeds
        self.tool = Tool("hang", "x", self)

    def __call__(self, arguments: Mapping[str, Any], run: ToolContext) -> None:
        with run.limits.on_cancel(self.go.set if self.heeds else lambda: None):
            self.begun.set()
            self.go.wait()


def host_of(make_host: MakeHost, respond: Respond, *tools: Tool, **more: Any) -> Host:
    feature = Feature("f", NoSettings, respond, roles=more.pop("roles", {}))
    return make_host(f=InlinePlugin(features=[feature], tools=tools), **more)


def calls(*names: str, **arguments: Any) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(str(number), name, arguments) for number, name in enumerate(names))


def calling(*names: str, **fields: Any) -> Respond:
    """Calls tools, and answers with the texts of their outputs."""

    def respond(turn: Turn[NoSettings]) -> FeatureSteps:
        outputs = yield from CallTools(calls(*names, say="x"), turn.context, **fields)
        return Answer(" | ".join(output.text for output in outputs))

    return respond


def agent(turn: Turn[NoSettings]) -> FeatureSteps:
    """As an agent does it: prompts, and calls what it is asked for, until it is not."""
    offered = yield from ListTools(turn.context)
    messages = [*turn.history, turn.message]
    while True:
        completion = yield from Prompt(messages, tools=[each.schema for each in offered])
        messages.append(completion.message)
        if not completion.tool_calls:
            return Answer(completion.text)
        asks = {each.name for each in offered if each.approval == "ask"}
        approved: set[str] = set()
        for call in completion.tool_calls:
            if call.name in asks and (yield from Pause("approval", {"tool": call.name})):
                approved.add(call.id)
        outputs = yield from CallTools(completion.tool_calls, turn.context, approved)
        messages.append(tool_message(completion.tool_calls, outputs))


def asking(*rounds: Sequence[ToolCall]) -> Callable[[RecordedPrompt], Any]:
    """A model that asks for some tools, round by round, and then repeats their outputs."""

    def answer(prompt: RecordedPrompt) -> Any:
        since = [message for message in prompt.messages if message.role == "tool"]
        if len(since) < len(rounds):
            return Completion(Message("assistant", rounds[len(since)]), "tool_calls")
        results: Any = [part for message in since for part in message.content]
        return " | ".join(part.text for result in results for part in result.content)

    return answer


def recorded(conversation: Conversation) -> InMemoryRecord:
    assert isinstance(conversation.record, InMemoryRecord)
    return conversation.record


def cut(host: Host, record: InMemoryRecord, length: int) -> Conversation:
    """The conversation that a crash leaves after some entries."""
    form = json.loads(json.dumps(record.to_json(host.codec)))
    return host.reopen(InMemoryRecord.from_json(form[:length], host.codec))


class TestSteps:
    def test_the_tools_that_apply_are_offered(self, make_host: MakeHost) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            offered = yield from ListTools(turn.context)
            return Answer("", data=[[each.name, each.approval] for each in offered])

        shy = Counting("shy", available_when=lambda context: "page" in context).tool
        conversation = host_of(
            make_host, respond, Counting("b", approval="ask").tool, Counting("a").tool, shy
        ).open("f")
        assert conversation.say("hi").data == [["a", "allow"], ["b", "ask"]]
        assert conversation.say("hi", context={"page": 1}).data[-1] == ["shy", "allow"]

    def test_outputs_come_in_the_order_of_the_calls(self, make_host: MakeHost) -> None:
        first_may_end = threading.Event()

        def slow(*_: Any) -> str:
            assert first_may_end.wait(30)
            return "slow"

        def quick(*_: Any) -> str:
            first_may_end.set()
            return "quick"

        tools = [Tool("slow", "x", slow), Tool("quick", "x", quick)]
        text = host_of(make_host, calling("slow", "quick", "none"), *tools).open("f").say("hi").text
        assert text == "slow | quick | unknown tool 'none'; choose from: quick, slow"
        assert host_of(make_host, calling()).open("f").say("hi").text == ""

    def test_one_call_is_a_step_too(self, make_host: MakeHost) -> None:
        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            output = yield from CallTool(ToolCall("1", "a", {"say": "x"}))
            both = yield from All([CallTools(calls("a", say="y")), CallTools(calls("a", say="z"))])
            settled: Any = yield from AllSettled([CallTools(calls("a", say="s")), Now()])
            return Answer("".join(each.text for each in [output, *both[0], *both[1], *settled[0]]))

        host = host_of(make_host, respond, Counting("a", idempotent=True).tool)
        conversation = host.open("f")
        assert conversation.say("hi").text == "xyzs"
        assert replay_from_every_entry(host, recorded(conversation)) > 10

    def test_only_what_is_approved_of_runs(self, make_host: MakeHost) -> None:
        tools = [Counting("ask", approval="ask"), Counting("deny", approval="deny")]
        respond = calling("ask", "ask", "deny", approved={"1", "2"})
        text = host_of(make_host, respond, *(each.tool for each in tools)).open("f").say("hi").text
        refused, approved, denied = text.split(" | ")
        assert "needs the approval of the user" in refused
        assert approved == "x"
        assert "is denied" in denied
        assert [each.calls for each in tools] == [1, 0]

    def test_each_call_counts_as_a_step(self, make_host: MakeHost) -> None:
        host = host_of(make_host, calling("a", "a", "a"), Counting("a").tool)
        host.open("f", turn_limits=TurnLimits(steps=4)).say("hi")
        with pytest.raises(LimitExceeded):
            host.open("f", turn_limits=TurnLimits(steps=3)).say("hi")

    def test_what_is_behind_an_answer_tells_of_each_call(self, make_host: MakeHost) -> None:
        reactions = ({"type": "message", "message": "hi"},)
        react = Tool("react", "x", lambda *_: ToolOutput("done", reactions=reactions))
        *events, last = host_of(make_host, calling("react", "none"), react).open("f").stream("hi")
        assert last.answer is not None
        assert [event.data for event in events] == list(last.answer.details)
        done, missing = last.answer.details
        assert (done.kind, done.title) == ("call_tool", "tool react")
        assert done.data == {
            "tool": "react", "id": "0", "arguments": {"say": "x"}, "text": "done", "failed": False,
            "reactions": [{"type": "message", "message": "hi"}],
        }  # fmt: skip
        assert missing.title == "tool none failed"
        assert missing.data["failed"] is True
        assert "unknown tool 'none'" in missing.data["text"]


class TestSeen:
    """What tools give for people to see is in the answer, whichever feature calls them."""

    PICTURE = Image(b"123", "image/png")

    def host(self, make_host: MakeHost) -> Host:
        def see(arguments: Mapping[str, Any], run: ToolContext) -> ToolOutput:
            return ToolOutput(
                [f"{arguments}", self.PICTURE], reactions=[{"type": "x", **arguments}]
            )

        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            first = yield from CallTools(calls("see", "none", "see", say="a"))
            yield from Pause("approval")
            yield from CallTools(calls("see", say="b"))
            own = Detail("own", "mine", {"reactions": [{"type": "y"}, {"no": "type"}, 5]})
            mine = Image(url="https://a.example/")
            return Answer(str(len(first)), details=[own], images=[mine])

        return host_of(make_host, respond, Tool("see", "x", see))

    def test_it_is_there_in_the_order_of_the_calls_and_on_record(self, make_host: MakeHost) -> None:
        host = self.host(make_host)
        conversation = host.open("f")
        with pytest.raises(TurnPaused):
            conversation.say("hi")
        answer = conversation.resume(True)
        assert answer.reactions == (*[{"type": "x", "say": each} for each in "aab"], {"type": "y"})
        assert answer.images == (*[self.PICTURE] * 3, Image(url="https://a.example/"))
        form = json.loads(json.dumps(recorded(conversation).to_json(host.codec)))
        [*_, last] = InMemoryRecord.from_json(form, host.codec).entries
        assert isinstance(last, TurnEnded)
        assert last.answer is not None
        assert last.answer.reactions == answer.reactions
        assert last.answer.images == answer.images
        assert cut(host, recorded(conversation), len(form) - 1).resume() == answer

    def test_what_is_no_picture_is_refused(self) -> None:
        wrong: Any = ["x"]
        with pytest.raises(TypeError, match="images must be images"):
            Answer("", images=wrong)


class TestEnding:
    @pytest.mark.parametrize("how", ["cancel", "close"])
    def test_a_turn_does_not_wait_for_a_tool(self, make_host: MakeHost, how: str) -> None:
        hanging = Hanging()
        host = host_of(make_host, calling("hang", "a"), hanging.tool, Counting("a").tool)
        conversation = host.open("f")
        saying = in_background(conversation.say, "hi")
        assert hanging.begun.wait(30)
        getattr(conversation, how)()
        assert isinstance(saying.exception(30), Cancelled)
        assert conversation.history == ()
        hanging.go.set()

    def test_a_failure_beside_it_ends_it(self, make_host: MakeHost) -> None:
        hanging = Hanging(heeds=True)

        def fail(prompt: RecordedPrompt) -> str:
            assert hanging.begun.wait(30)
            raise ServiceUnavailable("as the test wants it", retryable=False)

        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            yield from All([CallTool(ToolCall("1", "hang")), Prompt([turn.message])])
            raise AssertionError("not reached")

        more: Any = {"roles": {"main": "chat"}, "fake": FakeModel(fail)}
        host = host_of(make_host, respond, hanging.tool, **more)
        with pytest.raises(ServiceUnavailable):
            host.open("f", "fake").say("hi")
        assert hanging.go.is_set()


class TestReplay:
    def test_an_agent_goes_on_from_wherever_it_was_cut(self, make_host: MakeHost) -> None:
        fake = FakeModel(asking(calls("a", "b", say="x"), calls("a", say="y")))
        tools = [Counting("a", idempotent=True), Counting("b", idempotent=True, approval="ask")]
        host = host_of(
            make_host, agent, *(each.tool for each in tools), roles={"main": "chat"}, fake=fake
        )
        conversation = host.open("f", "fake")
        with pytest.raises(TurnPaused):
            conversation.say("hi", context={"page": 7})
        assert conversation.resume(True).text == "x7 | x7 | y7"
        assert [each.calls for each in tools] == [2, 1]
        assert replay_from_every_entry(host, recorded(conversation), give=lambda kind: True) > 10

    @pytest.mark.parametrize("repeatable", [True, False])
    def test_a_call_under_way_may_run_again(self, make_host: MakeHost, repeatable: bool) -> None:
        first, second = Counting("first"), Counting("second", idempotent=repeatable)
        host = host_of(make_host, calling("first", "second"), first.tool, second.tool)
        conversation = host.open("f", turn_limits=TurnLimits(parallel=1))
        conversation.say("hi")
        entries = recorded(conversation).entries
        paths = [isinstance(entry, StepStarted) and entry.path for entry in entries]
        under_way = paths.index((0, 1))
        again = cut(host, recorded(conversation), under_way + 1)
        answer = again.resume()
        assert first.calls == 1
        if repeatable:
            assert second.calls == 2
            assert answer.text == "x | x"
        else:
            assert second.calls == 1
            assert answer.text == "x | 'second' was interrupted and may have completed"
            assert [each.data["failed"] for each in answer.details] == [False, True]
        ended = [e for e in recorded(again).entries if isinstance(e, StepEnded)]
        assert all(each.error is None for each in ended)
        assert cut(host, recorded(again), len(recorded(again).entries) - 1).resume() == answer
        assert first.calls == 1

    def test_what_ended_is_not_rerun_and_offers_are_on_record(self, make_host: MakeHost) -> None:
        applies = True

        def respond(turn: Turn[NoSettings]) -> FeatureSteps:
            offered = yield from ListTools()
            outputs = yield from CallTools(calls("a", "a", say="x"))
            return Answer(", ".join([*(each.name for each in offered), *map(str, outputs)]))

        counting = Counting("a", available_when=lambda context: applies)
        host = host_of(make_host, respond, counting.tool)
        conversation = host.open("f")
        expected = conversation.say("hi")
        assert expected.text.startswith("a, ")
        applies = False
        record = recorded(conversation)
        assert cut(host, record, len(record.entries) - 1).resume() == expected
        assert counting.calls == 2


class TestHost:
    def test_people_call_tools_too(self, make_host: MakeHost) -> None:
        host = make_host(f=InlinePlugin(tools=[Counting("a", approval="ask").tool]))
        assert "needs the approval of the user" in host.call_tool("a").text
        output = host.call_tool("a", {"say": "x"}, context={"page": 1}, approved=True)
        assert output == ToolOutput("x1")
        assert host.call_tool("b").error

    def test_closing_the_host_ends_a_call(self, make_host: MakeHost) -> None:
        hanging = Hanging()
        host = make_host(f=InlinePlugin(tools=[hanging.tool]))
        calling = in_background(host.call_tool, "hang")
        assert hanging.begun.wait(30)
        host.close()
        assert isinstance(calling.exception(30), ConversationClosed)
        with pytest.raises(ConversationClosed):
            host.call_tool("hang")
        hanging.go.set()

    def test_a_call_ends_with_the_limits_that_it_is_given(self, make_host: MakeHost) -> None:
        hanging, limits = Hanging(heeds=True), Cancellation()
        host = make_host(f=InlinePlugin(tools=[hanging.tool]))
        calling = in_background(lambda: host.call_tool("hang", limits=limits))
        assert hanging.begun.wait(30)
        limits.cancel()
        assert isinstance(calling.exception(30), Cancelled)
        assert hanging.go.wait(30)
        assert "unknown tool" in host.call_tool("other", limits=Cancellation()).text

    def test_what_a_model_is_offered_can_be_known(self, make_host: MakeHost) -> None:
        tools = [
            Counting("a", approval="ask").tool,
            Counting("b", approval="deny").tool,
            Counting("c", available_when=lambda context: "page" in context).tool,
        ]
        host = make_host(f=InlinePlugin(tools=tools))
        assert [(each.name, each.approval) for each in host.offered_tools()] == [("a", "ask")]
        assert [each.name for each in host.offered_tools({"page": 1})] == ["a", "c"]

    def test_two_tools_of_one_name_break_a_plugin(self, make_host: MakeHost) -> None:
        tools = [Counting("a").tool]
        host = make_host(one=InlinePlugin(tools=tools), two=InlinePlugin(tools=[*tools]))
        [broken] = host.plugins.broken
        assert broken.reason == "the tool 'a' is already declared by one"
        assert host.registry.owner("tool", "a") == "one"
