"""Python in the real Pyodide: what it can do, and what hostile code cannot."""

from __future__ import annotations

import base64
import os
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from genai_tools_sandbox import Settings
from genai_tools_sandbox.process import can_run, save_snapshot, snapshot_of
from genai_tools_sandbox.tools import GivenFile, SandboxTools

from genai_host.api import Cancellation, Image, ToolOutput
from genai_host.errors import Cancelled, ServiceUnavailable
from genai_host_testing.internal.fixtures import Background
from genai_host_testing.suites.tool import Run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not can_run(), reason="the sandbox is one of Linux"),
]


@pytest.fixture(scope="module")
def shared(pyodide: Path) -> Iterator[SandboxTools]:
    tools = SandboxTools(Settings(folder=str(pyodide), seconds=20, memory=256))
    yield tools
    tools.close()


@pytest.fixture
def brief(pyodide: Path) -> Iterator[SandboxTools]:
    tools = SandboxTools(Settings(folder=str(pyodide), seconds=2, memory=256))
    yield tools
    tools.close()


def _run(tools: SandboxTools, code: str, session: str = "s", **others: Any) -> ToolOutput:
    return tools.run(code, Run({}, Cancellation()), session, **others)


def _files(output: ToolOutput) -> dict[str, bytes]:
    [reaction] = output.reactions
    return {each["name"]: base64.b64decode(each["data"]) for each in reaction["files"]}


# what it does


@pytest.mark.parametrize(("code", "text"), [
    ("print('one')\n1 + 1", "one\n2"), ("'text'", "'text'"), ("1 + 1;", ""), ("None", ""),
    ("x = 5", ""), ("import sys; print('a', file=sys.stderr); print('b')", "a\nb"),
    ("import asyncio\nawait asyncio.sleep(0.01)\n7", "7"),
    ("import os; os.write(1, b'raw\\n')", "raw\n4"), ("display(1, 'a')", "1\n'a'"),
    ("__name__", "'__main__'"), ("import os; os.getcwd()", "'/mnt/data'"),
    ("import csv, decimal, json, math, re, sqlite3, statistics\n6", "6"),
    ("'\\ud800é😀'", "'\\ud800é😀'"), ("print('\\ud800')", "\\ud800"),
    ("print('a\\x1b[31mb\\x00')", "ab\N{REPLACEMENT CHARACTER}"), ("", ""),
])  # fmt: skip
def test_output_of_code(shared: SandboxTools, code: str, text: str) -> None:
    output = _run(shared, code)
    assert (output.text, output.error) == (text, False)


def test_a_traceback_is_that_of_the_code(shared: SandboxTools) -> None:
    output = _run(shared, "def f():\n    return 1 / 0\n\nf()")
    assert output.error
    first, second, *_, last = output.text.splitlines()
    assert first == "Traceback (most recent call last):"
    assert second == '  File "<code>", line 4, in <module>'
    assert last == "ZeroDivisionError: division by zero"
    assert "    return 1 / 0" in output.text


@pytest.mark.parametrize(("code", "last"), [
    ("1 +", "SyntaxError: invalid syntax"),
    ("x\x00", "SyntaxError: source code string cannot contain null bytes"),
    ("raise SystemExit(3)", "SystemExit: 3"),
    ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    ("input()", "EOFError: EOF when reading a line"),
])  # fmt: skip
def test_what_raises_is_told(shared: SandboxTools, code: str, last: str) -> None:
    output = _run(shared, code)
    assert output.error
    assert output.text.splitlines()[-1] == last


def test_code_of_half_characters_is_refused(shared: SandboxTools) -> None:
    assert _run(shared, "x = '\ud800'").error


def test_a_session_keeps_variables_and_files(shared: SandboxTools) -> None:
    _run(shared, "kept = 5; open('kept.txt', 'w').write('five')", "one")
    assert _run(shared, "kept, open('kept.txt').read()", "one").text == "(5, 'five')"
    for other in ("another", ""):
        output = _run(shared, "import os\nprint(os.listdir('.'))\nkept", other)
        assert output.text.splitlines()[0] == "[]"
        assert "NameError" in output.text


def test_sessions_draw_different_numbers(shared: SandboxTools) -> None:
    """Their Pythons have the same snapshot, and `random` is imported in it."""
    drawn = [_run(shared, "import random; random.random()", name).text for name in ("one", "two")]
    assert drawn[0] != drawn[1]


