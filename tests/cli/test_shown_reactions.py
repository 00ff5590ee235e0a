"""Display of tool output on the command line: text, images, files."""

from __future__ import annotations

import io
import json
import os
import stat
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from rich.cells import cell_len
from screens import HOSTILE, Screen
from support import Terminal

from genai_host.api import Image
from genai_host.cli.app import App
from genai_host.cli.reactions import MAX_SHOWN, show_reactions
from genai_host_testing import make_distribution

_PICTURE = b"\x89PNG\r\n"
_SOURCE = '''
from genai_host.api import (
    Answer, CallTool, Feature, Image, NoSettings, ReactionType,
    ToolCall, ToolOutput, Pause, hookimpl, tool,
)


@tool
def see(kind: str) -> ToolOutput:
    """See."""
    url = "data:image/gif;base64,R0lG"
    said = {"type": kind, "text": "a\\x1b[2J\\tb\\u202e\\nc" + "d" * 300, "picture": url}
    return ToolOutput(["seen", Image(b"\\x89PNG\\r\\n", "image/png")], reactions=[said])


@tool
def gallery() -> ToolOutput:
    """Pictures of all kinds."""
    kinds = ["image/jpeg", "image/svg+xml; charset=utf-8", "../../etc/passwd", ""]
    pictures = [Image(kind.encode() + b"!", kind) for kind in kinds]
    return ToolOutput([*pictures, Image(url="https://a.example/\\x1b")])


@tool(approval="ask")
def look() -> ToolOutput:
    """Look."""
    return ToolOutput("looked", reactions=[{"type": "seen", "text": "by approval", "picture": ""}])


def lines(reaction, width):
    return [*reaction["text"].split("\\n"), "w" * 2 * width]


def fails(reaction, width):
    raise ValueError("as the test wants it")


def respond(turn):
    output = yield from CallTool(ToolCall("1", "see", {"kind": turn.message.text}))
    return Answer(output.text, data=[1])


def waits(turn):
    output = yield from CallTool(ToolCall("1", "see", {"kind": "seen"}))
    yield from Pause("more")
    return Answer("done")


@hookimpl
def genai_tools():
    return [see, look, gallery]


@hookimpl
def genai_features():
    yield Feature("sees", NoSettings, respond, roles={})
    yield Feature("waits", NoSettings, waits, roles={})


@hookimpl
def genai_reactions():
    here = "zz_seeing"
    yield ReactionType("seen", text_view=f"{here}:lines", pictures=["picture"])
    yield ReactionType("picture", pictures=["picture"])
    yield ReactionType("wrong", text_view=f"{here}:fails")
'''


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_distribution(tmp_path / "site", "zz-seeing", files={"zz_seeing.py": _SOURCE})
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setenv("COLUMNS", "60")


SHOWN = "\na␛[2J b<202E>\nc" + "d" * 58 + "…\n" + "w" * 59 + "…\n"
PICTURES = "image: image/png, 6 bytes\nimage: image/gif, 3 bytes\n"
UNKNOWN = 'reaction: new {"text":"a\\u001b[2J\\tb<202E>\\nc' + "d" * 14 + "…\n"


