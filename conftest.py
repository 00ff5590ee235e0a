"""Fixtures of all tests here, as strangers' tests have them."""

pytest_plugins = ["genai_host.testing.pytest_plugin", "pytester"]
