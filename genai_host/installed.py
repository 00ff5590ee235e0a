"""Which distributions are installed, and which of them need which: by their metadata,
nothing of them is imported."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple


class Installed(NamedTuple):
    """A distribution that is installed.

    name     as it calls itself
    needs    normal names of what it requires, on any system; extras left out
    source   where it was installed from, if that was no index (PyPA, Recording the
             Direct URL Origin)
    """

    name: str
    version: str
    needs: frozenset[str]
    source: str = ""


def installed_distributions() -> dict[str, Installed]:
    """All of them, by normal name; of two builds, the one that Python would import."""
    import importlib_metadata

    importlib.invalidate_caches()
    importlib_metadata.MetadataPathFinder.invalidate_caches()
    found: dict[str, Installed] = {}
    for distribution in importlib_metadata.distributions():
        try:
            name = str(distribution.metadata["Name"])
            installed = Installed(
                name,
                str(distribution.version),
                frozenset(_needs(distribution.requires or ())),
                _source(distribution.read_text("direct_url.json")),
            )
        except Exception:  # noqa: BLE001, S112 - whatever a strange folder holds
            continue
        found.setdefault(normal_name(name), installed)
    return found


def who_needs(name: str, installed: Mapping[str, Installed], others: Iterable[str]) -> str:
    """The first of the others that needs a distribution, itself or by what it needs;
    empty if none does. All names are normal ones."""
    for other in others:
        if name in _all_needs(other, installed):
            return other
    return ""


def _all_needs(name: str, installed: Mapping[str, Installed]) -> set[str]:
    needs: set[str] = set()
    waiting = [name]
    while waiting:
        found = installed.get(waiting.pop())
        new = found.needs - needs if found else frozenset()
        needs |= new
        waiting += new
    return needs


def _needs(requirements: Iterable[str]) -> Iterable[str]:
    for requirement in requirements:
        marker = requirement.partition(";")[2]
        if "extra" not in marker:
            yield required_name(requirement)


def _source(direct_url: str | None) -> str:
    try:
        return str(json.loads(direct_url)["url"]) if direct_url else ""
    except (ValueError, LookupError, TypeError):
        return ""


def normal_name(distribution: str) -> str:
    """A distribution's name, the same however it is written (PyPA, Names and
    normalization)."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def required_name(requirement: str) -> str:
    """The normal name of what a requirement names, as `genai-host[x] >= 1`; empty for a
    path and an address, which do not tell (PyPA, Dependency specifiers)."""
    found = re.match(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*([\[(<>=!~;@,]|$)", requirement)
    return normal_name(found[1]) if found else ""
