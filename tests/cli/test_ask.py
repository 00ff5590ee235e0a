"""`genai-host ask`, with the installed plugins."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support import Terminal

_PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 20


def test_item_a_what_is_no_utf_8_spoils_no_history(terminal: Terminal) -> None:
    """An argument with a byte of another encoding, which Python makes half a surrogate pair."""
    assert terminal("ask -p mock", "Stra\udcdfe")[1] == "Stra\ufffde\n"
    for command in ("list", "show last", "export last", "search Stra"):
        code, out, err = terminal("conversations", *command.split())
        assert (code, err) == (0, "")
        assert out
    assert terminal("ask -c more")[0] == 0
    assert terminal("conversations delete last --yes")[0] == 0


@pytest.mark.part
class TestDefaultModel:
    """Item 2 of "First contact": no key makes a service the default."""

    @pytest.fixture(autouse=True)
    def keys(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for vendor in ("ANTHROPIC", "GEMINI", "OPENAI"):
            monkeypatch.setenv(f"{vendor}_API_KEY", "sk-nonsense-nonsense")

    def test_item_2_a_key_sends_nothing_to_its_service(self, terminal: Terminal) -> None:
        err = terminal.error("ask hi")
        assert "the weights of smollm2-135m are missing" in err
        assert "genai-host config default model claude-" in err

    def test_item_2_doctor_offers_no_unreachable_service(self, terminal: Terminal) -> None:
        """Nothing outside can be reached here, so that each service with a key is unreachable."""
        code, out, err = terminal("doctor")
        assert (code, "openai\twarning\tunreachable" in out) == (1, True)
        assert "the weights of smollm2-135m are missing: genai-host local pull" in out
        assert "config default model" not in err

    @pytest.mark.smoke
    @pytest.mark.weights
    def test_item_2_reason_is_shown(self, terminal: Terminal, home: Path, weights: Path) -> None:
        shutil.copytree(weights, home / "data" / "local")
        code, out, err = terminal("ask -v hi")
        assert code == 0
        assert out.strip()
        assert "the main model is smollm2-135m@local (it is free)" in err
        _, out, _ = terminal("doctor")
        assert "chat with smollm2-135m@local (it is free)" in out
        assert terminal("config default model mock@mock")[0] == 0
        assert "mock@mock (configured as the default)" in terminal("ask -v hi")[2]

    def test_item_2_a_configured_service_is_the_default(self, terminal: Terminal) -> None:
        assert terminal("config set providers.openai.organization=mine")[0] == 0
        assert "(provider openai is configured)" in terminal("doctor")[1]
        assert terminal("config set defaults.provider_order=anthropic")[0] == 0
        assert "(anthropic is in defaults.provider_order)" in terminal("doctor")[1]


def test_words_are_joined_and_what_is_piped_in_is_added(terminal: Terminal) -> None:
    assert terminal("ask -p mock a b")[1] == "a b\n"
    assert terminal("ask -p mock", stdin="from stdin\n")[1] == "from stdin\n"
    assert terminal("ask -p mock", "sum up:", stdin="text\n")[1] == "sum up:\n\ntext\n"


def test_without_an_input_only_words_are_asked(terminal: Terminal) -> None:
    terminal.monkeypatch.setattr(
        "genai_host.cli.terminal.sys", SimpleNamespace(stdin=None, stdout=sys.stdout)
    )
    assert terminal("ask -p mock hi") == (0, "hi\n", "")
    assert terminal("ask -p mock")[0] == 2
    code, _, err = terminal("ask -p mock -a -")
    assert (code, err) == (1, "error: standard input is closed\n")


def test_what_is_piped_in_must_be_text(terminal: Terminal) -> None:
    err = terminal.error("ask -p mock", "what is it?", stdin=_PNG)
    assert "standard input is not text" in err
    assert "--attach" in err


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32", "cp1252"])
def test_what_is_piped_in_is_text_of_any_encoding(terminal: Terminal, encoding: str) -> None:
    piped = "Grüße\r\naus Köln".encode(encoding)
    assert terminal("ask -p mock", stdin=piped) == (0, "Grüße\naus Köln\n", "")
    assert terminal("chat -p mock", stdin=piped)[1] == "Grüße\naus Köln\n"


def test_nothing_to_ask(terminal: Terminal) -> None:
    assert "nothing to ask" in terminal.error("ask -p mock", code=2)
    assert "genai-host local pull" in terminal.error("ask x")


@pytest.mark.parametrize("option", [(), ("--no-stream",), ("--raw",)])
def test_piped_output_is_exact(terminal: Terminal, script: Any, option: tuple[str, ...]) -> None:
    text = "a\x1b[31mb\r\nc\u202e \u00e9\t|"
    script([text])
    assert terminal("ask -p script x", *option)[1] == text + "\n"


def test_what_cannot_be_encoded_is_escaped(terminal: Terminal) -> None:
    code, out, err = terminal("ask -p mock", '"a \\ud800 b"', "--schema", '{"type": "string"}')
    assert (code, out, err) == (0, '"a \\ud800 b"\n', "")


def test_json_has_all_there_is(terminal: Terminal, script: Any) -> None:
    script([{"text": "hello", "usage": {"input_tokens": 3, "output_tokens": 2}}])
    data = terminal.json("ask -p script x")
    assert (data["text"], data["feature"]) == ("hello", "chat")
    assert data["models"] == {"main": "mock@script"}
    others = ("cached_tokens", "reasoning_tokens", "cache_write_tokens", "cache_write_1h_tokens")
    assert data["usage"] == {"input_tokens": 3, "output_tokens": 2, **dict.fromkeys(others, 0)}
    assert data["details"][0]["kind"] == "prompt"
    code, out, err = terminal("ask -p mock hi --details")
    assert (code, out) == (0, "hi\n")
    assert ("prompt of main to mock@mock" in err, "tokens: " in err) == (True, True)


class TestSchema:
    SCHEMA = {"type": "object", "required": ["n"]}

    @pytest.mark.parametrize("as_file", [True, False])
    def test_it_holds(self, terminal: Terminal, script: Any, tmp_path: Path, as_file: bool) -> None:
        script(['{"n": [1, "é"]}'])
        file = tmp_path / "schema.json"
        file.write_text(json.dumps(self.SCHEMA))
        schema = str(file) if as_file else json.dumps(self.SCHEMA)
        assert json.loads(terminal.out("ask -p script x --schema", schema)) == {"n": [1, "é"]}

    def test_an_answer_that_does_not_fit_is_an_error(self, terminal: Terminal, script: Any) -> None:
        script(["no json"])
        err = terminal.error("ask -p script x --schema", json.dumps(self.SCHEMA))
        assert "not valid JSON for the schema" in err


class TestOptions:
    def test_parameters_system_prompt_and_settings(self, terminal: Terminal) -> None:
        options = "--param temperature=0.5 --setting history_turns=3"
        further = ("--param", 'stop=["a"]', "--system", "Be brief.")
        [prompt] = terminal.json(f"ask -p mock x {options}", *further)["details"]
        assert prompt["data"]["added"][0]["content"][0]["text"] == "Be brief."

    @pytest.mark.parametrize(("arguments", "code", "says"), [
        (["--param", "temperature"], 2, "expected NAME=VALUE"),
        (["--param", "=1"], 2, "expected NAME=VALUE"),
        (["--param", "temperatur=1"], 1, "did you mean temperature?"),
        (["--param", "temperature=hot"], 1, "temperature: "),
        (["--setting", "nonsense=1"], 1, "unknown setting 'nonsense'"),
        (["--model", "mok"], 1, "did you mean mock?"),
        (["--feature", "nonsense"], 1, "unknown feature 'nonsense'"),
        (["--role", "judge=mock"], 1, "unknown role 'judge'"),
        (["--attach", "not-there.txt"], 1, "cannot read 'not-there.txt'"),
        (["--nonsense"], 2, "No such option"),
    ])  # fmt: skip
    def test_misuse(self, terminal: Terminal, arguments: list[str], code: int, says: str) -> None:
        provider = [] if "--model" in arguments else ["-p", "mock"]
        status, out, err = terminal("ask x", *provider, *arguments)
        assert (status, out) == (code, "")
        assert says in err
        assert "Traceback" not in err

    def test_a_support_model_extracts_the_data(self, terminal: Terminal, script: Any) -> None:
        script(["in words", '{"n": 1}'])
        schema = '{"type": "object"}'
        code, out, _ = terminal("ask -p script x --schema", schema, "--role", "support=mock@script")
        assert (code, json.loads(out)) == (0, {"n": 1})


class TestAttachments:
    @pytest.mark.parametrize(("arguments", "types"), [
        ("look -a a.txt -a b.png", ["text", "text", "image"]),
        ("look -a -", ["text", "image"]),
        ("-a a.txt", ["text"]),
    ])  # fmt: skip
    def test_files_are_sent_along(
        self, terminal: Terminal, tmp_path: Path, arguments: str, types: list[str]
    ) -> None:
        terminal.monkeypatch.chdir(tmp_path)
        (tmp_path / "a.txt").write_text("text of a")
        (tmp_path / "b.png").write_bytes(_PNG)
        out = terminal.out(
            f"ask -p mock {arguments} --json", stdin=_PNG if "-a -" in arguments else ""
        )
        [prompt] = json.loads(out)["details"]
        content = prompt["data"]["added"][-1]["content"]
        assert [part["type"] for part in content] == types
        assert ("a.txt" in arguments) == any(
            "text of a" in part.get("text", "") for part in content
        )


class TestErrors:
    @pytest.mark.parametrize(("reply", "says", "printed"), [
        ({"status": 401}, "status 401 (mock@script)\n  check the key: genai-host doctor\n", ""),
        ({"status": 429, "retry_after": 61.5}, "\n  wait 62 s, then try again\n", ""),
        ({"status": 503, "retry_after": 61},
         "\n  try again, or check its settings: genai-host config show script\n", ""),
        ({"status": 400}, "error: the service answered with status 400 (mock@script)\n", ""),
        ({"text": "a b c", "fault": "cut", "pieces": 2}, "interrupted before its end", "a b\n"),
        ({"fault": "crash"}, "RuntimeError: the mock crashed as configured", ""),
        ({"fault": "filtered", "text": "no"}, "stopped because of content_filter", "no\n"),
    ])  # fmt: skip
    def test_failure(
        self, terminal: Terminal, script: Any, reply: dict[str, Any], says: str, printed: str
    ) -> None:
        script([reply])
        code, out, err = terminal("ask -p script x")
        assert (code, out, says in err) == (1, printed, True), err
        assert (err.startswith("error: "), "Traceback" in err) == (True, False)

    def test_an_error_of_each_retry_is_told_once(self, terminal: Terminal, script: Any) -> None:
        script([{"status": 503, "retry_after": 0}] * 2 + [{"status": 503, "retry_after": 61}])
        code, _, err = terminal("ask -p script x")
        assert (code, err.count("status 503")) == (1, 1)

    def test_a_bug_is_a_traceback(self, terminal: Terminal) -> None:
        def broken(*_: object, **__: object) -> None:
            raise LookupError("a bug of ours")

        terminal.monkeypatch.setattr("genai_host.host.Host.open", broken)
        with pytest.raises(LookupError):
            terminal("ask -p mock x")

    def test_a_configuration_that_is_wrong_is_named(self, terminal: Terminal) -> None:
        terminal.configure("[defaults]\nmodell = 'x'")
        err = terminal.error("ask -p mock x")
        assert str(terminal.config) in err
        assert "did you mean model?" in err

    def test_ctrl_c_ends_with_130(self, terminal: Terminal) -> None:
        def interrupted(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        terminal.monkeypatch.setattr(
            "genai_host.conversations.conversation.Conversation.stream", interrupted
        )
        assert terminal("ask -p mock x")[0] == 130
