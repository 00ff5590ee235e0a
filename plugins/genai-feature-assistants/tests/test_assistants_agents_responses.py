"""What only Responses and Conversations have: their requests and their items."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import attrs
import pytest
from genai_feature_assistants.agents import (
    Code,
    OpenAIAssistantDefinition,
    OpenAIAssistantInvocationOptions,
    RunIncomplete,
)

from genai_host.api import Image, Message
from genai_host.errors import IncompleteReply, InvalidParameter, ProviderError
from genai_host_testing.fake_service import json_reply, sse_reply
from genai_host_testing.internal.assistants_agents import agent_of, invoked, roll
from genai_host_testing.services.assistants import Calls, Says
from genai_host_testing.services.responses import TOKENS, ResponsesService

pytestmark = pytest.mark.part

DEFINITION = OpenAIAssistantDefinition("fake", name="n", instructions="Be brief.")


@pytest.fixture
def service() -> Iterator[ResponsesService]:
    with ResponsesService() as service:
        yield service


def ran(
    service: ResponsesService, definition: OpenAIAssistantDefinition = DEFINITION,
    thread: Any = None, **options: Any,
) -> list[Any]:  # fmt: skip
    """Return what an agent says on a new thread with this metadata."""
    with agent_of(service, definition) as agent:
        id = agent.create_thread()
        service.threads[id]["metadata"] = thread or {}
        return list(agent.invoke(id, OpenAIAssistantInvocationOptions(**options), hidden=True))


def test_item_15_code_and_annotations(service: ResponsesService) -> None:
    code = {
        "type": "code_interpreter_call", "id": "ci_1", "code": "print(1)",
        "outputs": [{"type": "logs", "logs": "1\n"}, {"type": "image", "url": "https://x/y"}],
    }  # fmt: skip
    cited = {"type": "url_citation", "start_index": 0, "end_index": 2, "url": "u", "title": "t"}
    text = {"type": "output_text", "text": "so it is", "annotations": [cited]}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [text]}
    service.fail(
        "POST",
        "/responses",
        json_reply({"id": "resp_1", "status": "completed", "output": [message, code]}),
    )
    done, reply = ran(service)
    assert done.content == (Code("print(1)", "1\n", ("https://x/y",)),)
    assert (reply.annotations[0].text, reply.annotations[0].url) == ("so", "u")


def test_item_4_tokens_are_counted_over_all_of_a_run(service: ResponsesService) -> None:
    service.turns.append([Calls((f"c{number}", "roll", "{}")) for number in range(3)])
    options = OpenAIAssistantInvocationOptions(max_completion_tokens=70)
    with agent_of(service, functions=[roll]) as agent, pytest.raises(RunIncomplete) as caught:
        invoked(agent, options)
    assert caught.value.incomplete_reason == "max_completion_tokens"
    sent = [body["max_output_tokens"] for body in service.bodies("POST", "/responses")]
    assert sent == [70, 70 - TOKENS, 70 - 2 * TOKENS]


@pytest.mark.parametrize(
    ("options", "parameter"),
    [
        ({"max_prompt_tokens": 500}, "max_prompt_tokens"),
        ({"truncation_message_count": 3}, "truncation_message_count"),
        ({"enable_file_search": True}, "vector_store_id"),
    ],
)
def test_what_has_no_counterpart_is_refused(
    service: ResponsesService, options: Any, parameter: str
) -> None:
    with pytest.raises(InvalidParameter) as caught:
        ran(service, **options)
    assert caught.value.parameter == parameter
    assert not service.runs


def test_item_7_a_stream_without_the_end_of_its_response(service: ResponsesService) -> None:
    events: list[Any] = [
        {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}},
        {"type": "response.output_text.delta", "item_id": "msg_1", "delta": "so"},
    ]
    written = [json.dumps(each).encode() for each in events]
    service.fail("POST", "/responses", sse_reply([*written, b"[DONE]"]))
    with agent_of(service) as agent, pytest.raises(IncompleteReply) as caught:
        invoked(agent, streamed=True)
    assert caught.value.text == "so"
    assert service.cancels == 1


def test_pictures_are_sent_as_they_are(service: ResponsesService) -> None:
    service.turns.append([Says("so")])
    picture = Message("user", [Image(data=b"\x01", media_type="image/png")])
    ran(service, additional_messages=[picture])
    [body] = service.bodies("POST", "/responses")
    assert body["input"][0]["content"][0]["image_url"] == "data:image/png;base64,AQ=="


def test_a_conversation_with_broken_options(service: ResponsesService) -> None:
    with pytest.raises(ProviderError, match="__thread_options"):
        ran(service, thread={"__thread_options_00": "{"})


def test_item_4_over_responses_all_is_sent_as_it_holds(service: ResponsesService) -> None:
    definition = attrs.evolve(
        DEFINITION,
        code_interpreter_file_ids=["file_d"],
        vector_store_id="vs_d",
        metadata={"a": "d", "b": "d"},
        temperature=0.7,
        top_p=0.5,
        enable_json_response=True,
    )
    own = {"code_interpreter_file_ids": ["file_t"], "vector_store_id": "vs_t"}
    thread = {"__thread_options_00": json.dumps(own), "b": "t"}
    service.turns += [[Says("so")], [Says("so")], [Says("so")]]
    ran(service, definition, thread)
    ran(
        service,
        definition,
        thread,
        model_name="other",
        enable_code_interpreter=False,
        enable_file_search=False,
        enable_json_response=False,
        parallel_tool_calls_enabled=False,
        max_completion_tokens=0,
        temperature=0,
        top_p=0,
        metadata={"b": "i"},
        additional_instructions="",
    )
    ran(service, definition)
    inherits, overrides, bare = service.bodies("POST", "/responses")
    assert inherits["tools"] == [
        {"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["file_t"]}},
        {"type": "file_search", "vector_store_ids": ["vs_t"]},
    ]
    expected = {
        "model": "fake", "temperature": 0.7, "top_p": 0.5, "metadata": {"a": "d", "b": "t"},
        "text": {"format": {"type": "json_object"}},
    }  # fmt: skip
    assert {name: inherits[name] for name in expected} == expected
    assert "tool_choice" not in inherits
    thread_id = overrides.pop("conversation")
    assert thread_id in service.threads
    assert overrides == {
        "model": "other", "instructions": "Be brief.",
        "temperature": 0, "top_p": 0, "max_output_tokens": 0, "parallel_tool_calls": False,
        "metadata": {"a": "d", "b": "i"},
    }  # fmt: skip
    assert bare["tools"] == [
        {"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["file_d"]}},
        {"type": "file_search", "vector_store_ids": ["vs_d"]},
    ]
