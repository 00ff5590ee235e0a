"""What agents send, and what the scripted service of their tests answers, against OpenAI's own
document."""

from __future__ import annotations

import json
from typing import Any

import pytest
from genai_feature_assistants.agents import (
    OpenAIAssistantAgent,
    OpenAIAssistantDefinition,
    OpenAIAssistantExecutionOptions,
    OpenAIAssistantInvocationOptions,
    OpenAIServiceConfiguration,
    OpenAIThreadCreationOptions,
)
from peers.openai_document import Document

from genai_host.api import Image, Message
from genai_host.testing import FakeService
from genai_host.testing.fake_service import json_reply
from genai_host_testing.assistants_agents import RushingClock, agent_of
from genai_host_testing.assistants_service import AssistantsService, Calls, Runs, Says

DEFINITION = OpenAIAssistantDefinition(
    "m",
    name="n",
    description="d",
    instructions="i",
    code_interpreter_file_ids=["file_1"],
    enable_json_response=True,
    metadata={"a": "b"},
    temperature=0,
    top_p=0.5,
    vector_store_id="vs_1",
    execution_options=OpenAIAssistantExecutionOptions(truncation_message_count=3),
)
OPTIONS = OpenAIAssistantInvocationOptions(
    model_name="other",
    enable_json_response=False,
    max_completion_tokens=300,
    parallel_tool_calls_enabled=False,
    temperature=1,
    metadata={"c": "d"},
    additional_instructions="more",
    additional_messages=[Message("user", ["look", Image(url="https://x/y.png")])],
)
THREAD = OpenAIThreadCreationOptions(["file_2"], [Message("assistant", "hm")], "vs_2", {"e": "f"})


def roll(sides: int = 6) -> str:
    """Roll a die."""
    return f"{sides} of {sides}"


@pytest.fixture(scope="module")
def document() -> Document:
    return Document()


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "stream"])
def test_assistants(document: Document, streamed: bool) -> None:
    with AssistantsService() as service:
        service.turns.append([Calls(("c1", "roll", "{}")), Runs("1", "1"), Says("so")])
        with agent_of(service, DEFINITION, [roll]) as agent:
            thread = agent.create_thread(THREAD)
            agent.add_chat_message(thread, "hi")
            told = (agent.invoke_stream if streamed else agent.invoke)(thread, OPTIONS)
            assert list(told)[-1].text == "so"
        for end, name in [
            ("/assistants", "CreateAssistantRequest"),
            ("/threads", "CreateThreadRequest"),
            ("/messages", "CreateMessageRequest"),
            ("/runs", "CreateRunRequest"),
            ("/submit_tool_outputs", "SubmitToolOutputsRunRequest"),
        ]:
            (body,) = service.bodies("POST", end)
            document.check(name, body)
        objects: list[tuple[str, Any]] = [
            *(("AssistantObject", each) for each in service.assistants.values()),
            *(("ThreadObject", each) for each in service.threads.values()),
            *(("MessageObject", each) for each in service.messages[thread]),
            *(("RunObject", each) for each in service.runs.values()),
            *(("RunStepObject", each) for each in next(iter(service.steps.values()))),
        ]
        assert len(objects) == 10
        for name, value in objects:
            document.check(name, value)


def test_responses(document: Document) -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "roll", "arguments": "{}"}
    part = {"type": "output_text", "text": "so", "annotations": []}
    said = {"type": "message", "id": "msg_1", "role": "assistant", "content": [part]}
    replies = [{"id": f"resp_{n}", "status": "completed", "output": [each]}
               for n, each in enumerate([call, said])]  # fmt: skip
    conversation = {"id": "conv_1", "metadata": {}, "data": [{**said, "role": "user"}]}

    def answer(received: Any) -> Any:
        return json_reply(conversation if "/conv" in received.path else replies.pop(0))

    with FakeService(answer=answer) as service:
        configuration = OpenAIServiceConfiguration.for_host(f"{service.url}/v1", api="responses")
        with OpenAIAssistantAgent.create(
            configuration,
            OpenAIAssistantDefinition("m", vector_store_id="vs_1", enable_code_interpreter=True),
            [roll],
            clock=RushingClock(),
        ) as agent:
            thread = agent.create_thread(THREAD)
            agent.add_chat_message(thread, "hi")
            assert [each.text for each in agent.invoke(thread, OPTIONS)] == ["so"]
        bodies = [json.loads(each.body) for each in service.requests if each.body]
    made, added, first, second = bodies
    # `InputItem` is one of several that a message fits at once: each is checked by itself
    for item in (*made.pop("items"), *added["items"], *first.pop("input")):
        document.check("EasyInputMessage", item)
    for item in second.pop("input"):
        document.check("FunctionCallOutputItemParam", item)
    document.check("CreateConversationBody", made)
    for body in (first, second):
        document.check("CreateResponse", body)
