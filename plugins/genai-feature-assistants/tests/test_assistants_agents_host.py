"""The agents against the host's own server, over both of its APIs, and what only Responses have."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import genai_feature_assistants
import pytest
from genai_feature_assistants.agents import (
    AgentMessage,
    Code,
    OpenAIAssistantAgent,
    OpenAIAssistantDefinition,
    OpenAIAssistantExecutionOptions,
    OpenAIAssistantInvocationOptions,
    OpenAIServiceConfiguration,
    OpenAIThreadCreationOptions,
    RunIncomplete,
)

from genai_host.api import Image, Message, ToolCall
from genai_host.errors import IncompleteReply, InvalidParameter, ProviderError
from genai_host.store import Store
from genai_host_testing import FakeModel, RecordedPrompt
from genai_host_testing.fake_service import json_reply, sse_reply
from genai_host_testing.internal.assistants_agents import STREAMED, agent_of, invoked, roll
from genai_host_testing.internal.assistants_api import (
    CONFIG,
    Api,
    calls,
    outputs_in,
    outputs_of,
    says,
)
from genai_host_testing.internal.fixtures import MakeHost
from genai_host_testing.internal.servers import served
from genai_host_testing.services.assistants import Calls, Says, ScriptedService
from genai_host_testing.services.responses import TOKENS, ResponsesService

pytestmark = pytest.mark.part

DEFINITION = OpenAIAssistantDefinition("fake", name="n", instructions="Be brief.")


def rolls(prompt: RecordedPrompt) -> Any:
    """It rolls a die when it is told to, looks into files when it can, and else says again
    what it hears."""
    outputs = outputs_in(prompt)
    if outputs and "file_search" in prompt.tools:
        return says(f"It says so {outputs[0].splitlines()[0]}.")
    if outputs:
        return says(f"You rolled {outputs[0]}.")
    if "file_search" in prompt.tools:
        return calls(("c1", "file_search", {"query": prompt.text}))
    if "roll" in prompt.text:
        return calls(("c1", "roll", {"sides": 4}))
    return f"So it is: {prompt.text}"


class Served:
    """
    url    of the API, which ends in /v1
    fake   the model behind it
    """

    def __init__(self, url: str, fake: FakeModel) -> None:
        self.url = f"{url}/v1/"
        self.fake = fake
        self.api = Api(url, fake)

    def configured(self, api: Any = "assistants") -> OpenAIServiceConfiguration:
        return OpenAIServiceConfiguration.for_host(self.url, api=api, timeout=30.0)


@pytest.fixture
def server(make_host: MakeHost, tmp_path: Path) -> Iterator[Served]:
    fake = FakeModel(rolls)
    plugins = {"fake": fake, "assistants": genai_feature_assistants}
    with (
        Store(tmp_path / "store.db") as store,
        served(make_host(store=store, config=CONFIG, **plugins)) as running,
    ):
        service = Served(running.url, fake)
        yield service
        service.api.close()


@contextmanager
def an_agent(
    server: Served, api: str = "assistants", definition: OpenAIAssistantDefinition = DEFINITION
) -> Iterator[OpenAIAssistantAgent]:
    with OpenAIAssistantAgent.create(server.configured(api), definition, [roll]) as agent:
        yield agent


both = pytest.mark.parametrize("api", ["assistants", "responses"])


def conversed(agent: OpenAIAssistantAgent, streamed: bool) -> Any:
    """Return the messages of three turns, one with a function, and those of the thread."""
    messages: list[AgentMessage] = []
    thread = agent.create_thread()
    for text in ("hello 【é】", "roll, please", "so?"):
        agent.add_chat_message(thread, text)
        invoke = agent.invoke_stream if streamed else agent.invoke
        messages += [each for each in invoke(thread, hidden=True) if isinstance(each, AgentMessage)]
    shown = [(each.role, each.name, each.visible, each.content) for each in messages]
    return shown, [(each.role, each.text) for each in agent.get_thread_messages(thread)]


@STREAMED
def test_item_15_same_conversation(server: Served, either: ScriptedService, streamed: bool) -> None:
    either.turns += [
        [Says("So it is: hello 【é】")],
        [Calls(("c1", "roll", '{"sides":4}')), Says("You rolled 4 of 4.")],
        [Says("So it is: so?")],
    ]
    with agent_of(either, DEFINITION, [roll]) as agent:
        expected = conversed(agent, streamed)
    shown, kept = expected
    assert [visible for _, _, visible, _ in shown] == [True, False, False, True, True]
    assert kept[-3:] == [
        ("assistant", "You rolled 4 of 4."), ("user", "so?"), ("assistant", "So it is: so?"),
    ]  # fmt: skip
    for api in ("assistants", "responses"):
        with an_agent(server, api) as agent:
            assert conversed(agent, streamed) == expected


@both
def test_item_15_the_model_is_shown_what_was_said(server: Served, api: str) -> None:
    options = OpenAIAssistantInvocationOptions(
        additional_instructions="Be polite.", additional_messages=[Message("user", "roll")]
    )
    with an_agent(server, api) as agent:
        list(agent.invoke(agent.create_thread(), options))
    first, second = server.fake.prompts
    assert [message.role for message in first.messages] == ["system", "user"]
    assert first.messages[0].text.split() == ["Be", "brief.", "Be", "polite."]
    assert first.tools == second.tools == ("roll",)
    assert outputs_in(second) == ["4 of 4"]
    assert [message.role for message in second.messages] == ["system", "user", "assistant", "tool"]


def test_item_15_threads_over_responses(server: Served) -> None:
    with an_agent(server, "responses") as agent:
        messages = [Message("user" if n % 2 else "assistant", f"{n}") for n in range(45)]
        files = [f"file_{'x' * 40}{number}" for number in range(20)]
        thread = agent.create_thread(
            OpenAIThreadCreationOptions(files, messages, "vs_1", {"a": "b"})
        )
        assert [(each.role, each.text) for each in agent.get_thread_messages(thread)] == [
            (each.role, each.text) for each in messages
        ]
        stored = agent._backend.thread(thread)
        assert list(stored.code_interpreter_file_ids) == files
        assert (stored.vector_store_id, stored.metadata) == ("vs_1", {"a": "b"})


@both
def test_item_15_a_thread_goes_on_after_a_run_that_was_left(server: Served, api: str) -> None:
    with an_agent(server, api) as agent:
        thread = agent.create_thread()
        agent.add_chat_message(thread, "roll, please")
        stream = agent.invoke(thread, hidden=True)
        assert next(stream).tool_calls == (ToolCall("c1", "roll", {"sides": 4}),)
        stream.close()
        agent.add_chat_message(thread, "so?")
        assert [each.text for each in agent.invoke(thread)] == ["So it is: so?"]
    outputs = [output for each in server.fake.prompts[-1].messages if each.role == "tool"
             for output in outputs_of(each)]  # fmt: skip
    assert outputs == ([] if api == "assistants" else ["Error: the run was abandoned"])


def test_item_2_definitions_come_back_as_they_were(server: Served) -> None:
    options = OpenAIAssistantExecutionOptions(max_completion_tokens=300, truncation_message_count=4)
    definition = attrs.evolve(
        DEFINITION, execution_options=options, metadata={"a": "b"}, temperature=0.0
    )
    with an_agent(server, definition=definition) as agent:
        with OpenAIAssistantAgent.retrieve(server.configured(), agent.id) as again:
            assert again.definition == attrs.evolve(definition, id=agent.id)
        assert again.definition in OpenAIAssistantAgent.list_definitions(server.configured())
        thread = agent.create_thread(OpenAIThreadCreationOptions(metadata={"c": "d"}))
        agent.add_chat_message(thread, "hello")
        list(agent.invoke(thread, OpenAIAssistantInvocationOptions(top_p=0.0)))
        [run] = server.api.get(f"/threads/{thread}/runs")["data"]
        assert (run["temperature"], run["top_p"], run["max_completion_tokens"]) == (0.0, 0.0, 300)
        assert run["truncation_strategy"]["last_messages"] == 4


def test_item_12_an_agent_searches_and_cites(server: Served) -> None:
    store = server.api.store_of(sea="the sea is blue")
    with an_agent(server, definition=attrs.evolve(DEFINITION, vector_store_id=store)) as agent:
        thread = agent.create_thread()
        agent.add_chat_message(thread, "the sea is blue")
        [message] = agent.invoke(thread)
        [citation] = message.annotations
        assert message.text[citation.start : citation.end] == citation.text
        assert server.api.get(f"/files/{citation.file_id}")["filename"] == "sea.txt"


@both
def test_item_7_what_ends_badly_raises(server: Served, api: str) -> None:
    with an_agent(server, api) as agent:
        thread = agent.create_thread()
        agent.add_chat_message(thread, "hello")
        server.fake.answer = lambda prompt: says("so far", finish="length")
        with pytest.raises(RunIncomplete, match=r"max_(completion|output)_tokens"):
            list(agent.invoke(thread, OpenAIAssistantInvocationOptions(max_completion_tokens=256)))


@both
def test_item_15_readme(server: Served, api: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The same program, also with `api="responses"`, as the README says."""
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    [source] = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    named = f'.for_host("{server.url}", api="{api}")'
    source = source.replace('.for_host("http://127.0.0.1:8642/v1/")', named)
    source = source.replace("smollm2", "fake")
    assert named in source
    exec(compile(source, "README.md", "exec"), {"__name__": "readme"})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "dealer You rolled 4 of 4."
    *pieces, text = lines[1].split("|")
    assert "".join(pieces) == text
    assert lines[-1].startswith("True ")


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


