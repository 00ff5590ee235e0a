"""The example of the README, as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from genai_feature_assistants.agents import options

from genai_host_testing.services.assistants import AssistantsService, Calls, Says

pytestmark = pytest.mark.part

README = Path(__file__).parents[1] / "README.md"


def test_the_example_of_agents_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [source] = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    with AssistantsService(
        [Calls(("c1", "roll", "{}")), Says("A four.")], [Says("Again?")], [Says("Hello.")]
    ) as service:
        monkeypatch.setattr(options.Pace, "wait", lambda self, seconds: None)
        source = source.replace("http://127.0.0.1:8642/v1/", service.url)
        exec(compile(source, "README.md", "exec"), {"__name__": "readme"})
        said = capsys.readouterr().out.splitlines()
        assert said == ["dealer A four.", "Aga|in?|Again?", "True Hello."]
        assert service.outputs == [{"tool_call_id": "c1", "output": "4 of 6"}]
        assert not service.assistants
        (messages,) = [each for id, each in service.messages.items() if id in service.threads]
    assert [each["content"][0]["text"]["value"] for each in messages] == [
        "Please roll a die.", "A four.", "Again?", "Hello.",
    ]  # fmt: skip
