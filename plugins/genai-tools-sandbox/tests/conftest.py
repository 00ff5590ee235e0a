"""The fixtures of this plugin's tests."""

from genai_host_testing.sandboxes import pyodide

__all__ = ["pyodide"]