@pytest.mark.parametrize(("options", "parameter"), [
    ({"max_prompt_tokens": 500}, "max_prompt_tokens"),
    ({"truncation_message_count": 3}, "truncation_message_count"),
    ({"enable_file_search": True}, "vector_store_id"),
])  # fmt: skip
def test_what_has_no_counterpart(service: ResponsesService, options: Any, parameter: str) -> None:
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
        DEFINITION, code_interpreter_file_ids=["file_d"], vector_store_id="vs_d",
        metadata={"a": "d", "b": "d"}, temperature=0.7, top_p=0.5, enable_json_response=True,
    )  # fmt: skip
    own = {"code_interpreter_file_ids": ["file_t"], "vector_store_id": "vs_t"}
    thread = {"__thread_options_00": json.dumps(own), "b": "t"}
    service.turns += [[Says("so")], [Says("so")], [Says("so")]]
    ran(service, definition, thread)
    ran(
        service, definition, thread, model_name="other", enable_code_interpreter=False,
        enable_file_search=False, enable_json_response=False, parallel_tool_calls_enabled=False,
        max_completion_tokens=0, temperature=0, top_p=0, metadata={"b": "i"},
        additional_instructions="",
    )  # fmt: skip
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
    assert overrides.pop("conversation") in service.threads
    assert overrides == {
        "model": "other", "instructions": "Be brief.",
        "temperature": 0, "top_p": 0, "max_output_tokens": 0, "parallel_tool_calls": False,
        "metadata": {"a": "d", "b": "i"},
    }  # fmt: skip
    assert bare["tools"] == [
        {"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["file_d"]}},
        {"type": "file_search", "vector_store_ids": ["vs_d"]},
    ]
