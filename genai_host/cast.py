"""Who plays in a conversation: for each role of the feature an agent, and the
parameters and settings that hold now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from genai_host.agent import Agent
from genai_host.api import Feature, Message
from genai_host.api.settings import read_settings

MakeAgent = Callable[[str, str, Mapping[str, Any]], Agent]
"""An agent from a role, a model's name and parameters."""


class Cast:
    """Made whole or not at all; a change makes another.

    models       role to the name of a model, as it was given
    parameters   of the main role
    given        settings of the feature, as they were given
    settings     the same, read

    Raises `NoRoute`, `InvalidParameter` and `ConfigurationError`.
    """

    def __init__(
        self,
        feature: Feature[Any],
        make_agent: MakeAgent,
        models: Mapping[str, str],
        parameters: Mapping[str, Any],
        settings: Mapping[str, Any],
        history: Iterable[Message],
    ) -> None:
        self.models = dict(models)
        self.parameters = dict(parameters)
        self.given = dict(settings)
        self.settings = read_settings(feature.settings, settings, owner=f"feature {feature.name}")
        self.agents = {
            role: make_agent(role, name, parameters if role == "main" else {})
            for role, name in models.items()
        }
        # it owns the history, where a feature prompts nobody as well
        self.main = self.agents.setdefault("main", Agent("main", ()))
        self.main.reset(history)

    @property
    def roles(self) -> frozenset[str]:
        """The roles for which there is a model."""
        return frozenset(role for role, agent in self.agents.items() if agent.routes)
