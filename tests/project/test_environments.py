"""The command in environments that nobody prepared: without docstrings, without a home, read-only,
in other locales, with streams that are closed. Each test starts the installed command."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pexpect
import pytest
import requests

from genai_host_testing import FakeService
from genai_host_testing.fake_service import json_reply

pytestmark = pytest.mark.slow  # each test starts several processes

_COMMAND = str(Path(sys.executable).with_name("genai-host"))
_posix = pytest.mark.skipif(os.name != "posix", reason="homes and pseudo-terminals are POSIX")

Done = subprocess.CompletedProcess[str]
Run = Callable[..., Done]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs the command in an empty working directory; a value of None takes a variable out."""
    folder = tmp_path / "working-directory"
    folder.mkdir()

    def run(
        *arguments: str,
        stdin: str = "",
        env: Mapping[str, str | None] | None = None,
        before: tuple[str, ...] = (),
    ) -> Done:
        environment = {**os.environ, **(env or {})}
        done = subprocess.run(
            [*before, _COMMAND, *arguments],
            input=stdin.encode(),
            capture_output=True,
            check=False,
            cwd=folder,
            env={name: value for name, value in environment.items() if value is not None},
            timeout=120,
        )
        assert os.listdir(folder) == []
        assert b"Traceback" not in done.stderr
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
        )

    return run


