"""`genai-host transcribe`."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import Terminal

from genai_host_testing.fake_service import FakeService, json_reply

pytestmark = pytest.mark.part


@pytest.fixture
def recording(tmp_path: Path) -> str:
    file = tmp_path / "call.wav"
    file.write_bytes(b"RIFF")
    return str(file)


@pytest.fixture
def gate(terminal: Terminal, service: FakeService) -> None:
    service.replies = [json_reply({"text": "hello", "duration": 2})]
    terminal.configure(
        '[defaults]\ntranscription_model = "gate/whisper"\n[providers.gate]\n'
        f'type = "openai-compatible"\nbase_url = "{service.url}"\n'
    )


def test_text(terminal: Terminal, gate: None, recording: str, service: FakeService) -> None:
    assert terminal.out("transcribe", recording, "-m", "gate/m", "--language", "en") == "hello\n"
    [sent] = service.requests
    assert b'filename="call.wav"' in sent.body
    assert b"audio/" in sent.body
    assert b'name="language"\r\n\r\nen\r\n' in sent.body


def test_json_has_all_fields_of_the_reply(terminal: Terminal, gate: None, recording: str) -> None:
    """The model is the default one."""
    row = terminal.json("transcribe", recording)
    assert (row["text"], row["duration"], row["cost"]) == ("hello", 2, None)
    assert (row["model"], row["provider"]) == ("gate/whisper", "gate")


def test_without_a_model_for_it(terminal: Terminal, recording: str, tmp_path: Path) -> None:
    err = terminal.error("transcribe", recording, "-m", "mock")
    assert "mock does not transcribe speech" in err
    empty = tmp_path / "empty.wav"
    empty.touch()
    assert terminal("transcribe", str(empty))[0] == 1
