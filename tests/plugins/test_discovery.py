"""Each plugin behind its own guard, on real metadata in a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from broken_plugins import BROKEN, Fault

from genai_host import Config
from genai_host.api import Command, Dialect, Model, Offering, hookimpl
from genai_host.errors import ConfigurationError, PluginError
from genai_host.plugins.discovery import InstalledPlugins, Plugins, StaticPlugins
from genai_host.plugins.index import PluginIndex
from genai_host.plugins.results import BlockedPlugin, BrokenPlugin, LoadedPlugin
from genai_host_testing import InlinePlugin, make_distribution

_GOOD = """
from genai_host.api import Model, hookimpl

@hookimpl
def genai_models():
    yield Model("good", ["plain"])
"""


def index(site: Path) -> PluginIndex:
    """Only what is in the folder, and what the bundled plugins are."""
    return PluginIndex([str(site)], str(site.parent / "index"))


def load(site: Path, config: Config | None = None) -> Plugins:
    return Plugins(InstalledPlugins(index(site), on_trial="none"), config or Config())


def broken_of(**plugins: object) -> BrokenPlugin:
    """The one of these that is broken."""
    [broken] = Plugins(StaticPlugins(plugins), Config()).broken
    return broken


def good(site: Path, *names: str, more: str = "") -> None:
    for name in names:
        make_distribution(site, name, files={f"{name}.py": _GOOD + more})


def with_bundled(site: Path) -> None:
    """The working plugins whose names the broken ones take."""
    for name, module in (
        ("genai-vendor-mock", "genai_vendor_mock"),
        ("genai-feature-chat", "genai_feature_chat"),
    ):
        make_distribution(site, name, entry_points={name.rpartition("-")[2]: module}, files={})


def test_a_good_plugin_is_loaded_and_its_declarations_are_registered(site: Path) -> None:
    good(site, "good")
    plugins = load(site)
    [result] = plugins.results
    assert isinstance(result, LoadedPlugin)
    assert list(plugins.registry.models) == ["good"]
    assert plugins.registry.owner("model", "good") == "good"
    assert result.outcome().provides == {"models": ["good"]}


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.name)
def test_a_broken_plugin_is_named_and_disturbs_no_other(site: Path, broken: Fault) -> None:
    with_bundled(site)
    good(site, "good")
    broken.install(site)
    plugins = load(site)
    [result] = plugins.broken
    assert result.found.distribution == broken.name
    assert broken.reason in result.reason
    assert "\n" not in result.line()
    assert broken.name in result.line()
    assert any(each in result.fix for each in ("plugins disable", "genai-host upgrade", "mark"))
    working = {r.found.name for r in plugins.results if isinstance(r, LoadedPlugin)}
    assert working == {"good", "mock", "chat"}


def test_nothing_of_a_broken_plugin_is_registered_and_its_outcome_is_kept(site: Path) -> None:
    with_bundled(site)
    for broken in BROKEN:
        broken.install(site)
    plugins = load(site)
    assert len({plugin.name for plugin in BROKEN}) == len(BROKEN) > 20
    assert len(plugins.broken) == len(BROKEN)
    registry = plugins.registry
    declared = [*registry.models, *registry.providers, *registry.features, *registry.dialects]
    assert sorted(declared) == ["chat", "chat-model", "mock", "mock", "mock-embed"]
    assert not registry.offerings
    assert not registry.commands
    hooks = plugins.manager.hook.genai_models.get_hookimpls()
    assert not [each for each in hooks if "zz" in each.plugin_name]
    statuses = [outcome.status for outcome in index(site).outcomes().values()]
    assert (statuses.count("broken"), statuses.count("loaded")) == (len(BROKEN), 2)
    duplicates = [each for each in plugins.broken if "duplicate" in each.found.distribution]
    assert duplicates
    assert all("genai-host plugins disable" in each.fix for each in duplicates)


@pytest.mark.parametrize("second", ["two", "one"])
def test_two_entry_points_of_one_module_are_one_plugin(site: Path, second: str) -> None:
    """Also without a name that both declare, or with one name."""
    source = "from genai_host.api import hookimpl\n@hookimpl\ndef genai_on_change(kind): pass\n"
    info = make_distribution(site, "twice", files={"twice.py": source})
    (info / "entry_points.txt").write_text(f"[genai_host]\none = twice\n{second} = twice\n")
    plugins = load(site)
    assert [type(result) for result in plugins.results] == [LoadedPlugin, BrokenPlugin]
    [broken] = plugins.broken
    assert (broken.found.name, len(plugins.manager.hook.genai_on_change.get_hookimpls())) == (
        second,
        1,
    )
    if second == "two":
        assert broken.reason == "it is the same object as the plugin one of twice"
        assert "plugins disable twice:two" in broken.fix


def test_keyboard_interrupt_is_not_a_broken_plugin(site: Path) -> None:
    make_distribution(site, "slow", files={"slow.py": "raise KeyboardInterrupt"})
    with pytest.raises(KeyboardInterrupt):
        load(site)


def test_strict_mode_makes_a_broken_plugin_an_error(site: Path) -> None:
    make_distribution(site, "bad", files={"bad.py": "1 / 0"})
    with pytest.raises(PluginError, match=r"plugin bad \(bad 1.0\) is broken") as caught:
        load(site, Config(strict=True))
    assert caught.value.plugin == "bad"
    assert caught.value.hint


@pytest.mark.parametrize("name", ["good", "good:good"])
def test_a_disabled_plugin_is_not_imported(site: Path, name: str) -> None:
    make_distribution(site, "good", files={"good.py": "raise RuntimeError"})
    [result] = load(site, Config(disabled=[name])).results
    assert isinstance(result, BlockedPlugin)
    assert result.reason == "disabled"


def test_the_allow_list_keeps_out_all_others(site: Path) -> None:
    good(site, "good")
    make_distribution(site, "other", files={"other.py": "raise RuntimeError"})
    results = {r.found.name: r for r in load(site, Config(allowlist=["good"])).results}
    assert isinstance(results["good"], LoadedPlugin)
    blocked = results["other"]
    assert isinstance(blocked, BlockedPlugin)
    assert "allowed" in blocked.reason


def test_of_two_claims_to_a_name_the_order_of_distributions_decides(site: Path) -> None:
    """Not the order of `sys.path`; the error names the distribution that has the name."""
    good(site, "zeta", "alpha")
    [broken] = load(site).broken
    assert broken.found.name == "zeta"
    assert "already declared by alpha" in broken.reason


def test_of_two_claims_to_a_name_who_declares_more_keeps_it(site: Path) -> None:
    """A distribution with one model does not take down one with many."""
    many = "".join(f"    yield Model('many-{number}', ['plain'])\n" for number in range(9))
    good(site, "zeta", more=many)
    good(site, "aaa", "squat")
    plugins = load(site)
    assert [broken.found.name for broken in plugins.broken] == ["aaa", "squat"]
    for broken in plugins.broken:
        assert "the model 'good' is already declared by zeta" in broken.reason
        assert f"disable {broken.found.name}, or: genai-host plugins disable zeta" in broken.fix
    assert len(plugins.registry.models) == 10
    assert plugins.registry.owner("model", "good") == "zeta"


def test_who_is_refused_takes_no_name_from_others(site: Path) -> None:
    """It is refused for one name; its other names are free."""
    one = "\n    yield Model('{0}', ['plain'])\n"
    good(site, "big", more=one.format("b") + one.format("c"))
    good(site, "mid", more=one.format("free"))
    make_distribution(site, "small", files={"small.py": _GOOD.replace("good", "free")})
    plugins = load(site)
    assert [broken.found.name for broken in plugins.broken] == ["mid"]
    assert plugins.registry.owner("model", "free") == "small"


def test_what_is_declared_stands_in_the_order_of_distributions(site: Path) -> None:
    """Though who declares more is first to get its names."""
    good(site, "zeta", more="\n    yield Model('more', ['plain'])\n")
    make_distribution(site, "alpha", files={"alpha.py": _GOOD.replace("good", "first")})
    assert list(load(site).registry.models) == ["first", "good", "more"]


def test_our_own_distribution_comes_first(site: Path) -> None:
    make_distribution(site, "aaa", entry_points={"aaa": "aaa"}, files={"aaa.py": _GOOD})
    make_distribution(site, "genai-host", entry_points={"own": "own"}, files={"own.py": _GOOD})
    [broken] = load(site).broken
    assert broken.found.name == "aaa"


def test_an_object_may_be_a_plugin(site: Path) -> None:
    source = _GOOD.replace("@hookimpl", "class Plugin:\n  @hookimpl").replace(
        "def genai_models():\n    yield", "  def genai_models(self):\n      yield"
    )
    make_distribution(
        site,
        "objects",
        entry_points={"objects": "objects:plugin.inner"},
        files={"objects.py": source + "\nclass Outer:\n  inner = Plugin()\nplugin = Outer()\n"},
    )
    assert list(load(site).registry.models) == ["good"]


def test_outcomes_are_remembered_for_who_lists_without_loading(site: Path) -> None:
    good(site, "good")
    make_distribution(site, "bad", files={"bad.py": "1 / 0"})
    make_distribution(site, "off", files={"off.py": "raise KeyboardInterrupt"})
    kinds = [type(result) for result in load(site, Config(disabled=["off"])).results]
    assert kinds == [BrokenPlugin, LoadedPlugin, BlockedPlugin]
    looked_at = index(site)
    outcomes = {plugin.name: looked_at.outcomes().get(plugin.key) for plugin in looked_at.plugins()}
    assert outcomes["off"] is None
    assert outcomes["good"] is not None
    assert (outcomes["good"].status, outcomes["good"].provides) == ("loaded", {"models": ["good"]})
    assert outcomes["bad"] is not None
    assert outcomes["bad"].status == "broken"
    assert "ZeroDivisionError" in outcomes["bad"].reason


@pytest.mark.parametrize(("error", "reason"), [
    (LookupError("deep inside"), "LookupError: deep inside"),
    (ConfigurationError("/a/acme.json:3: there is no such model", file="/a/acme.json", line=3,
                        hint="correct it"), "/a/acme.json:3: there is no such model"),
], ids=["bug", "configuration"])  # fmt: skip
def test_an_error_of_a_plugin_keeps_trace_place_and_hint(error: Exception, reason: str) -> None:
    class Bad:
        @hookimpl
        def genai_models(self) -> list[Model]:
            raise error

    broken = broken_of(bad=Bad())
    assert broken.line() == f"plugin bad (given) is broken: {reason}"
    if isinstance(error, ConfigurationError):
        assert broken.fix == "correct it"
    else:
        assert "Traceback" in broken.trace
        assert "deep inside" in broken.trace


class _Nameless(Dialect):  # type: ignore[type-arg]  # never called
    prepare_request = extract_result = None  # type: ignore[assignment]


@pytest.mark.parametrize(("declared", "reason"), [
    ({"models": [Model("a", ["plain"]), Model("b", ["plain"], aliases=["a"])]},
     "declares the model 'a' twice"),
    ({"commands": [Command("doctor", "mine", "x:y")]}, "already declared by genai-host"),
    ({"dialects": [_Nameless()]}, "has no attribute 'name'"),
], ids=["twice", "command", "nameless"])  # fmt: skip
def test_what_a_plugin_may_not_declare(declared: Any, reason: str) -> None:
    assert reason in broken_of(p=InlinePlugin(**declared)).reason


def test_plugins_that_change_their_mind_are_broken_alone() -> None:
    """What pluggy sees when it registers a plugin for good may be another thing."""

    class Fickle:
        looks = 0

        def __getattr__(self, name: str) -> object:
            raise AttributeError(name)

        def __dir__(self) -> list[str]:
            self.looks += 1
            if self.looks > 1:
                raise RuntimeError("not today")
            return ["genai_models"]

        @hookimpl
        def genai_models(self) -> list[Model]:
            return [Model("fickle", ["plain"])]

    good = InlinePlugin(models=[Model("good", ["plain"])])
    plugins = Plugins(StaticPlugins({"fickle": Fickle(), "good": good}), Config())
    assert [broken.reason for broken in plugins.broken] == ["RuntimeError: not today"]
    assert list(plugins.registry.models) == ["good"]
    assert plugins.manager.hook.genai_models() == [[Model("good", ["plain"])]]


class _Muted(Dialect):  # type: ignore[type-arg]  # never called: only its data is looked at
    name = "muted"
    prepare_request = extract_result = None  # type: ignore[assignment]


@pytest.mark.parametrize(("name", "value"), [
    ("name", 5),
    ("operation", "speak"),
    ("operation", ["chat"]),
    ("endpoint", None),
    ("capabilities", ["stream"]),
    ("capabilities", {1}),
    ("parameters", None),
    ("parameters", {"temperature": 1}),
    ("variant", None),
    ("variant", {1: 2}),
])  # fmt: skip
def test_what_a_dialect_says_of_itself_is_checked(name: str, value: object) -> None:
    wrong = type("Wrong", (_Muted,), {name: value})()
    assert f"{name} must be" in broken_of(p=InlinePlugin(dialects=[wrong])).reason


def test_a_dialect_may_say_it_with_any_set_and_any_mapping() -> None:
    attributes = {"capabilities": {"stream"}, "parameters": MappingProxyType({"n": {}, "m": False})}
    right = type("Right", (_Muted,), attributes)()
    assert not Plugins(StaticPlugins({"p": InlinePlugin(dialects=[right])}), Config()).broken


@pytest.mark.parametrize("name", ["", "a b", "a\x1b[2J", "a\n", "x" * 201, 5, None])
def test_a_malformed_name_of_a_model_is_refused(name: Any) -> None:
    class Declares:
        def __init__(self, hook: str, make: Callable[[], object]) -> None:
            self.make = make
            setattr(self, hook, hookimpl(lambda: [make()]))

    for hook, make in (
        ("genai_models", lambda: Model(name, ["plain"])),
        ("genai_models", lambda: Model("m", ["plain"], aliases=[name])),
        ("genai_offerings", lambda: Offering(name, "mock", "id")),
    ):
        broken = broken_of(p=Declares(hook, make))
        assert "is not a valid name for a model" in broken.reason or "string" in broken.reason
        assert len(broken.reason) <= 300
