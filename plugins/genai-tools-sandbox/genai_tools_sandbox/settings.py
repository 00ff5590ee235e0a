"""The limits of the sandbox, and where Pyodide is."""

from __future__ import annotations

import math
from typing import Any

from attrs import Attribute, field, frozen

from genai_host.api.settings import about


def _between(least: float, most: float) -> Any:
    def check(owner: Any, attribute: Attribute[Any], value: float) -> None:
        if not (math.isfinite(value) and least <= value <= most):
            raise ValueError(f"{attribute.name} is a number from {least:,} to {most:,}")

    return check


@frozen
class Settings:
    """Those of the table `[tools.sandbox]`. Raises `ValueError` for what is out of bounds."""

    seconds: float = field(
        default=30.0,
        validator=_between(0.1, 3600),
        metadata=about("how long the code of one call may run, in seconds"),
    )
    memory: int = field(
        default=512,
        validator=_between(64, 4096),
        metadata=about("how much memory the code may take, in MiB"),
    )
    sessions: int = field(
        default=4,
        validator=_between(1, 64),
        metadata=about("how many sessions there may be at once, each a process of its own"),
    )
    idle_seconds: float = field(
        default=600.0,
        validator=_between(1, 86_400),
        metadata=about("after how many seconds a session ends that nobody uses"),
    )
    output_characters: int = field(
        default=20_000,
        validator=_between(100, 90_000),  # the host cuts texts at 100,000
        metadata=about("how many characters of the output the model gets"),
    )
    file_bytes: int = field(
        default=20_000_000,
        validator=_between(1, 100_000_000),
        metadata=about("how many bytes the files of one call may have, those given and those made"),
    )
    folder: str = field(
        default="",
        metadata=about("the folder of Pyodide; a place in your cache folder unless it is said"),
    )
