"""The agents of a conversation: one for each role of the feature that is assigned a model, with the
parameters and settings that apply now. The agent of the role `main` owns the history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from genai_host.api import Feature, Message
from genai_host.api.settings import read_settings
from genai_host.calls.agent import Agent
from genai_host.catalog.catalog import ModelChoice

MakeAgent = Callable[[str, str | ModelChoice, Mapping[str, Any]], Agent]
"""Creates an agent from a role, a model name or the model selected before, and parameters."""


class ConversationAgents:
    """The agents of a conversation; immutable, a change creates another object.

    Args:
        feature: The feature.
        models: Recorded model by role.
        parameters: Parameters of the main role.
        settings: Settings of the feature, as an object.
        history: Initial messages.
        make_agent: Creates the agents.

    Attributes:
        given: Settings of the feature, as given.

    Raises:
        NoRoute: No provider can run a model.
        InvalidParameter: A model parameter is invalid.
        ConfigurationError: A role is unknown, or a setting is invalid.
    """

    def __init__(
        self,
        feature: Feature[Any],
        make_agent: MakeAgent,
        models: Mapping[str, str | ModelChoice],
        parameters: Mapping[str, Any],
        settings: Mapping[str, Any],
        history: Iterable[Message],
    ) -> None:
        self.parameters = dict(parameters)
        self.given = dict(settings)
        self.settings = read_settings(feature.settings, settings, owner=f"feature {feature.name}")
        self.agents = {
            role: make_agent(role, name, parameters if role == "main" else {})
            for role, name in models.items()
        }
        self.models = {role: each.choice for role, each in self.agents.items() if each.choice}
        # it owns the history, even if the feature sends no prompts
        self.main = self.agents.setdefault("main", Agent("main", ()))
        self.main.reset(history)

    @property
    def roles(self) -> frozenset[str]:
        """Roles that have a model."""
        return frozenset(role for role, agent in self.agents.items() if agent.routes)
