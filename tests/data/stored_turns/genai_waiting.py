"""A plugin of a third party, whose turns wait in the store beside it: every step, with every
kind of part, and functions and classes of its own."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from genai_host.api import (
    All,
    AllSettled,
    Answer,
    CallFunction,
    CallTool,
    CallTools,
    CountTokens,
    Embed,
    Feature,
    FeatureSteps,
    File,
    Image,
    ListTools,
    Message,
    Moderate,
    ModerationResult,
    NewId,
    NoSettings,
    Now,
    Operation,
    Pause,
    Progress,
    Prompt,
    RateLimit,
    Reasoning,
    Text,
    Tool,
    ToolCall,
    ToolOutput,
    ToolResult,
    ToolSchema,
    Turn,
    Usage,
    VendorPart,
)

RUNS: list[str] = []
"""What ran in this process: on resuming, nothing that is on record."""


@frozen
class Size:
    letters: int
    of: Text


class Scales:
    @staticmethod
    def weigh(text: str) -> Size:
        RUNS.append("weigh")
        return Size(len(text), Text(text))


def judge(verdict: ModerationResult, usage: Usage) -> ModerationResult:
    RUNS.append("judge")
    return verdict


def _wipe(arguments: Any, run: Any) -> str:
    RUNS.append(f"wipe {arguments['what']}")
    return f"wiped {arguments['what']}"


WIPE = Tool(
    "wipe",
    "Wipes it.",
    _wipe,
    {"type": "object", "properties": {"what": {"type": "string"}}},
    approval="ask",
)
LOOK = ToolSchema("look", "Look at it", {"type": "object", "properties": {"at": {}}})
CALL = ToolCall("c1", "look", {"at": "é"})
HISTORY = [
    Message("system", "be kind"),
    Message("user", ["look", Image(b"\x89PNG", "image/png"), File(b"%PDF", "application/pdf")]),
    Message("assistant", [Reasoning("hm"), VendorPart("fake", {"secret": 1}), Text("so"), CALL]),
    Message("tool", [ToolResult("c1", "look", ("1", Image(b"\x89PNG", "image/png")), True)]),
]


def respond(turn: Turn[NoSettings]) -> FeatureSteps:
    """Every step, then a pause."""
    began = yield from Now()
    id = yield from NewId("n")
    prompt = Prompt(
        [*HISTORY, turn.message],
        tools=[LOOK],
        tool_choice="auto",
        defaults={"temperature": 0.5},
        rate=RateLimit(5, 60.0),
    )
    count = yield from CountTokens(prompt)
    first = yield from prompt
    both: Any = yield from All([Embed(["a", "b"]), Moderate("bad", "moderate")])
    vectors, verdict = both
    size: Size = yield from CallFunction(Scales.weigh, {"text": first.text}, returns=Size)
    given = {"verdict": verdict, "usage": Usage(1, 2)}
    judged: ModerationResult = yield from CallFunction(judge, given, returns=ModerationResult)
    words = yield from CallFunction(_words, {"text": "b a"}, returns=list[str])
    offered = yield from ListTools({"for": "all"})
    wiped = yield from CallTool(ToolCall("w1", "wipe", {"what": "it"}), approved=True)
    calls = [ToolCall(f"w{number}", "wipe", {"what": str(number)}) for number in (2, 3)]
    wiped_too = yield from CallTools(calls, approved={"w2"})
    failed = yield from AllSettled([CallFunction(_fail), NewId("s")])
    yield Progress("weighed", size)
    decision: Message = yield from Pause(
        "approval", {"size": size.letters, "words": words}, returns=Message
    )
    last = yield from Prompt([*HISTORY, turn.message, first.message, decision])
    told = {
        "began": began,
        "id": id,
        "tokens": count.tokens,
        "first": first.text,
        "vectors": len(vectors.vectors),
        "flagged": judged.flagged,
        "size": size.letters,
        "words": words,
        "offered": [each.name for each in offered],
        "wiped": [_text(wiped), *map(_text, wiped_too)],
        "failed": type(failed[0]).__name__,
        "decision": decision.text,
    }
    return Answer(last.text, data=told)


def _words(text: str) -> list[str]:
    RUNS.append("words")
    return sorted(text.split())


def _fail() -> None:
    RUNS.append("fail")
    raise ValueError("no")


def _text(output: ToolOutput) -> str:
    return "".join(part.text for part in output.content if isinstance(part, Text))


ROLES: dict[str, Operation] = {"main": "chat", "embed": "embed", "moderate": "moderate"}
FEATURE = Feature("waiting", NoSettings, respond, roles=ROLES)
