"""Fixtures of all tests here, as strangers' tests have them."""

import contextlib
import os
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Threads of OpenMP spin while they wait for each other. If other processes use the same cores, most
# of the time of an embedding is waste. OpenMP reads this when its library is loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")

pytest_plugins = [
    "genai_host_testing.pytest_plugin",
    "pytester",
    "genai_host_testing.internal.rings",
    # as a plugin: a fixture that modules import is another one in each, even of a session
    "genai_host_testing.internal.stores",
]

# How long an example takes, and how large the first ones are by chance, says nothing of what is
# tested: the machine may be busy, and the first text of a new clone waits until hypothesis has made
# its tables of Unicode. In CI the examples are the same in each run.
settings.register_profile(
    "quick",
    max_examples=25,
    deadline=None,
    derandomize="CI" in os.environ,
    print_blob=True,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
        HealthCheck.function_scoped_fixture,
    ],
)
# tox -m all
settings.register_profile("thorough", settings.get_profile("quick"), max_examples=100)
settings.load_profile("quick")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the wheels that tests need before the first of them: it is in no time limit."""
    if session.config.option.collectonly:
        return
    if any("wheels" in getattr(item, "fixturenames", ()) for item in session.items):
        from environments import build_wheels

        with contextlib.suppress(FileNotFoundError):  # the fixture says that
            build_wheels()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """xdist loses a worker by a report with half a surrogate pair in it."""
    data = yield
    return _without_surrogates(data)


def _without_surrogates(data: Any) -> Any:
    if isinstance(data, str):
        return data.encode("utf-8", "backslashreplace").decode()
    if isinstance(data, dict):
        return {_without_surrogates(key): _without_surrogates(data[key]) for key in data}
    if isinstance(data, (list, tuple)):
        return type(data)(_without_surrogates(each) for each in data)
    return data
