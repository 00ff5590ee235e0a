"""Tables of the configuration, for `genai_host.Config`:

Config(providers={"mine": provider_config("mock", replies=["hi"])},
       tools={"pages": tools_config(private=True)})
"""

from __future__ import annotations

from typing import Any

from genai_host.config import InstanceConfig, SetConfig


def provider_config(
    type: str,
    /,
    *,
    enabled: Any = True,  # Any, as mypy checks `**settings` against all of these
    models: Any = None,
    limits: Any = None,
    **settings: Any,
) -> InstanceConfig:
    """Return the table of a provider of this type."""
    return InstanceConfig(type, enabled, models or {}, settings, limits or {})


def tools_config(**settings: Any) -> SetConfig:
    return SetConfig(settings)
