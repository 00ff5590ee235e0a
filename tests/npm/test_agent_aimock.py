"""The agent beside aimock, in each dialect that has tools: aimock asks for two look-ups, then
for one action, then says a text, and keeps what it was sent. It streams wrong as Bedrock; so
ministack speaks as Bedrock in front of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from itertools import groupby
from typing import Annotated, Any

import genai_feature_agent
import genai_vendor_bedrock
import pytest
from genai_feature_agent.http import in_lines, pieces
from genai_feature_agent.request import StatelessAgent
from npm.aimock_service import MODELS, WITHOUT_IDS, Asked, Hosts, aimock, on
from peers.ministack_service import ministack, use_ministack

from genai_host import Host
from genai_host.api import Answer, Tool, ToolCall, ToolOutput, ToolResult, tool
from genai_host.errors import LimitExceeded, TurnPaused, ValidationError
from genai_host_testing import InlinePlugin
from genai_host_testing.internal.configs import provider_config
from genai_host_testing.internal.fixtures import MakeHost

ADDED = {"type": "writeback", "message": "the group has changed"}


class Office:
    """Its tools do what they say, and keep what they did.

    done      the calls, in the order in which they ended
    members   of groups: a user's number and a group's
    """

    def __init__(self) -> None:
        self.users = {"Ada": 7}
        self.groups = {"Staff": 9}
        self.done: list[str] = []
        self.members: list[tuple[int, int]] = []
        self.plugin = InlinePlugin(tools=self._tools())
        self._group_was_found = threading.Event()

    def _tools(self) -> list[Tool]:
        @tool(idempotent=True)
        def find_user(name: Annotated[str, "as the user is called"]) -> str:
            """Find the number of a user."""
            self._group_was_found.wait(30)  # so that it ends after what was asked for after it
            self.done.append("find_user")
            return f"user {_found(self.users, name)}"

        @tool(idempotent=True)
        def find_group(name: Annotated[str, "as the group is called"]) -> str:
            """Find the number of a group."""
            self.done.append("find_group")
            self._group_was_found.set()
            return f"group {_found(self.groups, name)}"

        @tool
        def add(user: int, group: int) -> ToolOutput:
            """Add a user to a group, by their numbers."""
            self.done.append("add")
            self.members.append((user, group))
            return ToolOutput(f"added {user} to {group}", reactions=[ADDED])

        return [find_user, find_group, add]


def _found(numbers: dict[str, int], name: str) -> int:
    if name not in numbers:
        raise ValidationError(f"there is nothing called {name}")
    return numbers[name]


pytestmark = pytest.mark.peers

GEMINI = MODELS["gemini"]
ANSWER = 'Ada is in the group now: é "\u2028".'
LOOK_UPS = [("call_u", "find_user", {"name": "Ada"}), ("call_g", "find_group", {"name": "Staff"})]
ACTION = [("call_a", "add", {"user": 7, "group": 9})]
FAILING = [("call_n", "find_group", {"name": "Nobody"})]


def _calls(calls: list[Any], *, ids: bool) -> Any:
    tool_calls = [
        {**({"id": id} if ids else {}), "name": name, "arguments": arguments}
        for id, name, arguments in calls
    ]
    return {"toolCalls": tool_calls}


def _script(text: str, *, ids: bool = True) -> Iterator[Any]:
    """The example of the document, as aimock has it."""
    yield on(text, _calls(LOOK_UPS, ids=ids), match={"hasToolResult": False})
    yield on(text, _calls(ACTION, ids=ids), match={"toolResultContains": "group 9"})
    yield on(text, {"content": ANSWER}, match={"toolResultContains": "added 7 to 9"})
    yield on(text, {"content": "As you like."}, match={"toolResultContains": "did not approve"})


def _of_gemini(line: Any) -> Any:
    """Google's models say STOP where they call tools. aimock says FUNCTION_CALL, which is no
    reason to end, unless it is told."""
    model = GEMINI.partition("@")[0]
    match = {**line["match"], "model": model}
    return {**line, "match": match, "response": {**line["response"], "finishReason": "stop"}}


_LINES = [
    *_script("Add Ada"),
    *_script("Without ids", ids=False),
    on("Find nobody", _calls(FAILING, ids=True), match={"hasToolResult": False}),
    on(
        "Find nobody", {"content": "There is none."}, match={"toolResultContains": "nothing called"}
    ),
    on("For ever", _calls(FAILING, ids=True)),
    on("and now", {"content": "Nothing more."}),
]
SCRIPT = [*map(_of_gemini, _LINES), *_LINES]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running aimock with the script. It asks for no key: ministack has
    none."""
    with aimock(tmp_path_factory.mktemp("aimock"), SCRIPT, key="") as address:
        yield address


