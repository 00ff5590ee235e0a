"""The research assistant, by the suite that strangers' features run."""

from __future__ import annotations

import genai_feature_research
import pytest

from genai_host.errors import NoRoute
from genai_host_testing.internal.research_engine import Engine
from genai_host_testing.suites import FeatureSuite


class TestResearch(FeatureSuite):
    plugin = genai_feature_research
    feature = "research"
    beside = {"engine": Engine()}
    settings = {
        "search": ["engine__search"],
        "reader": "engine__read",
        "specify_sources": "https://example.org/a, https://example.org/dead",
        "additional_searches": ["rivers"],
        "include_time": True,
    }


class TestResearchWithAllPasses(TestResearch):
    settings = {**TestResearch.settings, "moderate": True, "style_pass": True}
    deviations = {
        "test_it_does_without_its_optional_roles": "what is to be moderated is not answered "
        "where nobody moderates"
    }

    def test_it_does_without_its_optional_roles(self) -> None:
        conversation = self.open(optional=False)
        with pytest.raises(NoRoute, match="moderation"):
            conversation.say("hi")


class TestResearchAlone(FeatureSuite):
    """With neither a search engine nor a reader."""

    plugin = genai_feature_research
    feature = "research"
