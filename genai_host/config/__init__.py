"""The configuration: one TOML file and the environment, which overrides it.

`schema` has a class for each table, with the help and the limits of each key. `read_config` reads
the file and the environment into a `Config`, and `edit_config` changes the file.
docs/configuration.md has an example.

This package is imported to list plugins, so it imports nothing that takes time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from genai_host.config.loading import read_config, unread_config
from genai_host.config.schema import (
    BudgetConfig,
    BudgetsConfig,
    Config,
    InstanceConfig,
    ModelConfig,
    ServerConfig,
    SetConfig,
)

if TYPE_CHECKING:
    from genai_host.config.editing import edit_config, must_be_writable

__all__ = [
    "BudgetConfig",
    "BudgetsConfig",
    "Config",
    "InstanceConfig",
    "ModelConfig",
    "ServerConfig",
    "SetConfig",
    "edit_config",
    "must_be_writable",
    "read_config",
    "unread_config",
]


def __getattr__(name: str) -> Any:
    """Import the functions that change the file on first use."""
    if name not in ("edit_config", "must_be_writable"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from genai_host.config import editing

    return getattr(editing, name)