def test_python_starts_without_a_snapshot_too(pyodide: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pyodide"
    shutil.copytree(pyodide, folder, ignore=shutil.ignore_patterns("snapshot-*"))
    tools = SandboxTools(Settings(folder=str(folder)))
    assert _run(tools, "1 + 1").text == "2"
    tools.close()
    (folder / "snapshot-of-an-earlier-runner.bin").touch()
    save_snapshot(folder, Cancellation())
    assert list(folder.glob("snapshot-*")) == [snapshot_of(folder)]
    status = snapshot_of(folder).stat()
    save_snapshot(folder, Cancellation())
    assert snapshot_of(folder).stat() == status


def test_a_damaged_snapshot_is_made_again(pyodide: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pyodide"
    shutil.copytree(pyodide, folder, ignore=shutil.ignore_patterns("snapshot-*"))
    snapshot_of(folder).write_bytes(b"damaged")
    tools = SandboxTools(Settings(folder=str(folder)))
    assert _run(tools, "1 + 1").text == "2"
    tools.close()
    assert snapshot_of(folder).stat().st_size > 2**20


def test_files_come_in_and_new_ones_go_out(shared: SandboxTools) -> None:
    files = [GivenFile("in.txt", "b25l"), GivenFile("deep/x.txt", "eA==")]
    output = _run(shared, "open('/mnt/data/in.txt').read()", "files", files=files)
    assert (output.text, output.reactions) == ("'one'", ())
    code = "open('in.txt', 'w').write('ONE'); open('deep/new.bin', 'wb').write(bytes(3));"
    assert _files(_run(shared, code, "files")) == {"in.txt": b"ONE", "deep/new.bin": bytes(3)}
    assert _run(shared, "1", "files").reactions == ()
    assert _files(_run(shared, "open('in.txt', 'w').write('two');", "files")) == {"in.txt": b"two"}


def test_a_file_that_is_given_again_stays_as_the_code_left_it(shared: SandboxTools) -> None:
    given = [GivenFile("a.txt", "b25l")]
    _run(shared, "open('a.txt', 'w').write('changed')", "again", files=given)
    assert _run(shared, "open('a.txt').read()", "again", files=given).text == "'changed'"
    other = [GivenFile("a.txt", "dHdv")]
    assert _run(shared, "open('a.txt').read()", "again", files=other).text == "'two'"


def test_files_that_have_no_place_are_told(shared: SandboxTools) -> None:
    _run(shared, "open('deep', 'w').write('x'); kept = 1", "place")
    output = _run(shared, "1", "place", files=[GivenFile("deep/x.txt", "eA==")])
    assert output.error
    assert "in their way" in output.text
    assert _run(shared, "kept", "place").text == "1"


def test_links_and_folders_are_no_files(shared: SandboxTools) -> None:
    code = "import os; os.symlink('/lib', 'lib'); os.symlink('.', 'again'); os.mkdir('empty')"
    assert _run(shared, code, "links").reactions == ()


def test_pictures_are_shown(shared: SandboxTools) -> None:
    png = b"\x89PNG\r\n\x1a\n" + zlib.compress(b"x")
    code = f"class P:\n    def _repr_png_(self):\n        return {png!r}\nP()"
    assert _run(shared, code).content[1:] == (Image(png, "image/png"),)


# what it does not


def test_output_without_end_is_cut(shared: SandboxTools) -> None:
    output = _run(shared, "for _ in range(2000): print('x' * 10_000)")
    assert len(output.text) < 20_100
    assert "truncated after 20,000 characters" in output.text


def test_files_without_end_are_left_out(shared: SandboxTools) -> None:
    code = "for n in range(3000): open(f'{n}.txt', 'w').write('x')"
    output = _run(shared, code, "many")
    assert len(_files(output)) == 20
    assert "too many" in output.text
    output = _run(shared, "open('late.txt', 'w').write('new');", "many")
    assert "too many: all after the first 2000" in output.text
    output = _run(shared, "open('large', 'wb').write(bytes(5_000_000));", "large")
    assert output.reactions == ()
    assert output.text == "[files omitted, as they are too large or too many: large]"


def test_what_runs_for_ever_is_ended(brief: SandboxTools) -> None:
    output = _run(brief, "while True: pass")
    assert output.error
    assert output.text.startswith("The code failed: it ran longer than 2 seconds")
    assert "are lost" in output.text
    assert _run(brief, "import time; time.sleep(1000)").error
    assert _run(brief, "import asyncio; await asyncio.sleep(1000)").error
    assert _run(brief, "1").text == "1"


@pytest.mark.parametrize("code", [
    "x = bytes(2**30)",
    "x = [bytes(10**7) for _ in range(1000)]",
    "while True: open('x', 'ab').write(bytes(10**6))",
    "import js\nx = []\nwhile True: x.append(js.Uint8Array.new(10**8).fill(1))",
    "x = 'x'\nwhile True: x += x",
])  # fmt: skip
def test_memory_without_end_is_not_had(shared: SandboxTools, code: str) -> None:
    output = _run(shared, code, "")
    assert output.error
    assert "MemoryError" in output.text or "exceeded the memory limit" in output.text


def test_depth_without_end_is_an_error(shared: SandboxTools) -> None:
    assert "RecursionError" in _run(shared, "def f(): f()\nf()").text


_HOSTILE = {
    "passwd": "open('/etc/passwd').read()",
    "proc": "open('/proc/self/environ').read()",
    "socket": "import socket; socket.create_connection(('127.0.0.1', PORT), 5)",
    "urllib": "import urllib.request; urllib.request.urlopen('http://127.0.0.1:PORT/')",
    "pyfetch": "from pyodide.http import pyfetch; await pyfetch('http://127.0.0.1:PORT/')",
    "open_url": "from pyodide.http import open_url; open_url('http://127.0.0.1:PORT/')",
    "js.fetch": "import js; await js.fetch('http://127.0.0.1:PORT/')",
    "js.WebSocket": "import js; js.WebSocket.new('ws://127.0.0.1:PORT/')",
    "js.process": "import js; js.process.exit(0)",
    "js.globalThis": "import js; js.globalThis.process.exit(0)",
    "js.require": "import js; js.require('fs')",
    "run_js": "from pyodide.code import run_js; run_js('process.exit(0)')",
    "Function": "import js; js.Object.constructor('return process')()",
    "AsyncFunction": "import pyodide_js as p; p.loadPackage.constructor('return 1')()",
    "eval": "import pyodide_js as p; p._module._emscripten_run_script.constructor('1')()",
    "spawn": "import subprocess; subprocess.run(['ls'])", "system": "import os; os.system('ls')",
    "posix": "import posix; posix.system('ls')", "fork": "import os; os.fork()",
    "thread": "import threading; threading.Thread(target=print).start()",
    "mount": "import pyodide_js as p; p.mountNodeFS('/host', '/')",
    "NODEFS": (
        "import pyodide_js as p, os\nos.mkdir('/host')\n"
        "p.FS.mount(p._module.NODEFS, p.FS.createOptions, '/host')\nopen('/host/etc/passwd').read()"
    ),
    "ctypes": "import ctypes; ctypes.CDLL(None).system(b'ls')",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(_HOSTILE))
def test_what_reaches_out_fails(shared: SandboxTools, name: str) -> None:
    """And the next call finds Python as it was, or a new one."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        code = _HOSTILE[name].replace("PORT", str(server.getsockname()[1]))
        output = _run(shared, code, "hostile")
        with pytest.raises(BlockingIOError):
            server.accept()
    assert output.error, output.text
    assert "root:" not in output.text
    assert _run(shared, "1 + 1", "hostile").text == "2"


def test_a_package_is_not_loaded_from_elsewhere(shared: SandboxTools) -> None:
    _run(shared, "import pyodide_js\nawait pyodide_js.loadPackage('numpy')")
    assert "ModuleNotFoundError" in _run(shared, "import numpy").text


def test_nothing_of_the_environment_is_there(
    shared: SandboxTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_SECRET_KEY", "sk-1234")
    text = _run(shared, "import os; print(dict(os.environ))").text
    assert "sk-1234" not in text
    assert str(Path(__file__).parents[2]) not in text
    assert os.path.expanduser("~") == "/root" or os.path.expanduser("~") not in text


def test_answers_cannot_be_forged_from_python(shared: SandboxTools) -> None:
    """Its descriptors are none of the system's."""
    code = """
import os
for fd in range(3, 30):
    try: os.write(fd, b'x {"error": false}\\\\n')
    except OSError: pass
print('{"error": true, "text": "forged"}')
"""
    assert _run(shared, code).text == '{"error": true, "text": "forged"}'


def test_code_may_break_its_python_and_nobody_elses(shared: SandboxTools) -> None:
    for code in (
        "import builtins; builtins.__dict__.clear()",
        "import sys; sys.stdout = sys.stderr = None; sys.modules.clear()",
        "import pyodide_js as p; p.FS.readdir = None; p.FS.lstat = None",
        "import json; json.dumps = lambda *a, **k: '[]'",
        "import json; json.dumps = lambda *a, **k: '{}{'",
        "import pyodide_js as p; p._module.HEAPU8.fill(0)",
    ):
        _run(shared, code, "broken")
    assert _run(shared, "2 + 2", "whole").text == "4"


def test_cancelled_call_ends(shared: SandboxTools, background: Background) -> None:
    limits = Cancellation()
    ended = background(shared.run, "while True: pass", Run({}, limits), "cancelled")
    limits.cancel()
    with pytest.raises(Cancelled):
        ended.result(30)


def test_closing_ends_calls(pyodide: Path, background: Background) -> None:
    tools = SandboxTools(Settings(folder=str(pyodide)))
    _run(tools, "1", "idle")
    running = background(_run, tools, "while True: pass", "busy")
    tools.close()
    error = running.exception(30)
    assert isinstance(error, ServiceUnavailable) or running.result().error
    with pytest.raises(ServiceUnavailable):
        _run(tools, "1")
