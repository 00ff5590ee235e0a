"""Agents over Responses and Conversations that answer as a test says: what the host's own
server does not."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import pytest
from genai_feature_assistants.agents import (
    AgentDelta,
    Code,
    OpenAIAssistantAgent,
    OpenAIAssistantDefinition,
    OpenAIAssistantInvocationOptions,
    OpenAIServiceConfiguration,
    PollingOptions,
    RunCancelled,
    RunFailed,
    RunIncomplete,
    RunStuck,
    RunTimedOut,
)

from genai_host.api import Image, Message
from genai_host.errors import (
    IncompleteReply,
    InvalidParameter,
    ProviderError,
)
from genai_host.testing import FakeService
from genai_host.testing.fake_service import Reply, json_reply, sse_reply
from genai_host_testing.assistants_agents import RushingClock, roll

pytestmark = pytest.mark.part

DEFINITION = OpenAIAssistantDefinition("fake", name="n", instructions="Be brief.")


class Scripted:
    """Responses and Conversations that answer as a test says."""

    def __init__(self, *responses: Reply) -> None:
        self.responses = list(responses)
        self.conversation: Mapping[str, Any] = {"id": "conv_1", "metadata": {}}
        self.http = FakeService(answer=self._answer)

    def _answer(self, received: Any) -> Reply:
        if "/conversations" in received.path:
            return json_reply(self.conversation)
        if received.path.endswith("/cancel"):
            return json_reply({})
        return self.responses.pop(0)

    @property
    def bodies(self) -> list[Any]:
        sent = [each for each in self.http.requests if each.path == "/v1/responses"]
        return [json.loads(each.body) for each in sent]

    def invoked(
        self, definition: OpenAIAssistantDefinition = DEFINITION, *, streamed: bool = False,
        options: Any = None, **more: Any,
    ) -> list[Any]:  # fmt: skip
        configuration = OpenAIServiceConfiguration.for_host(
            f"{self.http.url}/v1", api="responses", timeout=20.0
        )
        more.setdefault("clock", RushingClock())
        with OpenAIAssistantAgent.create(configuration, definition, **more) as agent:
            invoke = agent.invoke_stream if streamed else agent.invoke
            return list(invoke("conv_1", options, hidden=True))


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    made = Scripted()
    yield made
    made.http.stop()


def response(*output: Any, status: str = "completed", **more: Any) -> Any:
    return {"id": "resp_1", "object": "response", "status": status, "output": output, **more}


def message(text: str, *annotations: Any) -> Any:
    content = {"type": "output_text", "text": text, "annotations": list(annotations)}
    return {"id": "msg_1", "type": "message", "role": "assistant", "content": [content]}


def call(number: int = 1, name: str = "roll") -> Any:
    return {"type": "function_call", "call_id": f"c{number}", "name": name, "arguments": "{}"}


def streamed_reply(*events: Any, end: bool = True) -> Reply:
    written = [json.dumps(each).encode() for each in events]
    return sse_reply([*written, b"[DONE]"] if end else written)


def test_item_15_code_and_annotations(scripted: Scripted) -> None:
    code = {
        "type": "code_interpreter_call", "id": "ci_1", "code": "print(1)",
        "outputs": [{"type": "logs", "logs": "1\n"}, {"type": "image", "url": "https://x/y"}],
    }  # fmt: skip
    cited = {"type": "url_citation", "start_index": 0, "end_index": 2, "url": "u", "title": "t"}
    scripted.responses = [json_reply(response(message("so it is", cited), code))]
    whole = attrs.evolve(
        DEFINITION,
        code_interpreter_file_ids=["file_1"],
        vector_store_id="vs_1",
        enable_json_response=True,
        temperature=0,
    )
    done, said = scripted.invoked(whole)
    assert done.content == (Code("print(1)", "1\n", ("https://x/y",)),)
    assert (said.annotations[0].text, said.annotations[0].url) == ("so", "u")
    (body,) = scripted.bodies
    assert body["tools"] == [
        {"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["file_1"]}},
        {"type": "file_search", "vector_store_ids": ["vs_1"]},
    ]
    assert body["text"] == {"format": {"type": "json_object"}}
    assert body["temperature"] == 0
    assert body["conversation"] == "conv_1"
    assert "tool_choice" not in body


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize(
    ("status", "kind", "more"),
    [
        ("failed", RunFailed, {"error": {"code": "server_error", "message": "broke"}}),
        ("incomplete", RunIncomplete, {"incomplete_details": {"reason": "max_output_tokens"}}),
        ("cancelled", RunCancelled, {}),
        ("mysterious", RunStuck, {}),
    ],
)
def test_item_7_a_bad_end_of_a_response(
    scripted: Scripted, status: str, kind: Any, more: Any, streamed: bool
) -> None:
    ended = response(status=status, **more)
    event = {"type": "response.incomplete", "response": ended}
    scripted.responses = [streamed_reply(event) if streamed else json_reply(ended)]
    with pytest.raises(kind) as caught:
        scripted.invoked(streamed=streamed)
    assert (caught.value.run_id, caught.value.thread_id) == ("resp_1", "conv_1")
    assert caught.value.run_status == status
    assert caught.value.last_error == more.get("error")
    assert caught.value.incomplete_reason == more.get("incomplete_details", {}).get("reason", "")


def test_item_6_a_response_in_the_background_is_polled(scripted: Scripted) -> None:
    open_ = json_reply(response(status="in_progress"))
    scripted.responses = [open_, open_, open_, open_, json_reply(response(message("so")))]
    clock = RushingClock()
    assert [each.text for each in scripted.invoked(clock=clock)] == ["so"]
    assert clock.waits == [0.25, 0.25, 1.0, 1.0]


def test_item_7_a_response_that_takes_too_long(scripted: Scripted) -> None:
    scripted.responses = [json_reply(response(status="queued"))] * 10
    with pytest.raises(RunTimedOut):
        scripted.invoked(polling=PollingOptions(timeout=2))
    assert scripted.http.requests[-1].path.endswith("/responses/resp_1/cancel")


def test_item_7_functions_without_an_end(scripted: Scripted) -> None:
    scripted.responses = [json_reply(response(call(number))) for number in range(9)]
    with pytest.raises(RunStuck, match="3 times"):
        scripted.invoked(functions=[roll], polling=PollingOptions(round_trips=3))
    assert len(scripted.bodies) == 3


def test_item_7_an_unknown_function(scripted: Scripted) -> None:
    scripted.responses = [
        json_reply(response(call(name="dance"))), json_reply(response(message("so"))),
    ]  # fmt: skip
    assert scripted.invoked(functions=[roll])[-1].text == "so"
    (output,) = scripted.bodies[1]["input"]
    assert output["type"] == "function_call_output"
    assert output["call_id"] == "c1"
    assert output["output"].startswith("Error: unknown function 'dance'")


def test_item_4_tokens_are_counted_over_all_of_a_run(scripted: Scripted) -> None:
    used = {"output_tokens": 30}
    scripted.responses = [json_reply(response(call(number), usage=used)) for number in range(3)]
    options = OpenAIAssistantInvocationOptions(max_completion_tokens=70)
    with pytest.raises(RunIncomplete) as caught:
        scripted.invoked(functions=[roll], options=options)
    assert caught.value.incomplete_reason == "max_completion_tokens"
    assert [body["max_output_tokens"] for body in scripted.bodies] == [70, 40, 10]


@pytest.mark.parametrize(
    ("options", "parameter"),
    [
        ({"max_prompt_tokens": 500}, "max_prompt_tokens"),
        ({"truncation_message_count": 3}, "truncation_message_count"),
        ({"enable_file_search": True}, "vector_store_id"),
    ],
)
def test_what_has_no_counterpart_is_refused(
    scripted: Scripted, options: Any, parameter: str
) -> None:
    with pytest.raises(InvalidParameter) as caught:
        scripted.invoked(options=OpenAIAssistantInvocationOptions(**options))
    assert caught.value.parameter == parameter
    assert not scripted.bodies


@pytest.mark.parametrize("end", [False, True])
def test_item_7_a_stream_of_a_response_that_is_cut(scripted: Scripted, end: bool) -> None:
    scripted.responses = [
        streamed_reply(
            {"type": "response.created", "response": response(status="in_progress")},
            {"type": "response.output_text.delta", "item_id": "msg_1", "delta": "so"},
            end=end,
        )
    ]
    with pytest.raises(IncompleteReply) as caught:
        scripted.invoked(streamed=True)
    assert caught.value.text == "so"
    assert scripted.http.requests[-1].path.endswith("/cancel")


def test_an_error_amid_a_stream(scripted: Scripted) -> None:
    scripted.responses = [streamed_reply({"type": "error", "message": "broke"})]
    with pytest.raises(ProviderError, match="broke"):
        scripted.invoked(streamed=True)


def test_item_15_the_stream_of_a_response(scripted: Scripted) -> None:
    ended = {"type": "response.completed", "response": response(message("so"))}
    scripted.responses = [
        streamed_reply(
            {"type": "response.output_text.delta", "item_id": "msg_1", "delta": "s"},
            {"type": "response.something.new", "delta": 7},
            {"type": "response.code_interpreter_call_code.delta", "item_id": "c", "delta": "1"},
            {"type": "response.output_text.delta", "item_id": "msg_1", "delta": "o"},
            ended,
        )
    ]
    told = scripted.invoked(streamed=True)
    assert [(each.text, each.kind) for each in told if isinstance(each, AgentDelta)] == [
        ("s", "text"), ("1", "code"), ("o", "text"),
    ]  # fmt: skip
    assert told[-1].text == "so"


def test_pictures_are_sent_as_they_are(scripted: Scripted) -> None:
    scripted.responses = [json_reply(response(message("so")))]
    picture = Message("user", [Image(data=b"\x01", media_type="image/png")])
    scripted.invoked(options=OpenAIAssistantInvocationOptions(additional_messages=[picture]))
    (item,) = scripted.bodies[0]["input"]
    assert item["content"][0]["image_url"] == "data:image/png;base64,AQ=="


def test_a_conversation_with_broken_options(scripted: Scripted) -> None:
    scripted.conversation = {"id": "conv_1", "metadata": {"__thread_options_00": "{"}}
    with pytest.raises(ProviderError, match="__thread_options"):
        scripted.invoked()


def test_item_4_over_responses_all_is_sent_as_it_holds(scripted: Scripted) -> None:
    definition = attrs.evolve(
        DEFINITION,
        code_interpreter_file_ids=["file_d"],
        vector_store_id="vs_d",
        metadata={"a": "d", "b": "d"},
        temperature=0.7,
        top_p=0.5,
        enable_json_response=True,
    )
    thread = {"code_interpreter_file_ids": ["file_t"], "vector_store_id": "vs_t"}
    metadata = {"__thread_options_00": json.dumps(thread), "b": "t"}
    scripted.conversation = {"id": "conv_1", "metadata": metadata}
    scripted.responses = [json_reply(response(message("so"))) for _ in range(2)]
    scripted.invoked(definition)
    scripted.invoked(
        definition,
        options=OpenAIAssistantInvocationOptions(
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
        ),
    )
    inherits, overrides = scripted.bodies
    assert inherits["tools"] == [
        {"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["file_t"]}},
        {"type": "file_search", "vector_store_ids": ["vs_t"]},
    ]
    wanted = {"model": "fake", "temperature": 0.7, "top_p": 0.5, "metadata": {"a": "d", "b": "t"}}
    assert {name: inherits[name] for name in wanted} == wanted
    assert overrides == {
        "model": "other", "conversation": "conv_1", "instructions": "Be brief.",
        "temperature": 0, "top_p": 0, "max_output_tokens": 0, "parallel_tool_calls": False,
        "metadata": {"a": "d", "b": "i"},
    }  # fmt: skip
