"""Citations that a service of one of OpenAI's formats gives, for clients of both."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from openai_form import HI, READING, gate_api

from genai_host_testing.fake_service import FakeService, Reply, json_reply, sse_reply
from genai_host_testing.internal.fixtures import MakeHost

pytestmark = pytest.mark.part

CITED = {"title": "O", "url": "https://example.org", "start_index": 1, "end_index": 3}
FLAT = {"type": "url_citation", **CITED}
NESTED = {"type": "url_citation", "url_citation": CITED}
TEXT = {"type": "output_text", "text": "cold", "annotations": [FLAT]}
SAID = {"id": "msg_1", "type": "message", "role": "assistant", "content": [TEXT]}
RESPONSE = {"id": "resp_1", "status": "completed", "output": [SAID]}
ADDED = "response.output_text.annotation.added"


def chat(streamed: bool) -> Reply:
    if not streamed:
        message = {"role": "assistant", "content": "cold", "annotations": [NESTED]}
        return json_reply({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
    deltas: list[Any] = [{"content": "cold"}, {"annotations": [NESTED]}]
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    return sse_reply([*(json.dumps(each).encode() for each in (*chunks, end)), b"[DONE]"])


def response(streamed: bool) -> Reply:
    if not streamed:
        return json_reply(RESPONSE)
    place = {"output_index": 0, "content_index": 0}
    events = [
        {"type": "response.output_text.delta", **place, "delta": "cold"},
        {"type": ADDED, **place, "annotation_index": 0, "annotation": FLAT},
        {"type": "response.completed", "response": RESPONSE},
    ]
    return sse_reply([json.dumps(each).encode() for each in events])


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("dialect", "reply"), [("openai-chat", chat), ("openai-responses", response)]
)
def test_citations_reach_the_client_in_its_format(
    make_host: MakeHost,
    service: FakeService,
    dialect: str,
    reply: Callable[[bool], Reply],
    streamed: bool,
) -> None:
    service.replies = [reply(streamed)] * 2
    with gate_api(make_host, service, {"server": READING}, settings={"serves": [dialect]}) as api:
        if streamed:
            *chunks, _ = api.events(model="gate/m")
            deltas = [each["choices"][0]["delta"] for each in chunks if each["choices"]]
            cited = [each["annotations"] for each in deltas if "annotations" in each]
        else:
            cited = [api.completed(model="gate/m")["choices"][0]["message"]["annotations"]]
        assert cited == [[NESTED]]
        request = {"model": "gate/m", "input": [HI], "store": False, "stream": streamed}
        body = api.post("/v1/responses", request).text
    if streamed:
        events = [json.loads(line[6:]) for line in body.split("\n") if line.startswith("data: ")]
        [added] = [each["annotation"] for each in events if each["type"] == ADDED]
        [done] = [each for each in events if each["type"] == "response.content_part.done"]
        assert (added, done["part"]["annotations"]) == (FLAT, [FLAT])
        completed = events[-1]["response"]
    else:
        completed = json.loads(body)
    assert completed["output"][-1]["content"][0]["annotations"] == [FLAT]
