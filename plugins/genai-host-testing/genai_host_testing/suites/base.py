"""Base classes of all suites."""

from __future__ import annotations

import functools
import inspect
import json
import re
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
from concurrent.futures import Future
from typing import Any, ClassVar, TypeVar

import pytest

from genai_host.api import ToolSet, hooks as hookspecs
from genai_host.api.settings import describe, settings_schema
from genai_host.calls.retry import RetryPolicy
from genai_host.config import Config
from genai_host.host import Host
from genai_host.plugins.contributions import Contributions
from genai_host.plugins.discovery import Plugins, StaticPlugins
from genai_host.plugins.results import BrokenPlugin, LoadedPlugin
from genai_host_testing.plugins import installed_wires

T = TypeVar("T", bound=Callable[..., None])

ONE_ATTEMPT = RetryPolicy(max_attempts=1, max_total_attempts=1)
ONE_PER_ROUTE = RetryPolicy(max_attempts=1)

_SECRETIVE = re.compile(r"(^|_)(key|token|secret|password)$")
_MAY_BE_IMPORTED = frozenset({"attr", "attrs", "genai_host", "pluggy", "typing_extensions"})


def recommended(test: T) -> T:
    """Mark a test that a plugin may omit or change without a reason; all others are mandatory."""
    test.is_recommended = True  # type: ignore[attr-defined]  # a marker
    return test


