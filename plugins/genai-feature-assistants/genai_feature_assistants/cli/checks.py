"""Checks whether assistants can run, and whether files of vector stores can be searched.

`why_model_cannot` and `why_tools_cannot` return one line for each requirement that is missing,
with the next step. `await_searchable` waits until the files of vector stores are indexed.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from genai_feature_assistants.service.indexing import shelf_of
from genai_feature_assistants.service.run_tools import CODE, SANDBOX, SEARCH
from genai_host.errors import ConfigurationError, NoRoute

if TYPE_CHECKING:
    from genai_feature_assistants.service.service import Service
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


_LOOK = 0.2  # seconds between looks whether they are


def await_searchable(
    host: Host,
    service: Service,
    user: str,
    stores: Collection[str],
    tell: Callable[[str], None],
) -> list[str]:
    """Wait until all files of some vector stores have been looked at; a line for each that
    cannot be searched.

    tell   how far it is
    """
    while not all(service.vector_stores.is_ready(user, store) for store in stores):
        states = [each["status"] for store in stores for each in shelf_of(host, user, store).all()]
        tell(f"{len(states) - states.count('in_progress')} of {len(states)} files searchable")
        time.sleep(_LOOK)
    return [
        f"{service.store_files.name_of(user, each['id']) or each['id']} in {store} cannot be "
        f"searched: {(each['last_error'] or {}).get('message', each['status'])}"
        for store in stores
        for each in shelf_of(host, user, store).all()
        if each["status"] != "completed"
    ]
