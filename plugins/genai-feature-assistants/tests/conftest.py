"""Fixtures of the tests of assistants."""

from genai_host_testing.internal.assistants_agents import either, service
from genai_host_testing.internal.assistants_api import make_api

__all__ = ["either", "make_api", "service"]
