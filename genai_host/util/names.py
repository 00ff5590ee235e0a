"""Names that must be the same everywhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from genai_host.util.text import did_you_mean

APP = "genai-host"
"""The distribution, the command, and the folders of a user."""

GROUP = "genai_host"
"""The group of entry points that plugins stand in; the prefix of their hooks' project."""

API_VERSION = 1
"""The version of the interface between host and plugins."""

PLAIN_NAME_RULE = "use lower-case letters, digits and single hyphens"
PLAIN_NAME = r"[a-z0-9]+(-[a-z0-9]+)*"
"""What provider types, instances, features, dialects and commands may be called."""

ALIAS = r"[A-Za-z0-9][A-Za-z0-9._:-]*"
"""What a user's own name for a model may be: no part of it says where and how to run it."""

SERVER_SECRET = "GENAI_HOST_SERVER_TOKEN"  # noqa: S105 - the name of it
"""The environment variable with the token of whoever runs the server."""

SAFE = "GENAI_HOST_SAFE"
"""The environment variable that keeps out plugins of third parties."""

VARIABLES = ("GENAI_HOST_HOME", "GENAI_HOST_CONFIG", SAFE, SERVER_SECRET)
"""Environment variables of the host that stand for no key of its configuration."""

HTTP_PATHS = (
    "/api/chat",
    "/api/embed",
    "/api/embeddings",
    "/api/generate",
    "/api/ps",
    "/api/show",
    "/api/tags",
    "/api/v1",
    "/api/version",
    "/health",
    "/page",
    "/ready",
    "/v1/chat",
    "/v1/completions",
    "/v1/conversations",
    "/v1/embeddings",
    "/v1/messages",
    "/v1/models",
    "/v1/moderations",
    "/v1/responses",
    "/v1beta",
)
"""What the host answers over HTTP itself, with all that is below: no plugin may. What else
there is under `/v1` of the services whose APIs it speaks is for whoever brings it."""

COMMANDS = {
    "ask": "Send one prompt and print the answer.",
    "batch": "Run many prompts from a file.",
    "budgets": "Show budgets and current spending.",
    "chat": "Start an interactive chat.",
    "completion": "Print a shell completion script.",
    "conversations": "Manage saved conversations.",
    "config": "Show and edit the configuration.",
    "count": "Count the input tokens of a prompt.",
    "doctor": "Check the installation and report problems.",
    "features": "List features.",
    "install": "Install plugins into genai-host's environment.",
    "keys": "Manage API keys.",
    "models": "List available models and their providers.",
    "plugins": "List, check, enable, disable and create plugins.",
    "providers": "List providers and their settings.",
    "routes": "Show which models run at which providers.",
    "serve": "Start the HTTP server and web page.",
    "stats": "Show usage, cost and latency of model calls.",
    "templates": "List, show and remove templates.",
    "tools": "List and call tools.",
    "uninstall": "Uninstall plugins.",
    "upgrade": "Upgrade plugins.",
}
"""The host's own subcommands, which no plugin may take, and their help."""


def our_distributions() -> list[str]:
    """The distributions of this project, besides the host. Only these are ever suggested: whoever
    registers another name that the host suggests would run code beside all keys."""
    import pkgutil  # importlib.resources takes more time

    return (pkgutil.get_data(__package__, "distributions.txt") or b"").decode().split()


def normal_name(distribution: str) -> str:
    """A distribution's name, the same however it is written (PyPA, Names and
    normalization)."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def third_parties(distributions: Iterable[str]) -> set[str]:
    """Those of the distributions that are none of this project."""
    ours = {APP, *our_distributions()}
    return {each for each in distributions if normal_name(each) not in ours}


def install_line(distribution: str) -> str:
    """The command that installs a distribution; empty for one that is not ours."""
    return f"{APP} install {distribution}" if distribution in our_distributions() else ""


def plugin_line(kind: Literal["vendor", "feature"], name: str) -> str:
    """The command that installs our plugin for a provider or a feature that is not here; empty
    if there is none."""
    return install_line(f"genai-{kind}-{name}")


def vendors_hint(here: Iterable[str] = ()) -> str:
    """A hint where no provider can do what is wanted: which of our plugins bring more providers.

    Args:
        here: The providers that there are; the hint is empty if no plugin is left.
    """
    known = {f"genai-vendor-{name}" for name in here}
    vendors = [
        each
        for each in our_distributions()
        if each.startswith("genai-vendor-") and each not in known
    ]
    if not vendors:
        return ""
    return f"these plugins bring providers: {', '.join(vendors)}; {APP} install adds one"


STARTER_HINT = f'add the chat and a model: {APP} install "genai-host[starter]"'


def what_there_is(kind: Literal["vendor", "feature"], wanted: str, known: Sequence[str]) -> str:
    """A hint where a provider or a feature is not here: what may bring it, or may be meant, or
    which there are."""
    there = f"choose from {', '.join(names)}" if (names := list(known)) else "none is installed"
    line = plugin_line(kind, wanted)
    if line:
        return f"{there}; a plugin brings it: {line}"
    return did_you_mean(wanted, known) or there


__version__ = "0.1.0"
