"""Makes suites of plugins that are wrong, each in one way; test_suites.py runs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from genai_host.testing.suites import Suite

T = TypeVar("T")


def fail(suite: Any, tests: str = "", **attributes: Any) -> Callable[[T], T]:
    """A decorator of what is wrong, which it makes a plugin by `suite.made(wrong)`.

    The suite is registered in the module, by the name of what is decorated.

    Args:
        suite: The one that must find it.
        tests: Those that must fail, without `test_`; no others may.
        attributes: Attributes of the suite, if it has them; others go to `made`.
    """
    given = {name: attributes.pop(name) for name in [*attributes] if not hasattr(suite, name)}

    def register(wrong: T) -> T:
        named: Any = wrong
        add(suite, named.__name__, tests, plugin=suite.made(wrong, **given), **attributes)
        return wrong

    return register


def add(suite: type[Suite], name: str, tests: str = "", **attributes: Any) -> None:
    """The same for a plugin that is at hand, as `plugin`."""
    fails = {f"test_{each}" for each in tests.split()}
    made = type(name, (suite,), {**attributes, "fails": fails, "__module__": __name__})
    SUITES[name] = made


SUITES: dict[str, Any] = {}
