"""Tool calls: every failure becomes an error output."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any
from unittest import mock

import pytest

from genai_host import GenaiError, Image
from genai_host.api import (
    AvailableTool,
    Cancellation,
    Codec,
    ReactionType,
    Tool,
    ToolCall,
    ToolContext,
    ToolOutput,
    tool,
)
from genai_host.errors import Cancelled, LimitExceeded, TurnPaused, ValidationError
from genai_host.tools.toolbox import MAX_DATA, MAX_IMAGES, MAX_PARTS, MAX_TEXT, Toolbox
from genai_host_testing import InlinePlugin, ManualClock
from genai_host_testing.suites.base import in_background

SIDES = {"properties": {"sides": {"type": "integer", "minimum": 1}}, "required": ["sides"]}


def named(name: str, run: Any, *more: Any, **fields: Any) -> Tool:
    return Tool(name, "does something", run, *more, **fields)


def echo(arguments: Mapping[str, Any], run: ToolContext) -> str:
    return f"{dict(arguments)} {dict(run.context)}"


def box(*tools: Tool, clock: Any = None) -> Toolbox:
    return Toolbox({each.name: each for each in tools}, clock or ManualClock(), Codec())


def called(
    toolbox: Toolbox, name: str = "t", arguments: Mapping[str, Any] | None = None,
    context: Mapping[str, Any] | None = None, *, malformed: str = "", **options: Any,
) -> ToolOutput:  # fmt: skip
    call = ToolCall("1", name, arguments or {}, malformed)
    return toolbox.call(call, context or {}, Cancellation(), **options)


def failure(output: ToolOutput) -> str:
    """The text of an output that is an error: one line, and no traceback."""
    assert output.error
    assert output == ToolOutput(output.text, error=True)
    assert "\n" not in output.text
    return output.text


class Hanging:
    """A tool that hangs until the test lets it go, whatever it is told."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go = threading.Event()

    def __call__(self, *_: Any) -> Any:
        self.begun.set()
        self.go.wait()
        return True


