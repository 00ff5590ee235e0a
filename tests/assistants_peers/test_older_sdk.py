"""An official `openai` SDK from when OpenAI still served the API itself: the tour that the
newest makes in `tests/peers`."""

from __future__ import annotations

import pytest
from assistants_tour import QUIET
from assistants_tour_code import CodeTour
from assistants_tour_objects import ObjectsTour
from assistants_tour_runs import RunsTour
from assistants_tour_search import SearchTour
from assistants_tour_streams import StreamsTour

pytestmark = [pytest.mark.peers, *QUIET]


@pytest.fixture
def http_client() -> None:
    """The usual one."""


class TestObjects(ObjectsTour):
    """See there."""


class TestRuns(RunsTour):
    """See there."""


class TestStreams(StreamsTour):
    """See there."""


class TestSearch(SearchTour):
    """See there."""


class TestCode(CodeTour):
    """See there."""
