"""`/v1/completions`: a prompt that is a text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from openai_form import Api, events_in

from genai_host.api import Completion, Message, Usage
from genai_host_testing import FakeModel
from genai_host_testing.internal.fixtures import MakeHost

pytestmark = pytest.mark.part


@pytest.fixture
def api(make_host: MakeHost) -> Iterator[Api]:
    def answer(prompt: Any) -> Completion:
        return Completion(Message("assistant", f"{prompt.text} Paris"), usage=Usage(2, 1))

    with Api.serving(make_host, FakeModel(answer)) as api:
        yield api


def post(api: Api, **more: Any) -> Any:
    return api.post("/v1/completions", {"model": "fake", "prompt": "in", **more})


def test_item_5_a_completion(api: Api) -> None:
    body = post(api, max_tokens=5, temperature=0).json()
    assert body["object"] == "text_completion"
    assert body["choices"] == [
        {"text": "in Paris", "index": 0, "logprobs": None, "finish_reason": "stop"}
    ]
    assert (body["usage"]["prompt_tokens"], body["usage"]["completion_tokens"]) == (2, 1)
    [prompt] = api.fake.prompts
    assert [(each.role, each.text) for each in prompt.messages] == [("user", "in")]
    assert prompt.parameters == {"max_tokens": 5, "temperature": 0}


def test_item_5_several_prompts_are_answered_in_order(api: Api) -> None:
    body = post(api, prompt=["in", "near"], echo=True).json()
    assert [each["text"] for each in body["choices"]] == ["inin Paris", "nearnear Paris"]
    assert [each["index"] for each in body["choices"]] == [0, 1]
    assert body["usage"]["total_tokens"] == 6


@pytest.mark.parametrize("options", [{}, {"stream_options": {"include_usage": True}}])
def test_item_5_a_stream(api: Api, options: dict[str, Any]) -> None:
    *pieces, done = events_in(post(api, stream=True, echo=True, **options))
    assert done == "[DONE]"
    if options:
        assert pieces.pop()["usage"]["total_tokens"] == 3
    choices = [each["choices"][0] for each in pieces]
    assert "".join(each["text"] for each in choices) == "inin Paris"
    assert [each["finish_reason"] for each in choices] == [None] * (len(choices) - 1) + ["stop"]


def test_item_5_an_error_ends_a_stream(api: Api) -> None:
    """A finish reason that the format lacks is known after the text."""
    ended = Completion(Message("assistant", "so"), "other", vendor_finish="RECITATION")
    api.fake.answer = lambda prompt: ended
    *pieces, last = events_in(post(api, stream=True))
    assert "".join(each["choices"][0]["text"] for each in pieces) == "so"
    assert "RECITATION" in last["error"]["message"]


def test_item_5_fields_of_chats_are_dropped(api: Api) -> None:
    more = {"functions": [{}], "tool_choice": "none", "response_format": {"type": "json_object"}}
    reply = post(api, **more)
    assert reply.status_code == 200
    assert set(reply.headers["x-genai-host-dropped"].split(", ")) == {*more}


@pytest.mark.parametrize(("more", "field"), [
    ({"prompt": [[1, 2]]}, "prompt"), ({"prompt": [1, 2]}, "prompt"), ({"prompt": []}, "prompt"),
    ({"prompt": ["a"] * 33}, "prompt"),
    ({"prompt": ["a", "b"], "stream": True}, "prompt"),
    ({"suffix": "x"}, "suffix"), ({"best_of": 2}, "best_of"), ({"n": 2}, "n"),
    ({"logprobs": 1}, "logprobs"), ({"model": ""}, "model"),
])  # fmt: skip
def test_item_5_what_is_not_supported_is_refused(api: Api, more: Any, field: str) -> None:
    reply = post(api, **more)
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, field)


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
@pytest.mark.parametrize(("name", "value"), [("max_tokens", -1), ("temperature", 3), ("stop", "")])
def test_an_invalid_parameter_is_named(
    make_host: MakeHost, path: str, name: str, value: Any
) -> None:
    with Api.serving(make_host, FakeModel(lambda prompt: "so")) as api:
        messages = [{"role": "user", "content": "hi"}]
        body = {"model": "mock", "prompt": "hi", "messages": messages, name: value}
        reply = api.post(path, body)
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, name)
