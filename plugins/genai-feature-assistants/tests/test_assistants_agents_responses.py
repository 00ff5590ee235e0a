"""The same agents over Responses and Conversations: against the host's own server."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
from genai_feature_assistants.agents import (
    AgentMessage,
    FileDefinitions,
    OpenAIAssistantAgent,
    OpenAIAssistantDefinition,
    OpenAIAssistantExecutionOptions,
    OpenAIAssistantInvocationOptions,
    OpenAIServiceConfiguration,
    OpenAIThreadCreationOptions,
)

from genai_host import Config
from genai_host.api import Completion, Message, Text, ToolCall
from genai_host.errors import BadRequest, StoreError, ValidationError
from genai_host.testing import FakeModel
from genai_host.testing.fake_model import RecordedPrompt
from genai_host_testing.assistants_agents import agent_of, roll
from genai_host_testing.assistants_service import AssistantsService, Calls, Says
from genai_host_testing.fixtures import MakeHost
from genai_host_testing.serving import served

pytestmark = pytest.mark.part

DEFINITION = OpenAIAssistantDefinition("fake", name="n", instructions="Be brief.")
CALL = ToolCall("c1", "roll", {"sides": 4})


def rolls(heard: RecordedPrompt) -> str | Completion:
    """A model that rolls a die when it is told to, and says what came."""
    last = heard.messages[-1]
    if last.role == "tool":
        return "You rolled 4 of 4."
    if "roll" in last.text:
        return Completion(Message("assistant", [CALL]), "tool_calls")
    return f"So it is: 【é】 {last.text}"


Serve = Callable[[FakeModel], Any]


@pytest.fixture
def serve(make_host: MakeHost) -> Serve:
    @contextmanager
    def serving(fake: FakeModel) -> Iterator[OpenAIServiceConfiguration]:
        host = make_host(fake=fake, config=Config(models={"chat": "fake"}))
        with served(host) as server:
            yield OpenAIServiceConfiguration.for_host(
                f"{server.url}/v1/", api="responses", timeout=20.0
            )

    return serving


def conversed(agent: OpenAIAssistantAgent, streamed: bool) -> tuple[list[Any], list[Any]]:
    """Two turns, one with a function: what was seen, and what the thread has in the end."""
    told: list[AgentMessage] = []
    thread = agent.create_thread()
    for text in ("roll, please", "so?"):
        agent.add_chat_message(thread, text)
        invoke = agent.invoke_stream if streamed else agent.invoke
        told += [each for each in invoke(thread, hidden=True) if isinstance(each, AgentMessage)]
    shown = [(each.role, each.name, each.visible, each.content) for each in told]
    kept = [(each.role, each.text) for each in agent.get_thread_messages(thread)]
    return shown, kept


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "stream"])
def test_item_15_the_same_conversation_over_both(serve: Serve, streamed: bool) -> None:
    with AssistantsService() as service:
        service.turns += [
            [Calls(("c1", "roll", '{"sides":4}')), Says("You rolled 4 of 4.")],
            [Says("So it is: 【é】 so?")],
        ]
        with agent_of(service, DEFINITION, [roll]) as agent:
            before = conversed(agent, streamed)
    with (
        serve(FakeModel(rolls)) as configuration,
        OpenAIAssistantAgent.create(configuration, DEFINITION, [roll]) as agent,
    ):
        after = conversed(agent, streamed)
    assert [visible for _, _, visible, _ in before[0]] == [False, False, True, True]
    assert before == after


def test_item_15_the_model_is_shown_what_was_said(serve: Serve) -> None:
    fake = FakeModel(rolls)
    with (
        serve(fake) as configuration,
        OpenAIAssistantAgent.create(configuration, DEFINITION, [roll]) as agent,
    ):
        options = OpenAIAssistantInvocationOptions(
            additional_instructions="Be polite.", additional_messages=[Message("user", "roll")]
        )
        list(agent.invoke(agent.create_thread(), options))
    first, second = fake.prompts
    assert [message.role for message in first.messages] == ["system", "user"]
    assert first.messages[0].text == "Be brief.\n\nBe polite."
    assert first.tools == second.tools == ("roll",)
    assert second.messages[-1].content[0].content == (Text("4 of 4"),)  # type: ignore[attr-defined]  # a result
    assert [message.role for message in second.messages] == ["system", "user", "assistant", "tool"]


def test_item_15_threads(serve: Serve) -> None:
    with (
        serve(FakeModel(rolls)) as configuration,
        OpenAIAssistantAgent.create(configuration, DEFINITION) as agent,
    ):
        said = [Message("user" if n % 2 else "assistant", f"{n}") for n in range(45)]
        files = [f"file_{'x' * 40}{number}" for number in range(20)]
        options = OpenAIThreadCreationOptions(files, said, "vs_1", {"a": "b"})
        thread = agent.create_thread(options)
        assert [(each.role, each.text) for each in agent.get_thread_messages(thread)] == [
            (each.role, each.text) for each in said
        ]
        kept = agent._backend.thread(thread)
        assert list(kept.code_interpreter_file_ids) == files
        assert (kept.vector_store_id, kept.metadata) == ("vs_1", {"a": "b"})
        assert agent.delete_thread(thread)
        for act in (
            lambda: agent.add_chat_message(thread, "hi"),
            lambda: list(agent.invoke(thread)),
            lambda: list(agent.get_thread_messages(thread)),
        ):
            with pytest.raises(BadRequest) as caught:
                act()
            assert caught.value.status == 404


def test_item_15_a_thread_goes_on_after_a_run_that_was_left(serve: Serve) -> None:
    fake = FakeModel(rolls)
    with (
        serve(fake) as configuration,
        OpenAIAssistantAgent.create(configuration, DEFINITION, [roll]) as agent,
    ):
        thread = agent.create_thread()
        agent.add_chat_message(thread, "roll, please")
        told = agent.invoke(thread, hidden=True)
        assert next(told).tool_calls == (CALL,)
        told.close()
        agent.add_chat_message(thread, "so?")
        assert [each.text for each in agent.invoke(thread)] == ["So it is: 【é】 so?"]
    (result,) = (part for each in fake.prompts[-1].messages if each.role == "tool"
                 for part in each.content)  # fmt: skip
    assert "given up" in str(result)


def test_item_15_two_agents_on_one_channel(serve: Serve) -> None:
    with (
        serve(FakeModel(lambda heard: f"after {heard.messages[-1].text}")) as configuration,
        OpenAIAssistantAgent.create(configuration, attrs.evolve(DEFINITION, name="ann")) as ann,
        OpenAIAssistantAgent.create(configuration, attrs.evolve(DEFINITION, name="bob")) as bob,
    ):
        channel = ann.create_channel()
        channel.receive([Message("user", "hi")])
        told = [*channel.invoke(ann), *channel.invoke(bob)]
        assert [(each.name, each.text) for _, each in told] == [
            ("ann", "after hi"), ("bob", "after after hi"),
        ]  # fmt: skip
        assert [each.text for each in channel.history()] == ["hi", "after hi", "after after hi"]


def test_item_15_definitions_are_kept_on_this_side(tmp_path: Path) -> None:
    files = FileDefinitions(tmp_path / "assistants")
    for kept in (None, files):
        configuration = OpenAIServiceConfiguration.for_host(api="responses", definitions=kept)
        whole = attrs.evolve(
            DEFINITION,
            metadata={"a": "b"},
            vector_store_id="vs_1",
            execution_options=OpenAIAssistantExecutionOptions(max_completion_tokens=0),
        )
        made = OpenAIAssistantAgent.create(configuration, whole).definition
        assert attrs.evolve(made, id=None, enable_file_search=False) == whole
        assert made.enable_file_search
        other = OpenAIAssistantAgent.create(configuration, DEFINITION)
        found = OpenAIAssistantAgent.list_definitions(configuration)
        assert {each.id for each in found} == {made.id, other.id}
        assert made.id
        assert OpenAIAssistantAgent.retrieve(configuration, made.id).definition == made
        assert other.delete()
        assert other.delete()
        with pytest.raises(BadRequest) as caught:
            OpenAIAssistantAgent.retrieve(configuration, other.id)
        assert caught.value.status == 404
    again = OpenAIServiceConfiguration.for_host(
        api="responses", definitions=FileDefinitions(tmp_path / "assistants")
    )
    assert OpenAIAssistantAgent.list_definitions(again) == [made]
    with pytest.raises(BadRequest):
        OpenAIAssistantAgent.retrieve(again, "../../etc/passwd")


def test_item_3_too_much_is_not_kept() -> None:
    configuration = OpenAIServiceConfiguration.for_host(api="responses")
    with pytest.raises(ValidationError):
        OpenAIAssistantAgent.create(
            configuration, attrs.evolve(DEFINITION, metadata={"k" * 65: ""})
        )
    assert OpenAIAssistantAgent.list_definitions(configuration) == []


def test_files_that_hold_no_definition(tmp_path: Path) -> None:
    files = FileDefinitions(tmp_path)
    (tmp_path / "asst_1.json").write_text("{")
    with pytest.raises(ValidationError, match="asst_1"):
        files.all()
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError):
        FileDefinitions(tmp_path / "file").save(attrs.evolve(DEFINITION, id="asst_2"))
    with pytest.raises(ValidationError):
        files.save(attrs.evolve(DEFINITION, id="../x"))


def test_item_15_the_example_of_the_readme(
    serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same program, with `api="responses"`, as the README says."""
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    [source] = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    with serve(FakeModel(rolls)) as configuration:
        named = f'.for_host("{configuration.base_url}", api="responses")'
        source = source.replace('.for_host("http://127.0.0.1:8642/v1/")', named)
        source = source.replace("smollm2", "fake")
        assert named in source
        exec(compile(source, "README.md", "exec"), {"__name__": "readme"})
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "dealer You rolled 4 of 4."
    assert said[1].endswith("You rolled 4 of 4.")
    assert said[-1].startswith("True ")
