"""A conversation may be limited to some tools: names, or beginnings of names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from support import Terminal

from genai_host import Config, Host, InMemoryRecord
from genai_host.api import (
    Answer,
    CallTools,
    CancelToken,
    Feature,
    FeatureSteps,
    ListTools,
    NoSettings,
    Tool,
    ToolCall,
    ToolSource,
    Turn,
)
from genai_host.errors import ConfigurationError
from genai_host.store import Store
from genai_host_testing import InlinePlugin, make_distribution
from genai_host_testing.internal.fixtures import MakeHost


def tool(name: str) -> Tool:
    return Tool(name, "does it", lambda arguments, run: "done")


class Source(ToolSource):
    def __init__(self, name: str, *names: str) -> None:
        self.name = name
        self._names = names
        self.asked = 0

    def tools(self, limits: CancelToken) -> Iterable[Tool]:
        self.asked += 1
        return map(tool, self._names)


def respond(turn: Turn[NoSettings]) -> FeatureSteps:
    """Says what is offered, and what comes of a call of the tool that is named."""
    offered = yield from ListTools(turn.context)
    names = " ".join(each.name for each in offered)
    if turn.message.text == "?":
        return Answer(names)
    [output] = yield from CallTools([ToolCall("1", turn.message.text)])
    return Answer(output.text)


Make = Callable[..., Host]
FEATURE = Feature("telling", NoSettings, respond, roles={})


@pytest.fixture
def sources() -> list[Source]:
    return [Source("git", "log", "push"), Source("gists", "list")]


@pytest.fixture
def make(make_host: MakeHost, sources: list[Source]) -> Make:
    def make(**options: object) -> Host:
        plugin = InlinePlugin(
            features=[FEATURE], tools=[tool("add"), tool("send")], tool_sources=sources
        )
        return make_host(plugin=plugin, config=Config(approvals={"send": "deny"}), **options)

    return make


@pytest.mark.parametrize(("tools", "offered", "asked"), [
    (None, "add gists__list git__log git__push", [1, 1]),
    (["add"], "add", [0, 0]),
    ([], "", [0, 0]),
    (["git__*"], "git__log git__push", [1, 0]),
    (["git__p*", "add"], "add git__push", [1, 0]),
    (["gi*"], "gists__list git__log git__push", [1, 1]),
    (["git__log", "send"], "git__log", [1, 0]),
    (["a*"], "add", [0, 0]),
])  # fmt: skip
def test_only_these_are_offered_and_only_their_sources_are_asked(
    make: Make, sources: list[Source], tools: Any, offered: str, asked: list[int]
) -> None:
    assert make().open("telling", tools=tools).say("?").text == offered
    assert [source.asked for source in sources] == asked


def test_no_other_can_be_called(make: Make) -> None:
    host = make()
    assert host.open("telling", tools=["add"]).say("add").text == "done"
    refused = host.open("telling", tools=["add"]).say("git__log").text
    assert refused == "unknown tool 'git__log'; choose from: add"
    assert host.call_tool("git__log").text == "done", "others are not limited by it"


def test_what_is_denied_stays_so(make: Make) -> None:
    assert "is denied" in make().open("telling", tools=["send"]).say("send").text


@pytest.mark.parametrize(
    ("name", "hint"), [("ad", "did you mean add?"), ("gut__log", ""), ("xyz*", "choose from ")]
)
def test_a_name_of_nothing_is_refused(make: Make, name: str, hint: str) -> None:
    with pytest.raises(ConfigurationError, match="unknown tool") as caught:
        make().open("telling", tools=[name])
    assert hint in caught.value.hint


@pytest.mark.part
def test_limit_is_recorded(make: Make, tmp_path: Path) -> None:
    with Store(tmp_path / "talks.db") as store:
        host = make(store=store)
        id = host.open("telling", tools=["add"]).id
        host.conversation(id).say("?")
        other = make(store=store)
        assert other.conversation(id).say("?").text == "add"
        changed = other.conversation(id, tools=["git__log"])
        assert changed.say("?").text == "git__log"
        changed.configure()
        assert changed.say("?").text == "git__log", "another change leaves it"
        assert make(store=store).conversation(id).say("?").text == "git__log"


def test_a_record_in_memory_has_it_as_well(make: Make) -> None:
    host = make()
    record = host.open("telling", tools=["add"]).record
    assert isinstance(record, InMemoryRecord)
    data = json.loads(json.dumps(record.to_json(host.codec)))
    assert host.reopen(InMemoryRecord.from_json(data, host.codec)).say("?").text == "add"


_SOURCE = """
from genai_host.api import Answer, Feature, NoSettings, ListTools, Tool, hookimpl


def respond(turn):
    offered = yield from ListTools(turn.context)
    return Answer(" ".join(each.name for each in offered) or "none")


@hookimpl
def genai_features():
    yield Feature("telling", NoSettings, respond, roles={})


@hookimpl
def genai_tools():
    for name in ("zz_one", "zz_two", "zzz"):
        yield Tool(name, "does it", lambda arguments, run: "done")
"""


class TestCommands:
    @pytest.fixture(autouse=True)
    def _installed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        make_distribution(tmp_path, "zz-telling", files={"zz_telling.py": _SOURCE})
        monkeypatch.syspath_prepend(str(tmp_path))

    @pytest.mark.parametrize(("options", "offered"), [
        (["--tools", "zz_one,zzz"], "zz_one zzz"),
        (["-T", "zz_*", "-T", "zzz"], "zz_one zz_two zzz"),
        (["--no-tools"], "none"),
    ])  # fmt: skip
    def test_ask_takes_them(self, terminal: Terminal, options: list[str], offered: str) -> None:
        code, out, _ = terminal("ask", "-f", "telling", *options, "?")
        assert (code, out) == (0, f"{offered}\n")
        assert terminal("ask", "-c", "?")[1] == f"{offered}\n", "it stays"
        assert terminal("ask", "-c", "--tools", "zzz", "?")[1] == "zzz\n"

    @pytest.mark.parametrize("options", [
        ["--tools", "zzz", "--no-tools"],
        ["--tools", "zzz", "--save-template", "mine"],
        ["--max-cost", "0"],
    ])  # fmt: skip
    def test_what_does_not_fit_is_refused(self, terminal: Terminal, options: list[str]) -> None:
        assert terminal("ask", *options, "?")[0] == 2

    def test_a_wrong_name_is_told(self, terminal: Terminal) -> None:
        code, _, err = terminal("ask", "-f", "telling", "--tools", "zz_oen", "?")
        assert code == 1
        assert "unknown tool 'zz_oen'\n  did you mean zz_one?" in err