class Waiting:
    """A tool that waits until its call is to end."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.ended = threading.Event()

    def __call__(self, arguments: Mapping[str, Any], run: ToolContext) -> str:
        woken = threading.Event()
        with run.limits.on_cancel(woken.set):
            self.begun.set()
            woken.wait()
        try:
            run.limits.check()
        finally:
            self.ended.set()
        return "never"


class TestCalling:
    def test_it_gets_its_arguments_and_its_context(self) -> None:
        output = called(box(named("t", echo)), arguments={"a": 1}, context={"b": 2})
        assert output == ToolOutput("{'a': 1} {'b': 2}")

    def test_what_it_changes_is_its_own(self) -> None:
        def spoil(arguments: Any, run: Any) -> None:
            arguments["a"].append(1)
            run.context["b"].append(2)

        context: Any = ({"a": []}, {"b": []})
        assert called(box(named("t", spoil)), "t", *context) == ToolOutput()
        assert context == ({"a": []}, {"b": []})

    def test_the_output_is_as_it_will_be_on_record(self) -> None:
        result = ToolOutput("x", reactions=[{"type": "m", "at": (1, 2)}], context={"c": (3,)})
        output = called(box(named("t", lambda *_: result)))
        assert output.reactions == ({"type": "m", "at": [1, 2]},)
        assert output.context == {"c": [3]}

    @pytest.mark.parametrize(("call", "wrong"), [
        ({"name": "c\n\x1b"}, "unknown tool 'c\\n\\x1b'; choose from: a, t"),
        ({"malformed": '{"a": '}, "the arguments of t are not a JSON object: '{\"a\": '"),
        ({"arguments": {}}, "invalid arguments for t: 'sides' is required"),
        ({"arguments": {"sides": "six"}},
         "invalid arguments for t: expected an integer, not 'six' (at $.sides)"),
        ({"arguments": {"sides": 0}},
         "invalid arguments for t: 0 is less than the minimum of 1 (at $.sides)"),
    ])  # fmt: skip
    def test_what_is_no_call_of_a_tool(self, call: dict[str, Any], wrong: str) -> None:
        assert failure(called(box(named("t", echo, SIDES), named("a", echo)), **call)) == wrong

    def test_arguments_that_a_type_refuses(self) -> None:
        @tool
        def t(when: frozenset[int]) -> str:
            """X."""
            raise AssertionError("it is not called")

        refusing = named("t", t.run)  # with a schema that takes all
        text = failure(called(box(refusing), "t", {"when": "now"}))
        assert text.startswith("t failed: argument 'when': expected a list")

    @pytest.mark.parametrize("kind", [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit])
    def test_what_it_raises_is_told_and_logged(
        self, kind: type[BaseException], caplog: pytest.LogCaptureFixture
    ) -> None:
        text = failure(called(box(named("t", mock.Mock(side_effect=kind("no such\ncity"))))))
        assert text == f"t failed: {kind.__name__}: no such city"
        [record] = caplog.records
        assert record.levelno == logging.WARNING
        assert record.exc_info is not None

    @pytest.mark.parametrize("error", [GenaiError("no such city"), TurnPaused("elsewhere")])
    def test_errors_on_purpose(self, error: GenaiError, caplog: pytest.LogCaptureFixture) -> None:
        raising = named("t", mock.Mock(side_effect=error))
        assert failure(called(box(raising))) == f"t failed: {error}"
        assert not caplog.records

    @pytest.mark.parametrize("value", [
        7,
        {"text": "x"},
        object(),
        iter("x"),
        ["x", 1],
        ToolOutput(reactions=[{"type": "m", "x": object()}]),
        ToolOutput(context={"x": float("nan")}),
        ToolOutput(Image(data="text", media_type="image/png")),  # type: ignore[arg-type]  # as it says
    ], ids=range(8))  # fmt: skip
    def test_what_is_no_output_is_told(self, value: Any, caplog: pytest.LogCaptureFixture) -> None:
        text = failure(called(box(named("t", lambda *_: value))))
        assert text.startswith("t failed: TypeError: invalid output: ")
        assert len(caplog.records) == 1


class TestReactions:
    """Those of a declared type have its form."""

    SCHEMA = {"properties": {"url": {"type": "string"}}, "additionalProperties": False}

    def output(self, *items: Mapping[str, Any], schema: Any = SCHEMA, **fields: Any) -> ToolOutput:
        kinds = {"go": ReactionType("go", schema), "stop": ReactionType("stop", ends=True)}
        reacting = named("t", lambda *_: ToolOutput("done", reactions=items, **fields))
        return called(Toolbox({"t": reacting}, ManualClock(), Codec(), reactions=kinds))

    def test_one_that_has_its_form_passes_and_so_do_other_types(self) -> None:
        items = ({"type": "go", "url": "/x"}, {"type": "new", "url": 7})
        assert self.output(*items) == ToolOutput("done", reactions=items)

    @pytest.mark.parametrize(("wrong", "schema", "message"), [
        ({"url": 7}, SCHEMA, ""),
        ({"url": "/x", "more": 1}, SCHEMA, ""),
        ({}, {"type": 7}, "invalid JSON Schema"),
    ])  # fmt: skip
    def test_another_fails_and_names_the_tool(self, wrong: Any, schema: Any, message: str) -> None:
        items = ({"type": "go", "url": "/x"}, {"type": "go", **wrong})
        text = failure(self.output(*items, schema=schema))
        assert text.startswith(f"t failed: TypeError: invalid output: its reaction go: {message}")

    @pytest.mark.parametrize(("types", "fields", "ends"), [
        (["new"], {}, False), (["new", "stop"], {}, True), (["go"], {"ends": True}, True),
    ])  # fmt: skip
    def test_type_or_tool_may_end_the_turn(self, types: list[str], fields: Any, ends: bool) -> None:
        assert self.output(*[{"type": each} for each in types], **fields).ends is ends

    @pytest.mark.parametrize("name", ["", "a b", None, "a\n"])
    def test_a_type_has_a_name(self, name: Any) -> None:
        with pytest.raises(TypeError, match="name must be printable and without spaces"):
            ReactionType(name)

    def test_two_of_one_name_break_a_plugin(self, make_host: Any) -> None:
        kinds = [ReactionType("go")]
        host = make_host(one=InlinePlugin(reactions=kinds), two=InlinePlugin(reactions=[*kinds]))
        [broken] = host.plugins.broken
        assert broken.reason == "the reaction 'go' is already declared by one"

    def test_a_host_has_those_of_its_plugins(self, make_host: Any) -> None:
        reacting = named("t", lambda *_: ToolOutput(reactions=[{"type": "go", "url": 7}]))
        kinds = [ReactionType("go", self.SCHEMA)]
        host = make_host(a=InlinePlugin(tools=[reacting]), b=InlinePlugin(reactions=kinds))
        assert host.plugins.broken == []
        assert "its reaction go" in host.call_tool("t").text


def test_one_that_asks_runs_if_a_human_says_so_and_one_that_is_denied_never() -> None:
    asking, denied = (box(named("t", echo, approval=each)) for each in ("ask", "deny"))
    assert not called(asking, approved=True).error
    assert "needs the approval of the user" in failure(called(asking, approved=False))
    for approved in (True, False):
        assert failure(called(denied, approved=approved)) == "tool 't' is denied"


def test_halves_of_surrogate_pairs_are_replaced(caplog: pytest.LogCaptureFixture) -> None:
    """Services refuse whatever has them."""
    output = called(box(named("t", lambda *_: ["a\ud800b", "\U0001f600"])))
    assert output.text == "a\ufffdb\n\U0001f600"
    # what is logged has them, and would be in the report of this test
    caplog.set_level("CRITICAL", logger="genai_host.tools.toolbox")
    raising = named("t", mock.Mock(side_effect=ValueError("a\udfffb")))
    assert failure(called(box(raising))) == "t failed: ValueError: a\ufffdb"


class TestCaps:
    SMALL, LARGE = (Image(data=bytes(size), media_type="image/png") for size in (1, MAX_IMAGES))

    @pytest.mark.parametrize(("result", "content"), [
        (["x" * (MAX_TEXT - 1), "yz", "abc"],
         ["x" * (MAX_TEXT - 1), "y\n(truncated: 1 more characters)",
          "\n(truncated: 3 more characters)"]),
        ([SMALL, LARGE, SMALL],
         [SMALL, f"(an image of {MAX_IMAGES} bytes was omitted)", SMALL]),
        ([""] * (MAX_PARTS + 5), [*[""] * MAX_PARTS, "(5 more parts were omitted)"]),
    ], ids=["text", "images", "parts"])  # fmt: skip
    def test_what_is_left_out_is_said(self, result: Any, content: Any) -> None:
        output = called(box(named("t", lambda *_: result)))
        assert output == ToolOutput(content)

    @pytest.mark.parametrize("field", ["reactions", "context"])
    def test_too_much_data_is_a_failure(self, field: str) -> None:
        data = {"type": "m", "x": "x" * MAX_DATA}
        fields: Any = {field: [data] if field == "reactions" else data}
        text = failure(called(box(named("t", lambda *_: ToolOutput(**fields)))))
        assert "its reactions and its context have" in text


class TestEnding:
    def test_one_that_hangs_is_given_up(self, caplog: pytest.LogCaptureFixture) -> None:
        clock, hanging = ManualClock(), Hanging()
        calling = in_background(called, box(named("t", hanging, timeout=7), clock=clock))
        assert hanging.begun.wait(30)
        clock.advance(6.5)
        assert not calling.done()
        clock.advance(0.5)
        assert "t took longer than 7 seconds" in failure(calling.result(30))
        assert len(caplog.records) == 1
        hanging.go.set()

    def test_one_that_asks_its_limits_ends_when_time_is_up(self) -> None:
        clock, waiting = ManualClock(), Waiting()
        calling = in_background(called, box(named("t", waiting), clock=clock))
        assert waiting.begun.wait(30)
        clock.advance(60)
        assert "took longer than 60 seconds" in failure(calling.result(30))
        assert waiting.ended.wait(30)

    @pytest.mark.parametrize("error", [None, LimitExceeded("too long", limit="seconds")])
    @pytest.mark.parametrize("kind", [Hanging, Waiting])
    def test_a_cancel_ends_the_wait(self, kind: Any, error: Any) -> None:
        run, until = kind(), Cancellation()
        calling = in_background(box(named("t", run)).call, ToolCall("1", "t"), {}, until)
        assert run.begun.wait(30)
        until.cancel(error)
        assert calling.exception(30) == (error or Cancelled("cancelled"))
        if isinstance(run, Waiting):
            assert run.ended.wait(30)
        else:
            run.go.set()

    def test_no_alarm_is_left(self) -> None:
        clock = ManualClock()
        called(box(named("t", echo), clock=clock))
        assert clock.due_in() == []

    def test_nothing_begins_once_it_is_cancelled(self) -> None:
        until = Cancellation()
        until.cancel()
        hanging = Hanging()
        with pytest.raises(Cancelled):
            box(named("t", hanging)).call(ToolCall("1", "t"), {}, until)
        assert not hanging.begun.is_set()


class TestInterrupted:
    def test_one_that_may_run_again_does(self) -> None:
        assert box(named("t", echo, idempotent=True)).interrupted(ToolCall("1", "t")) is None

    @pytest.mark.parametrize("name", ["t", "gone"])
    def test_any_other_says_that_it_may_have_been_done(self, name: str) -> None:
        output = box(named("t", echo)).interrupted(ToolCall("1", name))
        assert output is not None
        assert "was interrupted and may have completed" in failure(output)


def _raise(*_: Any) -> Any:
    raise RuntimeError("oh")


class TestOffered:
    def offered(self, *tools: Tool, **context: Any) -> list[str]:
        return [each.name for each in box(*tools).offered(context, Cancellation())]

    def test_they_come_by_name_with_their_approval(self) -> None:
        tools = [named("b", echo, SIDES, approval="ask"), named("a", echo)]
        a, b = box(*tools, named("c", echo, approval="deny")).offered({}, Cancellation())
        assert a == AvailableTool(tools[1].schema)
        assert b == AvailableTool(tools[0].schema, "ask")
        assert Codec().from_json(Codec().to_json([a, b]), tuple[AvailableTool, ...]) == (a, b)

    def test_those_that_do_not_apply_are_absent_and_are_not_called(self) -> None:
        shy = named("shy", echo, available_when=lambda context: context.get("page") == "map")
        assert self.offered(shy) == []
        assert self.offered(shy, page="map") == ["shy"]
        assert "available_when is false" in failure(called(box(shy), "shy"))
        assert not called(box(shy), "shy", context={"page": "map"}).error

    @pytest.mark.parametrize("fields", [
        {"available_when": _raise},
        {"available_when": lambda context: "yes"},
        {"available_when": lambda context: context.clear()},
        {"available_when": lambda: True},
        {"parameters": _raise},
        {"parameters": lambda: 5},
        {"parameters": {"type": "string"}},
        {"parameters": {"type": 5}},
        {"parameters": {"properties": {"a": {"type": "nonsense"}}}},
        {"parameters": {"default": object()}},
    ])  # fmt: skip
    def test_a_wrong_one_is_absent(self, fields: Any, caplog: pytest.LogCaptureFixture) -> None:
        wrong = named("wrong", echo, **fields)
        assert self.offered(named("a", echo), wrong, named("z", echo), page=1) == ["a", "z"]
        assert len(caplog.records) == 1
        assert failure(called(box(wrong), "wrong")).startswith("tool 'wrong' is unavailable: ")

    def test_hanging_available_when_hides_the_tool(self) -> None:
        clock, hanging = ManualClock(), Hanging()
        toolbox = box(named("t", echo, available_when=hanging), named("u", echo), clock=clock)
        offering = in_background(toolbox.offered, {}, Cancellation())
        assert hanging.begun.wait(30)
        clock.advance(5)
        assert [each.name for each in offering.result(30)] == ["u"]
        hanging.go.set()

    def test_a_cancel_ends_asking(self) -> None:
        until, hanging = Cancellation(), Hanging()
        offering = in_background(box(named("t", echo, available_when=hanging)).offered, {}, until)
        assert hanging.begun.wait(30)
        until.cancel()
        assert isinstance(offering.exception(30), Cancelled)
        hanging.go.set()

    def test_what_one_changes_is_its_own(self) -> None:
        context: Any = {"a": []}

        def spoil(context: Any) -> bool:
            context["a"].append(1)
            return len(context["a"]) == 1

        tools = [named(name, echo, available_when=spoil) for name in "ab"]
        assert len(box(*tools).offered(context, Cancellation())) == 2
        assert context == {"a": []}

    def test_it_is_described_once(self) -> None:
        parameters = mock.Mock(return_value=SIDES)
        counting = named("t", echo, parameters)
        toolbox = box(counting)
        for _ in range(3):
            toolbox.offered({}, Cancellation())
            called(toolbox, "t", {"sides": 1})
        assert parameters.call_count == 1
        assert toolbox.schema(counting).parameters["required"] == ["sides"]

    def test_a_pattern_of_ecma_262_keeps_no_tool_from_being_offered(self) -> None:
        def parameters(pattern: str) -> dict[str, Any]:
            return {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}

        strict = named("t", lambda *_: "fine", parameters(r"^[\p{L}\p{N}_-]+$"))
        lenient = named("u", lambda *_: "fine", parameters(r"^(?<$>\d{4})$"))
        toolbox = box(strict, lenient)
        assert [each.schema.name for each in toolbox.offered({}, Cancellation())] == ["t", "u"]
        assert called(toolbox, "t", {"a": "é"}).text == "fine"
        assert "does not match" in called(toolbox, "t", {"a": "a b"}).text
        assert called(toolbox, "u", {"a": "whatever"}).text == "fine"
        assert toolbox.unenforced(strict) == []
        assert [r"(?<$>" in each for each in toolbox.unenforced(lenient)] == [True]

    def test_why_one_is_not_offered_is_told(self, caplog: pytest.LogCaptureFixture) -> None:
        wrong = named("t", echo, {"type": "object", "required": 5})
        assert box(wrong).offered({}, Cancellation()) == ()
        assert "tool t cannot be offered: invalid JSON Schema: 5 is not" in caplog.text
        with pytest.raises(ValidationError, match="invalid JSON Schema"):
            box().schema(wrong)
