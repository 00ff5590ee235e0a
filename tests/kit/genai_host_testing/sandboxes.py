"""The real Pyodide, for slow tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from genai_tools_sandbox.pyodide import KNOWN, pull, registry

from genai_host.errors import ServiceUnavailable


@pytest.fixture(scope="session")
def pyodide(pytestconfig: pytest.Config) -> Path:
    """The directory with Pyodide, downloaded once for all test runs."""
    named = os.environ.get("GENAI_HOST_TEST_PYODIDE")
    folder = Path(named) if named else pytestconfig.rootpath / ".cache" / KNOWN.name
    try:
        return pull(KNOWN, folder, registry(os.environ, Path.home()), lambda size, whole: None)
    except ServiceUnavailable as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"Pyodide cannot be fetched: {error}")
