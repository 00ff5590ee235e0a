"""Acceptance of the host, item by item of source document 000, as far as the core
goes. Items 2, 3 and 4 are in `test_configuration.py`; 6 and 18 belong to what is built on it."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen
from support import Terminal

from genai_host import Conversation, Host, InMemoryRecord, Message
from genai_host.api import (
    Answer,
    CallFunction,
    CancelToken,
    DialectEndpoint,
    Feature,
    FeatureSteps,
    Model,
    NoSettings,
    Part,
    Progress,
    Prompt,
    Provider,
    ProviderReply,
    ProviderRequest,
    ProviderType,
    Services,
    Turn,
    hookimpl,
    hooks,
)
from genai_host.errors import (
    Cancelled,
    GenaiError,
    InvalidParameter,
    NoRoute,
    NotFound,
    ProviderRemoved,
    RateLimited,
    ValidationError,
)
from genai_host.store import Store
from genai_host_testing import InlinePlugin
from genai_host_testing.internal.assistants_api import until
from genai_host_testing.internal.fixtures import MakeHost, mock_of, requests_of
from genai_host_testing.suites.base import in_background


def test_item_01_three_contracts_are_hooks(make_host: MakeHost) -> None:
    """The same from installed wheels: tests/project/test_installed.py, TestStrangers."""
    for hook in ("genai_providers", "genai_models", "genai_features"):
        assert getattr(hooks, hook).genai_host_spec is not None

    class Own(Provider):
        serves = {"plain": DialectEndpoint()}

        def __init__(self, settings: NoSettings, services: Services) -> None: ...

        def send(self, request: ProviderRequest, limits: CancelToken) -> ProviderReply:
            return ProviderReply(b'{"message": {"role": "assistant", "content": "own"}}')

        stream = send

    def respond(turn: Turn[NoSettings]) -> FeatureSteps:
        return Answer((yield from Prompt([turn.message])).text + "!")

    class Plugin:
        @hookimpl
        def genai_providers(self) -> list[ProviderType[NoSettings]]:
            return [ProviderType("own", NoSettings, Own)]

        @hookimpl
        def genai_models(self) -> list[Model]:
            return [Model("own-1", ["plain"], at={"own": "1"})]

        @hookimpl
        def genai_features(self) -> list[Feature[NoSettings]]:
            return [Feature("shout", NoSettings, respond)]

    host = make_host(own=Plugin())
    assert host.open("shout", "own-1").say("hi").text == "own!"


def test_item_05_the_matrix_says_what_runs_and_why_the_rest_does_not(make_host: MakeHost) -> None:
    stranger = Model("stranger", ["unheard-of"], at={"mock": "s"})
    host = make_host(stranger=InlinePlugin(models=[stranger]))
    host.instances.add("keyless", "mock", {"missing": "no key: set MOCK_KEY"})
    matrix = {(each.model.name, each.provider): each for each in host.routes()}
    assert matrix["mock", "mock"].runs
    assert not matrix["mock", "keyless"].runs
    for model, provider, reason in (
        ("mock", "keyless", "no key: set MOCK_KEY"),
        ("stranger", "mock", "no common dialect: stranger supports unheard-of"),
        ("mock", "ollama", "genai-host install genai-vendor-ollama"),
    ):
        with pytest.raises(NoRoute) as caught:
            host.open("chat", model, provider=provider)
        assert reason in f"{caught.value} {caught.value.hint}"


def test_item_07_prompts_and_progress_make_one_answer(make_host: MakeHost) -> None:
    def respond(turn: Turn[NoSettings]) -> FeatureSteps:
        draft = yield from Prompt([turn.message], stream=False)
        yield from Progress("polishing")
        final = yield from Prompt([Message("user", f"polish {draft.text}")])
        return Answer(final.text)

    host = make_host(f=InlinePlugin(features=[Feature("polish", NoSettings, respond)]))
    events = list(host.open("polish", "mock").stream("text"))
    kinds = [event.kind for event in events]
    assert kinds == ["step", "progress", "delta", "delta", "step", "answer"]
    answer = events[-1].answer
    assert answer is not None
    assert answer.summary == "polish text"
    assert [detail.kind for detail in answer.details] == ["prompt", "prompt"]
    for detail in answer.details:
        assert {"added", "answer", "usage", "seconds", "model", "provider"} <= set(detail.data)
    chat = host.open("chat", "mock").say("hi")
    assert chat.details[0].data["usage"]["output_tokens"] == 1


def test_item_08_ten_turns_are_twenty_messages(host: Host) -> None:
    conversation = host.open("chat", "mock")
    for number in range(10):
        conversation.say(f"turn {number}")
    assert len(conversation.history) == 20
    roles = [message["role"] for message in requests_of(host, "mock")[-1]["messages"]]
    assert roles.count("system") == 1
    assert len(roles) - 1 == 19
    conversation.reset()
    assert conversation.history == ()


def test_item_08_history_can_be_disabled_and_trimmed(host: Host) -> None:
    conversation = host.open("chat", "mock", settings={"keep_history": False})
    conversation.say("one")
    assert conversation.history == ()
    conversation = host.open("chat", "mock", settings={"history_turns": 2})
    for number in range(5):
        conversation.say(f"turn {number}")
    assert len(conversation.history) == 10
    assert len(requests_of(host, "mock")[-1]["messages"]) == 1 + 2 * 2 + 1


def test_item_09_a_failed_prompt_leaves_the_history_and_stays_on_record(host: Host) -> None:
    host.instances.add("failing", "mock", {"replies": ["fine", {"status": 429}]})
    conversation = host.open("chat", provider="failing")
    conversation.say("one")
    before = json.dumps(host.codec.to_json(conversation.history))
    with pytest.raises(RateLimited) as caught:
        conversation.say("two")
    assert json.dumps(host.codec.to_json(conversation.history)) == before
    error = caught.value
    assert (error.provider, error.model, error.status) == ("failing", "mock", 429)
    assert isinstance(conversation.record, InMemoryRecord)
    assert "two" in json.dumps(conversation.record.to_json())
    assert '"rate_limited"' in json.dumps(conversation.record.to_json())


def test_item_10_parameters_are_validated_by_name_and_per_conversation(host: Host) -> None:
    values: dict[str, Any] = {
        "temperature": 0.5, "top_p": 0.9, "top_k": 40, "stop": ["END"], "max_tokens": 100,
    }  # fmt: skip
    one = host.open("chat", "mock", parameters=values, settings={"system_prompt": "Be brief."})
    two = host.open("chat", "mock", parameters={"seed": 2})
    one.say("x")
    two.say("x")
    one.say("x")
    assert [request["parameters"] for request in requests_of(host, "mock")] == [
        values,
        {"seed": 2},
        values,
    ]
    assert requests_of(host, "mock")[0]["messages"][0]["content"][0]["text"] == "Be brief."
    for wrong in ({"temprature": 1}, {"temperature": "hot"}, {"top_k": 0}, {"stop": "END"}):
        with pytest.raises(InvalidParameter) as caught:
            host.open("chat", "mock", parameters=wrong)
        assert set(values) < set(caught.value.valid)


def test_item_11_fifty_conversations_in_parallel_see_only_their_own(host: Host) -> None:
    """Their history, and their parameters."""
    start = threading.Barrier(50)

    def converse(number: int) -> Conversation:
        host.instances.add(f"own-{number}", "mock")
        conversation = host.open("chat", provider=f"own-{number}", parameters={"seed": number})
        start.wait(60)
        for turn in range(5):
            conversation.say(f"conversation {number} turn {turn}")
        return conversation

    with ThreadPoolExecutor(50) as threads:
        conversations = list(threads.map(converse, range(50)))
    for number, conversation in enumerate(conversations):
        texts = [message.text for message in conversation.history]
        assert texts == [f"conversation {number} turn {turn}" for turn in range(5) for _ in "qa"]
        seeds = {each["parameters"]["seed"] for each in requests_of(host, f"own-{number}")}
        assert seeds == {number}


@pytest.mark.parametrize("end", ["remove", "disable"])
def test_item_12_fails_cleanly_where_its_instance_is_gone(host: Host, end: str) -> None:
    host.instances.add("second-account", "mock", {"replies": ["a", {"fault": "hang"}]})
    conversation = host.open("chat", provider="second-account")
    conversation.say("x")
    provider: Any = host.instances["second-account"].provider
    talking = in_background(conversation.say, "y")
    until(lambda: len(provider.requests) == 2)
    getattr(host.instances, end)("second-account")
    error = talking.exception(30)
    assert isinstance(error, ProviderRemoved)
    assert error.provider == "second-account"
    with pytest.raises(ProviderRemoved, match="second-account"):
        conversation.say("z")
    assert len(conversation.history) == 2


def test_item_13_added_and_removed_reach_observers(make_host: MakeHost) -> None:
    events: list[tuple[str, str, bool]] = []

    class Watching(InlinePlugin):
        @hookimpl
        def genai_on_change(self, kind: str, name: str, added: bool) -> None:
            events.append((kind, name, added))

    host = make_host(watching=Watching())
    host.instances.add("new", "mock")
    host.instances.remove("new")
    assert events == [("provider", "new", True), ("provider", "new", False)]


def test_item_14_the_scripted_mock(host: Host) -> None:
    """Its faults, delays and streams one by one: the tests of genai-vendor-mock."""
    call = {"id": "1", "name": "look", "arguments": {"at": "x"}}
    replies = ["one", {"tool_calls": [call]}, {"status": 500}, "two"]
    host.instances.add("script", "mock", {"replies": replies})
    provider = mock_of(host, "script")
    conversation = host.open("chat", provider="script")
    assert conversation.say("x").text == "one"
    assert provider.script.index == 1
    with pytest.raises(GenaiError):
        conversation.say("x")
    with pytest.raises(GenaiError):
        conversation.say("x")
    assert "".join(event.text for event in conversation.stream("x")) == "two"
    provider.script.reset()
    assert provider.script.index == 0
    assert conversation.say("x").text == "one"


def own_vendor(question: str) -> str:
    return f"answer to {question}, by a vendor of its own"


def test_item_15_a_feature_may_talk_to_a_vendor_of_its_own(make_host: MakeHost) -> None:
    def respond(turn: Turn[NoSettings]) -> FeatureSteps:
        text = yield from CallFunction(own_vendor, {"question": turn.message.text})
        return Answer(text)

    feature = Feature("bypass", NoSettings, respond, roles={})
    host = make_host(mock=None, f=InlinePlugin(features=[feature]))
    assert not host.routes()
    answer = host.open("bypass").say("why?")
    assert answer.text == "answer to why?, by a vendor of its own"
    assert answer.details[0].kind == "call_function"


@frozen
class Place(Part):
    type = "place"
    name: str


class TestItem17:
    def test_an_unknown_role_or_part_is_an_error(self, host: Host) -> None:
        with pytest.raises(ValidationError, match="unknown role 'narrator'"):
            Message("narrator", "x")  # type: ignore[arg-type]
        for wrong in (
            {"role": "narrator", "content": "x"},
            {"role": "user", "content": [{"type": "hologram"}]},
            {"role": "user", "content": [{"type": "text", "text": "x", "extra": 1}]},
        ):
            with pytest.raises(ValidationError):
                host.codec.from_json(wrong, Message)

    def test_plugins_may_register_more_parts(self, make_host: MakeHost) -> None:
        host = make_host(places=InlinePlugin(parts=[Place]))
        message = Message("user", ["where is", Place("Oslo")])
        assert host.codec.from_json(host.codec.to_json(message), Message) == message
        assert host.open("chat", "mock").say(message).text == "where is"


class TestItem19:
    """Cancelling in mid-reply closes the upstream connection: `HttpProviderSuite` for each service,
    test_local_cancel.py for the embedded model."""

    def test_closing_releases_everything(self, make_host: MakeHost) -> None:
        before = set(threading.enumerate())
        host = make_host()
        host.instances.add("stuck", "mock", {"replies": [{"fault": "hang"}]})
        conversation = host.open("chat", provider="stuck")
        ended = threading.Event()

        def talk() -> None:
            with pytest.raises(Cancelled):
                conversation.say("x")
            ended.set()

        thread = threading.Thread(target=talk)
        thread.start()
        while not ended.wait(0.05):
            conversation.close()
        thread.join(30)
        host.close()
        assert set(threading.enumerate()) <= before


@pytest.mark.part
def test_item_16_stored_reopened_renamed_exported(make_host: MakeHost, tmp_path: Path) -> None:
    with Store(tmp_path / "x.db") as store:
        first = make_host(store=store).open("chat", "mock")
        first.say("What was said")
        first.say("and more")
        transcript = first.history
    with Store(tmp_path / "x.db") as store:
        host = make_host(store=store)
        again = host.conversation(first.id)
        assert again.history == transcript
        assert again.say("goes on").text == "goes on"
        store.rename(first.id, "of interest")
        assert [each.title for each in host.conversations()] == ["of interest"]
        copy = store.import_conversation(store.export(first.id), host.codec)
        assert host.conversation(copy).history == again.history
        assert "What was said" in store.markdown(first.id, host.codec)
        store.delete(first.id)
        with pytest.raises(NotFound):
            host.conversation(first.id)
        assert [each.id for each in host.conversations()] == [copy]


@pytest.mark.part
def test_item_16_from_the_command_line(terminal: Terminal, tmp_path: Path) -> None:
    def ended(*arguments: str) -> str:
        code, out, err = terminal(*arguments)
        assert code == 0, err
        return out

    ended("ask", "-p", "mock", "the first")
    ended("ask", "-p", "mock", "-c", "the second")
    (listed,) = json.loads(ended("conversations", "list", "--json"))
    assert (listed["turns"], listed["status"]) == (2, "idle")
    id = listed["id"]
    ended("conversations", "rename", id, "mine")
    assert "mine" in ended("conversations", "list")
    assert "the first" in ended("conversations", "show", id)
    assert ended("conversations", "export", id, "--format", "markdown").startswith("# mine")
    (tmp_path / "kept.json").write_text(ended("conversations", "export", id))
    ended("conversations", "delete", id, "--yes")
    assert json.loads(ended("conversations", "list", "--json")) == []
    ended("conversations", "import", str(tmp_path / "kept.json"))
    assert "the second" in ended("conversations", "show", "last")
