"""The fixtures of this plugin's tests."""

from genai_host_testing.internal.fixtures import pyodide

__all__ = ["pyodide"]
