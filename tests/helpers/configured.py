"""Writes the configuration file of a test."""

from __future__ import annotations

from pathlib import Path


def configure(home: Path, text: str) -> None:
    file = home / "config" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