class TestText:
    @pytest.mark.parametrize(("command", "out", "err"), [
        ("tools call see kind=seen", "seen\n" + SHOWN, PICTURES),
        ("tools call see kind=picture", "seen\n", PICTURES),
        ("tools call see kind=new", "seen\n", UNKNOWN + "image: image/png, 6 bytes\n"),
        ("ask -f sees seen", "seen\n" + SHOWN, PICTURES),
        ("ask -f sees seen --no-stream", "seen\n" + SHOWN, PICTURES),
    ])  # fmt: skip
    def test_below_the_output(self, terminal: Terminal, command: str, out: str, err: str) -> None:
        assert terminal(command) == (0, out, err)

    def test_it_is_below_each_answer_of_a_chat(self, terminal: Terminal, tmp_path: Path) -> None:
        code, out, err = terminal("chat -f sees", stdin="seen\nseen\n")
        assert (code, out) == (0, 2 * ("seen\n" + SHOWN))
        assert err.startswith(2 * PICTURES)
        folder = str(tmp_path / "kept")
        terminal("chat -f sees --save-images", folder, stdin="picture\npicture\n")
        assert len(os.listdir(folder)) == 4

    def test_one_whose_view_fails_is_named(self, terminal: Terminal) -> None:
        code, out, err = terminal("tools call see kind=wrong")
        assert (code, out) == (0, "seen\n")
        assert err.startswith("warning: cannot render a reaction wrong\nreaction: wrong {")
        assert "Traceback" in terminal("-v tools call see kind=wrong")[2]

    def test_nothing_twice(self, terminal: Terminal, capsys: pytest.CaptureFixture[str]) -> None:
        with App() as app:
            message = {"type": "message", "message": "word " * 30}
            show_reactions(
                app, [message, {"type": "message", "message": "b"}], [], None, "word " * 30
            )
        assert capsys.readouterr().out == "b\n"

    def test_it_is_below_an_answer_that_was_waited_for(self, terminal: Terminal) -> None:
        terminal.error("ask -f waits hi", code=3)
        assert terminal("conversations resume last 1") == (0, "done\n" + SHOWN, PICTURES)

    def test_an_agent_shows_it_after_an_approval(self, terminal: Terminal, script: Any) -> None:
        script([{"text": "", "tool_calls": [{"id": "1", "name": "look", "arguments": {}}]}, "done"])
        code, out, _ = terminal("chat -f agent -p script", stdin="hi\n/resume true\n")
        assert (code, out) == (0, "done\n\nby approval\n" + "w" * 59 + "…\n")


class TestJson:
    def test_it_is_in_the_json_and_nowhere_else(self, terminal: Terminal) -> None:
        code, out, err = terminal("ask -f sees seen --json")
        assert (code, err) == (0, "")
        [reaction] = json.loads(out)["reactions"]
        assert reaction["type"] == "seen"
        assert terminal("tools call see kind=seen --json")[2] == ""
        code, out, _ = terminal("conversations show last --json")
        assert json.loads(out)["turns"][0]["answer"]["reactions"] == [reaction]

    def test_pictures_are_kept_all_the_same(self, terminal: Terminal, tmp_path: Path) -> None:
        folder = str(tmp_path / "kept")
        code, out, err = terminal("ask -f sees seen --json --save-images", folder)
        assert code == 0
        assert json.loads(out)["text"] == "seen"
        assert len(err.splitlines()) == len(os.listdir(folder)) == 2

    def test_an_answer_that_is_json_stays_so(self, terminal: Terminal) -> None:
        code, out, err = terminal("ask -f sees seen --schema", '{"type": "array"}')
        assert (code, json.loads(out)) == (0, [1])
        assert SHOWN in err


