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

ALIAS = r"[A-Za-z0-9][A-Za-z0-9._:-]*"
"""What a user's own name for a model may be: no part of it says where and how to run it."""

VARIABLES = ("GENAI_HOST_HOME", "GENAI_HOST_CONFIG")
"""Environment variables of the host that stand for no key of its configuration."""

COMMANDS = (
    "ask",
    "chat",
    "completion",
    "conversations",
    "config",
    "doctor",
    "features",
    "install",
    "keys",
    "models",
    "plugins",
    "providers",
    "routes",
    "templates",
    "tools",
    "uninstall",
    "upgrade",
)
"""The host's own subcommands, which no plugin may take."""
