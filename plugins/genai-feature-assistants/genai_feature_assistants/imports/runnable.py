"""What an assistant needs, and there is not: each in a line with the next step."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from genai_feature_assistants.service.run_tools import CODE, SANDBOX, SEARCH
from genai_host.errors import ConfigurationError, NoRoute

if TYPE_CHECKING:
    from genai_host.host import Host


def why_model_cannot(host: Host, model: str) -> list[str]:
    """Empty if something can run it."""
    name = shlex.quote(model)
    try:
        if any(candidate.runs for candidate in host.explain(model)):
            return []
    except (NoRoute, ConfigurationError):
        step = f"genai-host config alias {name} MODEL"
    else:  # it is known
        step = f"genai-host routes explain {name}"
    return [f"nothing can run {model!r} here: {step}"]


def why_tools_cannot(host: Host, assistant: Mapping[str, Any]) -> list[str]:
    """One for each tool of the server's that would fail."""
    kinds = {tool["type"] for tool in assistant["tools"]}
    whys = []
    if CODE in kinds:
        try:
            host.tool(SANDBOX)
        except ConfigurationError:
            whys.append(
                "code_interpreter is off: genai-host install genai-tools-sandbox, "
                "then genai-host sandbox pull"
            )
    if SEARCH in kinds:
        try:
            is_there = any(each.runs for each in host.explain(None, operation="embed"))
        except (NoRoute, ConfigurationError):
            is_there = False
        if not is_there:
            whys.append(
                "file_search needs a model for embeddings: genai-host install genai-vendor-local"
            )
    return whys
