"""Acceptance, chat_models.md: the feature `chat-model`, over the engines that there are."""

from __future__ import annotations

import dataclasses
import json
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import genai_vendor_gemini
import genai_vendor_ollama
import genai_vendor_openai
import pytest
from genai_vendor_mock import ScriptedReply

from genai_host import Config, Conversation, Host, Message
from genai_host.api import Answer, Feature, FeatureSteps, NoSettings, Prompt, Turn
from genai_host.api.settings import describe
from genai_host.errors import (
    BadRequest,
    ConfigurationError,
    GenerationError,
    InvalidParameter,
    MalformedReply,
    OutputValidationError,
    ServiceUnavailable,
    UnexpectedFinish,
    ValidationError,
)
from genai_host.store import Store
from genai_host_testing import InlinePlugin, ManualClock
from genai_host_testing.fake_service import FakeService, Reply as ServiceReply, json_reply, reply
from genai_host_testing.internal.configs import provider_config
from genai_host_testing.internal.fixtures import MakeHost, requests_of
from genai_host_testing.internal.samples import AttrsTrip, DataTrip, TypedTrip
from genai_host_testing.services import (
    gemini as gemini_service,
    ollama as ollama_service,
    openai as openai_service,
)
from genai_host_testing.suites.base import in_background

VENDORS = {"g": genai_vendor_gemini, "oa": genai_vendor_openai, "ol": genai_vendor_ollama}
OPENAI, OLLAMA = "gpt-4.1@openai", "ollama/m-1"
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
}
TRIP = {"city": "Oslo", "days": 3}
JSON = json.dumps(TRIP)
STAMP = "2026-01-01_00-00-00"
HISTORY = [Message("user", "before"), Message("assistant", "that")]


def _pydantic_trip() -> Any:
    pydantic = pytest.importorskip("pydantic")
    return pydantic.create_model("PydanticTrip", city=(str, ...), days=(int, ...))


@dataclasses.dataclass
class OwnTrip:
    """Says itself how it is asked for, and how it is read."""

    said: str

    @classmethod
    def llm_schema(cls, dialect: str) -> dict[str, Any]:
        said = {"type": "string", "description": f"as {dialect} has it"}
        return {"type": "object", "properties": {"said": said}, "required": ["said"]}

    @classmethod
    def deserialize(cls, raw: str) -> OwnTrip:
        return cls(json.loads(raw)["said"].upper())


CLASSES: list[tuple[Callable[[], Any], Callable[[Any], Any]]] = [
    (lambda: SCHEMA, lambda form: TRIP), (lambda: AttrsTrip, lambda form: form("Oslo", 3)),
    (lambda: DataTrip, lambda form: form("Oslo", 3)), (lambda: TypedTrip, lambda form: TRIP),
    (_pydantic_trip, lambda form: form(city="Oslo", days=3)),
]  # fmt: skip
each_class = pytest.mark.parametrize(
    ("make", "expected"), CLASSES, ids=["schema", "attrs", "dataclass", "typed dict", "pydantic"]
)


