"""The process that a search runs in."""

from __future__ import annotations

import pytest
from genai_search_web.apart import _environment


def test_it_gets_what_it_needs_to_connect_and_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"OPENAI_API_KEY": "sk-1", "HTTPS_PROXY": "http://p:1", "no_proxy": "localhost"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    found = _environment()
    assert found["HTTPS_PROXY"] == "http://p:1"
    assert found["no_proxy"] == "localhost"
    assert found["PYTHONPATH"]
    assert "sk-1" not in found.values()
