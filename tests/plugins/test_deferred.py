"""Plugins that are loaded when something of them is needed, on metadata in a directory."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest

from genai_host import Config, Host
from genai_host.api import Model
from genai_host.config import InstanceConfig, SetConfig
from genai_host.errors import NoRoute
from genai_host.plugins.discovery import InstalledPlugins, Plugins
from genai_host.plugins.index import InstalledPlugin, LoadResult, PluginIndex, skipped_result
from genai_host.plugins.results import LoadedPlugin
from genai_host.providers.instance import ProviderUnavailable
from genai_host_testing import make_distribution

_MODEL = """
from genai_host.api import Model, hookimpl

@hookimpl
def genai_models():
    yield Model("{name}", ["plain"], aliases=["{name}-alias"])
"""
_OBSERVER = """
@hookimpl
def genai_on_close():
    pass
"""


@pytest.fixture
def installed(site: Path) -> Iterator[Path]:
    """A directory with the plugins `one` and `two`, which were loaded before."""
    for name in ("one", "two"):
        install(site, name, _MODEL.format(name=name))
    load(site)
    forget_modules()
    yield site
    forget_modules()


def install(site: Path, name: str, source: str) -> Path:
    return make_distribution(site, name, files={f"defer_{name}.py": source}, entry_points={
        name: f"defer_{name}"
    })  # fmt: skip


def change(site: Path, name: str, source: str) -> None:
    """Change a module, but not RECORD. Its cached bytecode is valid for a source of the same second
    and size."""
    file = site / f"defer_{name}.py"
    file.write_text(f"{source}\n# {'x' * len(file.read_text())}")


def load(
    site: Path, config: Config | None = None, on_trial: Literal["all", "none"] = "none"
) -> Plugins:
    index = PluginIndex([str(site)], str(site.parent / "index"))
    return Plugins(InstalledPlugins(index, on_trial=on_trial), config or Config())


def imported() -> list[str]:
    return sorted(each.removeprefix("defer_") for each in sys.modules if "defer_" in each)


def forget_modules() -> None:
    for name in imported():
        del sys.modules[f"defer_{name}"]


def test_item_29_5_a_plugin_is_imported_when_something_of_it_is_needed(installed: Path) -> None:
    registry = load(installed).registry
    assert (list(registry.models), len(registry.models), imported()) == (["one", "two"], 2, [])
    assert registry.owner("model", "two-alias") == "two"
    assert registry.models["one"].aliases == ("one-alias",)
    assert (imported(), list(registry.models.loaded)) == (["one"], ["one"])
    assert "two" in registry.models
    assert [each.name for each in registry.models.values()] == ["one", "two"]
    assert imported() == ["one", "two"]


def test_all_results_are_of_loaded_plugins(installed: Path) -> None:
    assert [type(each) for each in load(installed).results] == [LoadedPlugin, LoadedPlugin]
    assert imported() == ["one", "two"]


def test_strict_mode_and_checks_load_all(installed: Path) -> None:
    load(installed, Config(strict=True))
    assert imported() == ["one", "two"]
    forget_modules()
    load(installed, on_trial="all")
    assert imported() == ["one", "two"]


def test_an_observer_is_loaded_at_once(site: Path) -> None:
    install(site, "watcher", _MODEL.format(name="seen") + _OBSERVER)
    load(site)
    forget_modules()
    plugins = load(site)
    assert imported() == ["watcher"]
    assert len(plugins.manager.hook.genai_on_close.get_hookimpls()) == 1


_SERVERS = """
import pathlib
from genai_host.api import Model, ToolSource, hookimpl

class Source(ToolSource):
    name = "served"
    def tools(self, limits): return []

@hookimpl
def genai_models():
    yield Model("modelled", ["plain"])

@hookimpl
def genai_tool_sources():
    if pathlib.Path(__file__).with_name("servers").exists():
        yield Source()
