"""Definitions and options: their JSON, what is kept, what is too much, and which hold for a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import cattrs
import pytest
from genai_feature_assistants.agents import (
    BrokenDefinition,
    FileDefinitions,
    OpenAIAssistantAgent,
    OpenAIAssistantDefinition,
    OpenAIAssistantExecutionOptions,
    OpenAIAssistantInvocationOptions,
    OpenAIAssistantToolCallBehavior,
    OpenAIServiceConfiguration,
    OpenAIThreadCreationOptions,
    PollingOptions,
    from_json,
    to_json,
)
from genai_feature_assistants.agents.runs import ThreadSettings, settled

from genai_host.api import Message
from genai_host.errors import BadRequest, StoreError, ValidationError
from genai_host_testing.internal.assistants_agents import DEFINITION, STREAMED, agent_of, configured
from genai_host_testing.services.assistants import AssistantsService, Says

pytestmark = pytest.mark.part

BEHAVIOR = OpenAIAssistantToolCallBehavior(True, "roll", False)
EXECUTION = OpenAIAssistantExecutionOptions(
    max_completion_tokens=0, max_prompt_tokens=400, parallel_tool_calls_enabled=False,
    truncation_message_count=7, tool_call_behavior=BEHAVIOR,
    additional_instructions="And polite: é.",
)  # fmt: skip
WHOLE = OpenAIAssistantDefinition(
    "m", id="asst_9", name="n", description="d", instructions="i",
    code_interpreter_file_ids=("file_1", "file_2"),
    enable_code_interpreter=True, enable_file_search=True, enable_json_response=True,
    metadata={"a": "b"}, temperature=0.0, top_p=0.5, vector_store_id="vs_1",
    execution_options=EXECUTION,
)  # fmt: skip
INVOCATION = OpenAIAssistantInvocationOptions(
    model_name="other", enable_code_interpreter=False, enable_file_search=True,
    enable_json_response=False, max_completion_tokens=5, temperature=0, metadata={"k": "v"},
    tool_call_behavior=BEHAVIOR,
    additional_messages=[Message("user", "hi")],
)  # fmt: skip
THREAD = OpenAIThreadCreationOptions(["file_1"], [Message("assistant", "hm")], "vs_2", {"a": "b"})
ALL = [
    WHOLE, EXECUTION, BEHAVIOR, INVOCATION, THREAD, PollingOptions(interval=1.5, tries=2),
    OpenAIServiceConfiguration(endpoint="http://127.0.0.1:1/v1/", service_type="host"),
]  # fmt: skip


@pytest.mark.parametrize("value", ALL, ids=lambda value: type(value).__name__)
class TestItem1:
    def test_item_1_there_and_back(self, value: Any) -> None:
        assert from_json(json.loads(json.dumps(to_json(value))), type(value)) == value

    def test_item_1_an_unknown_key(self, value: Any) -> None:
        with pytest.raises(ValidationError, match="colour"):
            from_json({**to_json(value), "colour": "red"}, type(value))

    def test_item_1_frozen(self, value: Any) -> None:
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            value.colour = "red"


PLAIN = [
    WHOLE, EXECUTION, BEHAVIOR, PollingOptions(), ALL[-1],
    attrs.evolve(INVOCATION, additional_messages=()), attrs.evolve(THREAD, messages=()),
]  # fmt: skip


@pytest.mark.parametrize("value", PLAIN, ids=lambda value: type(value).__name__)
def test_item_1_with_a_converter_of_ones_own(value: Any) -> None:
    converter = cattrs.Converter(forbid_extra_keys=True)
    data = converter.unstructure(value)
    assert converter.structure(data, type(value)) == value
    with pytest.raises(cattrs.errors.ClassValidationError):
        converter.structure({**data, "colour": "red"}, type(value))


@pytest.mark.parametrize(("name", "wrong"), [
    ("model_id", ""), ("model_id", None), ("name", 1), ("enable_file_search", 1),
    ("metadata", {"a": 1}), ("temperature", float("nan")), ("top_p", "1"),
    ("code_interpreter_file_ids", "file_1"), ("code_interpreter_file_ids", [1]),
])  # fmt: skip
def test_item_1_what_no_field_can_be(name: str, wrong: Any) -> None:
    with pytest.raises((TypeError, ValidationError)):
        OpenAIAssistantDefinition(**{"model_id": "m", name: wrong})
    with pytest.raises(ValidationError):
        from_json({"model_id": "m", name: wrong}, OpenAIAssistantDefinition)


def test_item_2_execution_options_are_kept_with_the_assistant(service: AssistantsService) -> None:
    options = OpenAIAssistantExecutionOptions(
        max_prompt_tokens=0, parallel_tool_calls_enabled=False
    )
    with agent_of(service, attrs.evolve(DEFINITION, execution_options=options)) as agent:
        (body,) = service.bodies("POST", "/assistants")
        stored = json.loads(body["metadata"]["__run_options"])
        assert stored == {"max_prompt_tokens": 0, "parallel_tool_calls_enabled": False}
        assert agent.definition.execution_options == options
        assert agent.definition.metadata == {}
        with OpenAIAssistantAgent.retrieve(configured(service), agent.id) as retrieved:
            assert retrieved.definition == agent.definition
        assert OpenAIAssistantAgent.list_definitions(configured(service)) == [agent.definition]


def test_item_2_all_fields_come_back(service: AssistantsService) -> None:
    with agent_of(service, WHOLE) as agent:
        assert attrs.evolve(agent.definition, id="asst_9") == WHOLE
        assert agent.id != "asst_9"


def test_item_2_without_options_nothing_is_kept(service: AssistantsService) -> None:
    with agent_of(service) as agent:
        assert service.bodies("POST", "/assistants")[0]["metadata"] == {}
        assert agent.definition.execution_options is None


@pytest.mark.parametrize(
    "stored", ["{", "[]", '{"colour":"red"}', '{"max_prompt_tokens":"many"}', 7, "NaN"]
)
def test_item_2_broken_options_name_the_assistant(service: AssistantsService, stored: Any) -> None:
    with agent_of(service) as agent:
        service.assistants[agent.id]["metadata"] = {"__run_options": stored}
        with pytest.raises(BrokenDefinition, match=agent.id) as caught:
            OpenAIAssistantAgent.retrieve(configured(service), agent.id)
        assert caught.value.assistant_id == agent.id
        with pytest.raises(BrokenDefinition):
            OpenAIAssistantAgent.list_definitions(configured(service))


def test_item_2_all_pages_are_listed(service: AssistantsService) -> None:
    for number in range(5):
        agent_of(service, OpenAIAssistantDefinition(f"m{number}")).close()
    listed = OpenAIAssistantAgent.list_definitions(configured(service))
    assert [each.model_id for each in listed] == ["m4", "m3", "m2", "m1", "m0"]


PAIRS = {f"k{number}": "v" for number in range(16)}
TOO_MUCH: list[dict[str, Any]] = [
    {"metadata": {**PAIRS, "one": "more"}},
    {"metadata": PAIRS, "execution_options": OpenAIAssistantExecutionOptions()},
    {"metadata": {"k" * 65: "v"}},
    {"metadata": {"k": "v" * 513}},
    {"execution_options": OpenAIAssistantExecutionOptions(additional_instructions="x" * 513)},
    {"code_interpreter_file_ids": [f"file_{number}" for number in range(21)]},
]


@pytest.mark.parametrize("fields", TOO_MUCH, ids=range(len(TOO_MUCH)))
def test_item_3_too_large_definition(service: AssistantsService, fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        agent_of(service, attrs.evolve(DEFINITION, **fields))
    assert not service.requests


def test_item_3_as_much_as_there_may_be(service: AssistantsService) -> None:
    metadata = {"k" * 64: "v" * 512, **dict(list(PAIRS.items())[1:])}
    files = [f"file_{number}" for number in range(20)]
    definition = attrs.evolve(DEFINITION, metadata=metadata, code_interpreter_file_ids=files)
    with agent_of(service, definition) as agent:
        assert agent.definition.metadata == metadata


@pytest.mark.parametrize("number", [0, 2, 3, 5])
def test_item_3_too_much_in_a_thread_or_a_run(service: AssistantsService, number: int) -> None:
    value = TOO_MUCH[number]
    with agent_of(service) as agent:
        before = len(service.requests)
        with pytest.raises(ValidationError):
            agent.create_thread(OpenAIThreadCreationOptions(**value))
        if "metadata" in value:
            with pytest.raises(ValidationError):
                agent.invoke("thread_1", OpenAIAssistantInvocationOptions(**value))
        assert len(service.requests) == before


def test_item_5_what_definitions_switch_on(service: AssistantsService) -> None:
    definition = OpenAIAssistantDefinition(
        "m", vector_store_id="vs_1", code_interpreter_file_ids=["file_1"], enable_json_response=True
    )
    with agent_of(service, definition) as agent:
        (body,) = service.bodies("POST", "/assistants")
        assert body["tools"] == [{"type": "code_interpreter"}, {"type": "file_search"}]
        assert body["tool_resources"] == {
            "code_interpreter": {"file_ids": ["file_1"]},
            "file_search": {"vector_store_ids": ["vs_1"]},
        }
        assert body["response_format"] == {"type": "json_object"}
        assert agent.definition.enable_code_interpreter
        assert agent.definition.enable_file_search


def test_item_5_what_is_not_said_is_not_sent(service: AssistantsService) -> None:
    with agent_of(service, OpenAIAssistantDefinition("m")):
        assert service.bodies("POST", "/assistants") == [
            {"model": "m", "tools": [], "metadata": {}}
        ]


def test_item_5_truncation_and_json_of_a_run(service: AssistantsService) -> None:
    options = OpenAIAssistantExecutionOptions(
        truncation_message_count=7, tool_call_behavior=BEHAVIOR
    )
    service.turns.append([Says("{}")])
    with agent_of(service, attrs.evolve(DEFINITION, execution_options=options)) as agent:
        invocation = OpenAIAssistantInvocationOptions(enable_json_response=True)
        list(agent.invoke(agent.create_thread(), invocation))
    (body,) = service.bodies("POST", "/runs")
    assert body["truncation_strategy"] == {"type": "last_messages", "last_messages": 7}
    assert body["response_format"] == {"type": "json_object"}
    assert "tool_choice" not in body


def test_item_15_definitions_are_kept_on_this_side(tmp_path: Path) -> None:
    for storage in (None, FileDefinitions(tmp_path / "assistants")):
        configuration = OpenAIServiceConfiguration.for_host(api="responses", definitions=storage)
        definition = attrs.evolve(
            DEFINITION, metadata={"a": "b"}, vector_store_id="vs_1",
            execution_options=OpenAIAssistantExecutionOptions(max_completion_tokens=0),
        )  # fmt: skip
        created = OpenAIAssistantAgent.create(configuration, definition).definition
        assert attrs.evolve(created, id=None, enable_file_search=False) == definition
        assert created.enable_file_search
        other = OpenAIAssistantAgent.create(configuration, DEFINITION)
        definitions = OpenAIAssistantAgent.list_definitions(configuration)
        assert {each.id for each in definitions} == {created.id, other.id}
        assert created.id
        assert OpenAIAssistantAgent.retrieve(configuration, created.id).definition == created
        assert other.delete()
        assert other.delete()
        with pytest.raises(BadRequest) as caught:
            OpenAIAssistantAgent.retrieve(configuration, other.id)
        assert caught.value.status == 404
    again = OpenAIServiceConfiguration.for_host(
        api="responses", definitions=FileDefinitions(tmp_path / "assistants")
    )
    assert OpenAIAssistantAgent.list_definitions(again) == [created]
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


CODE, SEARCH = {"type": "code_interpreter"}, {"type": "file_search"}

OF_EXECUTION: dict[str, tuple[str, Any, Any, Any]] = {
    "max_completion_tokens": ("max_completion_tokens", 9, 0, 0),
    "max_prompt_tokens": ("max_prompt_tokens", 9, 0, 0),
    "parallel_tool_calls_enabled": ("parallel_tool_calls", True, False, False),
    "additional_instructions": ("additional_instructions", "more", "", ""),
    "truncation_message_count": (
        "truncation_strategy", 9, 0, {"type": "last_messages", "last_messages": 0},
    ),
}  # fmt: skip
"""By field: its name in a run, what the definition has, what the invocation has, and what of
that is in the run."""

OF_DEFINITION: dict[str, tuple[str, str, Any, Any]] = {
    "model_id": ("model_name", "model", "m2", "m2"),
    "temperature": ("temperature", "temperature", 0, 0),
    "top_p": ("top_p", "top_p", 0.0, 0.0),
    "enable_json_response": (
        "enable_json_response", "response_format", False, {"type": "text"},
    ),
    "enable_code_interpreter": ("enable_code_interpreter", "tools", False, []),
    "enable_file_search": ("enable_file_search", "tools", False, []),
}  # fmt: skip


def run(
    service: AssistantsService, definition: OpenAIAssistantDefinition, options: Any,
    thread: Any = None, streamed: bool = False,
) -> Any:  # fmt: skip
    """What a run is made from."""
    service.turns.append([Says("so")])
    with agent_of(service, definition) as agent:
        invoke = agent.invoke_stream if streamed else agent.invoke
        list(invoke(agent.create_thread(thread), options))
    return service.bodies("POST", "/runs")[-1]


@STREAMED
@pytest.mark.parametrize("name", OF_EXECUTION)
def test_item_4_an_execution_option(service: AssistantsService, name: str, streamed: bool) -> None:
    key, default, override, sent = OF_EXECUTION[name]
    execution = OpenAIAssistantExecutionOptions(**{name: default})
    definition = attrs.evolve(DEFINITION, execution_options=execution)
    inherits = OpenAIAssistantInvocationOptions(model_name="m2")
    inherited = run(service, definition, inherits, streamed=streamed)[key]
    assert (inherited["last_messages"] if isinstance(inherited, dict) else inherited) == default
    overrides = OpenAIAssistantInvocationOptions(**{name: override})
    assert run(service, definition, overrides, streamed=streamed)[key] == sent
    assert run(service, DEFINITION, overrides, streamed=streamed)[key] == sent
    assert key not in run(service, DEFINITION, None, streamed=streamed)


@pytest.mark.parametrize("name", OF_DEFINITION)
def test_item_4_a_field_of_the_definition(service: AssistantsService, name: str) -> None:
    option, key, override, sent = OF_DEFINITION[name]
    default: Any = {"model_id": "m", "temperature": 0.7, "top_p": 0.5}.get(name, True)
    definition = attrs.evolve(DEFINITION, **{name: default})
    overrides = OpenAIAssistantInvocationOptions(**{option: override})
    assert run(service, definition, overrides)[key] == sent
    inherits = run(service, definition, OpenAIAssistantInvocationOptions())
    tools = {"enable_code_interpreter": [CODE], "enable_file_search": [SEARCH]}.get(name, [])
    assert inherits["tools"] == tools
    assert key == "tools" or key not in inherits  # the service has it with the assistant


def test_item_4_what_a_definition_has_holds_for_a_run() -> None:
    definition = OpenAIAssistantDefinition(
        "m", enable_code_interpreter=True, enable_file_search=True, enable_json_response=True,
        temperature=0.7, top_p=0.5,
    )  # fmt: skip
    has = settled(definition, ThreadSettings(), OpenAIAssistantInvocationOptions())
    assert has.model_name == "m"
    assert (has.enable_code_interpreter, has.enable_file_search) == (True, True)
    assert (has.enable_json_response, has.temperature, has.top_p) == (True, 0.7, 0.5)


@pytest.mark.parametrize("on", [True, False])
def test_item_4_tools_that_others_switched_on(service: AssistantsService, on: bool) -> None:
    """Files and stores switch tools on; only an invocation says otherwise."""
    thread = OpenAIThreadCreationOptions(["file_1"], vector_store_id="vs_1")
    options = OpenAIAssistantInvocationOptions(enable_code_interpreter=on, enable_file_search=on)
    assert run(service, DEFINITION, options, thread)["tools"] == ([CODE, SEARCH] if on else [])
    assert run(service, DEFINITION, None, thread)["tools"] == [CODE, SEARCH]


def test_item_4_what_a_thread_has_comes_before_the_definition() -> None:
    definition = OpenAIAssistantDefinition(
        "m", code_interpreter_file_ids=["file_d"], vector_store_id="vs_d", metadata={"a": "d"}
    )
    options = OpenAIAssistantInvocationOptions(metadata={"c": "i"})
    has = settled(definition, ThreadSettings(["file_t"], "vs_t", {"a": "t", "c": "t"}), options)
    assert (has.code_interpreter_file_ids, has.vector_store_id) == (["file_t"], "vs_t")
    assert has.metadata == {"a": "t", "c": "i"}
    bare = settled(definition, ThreadSettings(), options)
    assert (tuple(bare.code_interpreter_file_ids), bare.vector_store_id) == (("file_d",), "vs_d")
    assert bare.metadata == {"a": "d", "c": "i"}


@pytest.mark.parametrize("options", [
    OpenAIAssistantInvocationOptions(
        tool_call_behavior=OpenAIAssistantToolCallBehavior(True, "roll", True)
    ),
    OpenAIAssistantInvocationOptions(tool_call_behavior=OpenAIAssistantToolCallBehavior()),
])  # fmt: skip
def test_item_4_how_tools_are_chosen_is_not_sent(service: AssistantsService, options: Any) -> None:
    assert run(service, DEFINITION, options).keys() == {"assistant_id", "tools"}


def test_item_4_metadata_that_is_too_much_together(service: AssistantsService) -> None:
    """Each of both may be; a run of both may not."""
    half = {f"a{number}": "v" for number in range(10)}
    thread = OpenAIThreadCreationOptions(metadata={f"b{number}": "v" for number in range(10)})
    with pytest.raises(ValidationError, match="20 pairs"):
        run(service, attrs.evolve(DEFINITION, metadata=half), None, thread)
    assert not service.bodies("POST", "/runs")
