"""`/v1/responses/compact`: a summary takes the place of a conversation."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from responses_api import CLOCK, Api, calls_the_clock, output_of, responses_api, two_users, user

from genai_host import Config
from genai_host.api import Completion, Message, Usage
from genai_host_testing import FakeModel
from genai_host_testing.internal.fixtures import MakeHost

pytestmark = pytest.mark.part

SUMMARY = Completion(Message("assistant", "noon in CET"), usage=Usage(7, 3))


@pytest.fixture
def api(make_host: MakeHost) -> Iterator[Api]:
    with responses_api(make_host) as api:
        yield api


def test_a_summary_takes_the_place_of_answers_and_calls(api: Api) -> None:
    api.fake.answer = calls_the_clock
    items = [user("when?"), *api.response("when?", tools=[CLOCK])["output"], output_of("c1")]
    api.fake.answer = lambda heard: SUMMARY
    body = {"model": "fake", "input": items, "instructions": "be kind", "tools": [CLOCK]}
    compacted = api.ok("POST", "/responses/compact", body)
    asked = api.fake.prompts[-1]
    assert [message.role for message in asked.messages] == [
        "system", "user", "assistant", "tool", "user",
    ]  # fmt: skip
    assert asked.messages[0].text == "be kind"
    assert "Summarize" in asked.messages[-1].text
    assert compacted["object"] == "response.compaction"
    assert compacted["usage"]["total_tokens"] == 10
    kept, summary = compacted["output"]
    assert kept["content"] == [{"type": "input_text", "text": "when?"}]
    assert summary["type"] == "compaction"
    api.response([*compacted["output"], user("and in UTC?")])
    assert [message.text for message in api.fake.prompts[-1].messages] == [
        "when?",
        "Summary of the conversation so far:\n\nnoon in CET",
        "and in UTC?",
    ]


@pytest.mark.parametrize(
    "summary",
    [
        Completion(Message("assistant", "noon in C"), finish="length"),
        Completion(Message("assistant", "I cannot"), finish="content_filter"),
        Completion(Message("assistant", " ")),
    ],
    ids=["cut off", "refused", "empty"],
)
def test_an_incomplete_summary_takes_no_place(api: Api, summary: Completion) -> None:
    api.fake.answer = lambda prompt: summary
    reply = api.ask("POST", "/responses/compact", {"model": "fake", "input": "hi"})
    assert reply.status_code >= 400
    assert "the summary is not complete" in reply.json()["error"]["message"]


def test_a_limit_of_answers_does_not_cut_off_the_summary(api: Api) -> None:
    body = {"model": "fake", "input": "hi", "max_output_tokens": 16}
    api.ok("POST", "/responses/compact", body)
    assert "max_tokens" not in api.fake.prompts[-1].parameters


def test_a_changed_compaction_is_refused(api: Api) -> None:
    output = api.ok("POST", "/responses/compact", {"model": "fake", "input": "hi"})["output"]
    sealed = output[-1]["encrypted_content"]
    output[-1]["encrypted_content"] = ("B" if sealed[0] == "A" else "A") + sealed[1:]
    body = {"model": "fake", "input": output}
    assert api.ask("POST", "/responses", body).status_code == 400


def test_a_compaction_of_a_stored_response(api: Api) -> None:
    first = api.response("hello")
    body = {"model": "fake", "previous_response_id": first["id"], "input": "and now"}
    compacted = api.ok("POST", "/responses/compact", body)
    assert [item["type"] for item in compacted["output"]] == ["message", "message", "compaction"]


def test_that_of_another_user_is_refused(make_host: MakeHost) -> None:
    fake = FakeModel(lambda heard: SUMMARY)
    host = make_host(fake=fake, config=Config(models={"chat": "fake"}))
    with two_users(host, fake) as (ann, bob):
        compacted = ann.ok("POST", "/responses/compact", {"model": "fake", "input": "hi"})
        assert ann.response(compacted["output"])["status"] == "completed"
        assert bob.refused(compacted["output"])["param"] == "input[1].encrypted_content"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"input": "hi"}, "model"),
        ({"model": "fake"}, "input"),
        ({"model": "feature:chat", "input": "hi"}, "model"),
        (
            {"model": "fake", "input": [{"type": "compaction", "encrypted_content": "AAAA"}]},
            "input[0].encrypted_content",
        ),
    ],
)
def test_what_is_refused(api: Api, body: object, param: str) -> None:
    reply = api.ask("POST", "/responses/compact", body)
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)
    assert api.fake.calls == 0
