"""Makes suites of incorrect plugins, each with one defect; test_suites.py runs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from genai_host_testing.suites import Suite

T = TypeVar("T")


def fail(suite: Any, tests: str = "", **attributes: Any) -> Callable[[T], T]:
    """Decorate an incorrect object, which `suite.made(wrong)` makes a plugin.

    The suite is registered in the module, by the name of the decorated object.

    Args:
        suite: The suite that must detect it.
        tests: Tests that must fail, without `test_`; no others may fail.
        attributes: Attributes of the suite, if it has them; others are arguments of `made`.
    """
    options = {name: attributes.pop(name) for name in [*attributes] if not hasattr(suite, name)}

    def register(wrong: T) -> T:
        named: Any = wrong
        add(suite, named.__name__, tests, plugin=suite.made(wrong, **options), **attributes)
        return wrong

    return register


def add(suite: type[Suite], name: str, tests: str = "", **attributes: Any) -> None:
    """Register a suite for an existing plugin, given as `plugin`."""
    fails = {f"test_{each}" for each in tests.split()}
    test_class = type(name, (suite,), {**attributes, "fails": fails, "__module__": __name__})
    SUITES[name] = test_class


SUITES: dict[str, Any] = {}
