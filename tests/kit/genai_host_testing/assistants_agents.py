"""Agents of a scripted service, for the tests of assistants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from genai_feature_assistants.agents import (
    AgentMessage,
    OpenAIAssistantAgent,
    OpenAIAssistantDefinition,
    OpenAIServiceConfiguration,
)

from genai_host.testing import ManualClock
from genai_host_testing.assistants_service import KEY, AssistantsService

DEFINITION = OpenAIAssistantDefinition("m", name="n", instructions="Be brief.")


class RushingClock(ManualClock):
    """Whoever waits by it has waited: time passes as it is asked for. `waits` has how long."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Any:
        alarm = super().call_later(seconds, callback)
        self.waits.append(round(seconds, 6))
        self.advance(seconds)
        return alarm


def configured(service: AssistantsService, **more: Any) -> OpenAIServiceConfiguration:
    return OpenAIServiceConfiguration.for_host(service.url, api_key=KEY, timeout=20.0, **more)


def agent_of(
    service: AssistantsService,
    definition: OpenAIAssistantDefinition = DEFINITION,
    functions: Any = (),
    **more: Any,
) -> OpenAIAssistantAgent:
    more.setdefault("clock", RushingClock())
    return OpenAIAssistantAgent.create(configured(service), definition, functions, **more)


def invoked(agent: OpenAIAssistantAgent, options: Any = None) -> list[AgentMessage]:
    """All that an agent does on a thread of its own."""
    return list(agent.invoke(agent.create_thread(), options, hidden=True))


def roll(sides: Annotated[int, "how many"] = 6) -> str:
    """Roll a die."""
    return f"{sides} of {sides}"
