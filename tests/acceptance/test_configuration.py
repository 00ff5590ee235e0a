"""Acceptance of the host's configuration, item by item of source document 000; items 3 and 4 are in
`tests/config` and `tests/cli`."""

from __future__ import annotations

import pytest
from support import Terminal

from genai_host.config import read_config
from genai_host_testing.fake_service import FakeService
from genai_host_testing.services.openai import chat

KEYS = {"one": "sk-canary-one-83", "two": "sk-canary-two-83"}


@pytest.mark.part
def test_item_02_instances_of_a_type(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over HTTP and on a page they are what is built on this."""
    monkeypatch.setenv("NO_PROXY", "*")
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with FakeService() as one, FakeService() as two:
        services = {"one": one, "two": two}
        for name, service in services.items():
            terminal.out(f"config add {name} openai-compatible base_url={service.url}/v1")
            terminal.out(f"keys set {name}", stdin=KEYS[name])
        for name, service in services.items():
            service.replies = [chat(name, streamed=True)]
            assert terminal.out(f"ask -p {name} -m llama hi") == f"{name}\n"
            [sent] = service.requests
            assert sent.headers["authorization"] == f"Bearer {KEYS[name]}"
        assert [row["name"] for row in terminal.json("config list")] == ["one", "two"]
        terminal.out("config set providers.one.default_model=llama")
        assert read_config().providers["one"].settings["default_model"] == "llama"
        terminal.out("config disable one")
        assert "provider 'one' is disabled" in terminal.error("ask -p one hi")
        terminal.out("config enable one")
        terminal.out("config remove two")
        assert "unknown provider 'two'" in terminal.error("ask -p two hi")
        help = terminal.out("config types openai-compatible")
        assert "default_model\tstr\t\t\tdefault model for chat" in help
