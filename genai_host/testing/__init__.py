"""What plugins are tested with.

clock           time that passes when a test says so
plugins         plugins made on the spot
distributions   installed distributions, made up in a folder
replaying       a conversation made again from its record, after every entry
"""

from genai_host.testing.clock import ManualClock
from genai_host.testing.distributions import make_distribution
from genai_host.testing.plugins import MadePlugin
from genai_host.testing.replaying import replay_everywhere

__all__ = ["MadePlugin", "ManualClock", "make_distribution", "replay_everywhere"]
