"""What the APIs of others ask for."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import genai_vendor_openai
import pytest

from genai_host import Config, Host
from genai_host.api import Cancellation, Completion, Delta, Message, RouteRequest, ToolSchema
from genai_host.config import InstanceConfig, ServerConfig
from genai_host.errors import (
    Cancelled,
    Interrupted,
    NoRoute,
    PluginError,
    ServiceUnavailable,
    ValidationError,
)
from genai_host.serving import completion
from genai_host.serving.completion import ChatRequest, CompletionStream
from genai_host.serving.models import served_model, served_models
from genai_host.store import Store
from genai_host_testing import FakeModel
from genai_host_testing.fake_service import HANG, FakeService, json_reply
from genai_host_testing.internal.fixtures import MakeHost

RECORDING = Config(server=ServerConfig(record_api_calls=True))
HI = (Message("user", "hi"),)


def request(user: str = "", limits: Cancellation | None = None) -> RouteRequest:
    return RouteRequest("POST", "/", limits=limits or Cancellation(), user=user)


def ask(host: Host, model: str | None = "fake", **fields: Any) -> CompletionStream:
    """It, begun."""
    chat_request = ChatRequest(model=model, messages=fields.pop("messages", HI), **fields)
    answering = completion.answer(host, chat_request, request())
    answering.begin()
    return answering


def test_a_model_answers(make_host: MakeHost) -> None:
    answering = ask(make_host(fake=FakeModel()), stream=True)
    assert "".join(piece.text for piece in answering) == answering.completion.text == "hi"


def test_json_comes_out_of_its_fence(make_host: MakeHost) -> None:
    host = make_host(fake=FakeModel(lambda prompt: '```json\n{"a": 1}\n```'))
    chat_request = ChatRequest(model="fake", messages=HI, schema={"type": "object"})
    assert completion.whole(host, chat_request, request()).text == '{"a":1}'
    chat_request = ChatRequest(model="fake", messages=HI)
    assert completion.whole(host, chat_request, request()).text.startswith("```json")


def test_a_feature_answers_as_a_model_would(make_host: MakeHost) -> None:
    fake = FakeModel(lambda prompt: f"{len(prompt.messages)} messages")
    host = make_host(fake=fake, config=Config(models={"chat": "fake"}))
    before = [Message("user", "one"), Message("assistant", "two")]
    answering = ask(host, "feature:chat", messages=[*before, *HI])
    assert "".join(piece.text for piece in answering) == "4 messages"  # with the system's
    assert answering.completion.text == "4 messages"


def test_what_fails_first_is_raised_where_it_is_asked(make_host: MakeHost) -> None:
    fake = FakeModel()
    fake.faults[0] = ServiceUnavailable("away")
    with pytest.raises(ServiceUnavailable):
        ask(make_host(fake=fake))


def test_what_nobody_expects_is_told_as_an_error(caplog: pytest.LogCaptureFixture) -> None:
    def answer() -> Generator[Delta, None, Completion]:
        yield Delta("so")
        raise ZeroDivisionError("secret")

    answering = CompletionStream(answer())
    with pytest.raises(PluginError, match="see the log of the server"):
        list(answering)
    assert "secret" in caplog.text


def test_a_feature_takes_no_tools_and_answers_users_alone(make_host: MakeHost) -> None:
    host = make_host(fake=FakeModel())
    with pytest.raises(ValidationError):
        ask(host, "feature:chat", tools=(ToolSchema("a", "b"),))
    with pytest.raises(ValidationError):
        ask(host, "feature:chat", messages=[Message("assistant", "hi")])


@pytest.mark.parametrize("model", ["fake", "feature:chat"])
def test_a_client_that_goes_ends_the_answer(make_host: MakeHost, model: str) -> None:
    host = make_host(fake=FakeModel(lambda prompt: HANG), config=Config(models={"chat": "fake"}))
    gone = Cancellation()
    gone.cancel()
    with pytest.raises(Cancelled):
        completion.whole(host, ChatRequest(model=model, messages=HI), request(limits=gone))


@contextmanager
def interrupted(host: Host, fake: FakeModel, model: str) -> Iterator[Future[Any]]:
    """Something that hangs is asked in another thread, until the server ends."""
    limits = Cancellation()
    chat_request = ChatRequest(model=model, messages=HI)
    with ThreadPoolExecutor(1) as pool:
        answering = pool.submit(completion.whole, host, chat_request, request(limits=limits))
        assert fake.hanging.wait(30)
        limits.cancel(Interrupted("the server is shutting down"))
        yield answering


@pytest.mark.parametrize("model", ["fake", "feature:chat"])
def test_the_end_of_the_server_is_told_as_such(make_host: MakeHost, model: str) -> None:
    fake = FakeModel(lambda prompt: HANG)
    host = make_host(fake=fake, config=Config(models={"chat": "fake"}))
    with interrupted(host, fake, model) as answering, pytest.raises(Interrupted):
        answering.result(30)


@pytest.mark.part
def test_a_turn_that_was_cut_off_is_resumed(make_host: MakeHost, tmp_path: Path) -> None:
    fake = FakeModel()
    fake.faults[0] = HANG
    config = RECORDING._replace(models={"chat": "fake"})
    with Store(tmp_path / "store.db") as store:
        host = make_host(fake=fake, store=store, config=config)
        with interrupted(host, fake, "feature:chat"):
            pass
        [summary] = host.conversations()
        assert host.conversation(summary.id).resume().text == "hi"


def test_closing_a_reply_that_nobody_has_read_ends_the_answer(make_host: MakeHost) -> None:
    ended = []

    def write(answering: CompletionStream) -> Iterator[bytes]:
        yield from (piece.text.encode() for piece in answering)

    answering = ask(make_host(fake=FakeModel()), stream=True)
    close = answering.close
    answering.close = lambda: (ended.append(True), close())  # type: ignore[method-assign,assignment,func-returns-value]
    completion.streamed(answering, write).body.close()  # type: ignore[union-attr]
    assert ended


@pytest.mark.part
def test_requests_are_kept_only_if_wanted(make_host: MakeHost, tmp_path: Path) -> None:
    for record in (False, True):
        with Store(tmp_path / f"{record}.db") as store:
            config = RECORDING if record else Config()
            host = make_host(fake=FakeModel(), store=store, config=config)
            completion.whole(host, ChatRequest(model="fake", messages=HI), request(user="ann"))
            assert not host.conversations()
            conversations = host.store_for("ann").conversations()
            assert [each.title for each in conversations] == ["hi"] * record
            if record:
                again = host.conversation(conversations[0].id, owner="ann")
                assert [each.text for each in again.history] == ["hi", "hi"]
                assert again.say("and").text == "and"


@pytest.mark.part
def test_an_unknown_model_is_kept_by_its_id(make_host: MakeHost, tmp_path: Path) -> None:
    with Store(tmp_path / "store.db") as store:
        host = make_host(fake=FakeModel(), store=store, config=RECORDING)
        completion.whole(host, ChatRequest(model="fake/some-id", messages=HI), request())
        [conversation] = host.conversations()
        assert host.conversation(conversation.id).models["main"] == "fake/some-id"


def test_models_are_listed_by_names_that_resolve(make_host: MakeHost) -> None:
    config = Config(models={"chat": "fake"}, aliases={"quick": "fake"})
    host = make_host(fake=FakeModel(), config=config)
    names = [each.name for each in served_models(host)]
    assert {"fake", "fake@fake", "fake-embed", "quick", "feature:chat"} <= {*names}
    assert len(names) == len({*names})
    for each in served_models(host):
        if not each.name.startswith("feature:"):
            assert host.catalog.resolve(each.name, None, each.operation)
            assert served_model(host, each.name) == each
    assert served_model(host, "fake").owner == "fake"
    with pytest.raises(NoRoute, match="unknown model 'nobody'"):
        served_model(host, "nobody")


@pytest.mark.part
def test_models_of_services_are_listed_if_their_service_answers(make_host: MakeHost) -> None:
    with FakeService() as stopped:
        pass
    with FakeService() as service:
        service.replies = [json_reply({"data": []})]
        providers = {
            name: InstanceConfig(
                "openai-compatible",
                models={f"configured-{name}": "some-id"},
                settings={"base_url": each.url, "default_model": f"default-{name}"},
            )
            for name, each in (("up", service), ("down", stopped))
        }
        config = Config(providers=providers, aliases={"quick": "up/some", "slow": "down/some"})
        host = make_host(openai=genai_vendor_openai, config=config)
        names = {each.name for each in served_models(host)}
    assert {"configured-up", "configured-up@up", "up/default-up", "quick"} <= names
    assert not [name for name in names if "down" in name or name == "slow"]