@pytest.fixture
def engines(
    make_host: MakeHost, service: FakeService, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> Host:
    """OpenAI and Ollama, both of them the same service on this machine."""
    monkeypatch.setenv("OPENAI_API_KEY", openai_service.KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", f"{service.url}/v1")
    monkeypatch.setenv("OLLAMA_HOST", service.url)
    monkeypatch.setenv("OLLAMA_API_KEY", ollama_service.KEY)
    return make_host(openai=genai_vendor_openai, ollama=genai_vendor_ollama, clock=clock)


@pytest.fixture
def mocks(make_host: MakeHost, clock: ManualClock) -> MakeHost:
    """Makes hosts of mocks with their replies: `mocks(one=["a"], other=["b"])`."""

    def make(**replies: list[Any]) -> Host:
        providers = {
            name: provider_config("mock", replies=script) for name, script in replies.items()
        }
        return make_host(config=Config(providers=providers), clock=clock)

    return make


def chat(host: Host, **options: Any) -> Conversation:
    return host.open("chat-model", "mock@one", **options)


# 1: engines


@pytest.mark.parametrize(("model", "variable"), [
    ("gpt-4.1@openai", "OPENAI_API_KEY"),
    ("gemini-3.8-flash@gemini", "GEMINI_API_KEY"),
    ("gpt-oss-120b-cloud@ollama", "OLLAMA_API_KEY"),
])  # fmt: skip
def test_item_01_a_missing_key_is_an_error_that_names_the_variable(
    make_host: MakeHost, monkeypatch: pytest.MonkeyPatch, model: str, variable: str
) -> None:
    for name in ("OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "OLLAMA_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OLLAMA_HOST", "https://ollama.com")
    host = make_host(**VENDORS)
    with pytest.raises(ConfigurationError, match=variable):
        host.open("chat-model", model)


@pytest.mark.part
@pytest.mark.parametrize(("model", "key", "address", "says"), [
    ("gpt-4.1@openai", "OPENAI_API_KEY", "OPENAI_BASE_URL", openai_service.chat),
    ("gemini/m-1", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL", gemini_service.gemini),
    ("ollama/m-1", "OLLAMA_API_KEY", "OLLAMA_HOST", ollama_service.chat),
])  # fmt: skip
def test_item_01_each_engine_reads_the_variables_that_its_users_have(
    make_host: MakeHost,
    service: FakeService,
    monkeypatch: pytest.MonkeyPatch,
    model: str,
    key: str,
    address: str,
    says: Callable[[str], ServiceReply],
) -> None:
    monkeypatch.setenv(key, "key-of-a-user")
    monkeypatch.setenv(address, service.url)
    service.replies = [says("fine")]
    assert make_host(**VENDORS).open("chat-model", model).say("hi").text == "fine"
    (sent,) = service.requests
    assert "key-of-a-user" in " ".join(sent.headers.values())


# 2: settings


def test_item_02_the_settings_are_those_of_the_profile(mocks: MakeHost) -> None:
    host = mocks(one=["fine"])
    defaults = {each.name: each.default for each in describe(host.feature("chat-model").settings)}
    assert defaults == {
        "session_id": "", "agent_id": "", "system_prompt": "", "temperature": None,
        "max_tokens": 8192, "keep_raw_engine_responses": False,
        "raw_engine_responses": "raw_engine_responses", "request_limit": 10,
        "request_seconds": 60.0,
    }  # fmt: skip
    chat(host).say("hi")
    (sent,) = requests_of(host, "one")
    assert sent["parameters"] == {"max_tokens": 8192}
    assert [message["role"] for message in sent["messages"]] == ["user"]


def test_item_02_they_are_no_defaults_and_parameters_come_first(mocks: MakeHost) -> None:
    host = mocks(one=["fine", "fine"])
    host.open("chat", "mock@one").say("hi")
    parameters = {"max_tokens": 7, "seed": 1}
    chat(host, parameters=parameters).say("hi")
    assert [each["parameters"] for each in requests_of(host, "one")] == [{}, parameters]


@pytest.mark.part
@pytest.mark.parametrize("temperature", [None, 0.5])
def test_item_02_each_engine_takes_them(
    engines: Host, service: FakeService, temperature: float | None
) -> None:
    service.replies = [openai_service.chat("fine"), ollama_service.chat("fine")]
    settings = {"temperature": temperature, "max_tokens": 100, "system_prompt": "Be brief."}
    for model in (OPENAI, OLLAMA):
        assert engines.open("chat-model", model, settings=settings).say("hi").text == "fine"
    to_openai, to_ollama = (request.json() for request in service.requests)
    assert to_openai["max_tokens"] == to_ollama["options"]["num_predict"] == 100
    assert to_openai.get("temperature") == to_ollama["options"].get("temperature") == temperature
    assert to_openai["messages"][0]["content"] == "Be brief."
    assert to_ollama["messages"][0]["content"] == "Be brief."


# 3: structured output


@each_class
def test_item_03_a_class_of_the_conversation_and_one_of_a_request_which_wins(
    mocks: MakeHost, make: Callable[[], Any], expected: Callable[[Any], Any]
) -> None:
    form = make()
    host = mocks(one=[JSON, '{"said": "oslo"}', JSON])
    conversation = chat(host, output_type=form)
    data = conversation.say("A trip?").data
    assert data == expected(form)
    assert type(data) is type(expected(form))
    assert conversation.say("A trip?", output_type=OwnTrip).data == OwnTrip("OSLO")
    assert conversation.say("A trip?").data == expected(form)


@pytest.mark.part
def test_item_03_the_engines_own_modes_are_used(engines: Host, service: FakeService) -> None:
    service.replies = [openai_service.chat(JSON), ollama_service.chat(JSON)]
    for model in (OPENAI, OLLAMA):
        conversation = engines.open("chat-model", model, output_type=AttrsTrip)
        assert conversation.say("A trip?").data == AttrsTrip("Oslo", 3)
    to_openai, to_ollama = (request.json() for request in service.requests)
    assert to_openai["response_format"]["type"] == "json_schema"
    assert set(to_openai["response_format"]["json_schema"]["schema"]["properties"]) == set(TRIP)
    assert set(to_ollama["format"]["properties"]) == set(TRIP)


@pytest.mark.part
def test_item_03_what_a_class_says_itself_wins(engines: Host, service: FakeService) -> None:
    own = '{"said": "oslo"}'
    service.replies = [openai_service.chat(own), ollama_service.chat(own)]
    conversation = engines.open("chat-model", OPENAI, output_type=OwnTrip)
    assert conversation.say("A trip?").data == OwnTrip("OSLO")
    conversation.use(OLLAMA)
    assert conversation.say("A trip?").data == OwnTrip("OSLO")
    to_openai, to_ollama = (request.json() for request in service.requests)
    schema = to_openai["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["said"]["description"] == "as openai-chat has it"
    assert to_ollama["format"]["properties"]["said"]["description"] == "as ollama-chat has it"


class _NotRead(OwnTrip):
    @classmethod
    def deserialize(cls, raw: str) -> OwnTrip:
        raise KeyError("nothing like it")


@pytest.mark.parametrize(
    ("text", "message"), [("3", "expected a string"), ('"x"', "KeyError: 'nothing like it'")]
)
def test_item_03_schema_first_then_the_class(mocks: MakeHost, text: str, message: str) -> None:
    conversation = chat(mocks(one=[f'{{"said": {text}}}']), output_type=_NotRead)
    with pytest.raises(OutputValidationError, match=message) as caught:
        conversation.say("A trip?")
    assert (caught.value.provider, caught.value.model) == ("one", "mock")
    assert conversation.history == ()


class _NotAsked(OwnTrip):
    @classmethod
    def llm_schema(cls, dialect: str) -> dict[str, Any]:
        raise KeyError(dialect)


def test_item_03_a_class_that_cannot_be_asked_for_is_told_of_at_once(mocks: MakeHost) -> None:
    with pytest.raises(ValidationError, match="llm_schema failed: KeyError"):
        chat(mocks(one=[]), output_type=_NotAsked)


@pytest.mark.part
def test_item_03_the_class_is_given_again_if_stored(make_host: MakeHost, tmp_path: Path) -> None:
    mock = provider_config("mock", replies=[JSON, JSON, JSON])
    with Store(tmp_path / "x.db") as store:
        host = make_host(store=store, config=Config(providers={"one": mock}))
        first = chat(host, output_type=AttrsTrip)
        assert first.say("A trip?").data == AttrsTrip("Oslo", 3)
        again = host.conversation(first.id, output_type=DataTrip)
        assert again.say("A trip?").data == DataTrip("Oslo", 3)
        assert host.conversation(first.id).say("A trip?").data is None


# 4: support model


@pytest.mark.part
def test_item_04_it_is_asked_in_its_own_dialect(engines: Host, service: FakeService) -> None:
    service.replies = [openai_service.chat("Oslo."), ollama_service.chat('{"said": "oslo"}')]
    conversation = engines.open(
        "chat-model", OPENAI, models={"support": OLLAMA}, output_type=OwnTrip
    )
    assert conversation.say("A trip?").data == OwnTrip("OSLO")
    to_openai, to_ollama = (request.json() for request in service.requests)
    assert "response_format" not in to_openai
    assert to_ollama["format"]["properties"]["said"]["description"] == "as ollama-chat has it"


# 5: history


def as_bytes(host: Host, conversation: Conversation) -> bytes:
    return json.dumps(host.codec.to_json(conversation.history)).encode()


FAULT, ERRORS = ScriptedReply(fault="refused"), (ServiceUnavailable, OutputValidationError)


@pytest.mark.parametrize(("replied", "support", "error"), [
    (FAULT, None, ServiceUnavailable),
    (ScriptedReply("half an ans", finish="length"), None, UnexpectedFinish),
    (ScriptedReply("half an ans", fault="filtered"), None, UnexpectedFinish),
    (ScriptedReply(""), None, GenerationError), ("Oslo.", FAULT, ERRORS),
    ("Oslo.", ScriptedReply("no JSON"), ERRORS), ("Oslo.", ScriptedReply(JSON[:-1]), ERRORS),
])  # fmt: skip
def test_item_05_failures_undo_all(mocks: MakeHost, replied: Any, support: Any, error: Any) -> None:
    """Of the model, or of the support model."""
    host = mocks(one=[replied, "fine"], helper=[support or ""])
    models = {"support": "mock@helper"} if support else {}
    conversation = chat(host, models=models, history=HISTORY)
    before = as_bytes(host, conversation)
    with pytest.raises(error):
        conversation.say("hi", output_type=AttrsTrip if support else None)
    assert as_bytes(host, conversation) == before
    assert conversation.say("hi").text == "fine"


# 6: errors


@pytest.mark.part
def test_item_06_errors_have_fields(engines: Host, service: FakeService, tmp_path: Path) -> None:
    message = {"role": "assistant", "content": "half"}
    filtered = {"choices": [{"message": message, "finish_reason": "SAFETY"}]}
    service.replies = [json_reply(filtered), openai_service.chat("no JSON")]
    conversation = engines.open("chat-model", OPENAI, settings=kept(tmp_path, agent_id="a"))
    with pytest.raises(UnexpectedFinish) as unexpected:
        conversation.say("hi")
    file = str(tmp_path / f"a_{STAMP}.txt")
    expected = {"provider": "openai", "model": "gpt-4.1", "raw_reply": file, "retryable": False}
    assert unexpected.value.fields() == {**expected, "reason": "SAFETY", "detail": "half"}
    with pytest.raises(OutputValidationError) as bad:
        conversation.say("hi", output_type=SCHEMA)
    assert bad.value.fields() == {**expected, "reason": "stop", "detail": "no JSON"}
    with pytest.raises(ConfigurationError) as wrong:
        engines.open("chat-model", OPENAI, settings={"session": "x"})
    assert "'session'" in str(wrong.value)
    assert "session_id" in wrong.value.hint
    assert issubclass(UnexpectedFinish, GenerationError)
    assert issubclass(OutputValidationError, GenerationError)


def test_item_06_no_raw_reply_before_anything_was_sent(make_host: MakeHost, tmp_path: Path) -> None:
    def respond(turn: Turn[NoSettings]) -> FeatureSteps:
        kept_in = str(tmp_path / "x.txt")
        first = yield from Prompt([turn.message], raw_reply_file=kept_in)
        assert first.raw_reply == kept_in
        yield from Prompt([turn.message], raw_reply_file=kept_in, parameters={"no-such": 1})
        return Answer("")

    host = make_host(plugin=InlinePlugin(features=[Feature("two", NoSettings, respond)]))
    with pytest.raises(InvalidParameter) as caught:
        host.open("two", "mock").say("hi")
    assert caught.value.raw_reply == ""


# 7: raw responses


def kept(folder: Path, **settings: Any) -> dict[str, Any]:
    return {"keep_raw_engine_responses": True, "raw_engine_responses": str(folder), **settings}


@pytest.mark.part
def test_item_07_replies_are_kept_as_they_came(
    engines: Host, service: FakeService, tmp_path: Path, clock: ManualClock
) -> None:
    service.replies = [openai_service.chat("one"), openai_service.chat("two", streamed=True)]
    settings = kept(tmp_path / "raw", session_id="s", agent_id="a")
    conversation = engines.open("chat-model", OPENAI, settings=settings)
    clock.advance(60)
    conversation.say("hi")
    assert [event.text for event in conversation.stream("hi") if event.text] == ["t", "w", "o"]
    (file,) = (each for each in (tmp_path / "raw").rglob("*") if each.is_file())
    assert file == tmp_path / "raw" / "s" / f"a_{STAMP}.txt"
    text = file.read_text()
    heads = [line for line in text.splitlines() if line.startswith("--- ")]
    assert len(heads) == 2
    for head in heads:
        assert head.startswith("--- 2026-01-01T00:01:00+00:00 gpt-4.1@openai")
    assert json.loads(text.splitlines()[1])["choices"][0]["message"]["content"] == "one"
    assert text.splitlines()[-1] == "[DONE]"
    if sys.platform != "win32":
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_item_07_nothing_is_kept_unless_it_is_asked_for(
    mocks: MakeHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    host = mocks(one=["fine", "fine"])
    chat(host, settings={"agent_id": "a"}).say("hi")
    assert not (tmp_path / "raw_engine_responses").exists()
    chat(host, settings={"keep_raw_engine_responses": True}).say("hi")
    assert (tmp_path / "raw_engine_responses" / f"_{STAMP}.txt").is_file()


def test_item_07_one_file_if_reopened(mocks: MakeHost, tmp_path: Path, clock: ManualClock) -> None:
    host = mocks(one=[ScriptedReply("half", finish="length"), "fine", "fine"])
    conversation = chat(host, settings=kept(tmp_path, agent_id="a"))
    with pytest.raises(UnexpectedFinish):
        conversation.say("hi")
    clock.advance(5)
    conversation.say("hi")
    host.reopen(conversation.record).say("hi")  # type: ignore[arg-type]  # it has one
    (file,) = tmp_path.glob("*.txt")
    assert file.name == f"a_{STAMP}.txt"
    assert file.read_text().count("mock@one") == 3


def test_item_07_two_that_would_collide_do_not(mocks: MakeHost, tmp_path: Path) -> None:
    host = mocks(one=["1", "2", "3", "4"])
    two = [chat(host, settings=kept(tmp_path, agent_id="a")) for _ in range(2)]
    for conversation in (*two, *two):
        conversation.say("hi")
    names = sorted(file.name for file in tmp_path.glob("*.txt"))
    assert len(names) == 2
    assert f"a_{STAMP}.txt" in names
    assert {name[: len(f"a_{STAMP}")] for name in names} == {f"a_{STAMP}"}
    for name in names:
        assert (tmp_path / name).read_text().count("--- ") == 2


@pytest.mark.part
def test_item_07_forks_have_a_file(make_host: MakeHost, clock: ManualClock, tmp_path: Path) -> None:
    providers = {"one": provider_config("mock", replies=["1", "2", "3"])}
    with Store(tmp_path / "x.db") as store:
        host = make_host(config=Config(providers=providers), clock=clock, store=store)
        conversation = chat(host, settings=kept(tmp_path, agent_id="a"))
        conversation.say("hi")
        conversation.close()
        for id in (store.fork(conversation.id), conversation.id):
            with host.conversation(id) as again:
                again.say("hi")
    first, second = sorted(tmp_path.glob("*.txt"), key=lambda file: len(file.name))
    assert [file.read_text().count("--- ") for file in (first, second)] == [2, 1]


@pytest.mark.part
def test_item_07_what_stands_for_a_key_is_none(
    engines: Host, service: FakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "e")
    service.replies = [openai_service.chat("fine")]
    engines.open("chat-model", OPENAI, settings=kept(tmp_path, agent_id="a")).say("hi")
    text = (tmp_path / f"a_{STAMP}.txt").read_text()
    assert json.loads(text.splitlines()[1])["choices"]


@pytest.mark.part
def test_item_07_failures_are_kept(engines: Host, service: FakeService, tmp_path: Path) -> None:
    service.replies = [reply(b"<html>no"), openai_service.failure(400, message="not so")]
    conversation = engines.open("chat-model", OPENAI, settings=kept(tmp_path, agent_id="a"))
    file = tmp_path / f"a_{STAMP}.txt"
    for error in (MalformedReply, BadRequest):
        with pytest.raises(error) as caught:
            conversation.say("hi")
        assert caught.value.raw_reply == str(file)
    text = file.read_text()
    assert "<html>no" in text
    assert "not so" in text


# 8: rate


def test_item_08_the_third_call_waits(mocks: MakeHost, clock: ManualClock) -> None:
    host = mocks(one=["1", "2", "3"], other=["other"])
    settings = {"request_limit": 2, "request_seconds": 1.0}
    conversation = chat(host, settings=settings)
    assert [conversation.say("hi").text, conversation.say("hi").text] == ["1", "2"]
    third = in_background(chat(host, settings=settings).say, "hi")
    clock.wait_for_alarm_in(1.0)
    assert host.open("chat-model", "mock@other", settings=settings).say("hi").text == "other"
    clock.advance(0.75)
    clock.wait_for_alarm_in(0.25)
    assert not third.done()
    assert len(requests_of(host, "one")) == 2
    clock.advance(0.25)
    assert third.result(30).text == "3"


def test_item_08_waits_may_be_longer_than_a_turn(mocks: MakeHost, clock: ManualClock) -> None:
    host = mocks(one=["1", "2"])
    settings = {"request_limit": 1, "request_seconds": 3600.0}
    conversation = chat(host, settings=settings)
    conversation.say("hi")
    second = in_background(conversation.say, "hi")
    clock.wait_for_alarm_in(3600.0)
    clock.advance(1800)
    clock.advance(1800)
    assert second.result(30).text == "2"
