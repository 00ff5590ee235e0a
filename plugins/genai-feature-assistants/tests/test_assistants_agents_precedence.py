"""Which of the options hold for a run: each field, from where it is given."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from genai_feature_assistants.agents import (
    OpenAIAssistantDefinition,
    OpenAIAssistantExecutionOptions,
    OpenAIAssistantInvocationOptions,
    OpenAIAssistantToolCallBehavior,
    OpenAIThreadCreationOptions,
)
from genai_feature_assistants.agents.runs import ThreadSettings, settled

from genai_host.errors import ValidationError
from genai_host_testing.internal.assistants_agents import DEFINITION, STREAMED, agent_of
from genai_host_testing.services.assistants import AssistantsService, Says

pytestmark = pytest.mark.part

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
    key, kept, given, sent = OF_EXECUTION[name]
    execution = OpenAIAssistantExecutionOptions(**{name: kept})
    definition = attrs.evolve(DEFINITION, execution_options=execution)
    inherits = OpenAIAssistantInvocationOptions(model_name="m2")
    inherited = run(service, definition, inherits, streamed=streamed)[key]
    assert (inherited["last_messages"] if isinstance(inherited, dict) else inherited) == kept
    overrides = OpenAIAssistantInvocationOptions(**{name: given})
    assert run(service, definition, overrides, streamed=streamed)[key] == sent
    assert run(service, DEFINITION, overrides, streamed=streamed)[key] == sent
    assert key not in run(service, DEFINITION, None, streamed=streamed)


@pytest.mark.parametrize("name", OF_DEFINITION)
def test_item_4_a_field_of_the_definition(service: AssistantsService, name: str) -> None:
    option, key, given, sent = OF_DEFINITION[name]
    kept: Any = {"model_id": "m", "temperature": 0.7, "top_p": 0.5}.get(name, True)
    definition = attrs.evolve(DEFINITION, **{name: kept})
    overrides = OpenAIAssistantInvocationOptions(**{option: given})
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
    assert (has.model, has.code_interpreter, has.file_search) == ("m", True, True)
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
    given = OpenAIAssistantInvocationOptions(metadata={"c": "i"})
    has = settled(definition, ThreadSettings(["file_t"], "vs_t", {"a": "t", "c": "t"}), given)
    assert (has.code_interpreter_file_ids, has.vector_store_id) == (["file_t"], "vs_t")
    assert has.metadata == {"a": "t", "c": "i"}
    bare = settled(definition, ThreadSettings(), given)
    assert (tuple(bare.code_interpreter_file_ids), bare.vector_store_id) == (("file_d",), "vs_d")
    assert bare.metadata == {"a": "d", "c": "i"}


@pytest.mark.parametrize(
    "options",
    [
        OpenAIAssistantInvocationOptions(
            tool_call_behavior=OpenAIAssistantToolCallBehavior(True, "roll", True)
        ),
        OpenAIAssistantInvocationOptions(tool_call_behavior=OpenAIAssistantToolCallBehavior()),
    ],
)
def test_item_4_how_tools_are_chosen_is_not_sent(service: AssistantsService, options: Any) -> None:
    assert run(service, DEFINITION, options).keys() == {"assistant_id", "tools"}


def test_item_4_metadata_that_is_too_much_together(service: AssistantsService) -> None:
    """Each of both may be; a run of both may not."""
    half = {f"a{number}": "v" for number in range(10)}
    thread = OpenAIThreadCreationOptions(metadata={f"b{number}": "v" for number in range(10)})
    with pytest.raises(ValidationError, match="20 pairs"):
        run(service, attrs.evolve(DEFINITION, metadata=half), None, thread)
    assert not service.bodies("POST", "/runs")