class TestItem7WithoutDocstrings:
    """`PYTHONOPTIMIZE=2` drops docstrings and assertions."""

    @pytest.fixture(autouse=True)
    def optimized(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PYTHONOPTIMIZE", "2")
        monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")

    @pytest.mark.parametrize(
        ("command", "statuses"), [("plugins check", {"loaded"}), ("tools", set())]
    )
    def test_plugins_and_tools_are_there(self, run: Run, command: str, statuses: set[str]) -> None:
        optimized, usual = (
            json.loads(run(*command.split(), "--json", env={"PYTHONOPTIMIZE": level}).stdout)
            for level in ("2", None)
        )
        assert {row["status"] for row in optimized if "status" in row} == statuses
        for row in (*optimized, *usual):
            row.pop("parameters", None)  # docstrings describe the classes of arguments
        assert optimized == usual

    def test_a_question_is_answered_and_a_tool_runs(self, run: Run) -> None:
        assert run("ask", "-m", "mock", "hi").stdout == "hi\n"
        assert run("tools", "call", "calculate", "expression=2+3").stdout == "5\n"
        assert "list the commands" in run("chat", "-m", "mock", stdin="/help\n").stderr


_ANSWERED = [
    {"LC_ALL": "C"},
    {"LC_ALL": "POSIX", "LANG": None},
    {"LC_ALL": None, "LANG": None},
    {"LC_ALL": "nonsense"},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": None},
    {"PYTHONIOENCODING": "utf-8:strict"},
    {"PYTHONIOENCODING": ":ignore"},
]


class TestItem7Letters:
    @pytest.mark.parametrize("env", _ANSWERED, ids=str)
    def test_question_of_any_letters(self, run: Run, env: Mapping[str, str | None]) -> None:
        question = "Grüße 日本 🎉"
        for done in (run("ask", "-m", "mock", question, env=env),
                     run("ask", "-m", "mock", stdin=question, env=env)):  # fmt: skip
            assert (done.returncode, done.stdout, done.stderr) == (0, f"{question}\n", "")

    def test_an_output_of_few_letters_has_escapes(self, run: Run) -> None:
        env = {"PYTHONIOENCODING": "ascii"}
        assert run("ask", "-m", "mock", "é 🎉", env=env).stdout == "\\xe9 \\U0001f389\n"
        assert run("ask", "-m", "mock", stdin="é 🎉", env=env).stdout == "\\xe9 \\U0001f389\n"


_ELSEWHERE = "set GENAI_HOST_HOME to a writable directory"
_NO_XDG: dict[str, str | None] = {
    f"XDG_{each}_HOME": None for each in ("CACHE", "CONFIG", "DATA", "STATE")
}


@_posix
class TestItem7Homes:
    @pytest.fixture(autouse=True)
    def unprepared(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("GENAI_HOST_HOME", *_NO_XDG):
            monkeypatch.delenv(name, raising=False)

    def answers(self, run: Run, **env: str | None) -> str:
        """Standard error of a question that is answered."""
        done = run("ask", "-m", "mock", "hi", env=env)
        assert (done.returncode, done.stdout) == (0, "hi\n")
        return done.stderr

    def test_a_home_that_is_missing_is_made(self, run: Run, tmp_path: Path) -> None:
        assert self.answers(run, HOME=str(tmp_path / "missing")) == ""
        assert (tmp_path / "missing/.local/share/genai-host").is_dir()

    def test_relative_folders_are_ignored(self, run: Run, tmp_path: Path) -> None:
        """XDG Base Directory Specification: all paths must be absolute."""
        env = dict.fromkeys(_NO_XDG, "relative") | {"XDG_DATA_HOME": "./x"}
        assert self.answers(run, HOME=str(tmp_path / "home"), **env) == ""
        assert (tmp_path / "home/.local/share/genai-host").is_dir()

    def test_absolute_folders_need_no_home(self, run: Run, tmp_path: Path) -> None:
        folders = {name: str(tmp_path / name) for name in _NO_XDG}
        before = without_a_home() if shutil.which("unshare") else ()
        done = run("ask", "-m", "mock", "hi", env={**folders, "HOME": None}, before=before)
        assert (done.returncode, done.stdout, done.stderr) == (0, "hi\n", "")
        assert (tmp_path / "XDG_DATA_HOME/genai-host").is_dir()

    @pytest.mark.parametrize("home", ["file", "/dev/null"])
    def test_home_that_is_no_folder(self, run: Run, tmp_path: Path, home: str) -> None:
        (tmp_path / "file").touch()
        env = {"HOME": str(tmp_path / home)}
        assert self.answers(run, **env).endswith(f": Not a directory ({_ELSEWHERE})\n")
        for command in (["keys", "set", "openai"], ["conversations", "list"]):
            done = run(*command, stdin="sk-x", env=env)
            *_, error, hint = done.stderr.splitlines()
            assert (done.returncode, done.stdout, hint) == (1, "", f"  {_ELSEWHERE}")
            assert error.startswith("error: ")
            assert error.endswith("Not a directory")
        doctor = run("doctor", env=env)
        assert f"cache: {_ELSEWHERE}" in doctor.stderr

    def test_a_user_of_no_list_without_a_home_keeps_nothing(self, run: Run) -> None:
        """As in a container that runs under any number. This one could even write to /."""
        done = run("ask", "-m", "mock", "hi", env={"HOME": None}, before=without_a_home())
        assert (done.returncode, done.stdout) == (0, "hi\n")
        first = done.stderr.splitlines()[0]
        assert first == f"warning: no home directory, conversations are not saved: {_ELSEWHERE}"
        assert not os.path.exists("/nonexistent")


def without_a_home() -> tuple[str, ...]:
    """Runs a command as a user that is in no list of users."""
    before = ("unshare", "--user", "--map-user=54321", "--map-group=54321")
    return _possible(before, "no user can be made here: unshare --user")


def read_only(*folders: Path) -> tuple[str, ...]:
    """Runs a command where no file can be written, root's neither, nor in these folders."""
    script = "mount --make-rprivate / && for each in / {folders}; do mount --bind $each $each && "
    script += 'mount -o remount,ro,bind $each || exit; done; cd / && exec "$@"'
    arguments = " ".join(shlex.quote(str(folder)) for folder in folders)
    before = ("unshare", "--mount", "sh", "-c", script.replace("{folders}", arguments), "sh")
    return _possible(before, "nothing can be mounted here: unshare --mount")


def _possible(before: tuple[str, ...], why: str) -> tuple[str, ...]:
    if shutil.which("unshare"):
        done = subprocess.run(
            [*before, sys.executable, "-c", ""], capture_output=True, check=False, timeout=60
        )
        if done.returncode == 0:
            return before
    pytest.skip(why)


@_posix
class TestItem7ReadOnly:
    def test_it_answers_where_no_file_can_be_written(self, run: Run, home: Path) -> None:
        home.mkdir(exist_ok=True)
        before = read_only(home)
        done = run("ask", "-m", "mock", "hi", before=before)
        assert (done.returncode, done.stdout) == (0, "hi\n")
        [warning] = done.stderr.splitlines()
        assert warning.endswith(f": Read-only file system ({_ELSEWHERE})")
        for command in (["config", "set", "defaults.model=mock"], ["keys", "set", "openai"]):
            done = run(*command, stdin="sk-x", before=before)
            error, hint = done.stderr.splitlines()
            assert (done.returncode, done.stdout) == (1, "")
            assert error.endswith(": Read-only file system")
            assert hint.startswith(("  set GENAI_HOST_HOME", "  name another file: --config"))
        assert run("plugins", "check", "chat", before=before).returncode == 0


@_posix
class TestItem7Streams:
    """Besides those of `tests/cli/test_process.py`."""

    def shell(self, run: Run, line: str, *arguments: str) -> Done:
        return run(*arguments, before=("sh", "-c", f'exec "$@" {line}', "sh"))

    @pytest.mark.parametrize(
        ("arguments", "code"),
        [("ask -m mock hi", 1), ("plugins", 1), ("ask --nope", 2), ("nope", 2), ("ask", 2),
         ("ask -m nope hi", 1), ("chat -m mock", 0), ("keys set openai", 1)],
    )  # fmt: skip
    def test_all_of_them_may_be_closed(self, run: Run, arguments: str, code: int) -> None:
        assert self.shell(run, "<&- >&- 2>&-", *arguments.split()).returncode == code

    @pytest.mark.parametrize("line", ["2>&-", "2>/dev/full"])
    @pytest.mark.parametrize("arguments", ["nope", "ask --nope"])
    def test_wrong_use_that_cannot_be_told(self, run: Run, line: str, arguments: str) -> None:
        if "full" in line and not os.path.exists("/dev/full"):
            pytest.skip("there is no /dev/full here")
        done = self.shell(run, line, *arguments.split())
        assert (done.returncode, done.stdout) == (2, "")


@_posix
class TestItem7Terminals:
    def shown(self, *arguments: str, **env: str) -> str:
        ended: Any = pexpect.run(
            " ".join([_COMMAND, *arguments]),
            env={**os.environ, **env},
            encoding="utf-8",
            timeout=60,
            withexitstatus=True,  # otherwise the terminal is closed when it is collected
        )
        text: str = ended[0]
        return text

    @pytest.mark.parametrize("env", [{"TERM": "dumb"}, {"NO_COLOR": "1", "TERM": "xterm"}], ids=str)
    @pytest.mark.parametrize(
        "arguments", ["ask -m nope hi", "ask -m mock --details hi", "conversations search hi"]
    )
    def test_no_colours_unless_wanted(self, run: Run, env: dict[str, str], arguments: str) -> None:
        run("ask", "-m", "mock", "hi")
        shown = self.shown(*arguments.split(), **env)
        assert "hi" in shown or "nope" in shown
        assert "\x1b" not in shown
        assert "\x1b" in self.shown(*arguments.split(), TERM="xterm", NO_COLOR="")

    @pytest.mark.parametrize("columns", ["1", "0", "-1", "many"])
    def test_a_table_has_letters_however_narrow_the_terminal_is(self, columns: str) -> None:
        shown = self.shown("plugins", "check", "chat", TERM="dumb", COLUMNS=columns)
        assert "chat" in shown
        assert "loaded" in "".join(shown.split())


def test_item_7_no_proxy_for_services_of_this_machine(run: Run, home: Path) -> None:
    message = {"role": "assistant", "content": "near"}
    reply = {"choices": [{"message": message, "finish_reason": "stop"}]}
    env: dict[str, str | None] = dict.fromkeys(
        ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"),
        "http://127.0.0.1:9",
    )
    with FakeService([json_reply(reply)]) as service:
        (home / "config").mkdir(parents=True)
        (home / "config" / "config.toml").write_text(
            f'[providers.near]\ntype = "openai-compatible"\nbase_url = "{service.url}/v1"\n'
        )
        env |= {"NO_PROXY": None, "no_proxy": None}
        done = run("ask", "-p", "near", "-m", "any", "--no-stream", "hi", env=env)
    assert (done.returncode, done.stdout, done.stderr) == (0, "near\n", ""), done.stderr


_POD = """
mount --bind "$0" "$0" && mount --rbind / / && mount -o remount,ro,bind / && cd / || exit 1
touch "$0/../written" 2>/dev/null && exit 1
exec setpriv --ambient-caps=-all --inh-caps=-all "$@"
"""


@_posix
@pytest.mark.parametrize("workers", ["1", "2"])
def test_item_8_a_server_in_a_pod(home: Path, workers: str) -> None:
    """As the first process, under a number that is in no list of users, with a root that is
    read-only and a home in one folder: its probes answer, and SIGTERM ends it."""
    home.mkdir(exist_ok=True)
    before = (
        "unshare", "--user", "--map-user=54321", "--map-group=54321", "--keep-caps", "--mount",
        "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", _POD, str(home),
    )  # fmt: skip
    _possible(before, "there can be no pod here: unshare --user --keep-caps --mount --pid")
    env = {
        **os.environ,
        "GENAI_HOST_HOME": str(home),
        "GENAI_HOST_PORT_80_TCP": "tcp://10.0.0.1:80",
    }
    env.pop("HOME", None)
    with subprocess.Popen(
        [*before, _COMMAND, "serve", "--port", "0", "--workers", workers],
        env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as pod:  # fmt: skip
        assert pod.stdout is not None
        try:
            address = pod.stdout.readline().rpartition(" ")[2].strip()
            [first] = Path(f"/proc/{pod.pid}/task/{pod.pid}/children").read_text().split()
            with requests.Session() as session:
                session.trust_env = False
                assert session.get(f"{address}/health", timeout=60).json() == {"status": "ok"}
                body = {"model": "mock", "messages": [{"role": "user", "content": "hi"}]}
                response = session.post(f"{address}/v1/chat/completions", json=body, timeout=60)
                assert response.json()["choices"][0]["message"]["content"] == "hi"
                ready = session.get(f"{address}/ready", timeout=60)
                assert ready.json()["status"] in ("ready", "starting")
                assert ready.ok == (ready.json()["status"] == "ready")
            os.kill(int(first), signal.SIGTERM)
            _, err = pod.communicate(timeout=60)
        finally:
            pod.kill()
    assert (pod.returncode, err) == (0, "")