class TestPictures:
    def test_the_host_names_their_files(self, terminal: Terminal, tmp_path: Path) -> None:
        folder = tmp_path / "new" / "kept"
        code, _, err = terminal("tools call gallery --save-images", str(folder))
        assert code == 0
        assert err.splitlines() == [
            f"image: image/jpeg, 11 bytes: {folder}/picture-1.jpg",
            f"image: image/svg+xml; charset=utf-8, 29 bytes: {folder}/picture-1.svg",
            f"image: ../../etc/passwd, 17 bytes: {folder}/picture-1.image",
            f"image: of unknown type, 1 bytes: {folder}/picture-2.image",
            "image: https://a.example/␛",
        ]
        assert sorted(os.listdir(folder)) == [
            "picture-1.image", "picture-1.jpg", "picture-1.svg", "picture-2.image",
        ]  # fmt: skip
        assert (folder / "picture-1.jpg").read_bytes() == b"image/jpeg!"
        assert stat.S_IMODE((folder / "picture-1.jpg").stat().st_mode) == 0o600

    def test_nothing_is_overwritten(self, terminal: Terminal, tmp_path: Path) -> None:
        folder = tmp_path / "kept"
        folder.mkdir()
        (folder / "picture-1.png").symlink_to(tmp_path / "elsewhere")
        (folder / "picture-2.png").mkdir()
        (folder / "picture-3.png").write_bytes(b"mine")
        command = ("ask", "-f", "sees", "picture", "--save-images", str(folder))
        assert "picture-4.png" in terminal(*command)[2]
        assert "picture-5.png" in terminal(*command)[2]
        assert not (tmp_path / "elsewhere").exists()
        assert (folder / "picture-3.png").read_bytes() == b"mine"
        assert (folder / "picture-4.png").read_bytes() == _PICTURE
        assert (folder / "picture-1.gif").read_bytes() == b"GIF"

    def test_folder_that_cannot_be_written(self, terminal: Terminal, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")
        code, out, err = terminal(
            "tools call see kind=picture --save-images", str(tmp_path / "file" / "x")
        )
        assert (code, out) == (1, "seen\n")
        assert err.startswith("error: ")
        assert "cannot write" in err
        command = ("tools", "call", "see", "kind=x", "--save-images", str(tmp_path / "file"))
        assert terminal(*command)[0] == 2


NASTY = st.text(st.characters() | st.sampled_from(HOSTILE), max_size=40)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | NASTY,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NASTY, inner, max_size=4),
    max_leaves=12,
)
FIELDS = st.sampled_from(
    [
        "text", "picture", "message", "url", "description", "options", "question_id",
        "display-type", "visible-columns", "method", "body", "columns", "rows", "more", "title",
        "label", "values",
    ]
)  # fmt: skip
KINDS = st.sampled_from(
    [
        "seen", "picture", "wrong", "message", "redirect", "confirmation", "goto-question",
        "change-display-type", "change-table-visualization-settings", "api-call", "writeback",
        "table", "chart",
    ]
)  # fmt: skip
REACTIONS = st.builds(
    lambda kind, rest, display: {**rest, **display, "type": kind},
    KINDS | NASTY,
    st.dictionaries(FIELDS | NASTY, JSON, max_size=8),
    st.fixed_dictionaries(
        {}, optional={"display-type": st.sampled_from(["bar", "line", "pie", "scalar"])}
    ),
)


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch, App() as app:
        folder = tmp_path_factory.mktemp("site")
        make_distribution(folder, "zz-seeing", files={"zz_seeing.py": _SOURCE})
        patch.syspath_prepend(str(folder))
        patch.setattr("genai_host.plugins.trial.has_interpreter", lambda: False)
        assert {"seen", "table", "message"} <= set(app.host.registry.reactions)
        yield app


@given(reactions=st.lists(REACTIONS, max_size=3), kind=NASTY, text=NASTY)
def test_any_reaction(app: App, reactions: list[dict[str, Any]], kind: str, text: str) -> None:
    pictures = [Image(b"x", kind)]
    # a file takes all as it is, so that what comes there is clean by itself
    for screen in (Screen(), io.TextIOWrapper(io.BytesIO(), "utf-8", newline="")):
        errors = io.TextIOWrapper(io.BytesIO(), "utf-8", errors="backslashreplace", newline="")
        with redirect_stdout(screen), redirect_stderr(errors):
            show_reactions(app, reactions, pictures, None, text)
        for stream in (screen, errors):
            stream.flush()
            assert isinstance(stream.buffer, io.BytesIO)
            shown = stream.buffer.getvalue().decode()
            assert not set(shown) & (set(HOSTILE) | {"\t"})
            if stream is screen:
                assert all(cell_len(line) <= 60 for line in shown.split("\n"))


def test_how_many_are_shown_is_bounded(app: App, capsys: pytest.CaptureFixture[str]) -> None:
    reactions = [{"type": "message", "message": str(number)} for number in range(MAX_SHOWN + 5)]
    show_reactions(app, reactions, [Image(b"x")] * (MAX_SHOWN + 3), None)
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == MAX_SHOWN
    assert captured.err.splitlines()[-1] == "(8 more reactions and images omitted)"
    assert len(captured.err.splitlines()) == MAX_SHOWN + 1
