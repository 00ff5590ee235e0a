"""A running aimock, what it was asked, and hosts whose vendors speak to it."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import genai_vendor_anthropic
import genai_vendor_gemini
import genai_vendor_ollama
import genai_vendor_openai
import pytest
import requests
from npm.packages import NODE, install

from genai_host import Config, Host
from genai_host.api import Approval
from genai_host.config import InstanceConfig
from genai_host_testing.internal.configs import provider_config
from genai_host_testing.internal.fixtures import MakeHost

KEY = "sk-canary-51fe"
PACKAGE = Path(__file__).with_name("aimock")

MODELS: Mapping[str, str] = {
    "openai, chat": "gpt-4.1@openai+openai-chat",
    "openai, responses": "gpt-4.1@openai+openai-responses",
    "compatible, chat": "gate/any",
    "azure, chat": "gpt-4.1@azure+openai-chat",
    "azure, responses": "gpt-4.1@azure+openai-responses",
    "azure, dated, chat": "gpt-4.1@dated+openai-chat",
    "azure, dated, responses": "gpt-4.1@dated+openai-responses",
    "anthropic": "claude-haiku-4-5@anthropic",
    "gemini": "gemini-3.5-flash@gemini",
    "ollama, chat": "ollama/any",
}
WITHOUT_IDS = "ollama/any"
"""Whose calls of tools have no ids."""
VARIABLES = (
    "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_API_VERSION", "AZURE_OPENAI_AD_TOKEN",
    "ANTHROPIC_AUTH_TOKEN",
)  # fmt: skip


def on(text: str, response: Any, **more: Any) -> Any:
    """What aimock answers to a text of the user: a line of its script."""
    return {"match": {"userMessage": text, **more.pop("match", {})}, "response": response, **more}


@contextmanager
def aimock(folder: Path, script: Sequence[Any], *, key: str = KEY) -> Iterator[str]:
    """One that runs with the script; its address.

    key   that it asks for; empty for none
    """
    packages = install(PACKAGE, folder)
    file = folder / "script.json"
    file.write_text(json.dumps({"fixtures": script}), encoding="utf-8")
    program = packages / "@copilotkit" / "aimock" / "dist" / "cli.js"
    options = ["--port", "0", "--fixtures", str(file), "--strict", "--chunk-size", "3"]
    with subprocess.Popen(
        [NODE, program, *options],
        env={**os.environ, **({"AIMOCK_API_KEYS": key} if key else {})},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        matches = (re.search(r"listening on (http://[\d.:]+)", line) for line in lines)
        try:
            yield next(each[1] for each in matches if each)
        finally:
            process.kill()


class Asked:
    """What aimock was asked since this was made, in its own reading: whatever the dialect,
    a request is in the form of OpenAI's chat."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._before = len(self._journal())

    def requests(self) -> list[Any]:
        return [each["body"] for each in self._journal()[self._before :]]

    def _journal(self) -> list[Any]:
        reply = requests.get(
            f"{self._url}/__aimock/journal", headers={"Authorization": f"Bearer {KEY}"}, timeout=30
        )
        reply.raise_for_status()
        entries: list[Any] = reply.json()
        return entries


class Hosts:
    """Makes hosts for aimock: `hosts(key="another")`. More is as `make_host` takes it."""

    def __init__(self, url: str, make_host: MakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
        self._url = url
        self._make_host = make_host
        self._monkeypatch = monkeypatch

    def __call__(
        self, *, key: str = KEY, providers: Mapping[str, InstanceConfig] | None = None,
        approvals: Mapping[str, Approval] | None = None, **settings: Any,
    ) -> Host:  # fmt: skip
        environment = {
            "OPENAI_API_KEY": key, "OPENAI_BASE_URL": f"{self._url}/v1",
            "AZURE_OPENAI_API_KEY": key, "AZURE_OPENAI_ENDPOINT": self._url,
            "GENAI_HOST_PROVIDERS__AZURE__API_KEY": key,
            "GENAI_HOST_PROVIDERS__DATED__API_KEY": key, "ANTHROPIC_API_KEY": key,
            "ANTHROPIC_BASE_URL": self._url, "GEMINI_API_KEY": key,
            "GOOGLE_GEMINI_BASE_URL": self._url, "OLLAMA_API_KEY": key, "OLLAMA_HOST": self._url,
        }  # fmt: skip
        for name in VARIABLES:
            self._monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            self._monkeypatch.setenv(name, value)
        gate = {"base_url": f"{self._url}/v1", "api_key": {"env": "OPENAI_API_KEY"}}
        dated = {"api_version": "2025-04-01-preview"}
        return self._make_host(
            config=Config(
                providers={
                    "gate": provider_config("openai-compatible", **gate),
                    "azure": provider_config("azure-openai"),
                    "dated": provider_config("azure-openai", **dated),
                    **(providers or {}),
                },
                approvals=approvals or {},
            ),
            anthropic=genai_vendor_anthropic,
            gemini=genai_vendor_gemini,
            ollama=genai_vendor_ollama,
            openai=genai_vendor_openai,
            **settings,
        )
