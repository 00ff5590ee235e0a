"""Waiting for files of vector stores to be made searchable."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from genai_feature_assistants.service.indexing import shelf_of

if TYPE_CHECKING:
    from genai_feature_assistants.service.service import Service
    from genai_host.host import Host

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
