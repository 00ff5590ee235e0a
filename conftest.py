"""Fixtures of all tests here, as strangers' tests have them."""

from hypothesis import HealthCheck, settings

pytest_plugins = ["genai_host.testing.pytest_plugin", "pytester"]

# How long an example takes says nothing of what is tested: the machine may be busy, and
# the first text of a new clone waits until hypothesis has made its tables of Unicode.
settings.register_profile(
    "untimed",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("untimed")
