"""Suite for tools.

It tests that a model, a service and the host can rely on a tool from any source: its description is
as services require, it accepts all arguments that its schema allows, and it ends when its call is
cancelled.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from attrs import evolve, frozen

from genai_host.api import (
    Answer,
    CallTools,
    ChatCall,
    Completion,
    Feature,
    FeatureSteps,
    Image,
    ListTools,
    Message,
    NoSettings,
    Prompt,
    SchemaValidator,
    Text,
    Tool,
    ToolCall,
    ToolContext,
    ToolOutput,
    Turn,
    tool_message,
)
from genai_host.api.cancellation import Cancellation
from genai_host.api.json_text import read_json, write_json
from genai_host.api.tools import output_of
from genai_host.config import Config, SetConfig
from genai_host.conversations.record import InMemoryRecord
from genai_host.errors import GenaiError, ValidationError
from genai_host.host import Host
from genai_host.tools.reactions import ReactionViews
from genai_host.tools.sources import of_source
from genai_host.tools.toolbox import MAX_DATA, MAX_IMAGES, MAX_PARTS, MAX_TEXT
from genai_host_testing.fake_model import FakeModel, RecordedPrompt
from genai_host_testing.plugins import InlinePlugin
from genai_host_testing.purity import with_faults
from genai_host_testing.replaying import replay_from_every_entry
from genai_host_testing.suites.base import ONE_ATTEMPT, PluginSuite, in_background

Sample = tuple[Mapping[str, Any]] | tuple[Mapping[str, Any], str]
"""Arguments of a call, alone or with the text of its output."""

_DIALECTS = ("openai-chat", "openai-responses")
_MAX_DESCRIPTION = 1024  # limit of OpenAI's services, in characters


def check_description(tool: Tool) -> None:
    assert len(tool.description) <= _MAX_DESCRIPTION, f"{tool.name}: services refuse it"
    assert tool.description == tool.description.strip()
    assert all(letter.isprintable() or letter == "\n" for letter in tool.description)


def check_parameters(tool: Tool) -> None:
    parameters = tool.schema.parameters
    SchemaValidator(parameters)
    assert parameters["type"] == "object"
    assert set(parameters.get("required", ())) <= set(parameters["properties"])
    json.dumps(parameters, allow_nan=False)


def check_services_take(tool: Tool, host: Host) -> None:
    """Requests contain its schema unchanged."""
    schema = tool.schema
    call = ChatCall(model_id="some", messages=[Message("user", "hi")], tools=[schema])
    missing = {*_DIALECTS} - host.registry.dialects.keys()
    assert not missing, "pip install genai-host-testing installs an API format to test with"
    for name in _DIALECTS:
        request = host.registry.dialects[name].prepare_request(call)
        [written] = read_json(request.data())["tools"]
        written = written.get("function", written)
        assert (written["name"], written["description"]) == (schema.name, schema.description)
        assert written["parameters"] == json.loads(json.dumps(dict(schema.parameters)))


def check_output(
    output: ToolOutput, arguments: Mapping[str, Any], expected: Sequence[Any], host: Host
) -> None:
    """The call succeeds, the output survives serialization, and has the expected text, if given."""
    assert not output.error, f"{arguments}: {output.text}"
    form = json.loads(json.dumps(host.codec.to_json(output)))
    assert host.codec.from_json(form, ToolOutput) == output
    assert [output.text] == (list(expected) or [output.text]), f"{arguments}"


_AT_ONCE = 8

_ODD_CONTEXTS: Sequence[Mapping[str, Any]] = (
    {},
    {"page": None},
    {"": [[]]},
    {"current_page": {"type": 5, "id": "\x00"}, "user": False},
)


@frozen
class Run:
    """Context of a tool call in a test."""

    context: Mapping[str, Any]
    limits: Cancellation


class ToolSuite(PluginSuite):
    """Suite for a tool. It calls the tool many times, also with unusual arguments that its schema
    allows.

        class TestRoll(ToolSuite):
            plugin = genai_tools_dice
            tool = "roll"
            samples = [({"sides": 1}, "1"), ({"sides": 6},)]

    For values from fixtures, use an autouse fixture: `self.samples = ...`.

    Attributes:
        tool: Name of the tool; `SOURCE__NAME` for one from a source.
        samples: Valid arguments, each alone or with the text of the output.
        context: Context in which the tool is available.
        settings: Settings of its tool set, if it has one.
    """

    tool: str
    samples: Sequence[Sample]
    context: Mapping[str, Any] = {}
    settings: Mapping[str, Any] = {}
    _tool: Tool | None = None

    # declarations

    def test_it_is_declared(self) -> None:
        check_description(self.found())

    def test_its_parameters_are_described(self) -> None:
        """Its parameters are a JSON Schema of an object, which defines all required properties."""
        check_parameters(self.found())

    def test_services_take_it(self) -> None:
        check_services_take(self.found(), self.host())

    def test_available_when_accepts_any_context(self) -> None:
        tool = self.found()
        for context in (*_ODD_CONTEXTS, self.context):
            assert isinstance(tool.available_when(dict(context)), bool), f"in {context}"
        assert tool.available_when(dict(self.context)), "available_when is false: set `context`"
        offered = self.host().toolbox.offered(self.context, Cancellation())
        assert self.tool in [each.name for each in offered]

    # results

    def test_samples_return_expected_output(self) -> None:
        assert self.samples, "it has no samples"
        host = self.host()
        checker = SchemaValidator(self.found().schema.parameters)
        for arguments, *expected in self.samples:
            checker.check(arguments)
            check_output(self.called(host, arguments), arguments, expected, host)

    def test_output_is_within_limits(self) -> None:
        for arguments, *_ in self.samples:
            output = output_of(self.found().run(dict(arguments), self.run()))
            texts = [part.text for part in output.content if isinstance(part, Text)]
            pictures = [part.data for part in output.content if isinstance(part, Image)]
            assert sum(map(len, texts)) <= MAX_TEXT
            assert sum(map(len, pictures)) <= MAX_IMAGES
            assert len(output.content) <= MAX_PARTS
            assert len(write_json([list(output.reactions), output.context])) <= MAX_DATA

    def test_reactions_have_text_view(self) -> None:
        """Its reactions have a text view, if their types declare one."""
        host = self.host()
        views = ReactionViews(host.registry.reactions, host.clock)
        for arguments, *_ in self.samples:
            for reaction in self.called(host, arguments).reactions:
                kind = host.registry.reactions.get(reaction["type"])
                if kind is not None and kind.text_view:
                    for width in (20, 100):
                        lines = views.lines(reaction, width)
                        assert lines is not None, f"{kind.text_view} fails: the log says why"

    def test_arguments_refused_by_schema_are_not_passed(self) -> None:
        host = self.host()
        for arguments, taken in self.garbage():
            if not taken:
                output = self.called(host, arguments)
                assert output.error, f"{arguments} gave {output.text}"
        malformed = ToolCall("1", self.tool, malformed='{"a": ')
        output = host.toolbox.call(malformed, self.context, Cancellation(), approved=True)
        assert output.error

    def test_arguments_accepted_by_schema_are_handled(self) -> None:
        """It may reject arguments with an error output or a `GenaiError`. Any other exception is a
        bug that the schema could prevent."""
        tool = self.found()
        for arguments, taken in self.garbage():
            if not taken:
                continue
            error = self.ended(in_background(self._handled, tool, arguments))
            assert error is None, f"{arguments}: {type(error).__name__}: {error}"

    def test_idempotent_tool_returns_the_same_output(self) -> None:
        """An idempotent tool returns the same output again, also from several threads."""
        if not self.found().idempotent:
            pytest.skip("it is not idempotent")
        host = self.host()
        for arguments, *_ in self.samples:
            first = self.called(host, arguments)
            calls = [in_background(self.called, host, arguments) for _ in range(_AT_ONCE)]
            for call in calls:
                assert self.ended(call) is None
                assert call.result() == first

    # cancellation

    def test_it_ends_when_its_call_does(self) -> None:
        """A cancelled call ends promptly: a waiting tool checks its limits."""
        for arguments, *_ in self.samples:
            limits = Cancellation()
            ended = self.launched(self.found().run, dict(arguments), self.run(limits))
            limits.cancel()
            self.ended(ended)

    def test_feature_calling_it_resumes_after_every_entry(self) -> None:
        host = self.host()
        conversation = host.open("calling", "fake")
        conversation.say("go", context=self.context)
        record = conversation.record
        assert isinstance(record, InMemoryRecord)
        if self.found().idempotent:
            assert replay_from_every_entry(host, record)
        else:
            assert self._resumed_everywhere(host, record)

    # building blocks

    def found(self) -> Tool:
        """The tool, declared or from a source."""
        if self._tool is None:
            self.declared()
            by_name = self.host().tools()
            assert self.tool in by_name, f"the plugin has {sorted(by_name)}"
            self._tool = by_name[self.tool]
        return self._tool

    def host(self) -> Host:
        """A host with the tool, and a feature that calls it with each sample."""
        feature = Feature("calling", NoSettings, _respond, help="calls what it is asked to")
        tables = {of_source(self.tool): SetConfig(self.settings)} if self.settings else {}
        plugins = self.plugins(
            model=FakeModel(self._asks), calling=InlinePlugin(features=[feature])
        )
        host = self.opened_host(Config(tools=tables), discovery=plugins, retry_policy=ONE_ATTEMPT)
        tool = host.registry.tools.get(self.tool)
        if tool is not None:
            seconds = min(tool.timeout, self.patience)
            host.registry.tools[self.tool] = evolve(tool, timeout=seconds)
        return host

    def run(self, limits: Cancellation | None = None) -> ToolContext:
        return Run(dict(self.context), limits or Cancellation())

    def called(self, host: Host, arguments: Mapping[str, Any]) -> ToolOutput:
        """Output of a call through the host, approved by a user."""
        return host.call_tool(self.tool, arguments, context=self.context, approved=True)

    def garbage(self) -> Iterator[tuple[Mapping[str, Any], bool]]:
        """Arguments with one invalid value each, and whether the schema accepts them."""
        checker = SchemaValidator(self.found().schema.parameters)
        for sample, *_ in self.samples:
            for arguments in (*with_faults(dict(sample)), {**sample, "what is this": 1}):
                if isinstance(arguments, dict):
                    try:
                        checker.check(arguments)
                    except ValidationError:
                        yield arguments, False
                    else:
                        yield arguments, True

    def _handled(self, tool: Tool, arguments: Mapping[str, Any]) -> None:
        try:
            given = tool.run(dict(arguments), self.run())
        except GenaiError:
            return
        output_of(given)

    def _asks(self, prompt: RecordedPrompt) -> Completion | str:
        """Model answers that call the tool with each sample, one per round, then with all in one
        round."""
        rounds = sum(message.role == "tool" for message in prompt.messages)
        calls = [
            ToolCall(f"{rounds}-{number}", self.tool, arguments)
            for number, (arguments, *_) in enumerate(self.samples)
        ]
        if rounds > len(calls):
            return "done"
        wanted = calls if rounds == len(calls) else calls[rounds : rounds + 1]
        return Completion(Message("assistant", wanted), "tool_calls")

    def _resumed_everywhere(self, host: Host, record: InMemoryRecord) -> int:
        """Resume from each entry: interrupted calls are reported to the model, not repeated. Return
        their number."""
        whole = json.loads(json.dumps(record.to_json(host.codec)))
        interrupted = 0
        for length in range(2, len(whole)):
            conversation = host.reopen(InMemoryRecord.from_json(whole[:length], host.codec))
            if conversation.status != "pending":
                continue
            details = conversation.resume().details
            texts = [each.data["text"] for each in details if each.data.get("failed")]
            assert all("was interrupted" in text for text in texts), f"{texts}"
            interrupted += len(texts)
        return interrupted


def _respond(turn: Turn[NoSettings]) -> FeatureSteps:
    offered = yield from ListTools(turn.context)
    messages = [*turn.history, turn.message]
    while True:
        completion = yield from Prompt(messages, tools=[each.schema for each in offered])
        messages.append(completion.message)
        if not completion.tool_calls:
            return Answer(completion.text)
        ids = {call.id for call in completion.tool_calls}
        outputs = yield from CallTools(completion.tool_calls, turn.context, ids)
        messages.append(tool_message(completion.tool_calls, outputs))
