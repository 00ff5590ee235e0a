"""Agents of a scripted service, for the tests of assistants."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pytest
from genai_feature_assistants.agents import (
    OpenAIAssistantAgent,
    OpenAIAssistantDefinition,
    OpenAIServiceConfiguration,
)

from genai_host_testing import ManualClock
from genai_host_testing.services.assistants import KEY, AssistantsService, ScriptedService
from genai_host_testing.services.responses import ResponsesService

DEFINITION = OpenAIAssistantDefinition("m", name="n", instructions="Be brief.")
STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["plain", "stream"])


@pytest.fixture
def service() -> Iterator[AssistantsService]:
    with AssistantsService() as assistants_service:
        yield assistants_service


@pytest.fixture(params=[AssistantsService, ResponsesService], ids=["assistants", "responses"])
def either(request: pytest.FixtureRequest) -> Iterator[ScriptedService]:
    """A service with either API; the script and the agents are the same."""
    with request.param() as either_service:
        yield either_service


class RushingClock(ManualClock):
    """A clock whose time advances without delay; `waits` contains the seconds of each wait."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Any:
        alarm = super().call_later(seconds, callback)
        self.waits.append(round(seconds, 6))
        self.advance(seconds)
        return alarm


def configured(service: ScriptedService, **more: Any) -> OpenAIServiceConfiguration:
    settings: dict[str, Any] = {"api_key": KEY, "api": service.api, "timeout": 20.0, **more}
    return OpenAIServiceConfiguration.for_host(service.url, **settings)


def agent_of(
    service: ScriptedService,
    definition: OpenAIAssistantDefinition = DEFINITION,
    functions: Any = (),
    **more: Any,
) -> OpenAIAssistantAgent:
    more.setdefault("clock", RushingClock())
    return OpenAIAssistantAgent.create(configured(service), definition, functions, **more)


def invoked(
    agent: OpenAIAssistantAgent, options: Any = None, *, streamed: bool = False
) -> list[Any]:
    """Return the messages of an agent on a new thread."""
    invoke = agent.invoke_stream if streamed else agent.invoke
    return list(invoke(agent.create_thread(), options, hidden=True))


def roll(sides: Annotated[int, "how many"] = 6) -> str:
    """Roll a die."""
    return f"{sides} of {sides}"