"""


def test_a_source_of_tools_that_a_file_names_is_found_when_it_is_written(site: Path) -> None:
    install(site, "servers", _SERVERS)
    assert list(load(site).registry.tool_sources) == []
    load(site)
    (site / "servers").touch()
    forget_modules()
    assert list(load(site).registry.tool_sources) == ["served"]
    (site / "servers").unlink()
    forget_modules()
    assert list(load(site).registry.tool_sources) == []


def test_a_dict_has_the_plugins_that_work(installed: Path) -> None:
    change(installed, "two", "1 / 0")
    assert list(dict(load(installed).registry.models)) == ["one"]


def test_what_is_put_into_the_registry_stays(installed: Path) -> None:
    registry = load(installed).registry
    registry.models["one"] = own = Model("one", ["other"])
    assert registry.models["two"].name == "two"
    del registry.models["two"]
    assert dict(registry.models) == {"one": own}
    assert "two" not in registry.models


def test_a_late_load_keeps_what_other_processes_saved(installed: Path) -> None:
    plugins = load(installed)
    index = PluginIndex([str(installed)], str(installed.parent / "index"))
    by_name = {each.name: each for each in index.plugins()}
    index.remember({by_name["one"].key: skipped_result(by_name["one"], "it hangs")})
    change(installed, "two", _MODEL.format(name="new"))
    assert "two" not in plugins.registry.models
    index = PluginIndex([str(installed)], str(installed.parent / "index"))
    results = index.outcomes()
    assert results[by_name["one"].key].is_skipped
    assert results[by_name["two"].key].provides == {"models": ["new"]}


def test_interrupted_late_loads_repeat(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugins = load(installed)
    claim = plugins.registry.claim

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(plugins.registry, "claim", interrupted)
    with pytest.raises(KeyboardInterrupt):
        plugins.registry.models["one"]
    monkeypatch.setattr(plugins.registry, "claim", claim)
    assert plugins.registry.models["one"].name == "one"
    assert plugins.broken == []


def test_an_editable_plugin_is_loaded_at_once(site: Path) -> None:
    info = install(site, "source", _MODEL.format(name="source"))
    (info / "direct_url.json").write_text(json.dumps({"dir_info": {"editable": True}}))
    load(site)
    forget_modules()
    load(site)
    assert imported() == ["source"]


@pytest.mark.parametrize("url", ["[]", '{"dir_info": 1}', "{", '{"dir_info": {}}', "[" * 100_000])
def test_another_direct_url_is_not_editable(installed: Path, url: str) -> None:
    for info in installed.glob("*.dist-info"):
        (info / "direct_url.json").write_text(url)
    load(installed)
    assert imported() == []


def test_all_are_loaded_again_when_distributions_changed(installed: Path) -> None:
    make_distribution(installed, "other", entry_points={})
    load(installed)
    assert imported() == ["one", "two"]
    forget_modules()
    load(installed)
    assert imported() == []
    (installed / "notes.txt").touch()  # the directory changes, but not what is installed
    load(installed)
    assert imported() == []


def test_a_changed_plugin_is_loaded_again(installed: Path) -> None:
    install(installed, "two", _MODEL.format(name="changed"))
    assert list(load(installed).registry.models) == ["one", "changed"]
    assert imported() == ["two"]


def test_one_broken_since_adds_nothing(installed: Path, caplog: pytest.LogCaptureFixture) -> None:
    change(installed, "two", "1 / 0")
    plugins = load(installed)
    assert plugins.broken == []
    with caplog.at_level(logging.WARNING):
        assert "two" not in plugins.registry.models
    assert "plugin two (two 1.0) is broken: ZeroDivisionError" in caplog.text
    assert list(plugins.registry.models) == ["one"]
    assert plugins.registry.owner("model", "two") == ""
    assert [each.found.name for each in plugins.broken] == ["two"]
    assert [each.found.name for each in load(installed).broken] == ["two"]  # before it is needed


def test_what_a_plugin_declares_now_replaces_what_it_declared(installed: Path) -> None:
    change(installed, "two", _MODEL.format(name="new"))
    registry = load(installed).registry
    assert "two" not in registry.models
    assert list(registry.models) == ["one", "new"]
    assert (registry.owner("model", "two"), registry.owner("model", "new")) == ("", "two")
    forget_modules()
    assert list(load(installed).registry.models) == ["one", "new"]
    assert imported() == []


def test_a_name_that_another_has_is_not_taken_later(installed: Path) -> None:
    change(installed, "two", _MODEL.format(name="one"))
    plugins = load(installed)
    assert [each.name for each in plugins.registry.models.values()] == ["one"]
    assert plugins.registry.owner("model", "one") == "one"
    [broken] = plugins.broken
    assert broken.reason == "the model 'one' is already declared by one"


def test_a_new_plugin_does_not_take_the_name_of_a_deferred_one(installed: Path) -> None:
    install(installed, "zero", _MODEL.format(name="two"))
    load(installed, Config(disabled=["zero"]))
    forget_modules()
    [broken] = load(installed).broken
    assert (broken.found.name, imported()) == ("zero", ["zero"])


def test_a_broken_plugin_of_the_same_name_takes_nothing_away(installed: Path) -> None:
    make_distribution(installed, "zero", entry_points={"two": "defer_zero"}, files={
        "defer_zero.py": _MODEL.format(name="zero")
    })  # fmt: skip
    load(installed)
    plugins = load(installed)
    assert [each.found.distribution for each in plugins.broken] == ["zero"]
    assert list(plugins.registry.models) == ["one", "two"]


def test_two_threads_load_a_plugin_once(installed: Path) -> None:
    change(
        installed,
        "one",
        "import builtins\nbuiltins.defer_loads.append(1)\n" + _MODEL.format(name="one"),
    )
    loads: list[int] = []
    plugins = load(installed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("builtins.defer_loads", loads, raising=False)
        barrier = threading.Barrier(4)
        names: list[str] = []

        def look() -> None:
            barrier.wait()
            names.append(plugins.registry.models["one"].name)

        threads = [threading.Thread(target=look) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (loads, names) == ([1], ["one"] * 4)


def test_the_guard_is_active_while_a_plugin_is_loaded(installed: Path) -> None:
    seen: list[list[str]] = []

    @contextmanager
    def guard() -> Iterator[None]:
        seen.append(imported())
        yield
        seen.append(imported())

    plugins = load(installed)
    plugins.guard = guard
    plugins.registry.models["two"]
    plugins.registry.models["two"]
    assert seen == [[], ["two"]]


class _Deferring(InstalledPlugins):
    """Defers the plugins that are installed here, which are editable."""

    def __init__(self, known: Mapping[str, LoadResult]) -> None:
        super().__init__(PluginIndex(folder=os.devnull), on_trial="none")
        self._known = known

    def deferred(self, plugins: Sequence[InstalledPlugin]) -> Mapping[str, LoadResult]:
        return {key: known for key, known in self._known.items() if not known.is_eager}


@pytest.fixture(scope="module")
def known() -> Mapping[str, LoadResult]:
    loaded = Plugins(InstalledPlugins(PluginIndex(folder=os.devnull), on_trial="none"), Config())
    return {
        each.found.key: each.outcome() for each in loaded.results if isinstance(each, LoadedPlugin)
    }


def deferring(known: Mapping[str, LoadResult], config: Config) -> Host:
    return Host(config=config, discovery=_Deferring(known))


_CONFIG = Config(
    providers={
        "mine": InstanceConfig("openai-compatible", models={"llama-3.3-70b": "own-id"}),
        "gone": InstanceConfig("nobody"),
    }
)


def test_a_model_resolves_as_with_all_plugins(known: Mapping[str, LoadResult]) -> None:
    """All names take half a minute: they were compared when this was written."""
    with deferring(known, _CONFIG) as every:
        named = ["mock@mock", "llama-3.3-70b", "llama-3.3-70b@mine", "openai/x", "none", "gone/x"]
        cases: list[tuple[str, str | None]] = [(name, None) for name in [*every.catalog.names][::8]]
        cases += [(name, provider) for name in named for provider in (None, "mock", "mine")]
        cases += [("mock@openai", "mock"), ("mock@mock+plain", None), ("mock@nowhere", None)]
        expected = [resolved(every, name, provider) for name, provider in cases]
    assert len(cases) > 30
    for (name, provider), candidates in zip(cases, expected, strict=True):
        with deferring(known, _CONFIG) as lazy:
            assert resolved(lazy, name, provider) == candidates, name


def resolved(host: Host, name: str, provider: str | None) -> list[str]:
    try:
        routes = host._routing._resolve(host._routing._choice(name), provider, "chat")
    except NoRoute as error:
        return [str(error)]
    return [f"{each.name}+{each.dialect}" for each in routes]


def test_a_provider_is_not_opened_after_its_host(known: Mapping[str, LoadResult]) -> None:
    with deferring(known, Config()) as host:
        instances = host.instances
    assert isinstance(instances["ollama"].look(), ProviderUnavailable)


def test_approvals_and_settings_load_no_tool(
    known: Mapping[str, LoadResult], caplog: pytest.LogCaptureFixture
) -> None:
    config = Config(
        approvals={"calculate": "ask", "files__*": "deny"},
        tools={"files": SetConfig({"folder": "."}), "flies": SetConfig()},
    )
    with deferring(known, config) as host:
        assert host.toolbox.only(None) is host.toolbox
        assert [*host.registry.tools.loaded, *host.registry.tool_sources.loaded] == []
    (warning,) = caplog.messages
    assert "unknown tool set 'flies'; choose from: " in warning
    assert "files" in warning.partition("choose")[2]


def test_a_conversation_loads_the_provider_and_the_feature(known: Mapping[str, LoadResult]) -> None:
    with deferring(known, Config()) as host:
        assert host.open("chat", model="mock").say("hi").text == "hi"
        assert list(host.registry.models.loaded) == ["mock", "mock-embed"]
        assert list(host.registry.providers.loaded) == ["mock"]
        assert list(host.registry.features.loaded) == ["chat", "chat-model"]
        assert list(host.registry.tool_sources.loaded) == []