class Suite:
    """Base of all suites.

    Attributes:
        deviations: Mandatory tests that the plugin changes or does not pass, by name, each with the
            reason. A test that the subclass does not override is skipped for that reason.
        patience: Timeout in seconds of real time.
    """

    deviations: ClassVar[Mapping[str, str]] = {}
    patience: float = 30.0

    def __init_subclass__(cls) -> None:
        if cls.test_deviations_have_reasons is not Suite.test_deviations_have_reasons:
            raise TypeError(f"{cls.__name__}: test_deviations_have_reasons cannot be overridden")

    @pytest.fixture(autouse=True)
    def _separate_home(
        self, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Unlike with `tmp_path`, the directory is created on first write."""
        home = tmp_path_factory.getbasetemp() / f"home-{uuid.uuid4().hex}"
        monkeypatch.setenv("GENAI_HOST_HOME", str(home))
        monkeypatch.delenv("GENAI_HOST_CONFIG", raising=False)

    @pytest.fixture(autouse=True)
    def _skip_deviations(self, request: pytest.FixtureRequest) -> None:
        name = request.node.originalname
        if name in self.deviations and name not in set(_changed(type(self))):
            pytest.skip(f"{type(self).__name__} deviates: {self.deviations[name]}")

    def ended(self, future: Future[Any]) -> BaseException | None:
        """Wait for a background call, and return the exception it raised."""
        try:
            return future.exception(self.patience)
        except futures.TimeoutError:
            raise AssertionError(f"it has not ended after {self.patience:g} s") from None

    def launched(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Call a function in the background, and return when the thread runs."""
        begun = threading.Event()

        def run() -> None:
            begun.set()
            function(*arguments)

        future = in_background(run)
        assert begun.wait(self.patience)
        return future

    def test_deviations_have_reasons(self) -> None:
        """Mandatory tests are unchanged, or have a reason."""
        kind = type(self)
        faults = [
            f"{kind.__name__} changes {name}, which is mandatory: give the reason in `deviations`"
            for name in _changed(kind)
            if not self.deviations.get(name, "").strip()
        ]
        faults += [
            f"{kind.__name__} deviates from {name}, and "
            + ("gives no reason" if hasattr(kind, name) else "there is no such test")
            for name, reason in self.deviations.items()
            if not hasattr(kind, name) or not reason.strip()
        ]
        assert not faults, "\n".join(faults)
        if self.deviations:
            reasons = "; ".join(f"{name}: {why}" for name, why in self.deviations.items())
            pytest.skip(f"{kind.__name__} deviates from {reasons}")


def in_background(function: Callable[..., Any], *arguments: Any, **named: Any) -> Future[Any]:
    """Run a function in a separate thread, which is abandoned if the test fails."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(function(*arguments, **named))
        except BaseException as error:  # noqa: BLE001 - handled by the test
            future.set_exception(error)

    threading.Thread(target=run, name="suite", daemon=True).start()
    return future


def _changed(kind: type) -> Iterator[str]:
    """Mandatory tests that a class changes."""
    suites = [each for each in kind.__mro__ if each.__module__.startswith(__package__)]
    names = {name for each in suites for name in vars(each) if name.startswith("test_")}
    for name in sorted(names):
        suite = next(each for each in suites if name in vars(each))
        test = vars(suite)[name]
        if not hasattr(test, "is_recommended") and inspect.getattr_static(kind, name) is not test:
            yield name


class PluginSuite(Suite):
    """Base of the suites for contributions of plugins.

    Attributes:
        plugin: Module with the hooks, or an object with them.
        beside: Further required plugins, by name; installed API formats are included.
    """

    plugin: Any
    beside: Mapping[str, Any] = {}

    @functools.cached_property
    def hosts(self) -> list[Host]:
        """The hosts of `opened_host`."""
        return []

    @pytest.fixture(autouse=True)
    def _closing(self) -> Iterator[None]:
        yield
        for host in self.hosts:
            host.close()

    def opened_host(self, config: Config, **settings: Any) -> Host:
        """A host that is closed after the test."""
        host = Host(config=config, **settings)
        self.hosts.append(host)
        return host

    def plugins(self, **further: Any) -> StaticPlugins:
        """Source of the plugin and its required plugins, for a host."""
        wires = {name: wire for name, wire in installed_wires().items() if wire is not self.plugin}
        return StaticPlugins({**wires, **self.beside, "tested": self.plugin, **further})

    def declared(self) -> Contributions:
        found = {each.found.name: each for each in Plugins(self.plugins(), Config()).results}
        tested = found["tested"]
        assert isinstance(tested, LoadedPlugin), f"{tested}"
        return tested.declared

    def test_it_loads_beside_the_others(self) -> None:
        for result in Plugins(self.plugins(), Config()).results:
            assert not isinstance(result, BrokenPlugin), f"{result.line()}\n{result.trace}"

    def test_its_settings_are_described(self) -> None:
        """All settings have a help text and a type, for help and forms; secrets are of type
        `Secret`."""
        declared = self.declared()
        sets = [each for each in declared.tool_sources if isinstance(each, ToolSet)]
        found: list[Any] = [*declared.providers, *declared.features, *declared.executors, *sets]
        for each in found:
            schema = settings_schema(each.settings)
            for setting in describe(each.settings):
                name = f"{each.name}: {setting.name}"
                assert setting.help, f"{name} has no help: metadata=about(...)"
                assert has_type(schema["properties"][setting.name], schema), (
                    f"{name} has no type in a JSON Schema: {setting.type}"
                )
                if _SECRETIVE.search(setting.name):
                    assert setting.secret, f"{name} is shown: its type is to be Secret"

    def test_loading_imports_no_slow_modules(self) -> None:
        """Declarations import no SDK or other slow module; such imports happen on first use."""
        if not inspect.ismodule(self.plugin):
            pytest.skip("the plugin is not a module")
        own = self.plugin.__name__.partition(".")[0]
        others = _imported_by(self.plugin.__name__, self.patience) - _MAY_BE_IMPORTED - {own}
        imported = {each for each in others if not each.startswith("genai_wire_")}
        assert not imported - sys.stdlib_module_names, f"loading it imports {sorted(imported)}"


@functools.cache  # a plugin has several suites
def _imported_by(plugin: str, patience: float) -> frozenset[str]:
    """Packages that the declarations of a plugin import, in a process of their own."""
    hooks = [name for name in vars(hookspecs) if name.startswith("genai_")]
    done = subprocess.run(
        [sys.executable, "-c", _LOADING, plugin, json.dumps([sys.path, hooks])],
        capture_output=True,
        text=True,
        timeout=patience,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return frozenset(json.loads(done.stdout))


def has_type(schema: Mapping[str, Any], root: Mapping[str, Any]) -> bool:
    """Whether a JSON Schema restricts the type of a value."""
    reference = schema.get("$ref", "")
    if reference:
        return has_type(root["$defs"][reference.removeprefix("#/$defs/")], root)
    choices = schema.get("anyOf") or schema.get("oneOf") or ()
    is_choice = bool(choices) and all(has_type(each, root) for each in choices)
    return is_choice or not schema.keys().isdisjoint(("type", "enum", "const"))


_LOADING = """
import importlib, json, sys
name, given = sys.argv[1:]
sys.path[:], hooks = json.loads(given)
import genai_host.api
before = set(sys.modules)
plugin = importlib.import_module(name)
for hook in hooks:
    declare = getattr(plugin, hook, None)
    if callable(declare) and not hook.startswith("genai_on_") and hook != "genai_api":
        list(declare())
new = set(sys.modules) - before
print(json.dumps(sorted({each.partition(".")[0] for each in new})))
"""
