"""Names that must be the same everywhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from genai_host.util.text import did_you_mean

APP = "genai-host"
"""Name of the distribution, the command and the user's directories."""

GROUP = "genai_host"
"""Entry point group of plugins, and prefix of their hooks."""

API_VERSION = 1
"""Version of the interface between host and plugins."""

PLAIN_NAME_RULE = "use lower-case letters, digits and single hyphens"
PLAIN_NAME = r"[a-z0-9]+(-[a-z0-9]+)*"
"""Form of the names of provider types, providers, features, dialects and commands."""

ALIAS = r"[A-Za-z0-9][A-Za-z0-9._:-]*"
"""Form of the user's names for models, without provider or dialect."""

SERVER_SECRET = "GENAI_HOST_SERVER_TOKEN"  # noqa: S105 - the name of the variable
"""Environment variable with the token of the server's owner."""

SAFE = "GENAI_HOST_SAFE"
"""Environment variable that excludes third-party plugins."""

VARIABLES = ("GENAI_HOST_HOME", "GENAI_HOST_CONFIG", SAFE, SERVER_SECRET)
"""Environment variables of the host that are not configuration keys."""

HTTP_PATHS = ("/api/v1", "/health", "/page", "/ready")
"""Path prefixes of the host, which plugins cannot use."""

HTTP_REFERENCE = "https://github.com/genai-host/genai-host/blob/main/docs/reference/http.md"
"""List of all HTTP paths."""

COMMANDS = {
    "ask": "Send one prompt and print the answer.",
    "budgets": "Show budgets and current spending.",
    "chat": "Start an interactive chat.",
    "completion": "Print a shell completion script.",
    "conversations": "Manage saved conversations.",
    "config": "Show and edit the configuration.",
    "doctor": "Check the installation and report problems.",
    "features": "List features.",
    "install": "Install plugins into genai-host's environment.",
    "keys": "Manage API keys.",
    "models": "List available models and their providers.",
    "plugins": "List, check, enable, disable and create plugins.",
    "providers": "List providers and their settings.",
    "routes": "Show which models run at which providers.",
    "templates": "List, show and remove templates.",
    "tokens": "Count the input tokens of a prompt.",
    "tools": "List and call tools.",
    "transcribe": "Convert speech to text.",
    "uninstall": "Uninstall plugins.",
    "upgrade": "Upgrade plugins.",
    "usage": "Show usage, cost and latency of model calls.",
}
"""Subcommands of the host with their help; plugins cannot use these names."""

FORMER_COMMANDS = {"count": "tokens", "stats": "usage"}
"""Subcommands by their former names, which still work; plugins cannot use these either."""

COMMANDS_OF_PLUGINS = {
    "assistants": "genai-feature-assistants",
    "batch": "genai-batch",
    "corpus": "genai-search-corpus",
    "local": "genai-vendor-local",
    "mcp": "genai-mcp",
    "sandbox": "genai-tools-sandbox",
    "serve": "genai-server",
}
"""Our distributions by the subcommands that they declare."""


def our_distributions() -> list[str]:
    """Other distributions of this project. The host suggests only these: a suggested name that
    another party could register would run their code with access to all keys."""
    import pkgutil  # importlib.resources is slower

    return (pkgutil.get_data(__package__, "distributions.txt") or b"").decode().split()


def normal_name(distribution: str) -> str:
    """Normalize the name of a distribution (PyPA, Names and normalization)."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def third_parties(distributions: Iterable[str]) -> set[str]:
    """The distributions that are not part of this project."""
    ours = {APP, *our_distributions()}
    return {each for each in distributions if normal_name(each) not in ours}


def install_line(distribution: str) -> str:
    """The command that installs a distribution; empty if it is not ours."""
    return f"{APP} install {distribution}" if distribution in our_distributions() else ""


def plugin_line(kind: Literal["vendor", "feature", "tools"], name: str) -> str:
    """The command that installs our plugin for a provider, a feature or tools; empty if there is
    none."""
    return install_line(f"genai-{kind}-{name}")


def wire_of(dialect: str) -> str:
    """The name that the distribution of an API format would have, for one of its dialects."""
    return f"genai-wire-{dialect.partition('-')[0]}"


def wires_hint() -> str:
    """A hint that names our API formats, for a server without any."""
    wires = [each for each in our_distributions() if each.startswith("genai-wire-")]
    return f"install an API format with {APP} install: {', '.join(wires)}"


def vendors_hint(here: Iterable[str] = ()) -> str:
    """A hint that names our plugins for further providers than those that are `here`; empty if no
    plugin is left."""
    known = {f"genai-vendor-{name}" for name in here}
    vendors = [
        each
        for each in our_distributions()
        if each.startswith("genai-vendor-") and each not in known
    ]
    if not vendors:
        return ""
    return f"install a provider with {APP} install: {', '.join(vendors)}"


STARTER_HINT = f'add the chat and a model: {APP} install "genai-host[starter]"'


def unknown_name_hint(kind: Literal["vendor", "feature"], wanted: str, known: Sequence[str]) -> str:
    """A hint for an unknown provider or feature: the plugin to install, similar names, or the
    available ones.
    """
    there = f"choose from {', '.join(names)}" if (names := list(known)) else "none is installed"
    line = plugin_line(kind, wanted)
    if line:
        return f"{there}; install its plugin: {line}"
    return did_you_mean(wanted, known) or there


__version__ = "0.1.0"
