"""An official `openai` SDK from when OpenAI still served the API itself: the tour that the
newest makes in `tests/peers`."""

from __future__ import annotations

import pytest
from assistants_tour import QUIET
from assistants_tour_runs import ObjectsTour as TestObjects, RunsTour as TestRuns
from assistants_tour_search import SearchTour as TestSearch
from assistants_tour_streams import CodeTour as TestCode, StreamsTour as TestStreams

__all__ = ["TestCode", "TestObjects", "TestRuns", "TestSearch", "TestStreams"]
pytestmark = [pytest.mark.peers, *QUIET]


@pytest.fixture
def http_client() -> None:
    """The usual one."""
