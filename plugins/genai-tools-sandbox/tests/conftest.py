"""The fixtures of this plugin's tests."""

from sandboxes import pyodide

__all__ = ["pyodide"]
