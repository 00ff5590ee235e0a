"""`/v1/completions` of a model at a service that has text completions, and of one that chats."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import genai_vendor_ollama
import genai_wire_ollama
import pytest
from openai_form import Api, events_in, gate_api, streamed

from genai_host.api import Completion, Message, Usage
from genai_host.calls.retry import RetryPolicy
from genai_host.config import BudgetConfig, BudgetsConfig, ServerConfig
from genai_host_testing import FakeModel, ManualClock
from genai_host_testing.fake_service import FakeService, json_reply, sse_reply
from genai_host_testing.internal.configs import provider_config
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.stores import MakeStore

pytestmark = pytest.mark.part

LOGPROBS = {"tokens": ["in", " Paris"], "token_logprobs": [None, -0.5], "text_offset": [0, 2]}
CHOICES = [
    {"index": 0, "text": "in Paris", "logprobs": LOGPROBS, "finish_reason": "length"},
    {"index": 1, "text": " Rome", "logprobs": None, "finish_reason": "stop", "stop_reason": 7},
]
USAGE = {"prompt_tokens": 2, "completion_tokens": 1}
REPLY = {"id": "cmpl-1", "choices": CHOICES, "usage": USAGE}
STREAM = streamed(*({"choices": [each]} for each in CHOICES), {"choices": [], "usage": USAGE})


@pytest.fixture
def api(make_host: MakeHost, service: FakeService) -> Iterator[Api]:
    service.replies = [json_reply(REPLY)]
    with gate_api(make_host, service, {"aliases": {"coder": "gate/m"}}) as api:
        yield api


def post(api: Api, **body: Any) -> Any:
    return api.post("/v1/completions", {"model": "gate/m", "prompt": "in", **body})


@pytest.mark.parametrize("more", [
    {},
    {"prompt": [48, 25], "echo": True, "logprobs": 1, "max_tokens": 1, "seed": 1234},
    {"prompt": [[48, 25], [7]], "n": 2, "best_of": 3},
    {"prompt": ["a", "b"], "stop": ["\n"], "logit_bias": {"50256": -100}},
    {"prompt": "def f(", "suffix": "return 1"},
    {"ignore_eos": True, "guided_choice": ["a"], "temperature": 0},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("model", ["gate/m", "coder"])
def test_all_fields_reach_the_service(
    api: Api, service: FakeService, more: Any, model: str
) -> None:
    reply = post(api, model=model, user="ann", **more)
    assert reply.status_code == 200, reply.text
    body = reply.json()
    assert (body["object"], body["model"]) == ("text_completion", model)
    assert body["choices"] == CHOICES
    assert body["usage"]["total_tokens"] == 3
    [sent] = service.requests
    assert sent.path == "/completions"
    assert sent.json() == {"model": "m", "prompt": "in", **more}


@pytest.mark.parametrize("options", [{}, {"stream_options": {"include_usage": True}}])
def test_a_stream(api: Api, service: FakeService, options: Any) -> None:
    service.replies = [STREAM]
    *chunks, done = events_in(post(api, stream=True, n=2, logprobs=0, **options))
    assert done == "[DONE]"
    if options:
        assert chunks.pop()["usage"]["total_tokens"] == 3
    assert [choice for chunk in chunks for choice in chunk["choices"]] == CHOICES
    sent = service.requests[0].json()
    assert (sent["stream"], sent["stream_options"]) == (True, {"include_usage": True})


def test_an_interrupted_stream_ends_with_an_error(api: Api, service: FakeService) -> None:
    service.replies = [sse_reply([b'{"choices":[{"index":0,"text":"a"}]}'])]
    *_, last = events_in(post(api, stream=True))
    assert last["error"]["code"] == "incomplete_reply"


@pytest.mark.parametrize(("status", "expected", "part"), [
    (400, 400, "no logprobs here"),
    (404, 400, "completions = false"),
    (429, 429, "no logprobs here"),
])  # fmt: skip
def test_errors_of_the_service(
    api: Api, service: FakeService, status: int, expected: int, part: str
) -> None:
    error = {"error": {"message": "no logprobs here"}}
    headers = {"retry-after": "1000"}  # longer than the host waits
    service.replies = [json_reply(error, status, headers)]
    reply = post(api, logprobs=1)
    assert (reply.status_code, len(service.requests)) == (expected, 1)
    assert part in reply.json()["error"]["message"]


def test_a_failure_is_retried(make_host: MakeHost, service: FakeService) -> None:
    service.replies = [json_reply({}, 503, {"retry-after": "0"}), json_reply(REPLY)]
    with gate_api(make_host, service, patience=RetryPolicy()) as api:
        assert post(api).status_code == 200
    assert len(service.requests) == 2


@pytest.mark.parametrize("stream", [False, True])
def test_the_usage_is_that_of_the_service(
    make_host: MakeHost, make_store: MakeStore, service: FakeService, stream: bool
) -> None:
    """It is spent from a budget of tokens."""
    config = {"budgets": BudgetsConfig(total=BudgetConfig(day_tokens=3))}
    settings = {"store": make_store(), "clock": ManualClock()}  # a day does not end amid a test
    service.replies = [STREAM if stream else json_reply(REPLY)]
    with gate_api(make_host, service, config, **settings) as api:
        reply = post(api, stream=stream)
        assert reply.status_code == 200, reply.text
        refused = post(api, stream=stream)
        assert (refused.status_code, len(service.requests)) == (429, 1)


@pytest.mark.parametrize(("more", "field"), [
    ({"prompt": None}, "prompt"), ({"prompt": []}, "prompt"), ({"prompt": [1, "a"]}, "prompt"),
    ({"prompt": [[]]}, "prompt"), ({"logprobs": True}, "logprobs"), ({"n": 0}, "n"),
    ({"extra_body": {"model": "other"}}, "extra_body"),
])  # fmt: skip
def test_invalid_fields_are_refused(api: Api, service: FakeService, more: Any, field: str) -> None:
    reply = post(api, **more)
    assert reply.status_code == 400
    assert field in reply.json()["error"]["message"] + str(reply.json()["error"]["param"])
    assert not service.requests


@pytest.mark.parametrize("settings", [{"completions": False}, {"serves": ["openai-responses"]}])
def test_without_text_completions_a_chat_model_answers(
    make_host: MakeHost, service: FakeService, settings: Any
) -> None:
    service.replies = [json_reply(REPLY)]
    with gate_api(make_host, service, settings=settings) as api:
        refused = post(api, logprobs=1)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "logprobs")
        post(api)
        [sent] = service.requests
        assert sent.path != "/completions"


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_of_ollama_fills_in(api: Api, service: FakeService, stream: bool) -> None:
    answer = {"choices": [{"index": 0, "text": "x", "finish_reason": "stop"}], "usage": USAGE}
    service.replies = [streamed(answer) if stream else json_reply(answer)]
    options = {"temperature": 0, "num_predict": 5, "stop": ["}"]}
    body = {"model": "gate/m", "prompt": "def f(", "suffix": "return 1", "options": options}
    reply = api.post("/api/generate", {**body, "stream": stream})
    assert reply.status_code == 200, reply.text
    lines = [*map(json.loads, reply.text.splitlines())]
    assert "".join(line["response"] for line in lines) == "x"
    assert (lines[-1]["done"], lines[-1]["eval_count"]) == (True, 1)
    [sent] = service.requests
    fields = {"prompt": "def f(", "suffix": "return 1", "max_tokens": 5, "temperature": 0}
    assert sent.path == "/completions"
    assert {name: sent.json()[name] for name in fields} == fields


def test_a_text_is_scored(api: Api, service: FakeService) -> None:
    body = {"prompt": "in Paris", "echo": True, "logprobs": 1, "max_tokens": 0}
    assert post(api, **body).status_code == 200
    assert service.requests[0].json() == {"model": "m", **body}


def test_the_provider_that_is_preferred_for_chat_is_used(
    make_host: MakeHost, service: FakeService
) -> None:
    """Another one could have another price."""
    chat = {"base_url": f"{service.url}/chat", "completions": False}
    providers = {
        name: provider_config("openai-compatible", models={"x": "x"}, **settings)
        for name, settings in (("first", chat), ("second", {"base_url": service.url}))
    }
    config = {"providers": providers, "provider_order": ("first", "second")}
    choice = {"index": 0, "message": {"role": "assistant", "content": "Paris"}}
    service.replies = [json_reply({"choices": [{**choice, "finish_reason": "stop"}]})]
    with gate_api(make_host, service, config) as api:
        assert api.post("/v1/completions", {"model": "x", "prompt": "in"}).status_code == 200
    assert service.requests[0].path == "/chat/chat/completions"


OLLAMA = json_reply({"model": "m", "response": "Paris", "done": True, "done_reason": "stop"})
NAMED = {"guided_choice": ["a"], "ignore_eos": True}


@pytest.fixture
def send(make_host: MakeHost, service: FakeService) -> Iterator[Callable[..., Any]]:
    """Sends a request to a server with a service of the format, which is overloaded, and one of
    another format."""
    failing = json_reply({}, 503, {"retry-after": "3600"})
    with ExitStack() as opened:

        def send(*, strict: bool = False, first: str = "gate", **body: Any) -> Any:
            providers = {
                "gate": provider_config(
                    "openai-compatible", models={"x": "m"}, base_url=service.url
                ),
                "other": provider_config("ollama", models={"x": "m"}, base_url=service.url),
            }
            config = {
                "providers": {name: providers[name] for name in {first: 0, "other": 0}},
                "provider_order": (first, "other"),
                "server": ServerConfig(strict=strict),
            }
            service.replies = [*([failing] if first == "gate" else []), OLLAMA]
            service.requests.clear()
            given = {"patience": RetryPolicy(), "ollama": genai_vendor_ollama}
            api = opened.enter_context(
                gate_api(make_host, service, config, ollama_wire=genai_wire_ollama, **given)
            )
            body = {"model": "x", "prompt": "in", "suffix": ".", **body}
            return api.post("/v1/completions", body)

        yield send


@pytest.mark.parametrize("more", [{}, NAMED, {**NAMED, "echo": False, "seed": 3, "user": "ann"}])
def test_what_a_service_of_another_format_lacks_is_named_after_a_failover(
    send: Callable[..., Any], service: FakeService, more: Any
) -> None:
    alone = send(first="other", **more)
    assert alone.status_code == 200, alone.text
    after = send(**more)
    assert after.status_code == 200, after.text
    assert [sent.path for sent in service.requests] == ["/completions", "/api/generate"]
    assert NAMED.keys() <= service.requests[0].json().keys() or not more
    assert service.requests[1].json().keys().isdisjoint(NAMED)
    named = {*after.headers.get("x-genai-host-dropped", "").split(", ")} - {""}
    assert named == {*alone.headers.get("x-genai-host-dropped", "").split(", ")} - {""}
    assert named == (NAMED.keys() if more else set())


@pytest.mark.parametrize(
    ("strict", "more"), [(True, NAMED), (False, {"logprobs": 1}), (False, {"logit_bias": {"7": 1}})]
)
def test_a_service_that_lacks_what_matters_receives_nothing(
    send: Callable[..., Any], service: FakeService, strict: bool, more: Any
) -> None:
    assert send(first="other", strict=strict, **more).status_code == 400
    assert send(strict=strict, **more).status_code == 503
    assert len(service.requests) == 1


@pytest.fixture
def chat(make_host: MakeHost) -> Iterator[Api]:
    def answer(prompt: Any) -> Completion:
        return Completion(Message("assistant", f"{prompt.text} Paris"), usage=Usage(2, 1))

    with Api.serving(make_host, FakeModel(answer)) as chat:
        yield chat


def complete(chat: Api, **more: Any) -> Any:
    return chat.post("/v1/completions", {"model": "fake", "prompt": "in", **more})


def test_item_5_a_completion(chat: Api) -> None:
    body = complete(chat, max_tokens=5, temperature=0).json()
    assert body["object"] == "text_completion"
    assert body["choices"] == [
        {"text": "in Paris", "index": 0, "logprobs": None, "finish_reason": "stop"}
    ]
    assert (body["usage"]["prompt_tokens"], body["usage"]["completion_tokens"]) == (2, 1)
    [prompt] = chat.fake.prompts
    assert [(each.role, each.text) for each in prompt.messages] == [("user", "in")]
    assert prompt.parameters == {"max_tokens": 5, "temperature": 0}


def test_item_5_several_prompts_are_answered_in_order(chat: Api) -> None:
    body = complete(chat, prompt=["in", "near"], echo=True).json()
    assert [each["text"] for each in body["choices"]] == ["inin Paris", "nearnear Paris"]
    assert [each["index"] for each in body["choices"]] == [0, 1]
    assert body["usage"]["total_tokens"] == 6


@pytest.mark.parametrize("options", [{}, {"stream_options": {"include_usage": True}}])
def test_item_5_a_stream(chat: Api, options: dict[str, Any]) -> None:
    *pieces, done = events_in(complete(chat, stream=True, echo=True, **options))
    assert done == "[DONE]"
    if options:
        assert pieces.pop()["usage"]["total_tokens"] == 3
    choices = [each["choices"][0] for each in pieces]
    assert "".join(each["text"] for each in choices) == "inin Paris"
    assert [each["finish_reason"] for each in choices] == [None] * (len(choices) - 1) + ["stop"]


def test_item_5_an_error_ends_a_stream(chat: Api) -> None:
    """A finish reason that the format lacks is known after the text."""
    ended = Completion(Message("assistant", "so"), "other", vendor_finish="RECITATION")
    chat.fake.answer = lambda prompt: ended
    *pieces, last = events_in(complete(chat, stream=True))
    assert "".join(each["choices"][0]["text"] for each in pieces) == "so"
    assert "RECITATION" in last["error"]["message"]


def test_item_5_fields_of_chats_are_dropped(chat: Api) -> None:
    more = {"functions": [{}], "tool_choice": "none", "response_format": {"type": "json_object"}}
    reply = complete(chat, **more)
    assert reply.status_code == 200
    assert set(reply.headers["x-genai-host-dropped"].split(", ")) == {*more}


@pytest.mark.parametrize(("more", "field"), [
    ({"prompt": [[1, 2]]}, "prompt"), ({"prompt": [1, 2]}, "prompt"), ({"prompt": []}, "prompt"),
    ({"prompt": ["a"] * 33}, "prompt"),
    ({"prompt": ["a", "b"], "stream": True}, "prompt"),
    ({"suffix": "x"}, "suffix"), ({"best_of": 2}, "best_of"), ({"n": 2}, "n"),
    ({"logprobs": 1}, "logprobs"), ({"model": ""}, "model"),
])  # fmt: skip
def test_item_5_what_is_not_supported_is_refused(chat: Api, more: Any, field: str) -> None:
    reply = complete(chat, **more)
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, field)


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
@pytest.mark.parametrize(("name", "value"), [("max_tokens", -1), ("temperature", 3), ("stop", "")])
def test_an_invalid_parameter_is_named(
    make_host: MakeHost, path: str, name: str, value: Any
) -> None:
    with Api.serving(make_host, FakeModel(lambda prompt: "so")) as chat:
        messages = [{"role": "user", "content": "hi"}]
        body = {"model": "mock", "prompt": "hi", "messages": messages, name: value}
        reply = chat.post(path, body)
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, name)
