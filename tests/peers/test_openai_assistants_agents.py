"""What agents send, and what the scripted service of their tests answers, against OpenAI's own
document."""

from __future__ import annotations

import json
from typing import Any

from genai_feature_assistants.agents import (
    OpenAIAssistantDefinition,
    OpenAIAssistantExecutionOptions,
    OpenAIAssistantInvocationOptions,
    OpenAIThreadCreationOptions,
)
from peers.openai_document import Document

from genai_host.api import Image, Message
from genai_host_testing.internal.assistants_agents import STREAMED, agent_of, roll
from genai_host_testing.services.assistants import AssistantsService, Calls, Runs, Says
from genai_host_testing.services.responses import ResponsesService

DEFINITION = OpenAIAssistantDefinition(
    "m", name="n", description="d", instructions="i", code_interpreter_file_ids=["file_1"],
    enable_json_response=True, metadata={"a": "b"}, temperature=0, top_p=0.5,
    vector_store_id="vs_1",
    execution_options=OpenAIAssistantExecutionOptions(truncation_message_count=3),
)  # fmt: skip
OPTIONS = OpenAIAssistantInvocationOptions(
    model_name="other", enable_json_response=False, max_completion_tokens=300,
    parallel_tool_calls_enabled=False, temperature=1, metadata={"c": "d"},
    additional_instructions="more",
    additional_messages=[Message("user", ["look", Image(url="https://x/y.png")])],
)  # fmt: skip
THREAD = OpenAIThreadCreationOptions(["file_2"], [Message("assistant", "hm")], "vs_2", {"e": "f"})


@STREAMED
def test_assistants(document: Document, streamed: bool) -> None:
    with AssistantsService() as service:
        service.turns.append([Calls(("c1", "roll", "{}")), Runs("1", "1"), Says("so")])
        with agent_of(service, DEFINITION, [roll]) as agent:
            thread = agent.create_thread(THREAD)
            agent.add_chat_message(thread, "hi")
            events = (agent.invoke_stream if streamed else agent.invoke)(thread, OPTIONS)
            assert list(events)[-1].text == "so"
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
    definition = OpenAIAssistantDefinition(
        "m", vector_store_id="vs_1", enable_code_interpreter=True
    )
    with ResponsesService([Calls(("c1", "roll", "{}")), Says("so")]) as service:
        with agent_of(service, definition, [roll]) as agent:
            thread = agent.create_thread(THREAD)
            agent.add_chat_message(thread, "hi")
            assert [each.text for each in agent.invoke(thread, OPTIONS)] == ["so"]
        bodies = [json.loads(each.body) for each in service.requests if each.body]
    created, added, first, second = bodies
    # `InputItem` is one of several that a message fits at once: each is checked by itself
    for item in (*created.pop("items"), *added["items"], *first.pop("input")):
        document.check("EasyInputMessage", item)
    for item in second.pop("input"):
        document.check("FunctionCallOutputItemParam", item)
    document.check("CreateConversationBody", created)
    for body in (first, second):
        document.check("CreateResponse", body)
    kinds = {"message": "OutputMessage", "function_call": "FunctionToolCall"}
    for run in service.runs.values():
        for item in run["output"]:
            document.check(kinds[item["type"]], item)