@pytest.fixture(scope="module")
def bedrock_url(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ministack(tmp_path_factory.mktemp("ministack"), url) as address:
        yield address


@pytest.fixture
def office() -> Office:
    return Office()


@pytest.fixture
def hosts(
    url: str, bedrock_url: str, make_host: MakeHost, monkeypatch: pytest.MonkeyPatch, office: Office
) -> MakeHost:
    """Makes hosts for aimock, with the agent and the office."""
    make = Hosts(url, make_host, monkeypatch)
    use_ministack(bedrock_url, monkeypatch)

    def with_agent(**settings: Any) -> Host:
        return make(
            providers={"bedrock": provider_config("bedrock")},
            bedrock=genai_vendor_bedrock,
            agent=genai_feature_agent,
            office=office.plugin,
            **settings,
        )

    return with_agent


@pytest.fixture
def host(hosts: MakeHost) -> Host:
    return hosts()


@pytest.fixture
def asked(url: str) -> Asked:
    return Asked(url)


WITH_TOOLS = {**MODELS, "bedrock": "nova-pro@bedrock"}
each_model = pytest.mark.parametrize("model", WITH_TOOLS.values(), ids=WITH_TOOLS)
each_way = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


def text_for(model: str, text: str = "Add Ada") -> str:
    """What is said to a model for the example."""
    return "Without ids" if model == WITHOUT_IDS else text


def answer_of(host: Host, model: str, text: str, streamed: bool) -> Answer:
    conversation = host.open("agent", model)
    if not streamed:
        return conversation.say(text)
    *_, last = conversation.stream(text)
    assert last.answer is not None
    return last.answer


def called(request: Any) -> list[tuple[str | None, str, Any]]:
    """The calls of tools in a request, in their order: id, name and arguments."""
    return [
        (call.get("id"), call["function"]["name"], _object(call["function"]["arguments"]))
        for message in request["messages"]
        for call in message.get("tool_calls") or ()
    ]


def _object(arguments: Any) -> Any:
    return json.loads(arguments) if isinstance(arguments, str) else arguments


def answered(request: Any) -> list[tuple[str | None, str]]:
    """The answers to calls, in their order: id and text."""
    return [
        (message.get("tool_call_id"), message["content"])
        for message in request["messages"]
        if message["role"] == "tool"
    ]


def speakers(request: Any) -> list[str]:
    """Who speaks after whom. aimock reads what responses say in one go as several messages."""
    return [role for role, _ in groupby(message["role"] for message in request["messages"])]


def shown(text: str, model: str) -> str:
    """The output of a tool as the model is shown it; Google's get an object."""
    marked = f"<tool-output>\n{text}\n</tool-output>"
    if model != GEMINI:
        return marked
    return json.dumps({"output": marked}, separators=(",", ":"))


@each_model
@each_way
def test_three_calls(host: Host, office: Office, asked: Asked, model: str, streamed: bool) -> None:
    answer = answer_of(host, model, text_for(model), streamed)
    assert answer.text == ANSWER
    assert answer.data == {"reactions": [{"type": "message", "message": ANSWER}, ADDED]}
    assert office.done == ["find_group", "find_user", "add"]
    assert office.members == [(7, 9)]

    first, second, third = asked.requests()
    for request in (first, second, third):
        names = {each["function"]["name"] for each in request["tools"]}
        assert names == {"add", "find_group", "find_user"}
    assert speakers(first) == ["system", "user"]
    assert speakers(second) == ["system", "user", "assistant", "tool"]
    assert speakers(third) == ["system", "user", "assistant", "tool", "assistant", "tool"]
    assert [call[1:] for call in called(second)] == [call[1:] for call in LOOK_UPS]
    assert [call[1:] for call in called(third)] == [call[1:] for call in [*LOOK_UPS, *ACTION]]
    assert [text for _, text in answered(third)] == [
        *(shown(text, model) for text in ("user 7", "group 9", "added 7 to 9"))
    ]


@each_model
@each_way
def test_calls_are_answered_in_order(host: Host, asked: Asked, model: str, streamed: bool) -> None:
    answer = answer_of(host, model, text_for(model), streamed)
    parts = [part for message in answer.new_messages or () for part in message.content]
    ids = [part.id for part in parts if isinstance(part, ToolCall)]
    assert len(set(ids)) == 3
    assert [part.id for part in parts if isinstance(part, ToolResult)] == ids
    if model == WITHOUT_IDS:
        return
    assert ids == ["call_u", "call_g", "call_a"]
    *_, last = asked.requests()
    sent = [id for id, _, _ in called(last)]
    assert [id for id, _ in answered(last)] == sent
    if model != GEMINI:  # which aimock does not read the ids of
        assert sent == ids


@each_model
def test_a_failure_is_told_to_the_model(host: Host, asked: Asked, model: str) -> None:
    answer = answer_of(host, model, "Find nobody", False)
    assert answer.text == "There is none."
    _, last = asked.requests()
    [(_, output)] = answered(last)
    assert "there is nothing called Nobody" in output


@each_model
def test_calls_for_ever_end_after_six(host: Host, asked: Asked, model: str) -> None:
    conversation = host.open("agent", model)
    with pytest.raises(LimitExceeded, match="called 6 times"):
        conversation.say("For ever")
    assert conversation.history == ()
    assert len(asked.requests()) == 6


@each_model
def test_a_history_that_is_sent_back_is_what_it_was(host: Host, asked: Asked, model: str) -> None:
    """As front ends hold it: the server keeps nothing between the requests."""
    agent = StatelessAgent(host, model)
    first = agent.reply(agent.read({"message": text_for(model)}))
    assert first.error is None
    history = json.loads(json.dumps(first.to_json()["history"]))
    second = agent.reply(agent.read({"message": "and now?", "history": history}))
    assert second.reactions == [{"type": "message", "message": "Nothing more."}]
    *_, before, now = asked.requests()
    assert now["messages"][: len(before["messages"])] == before["messages"]
    assert speakers(now)[len(speakers(before)) :] == ["assistant", "user"]


@each_model
def test_its_lines_tell_of_it_in_order(host: Host, model: str) -> None:
    agent = StatelessAgent(host, model)
    events = agent.stream(agent.read({"message": text_for(model)}))
    lines = [line.partition(":") for line in in_lines(pieces(events, "m-1"))]
    codes = [code for code, _, _ in lines]
    assert [code for code, _ in groupby(codes)] == [*"f9a9a202d"]
    assert "".join(json.loads(data) for code, _, data in lines if code == "0") == ANSWER


@each_model
@pytest.mark.parametrize("approved", [True, False])
def test_an_action_waits_for_a_human(
    hosts: MakeHost, office: Office, asked: Asked, model: str, approved: bool
) -> None:
    conversation = hosts(approvals={"add": "ask"}).open("agent", model)
    with pytest.raises(TurnPaused):
        conversation.say(text_for(model))
    assert conversation.current_pause is not None
    [call] = conversation.current_pause.payload["calls"]
    assert (call["tool"], call["arguments"]) == ("add", ACTION[0][2])
    assert (office.members, len(asked.requests())) == ([], 2)
    if approved:
        assert conversation.resume({call["id"]: True}).text == ANSWER
        assert office.members == [(7, 9)]
        return
    assert conversation.resume({call["id"]: False}).text == "As you like."
    assert office.members == []
    *_, last = asked.requests()
    assert "did not approve" in answered(last)[-1][1]
