"""Testing tools for plugins; see docs/testing.md.

- `clock`: a clock that tests control
- `plugins`: inline plugins; installed API formats
- `fake_model`: a model in this process that answers with a function
- `fake_service`: an HTTP service on this machine, controlled by a test
- `route_server`: HTTP routes of plugins on this machine
- `environments`: distributions in a directory; wheels, and environments to install them into
- `replaying`: replay of a conversation after every entry of its record
- `suites`: test classes for plugins to subclass
- `pytest_plugin`: fixtures
- `services`: services of vendors, simulated on this machine
"""

from genai_host_testing.clock import ManualClock
from genai_host_testing.environments import make_distribution
from genai_host_testing.fake_model import FakeModel, RecordedPrompt
from genai_host_testing.fake_service import FakeService
from genai_host_testing.plugins import InlinePlugin, installed_wires
from genai_host_testing.replaying import replay_from_every_entry
from genai_host_testing.route_server import RouteServer

__all__ = [
    "FakeModel",
    "FakeService",
    "InlinePlugin",
    "ManualClock",
    "RecordedPrompt",
    "RouteServer",
    "installed_wires",
    "make_distribution",
    "replay_from_every_entry",
]
