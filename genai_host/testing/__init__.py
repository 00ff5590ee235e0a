"""What plugins are tested with; docs/testing.md shows how.

- `clock`: time that passes when a test says so
- `plugins`: plugins made on the spot
- `fake_model`: a model in this process that says what a function says
- `fake_service`: a service over HTTP on this machine that does what a test says
- `route_server`: the routes of plugins over HTTP on this machine
- `environments`: distributions in a folder; wheels, and environments to install them into
- `replaying`: a conversation made again from its record, after every entry

For these pytest is needed, `pip install genai-host[testing]`:

- `suites`: tests for a plugin's own to subclass
- `pytest_plugin`: fixtures
"""

from genai_host.testing.clock import ManualClock
from genai_host.testing.environments import make_distribution
from genai_host.testing.fake_model import FakeModel, RecordedPrompt
from genai_host.testing.fake_service import FakeService
from genai_host.testing.plugins import InlinePlugin
from genai_host.testing.replaying import replay_from_every_entry
from genai_host.testing.route_server import RouteServer

__all__ = [
    "FakeModel",
    "FakeService",
    "InlinePlugin",
    "ManualClock",
    "RecordedPrompt",
    "RouteServer",
    "make_distribution",
    "replay_from_every_entry",
]
