"""Acceptance of the host, item by item of source document 000, as far as the core
goes. Items 2, 3 and 4 are in `test_configuration.py`; 6, 16 and 18 belong to what is built
on it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen
from genai_vendor_mock import MockProvider

from genai_host import Host, InMemoryRecord, Message, TurnLimits
from genai_host.api import (
    Answer,
    CallFunction,
    CancelToken,
    DialectEndpoint,
    Feature,
    FeatureSteps,
    Image,
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
    ProviderRemoved,
    RateLimited,
    UnsupportedPart,
    ValidationError,
)
from genai_host_testing import InlinePlugin

MakeHost = Callable[..., Host]


def requests(host: Host, provider: str) -> list[dict[str, Any]]:
    found = host.instances[provider].provider
    assert isinstance(found, MockProvider)
    return list(found.requests)


def test_item_01_three_contracts_are_hooks_and_one_row_or_class_registers_each(
    make_host: MakeHost,
) -> None:
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


def test_item_07_many_prompts_and_progress_make_one_answer_with_details(
    make_host: MakeHost,
) -> None:
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


def test_item_08_ten_turns_are_twenty_messages_and_the_tenth_request_has_nineteen(
    host: Host,
) -> None:
    conversation = host.open("chat", "mock")
    for number in range(10):
        conversation.say(f"turn {number}")
    assert len(conversation.history) == 20
    roles = [message["role"] for message in requests(host, "mock")[-1]["messages"]]
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
    assert len(requests(host, "mock")[-1]["messages"]) == 1 + 2 * 2 + 1


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
    assert [request["parameters"] for request in requests(host, "mock")] == [
        values,
        {"seed": 2},
        values,
    ]
    assert requests(host, "mock")[0]["messages"][0]["content"][0]["text"] == "Be brief."
    for wrong in ({"temprature": 1}, {"temperature": "hot"}, {"top_k": 0}, {"stop": "END"}):
        with pytest.raises(InvalidParameter) as caught:
            host.open("chat", "mock", parameters=wrong)
        assert set(values) < set(caught.value.valid)


@pytest.mark.weights
def test_item_10_a_providers_own_parameters_are_taken_and_checked(local_host: Host) -> None:
    conversation = local_host.open(
        "chat", "smollm2", parameters={"min_p": 0.1, "repeat_penalty": 1.1, "max_tokens": 4}
    )
    assert conversation.say("hi").usage.output_tokens <= 4
    with pytest.raises(InvalidParameter, match="parameter 'min_p': 2"):
        local_host.open("chat", "smollm2", parameters={"min_p": 2})


def test_item_11_fifty_conversations_in_parallel_see_only_their_own(host: Host) -> None:
    """With each conversation's parameters as well: tests/conversations/test_conversation.py."""
    conversations = [host.open("chat", "mock") for _ in range(50)]
    start = threading.Barrier(50)

    def talk(number: int) -> None:
        start.wait(60)
        for turn in range(4):
            conversations[number].say(f"{number}/{turn}")

    threads = [threading.Thread(target=talk, args=(number,)) for number in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for number, conversation in enumerate(conversations):
        texts = [message.text for message in conversation.history]
        assert texts == [f"{number}/{turn}" for turn in range(4) for _ in "qa"]


@pytest.mark.parametrize("end", ["remove", "disable"])
def test_item_12_a_conversation_whose_instance_is_gone_fails_cleanly_and_names_it(
    host: Host, end: str
) -> None:
    host.instances.add("second-account", "mock", {"replies": ["a", {"fault": "hang"}]})
    conversation = host.open("chat", provider="second-account")
    conversation.say("x")
    failures: list[GenaiError] = []
    begun = threading.Event()

    def talk() -> None:
        begun.set()
        with pytest.raises(ProviderRemoved) as caught:
            conversation.say("y")
        failures.append(caught.value)

    thread = threading.Thread(target=talk)
    thread.start()
    assert begun.wait(30)
    getattr(host.instances, end)("second-account")
    thread.join(30)
    assert [failure.provider for failure in failures] == ["second-account"]
    with pytest.raises(ProviderRemoved, match="second-account"):
        conversation.say("z")
    assert len(conversation.history) == 2


def test_item_13_added_and_removed_reach_observers(make_host: MakeHost) -> None:
    heard: list[tuple[str, str, bool]] = []

    class Watching(InlinePlugin):
        @hookimpl
        def genai_on_change(self, kind: str, name: str, added: bool) -> None:
            heard.append((kind, name, added))

    host = make_host(watching=Watching())
    host.instances.add("new", "mock")
    host.instances.remove("new")
    assert heard == [("provider", "new", True), ("provider", "new", False)]


def test_item_14_the_scripted_mock(host: Host) -> None:
    """Its faults, delays and streams one by one: the tests of genai-vendor-mock."""
    call = {"id": "1", "name": "look", "arguments": {"at": "x"}}
    replies = ["one", {"tool_calls": [call]}, {"status": 500}, "two"]
    host.instances.add("script", "mock", {"replies": replies})
    provider = host.instances["script"].provider
    assert isinstance(provider, MockProvider)
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

    @pytest.mark.weights
    def test_a_part_that_a_dialect_cannot_write_is_an_error(self, local_host: Host) -> None:
        conversation = local_host.open("chat", "smollm2")
        with pytest.raises(UnsupportedPart) as caught:
            conversation.say(["where is", Place("Oslo")])
        assert (caught.value.part, caught.value.dialect) == ("place", "openai-chat")
        with pytest.raises(NoRoute, match="it needs images"):
            conversation.say(["what is", Image(b"\x89PNG", "image/png")])
        assert conversation.history == ()


class TestItem19:
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

    @pytest.mark.weights
    def test_cancelling_in_mid_reply_stops_the_model(self, local_host: Host) -> None:
        conversation = local_host.open(
            "chat", "smollm2", parameters={"max_tokens": 4000}, turn_limits=TurnLimits(seconds=None)
        )
        stream = conversation.stream("Count from one to one thousand, in words.")
        next(stream)
        conversation.cancel()
        with pytest.raises(Cancelled):
            list(stream)
        for thread in threading.enumerate():
            if thread.name == "llama.cpp":
                thread.join(30)
                assert not thread.is_alive()
        assert conversation.history == ()
        assert conversation.say("Hi").usage.output_tokens > 0


@pytest.fixture
def local_host(make_host: MakeHost, weights: Path, home: Path) -> Host:
    import genai_models_open
    import genai_vendor_local

    data = home / "data" / "local"
    data.parent.mkdir(parents=True)
    data.symlink_to(weights, target_is_directory=True)
    return make_host(models=genai_models_open, local=genai_vendor_local)
