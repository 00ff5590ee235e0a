"""Names that must be the same everywhere."""

from __future__ import annotations

APP = "genai-host"
"""The distribution, the command, and the folders of a user."""

GROUP = "genai_host"
"""The group of entry points that plugins stand in; the prefix of their hooks' project."""

API_VERSION = 1
"""The version of the interface between host and plugins."""

PLAIN_NAME = r"[a-z0-9]+(-[a-z0-9]+)*"
"""What provider types, instances, features, dialects and commands may be called."""

COMMANDS = (
    "ask",
    "chat",
    "completion",
    "conversations",
    "doctor",
    "features",
    "models",
    "plugins",
    "providers",
    "routes",
    "tools",
)
"""The host's own subcommands, which no plugin may take."""
