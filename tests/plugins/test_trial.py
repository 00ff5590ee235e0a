"""Plugins that end the process that loads them, or never end: in another process first."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from genai_host import Config
from genai_host.plugins import trial
from genai_host.plugins.discovery import InstalledPlugins, Plugins
from genai_host.plugins.index import InstalledPlugin, LoadResult, PluginIndex
from genai_host.plugins.results import BrokenPlugin, LoadedPlugin
from genai_host.plugins.trial import try_plugins
from genai_host.util.interpreter import has_interpreter
from genai_host_testing import make_distribution

_GOOD = """
from genai_host.api import Model, hookimpl

@hookimpl
def genai_models():
    {0}
    yield Model(__name__, ["plain"])
"""
GOOD = _GOOD.format("pass")
_EXITS_WITH_B = """
import os, sys, threading, time
def end():
    while "b_slow" not in sys.modules:
        time.sleep(0.01)
    os._exit(5)
threading.Thread(target=end, daemon=True).start()
"""
_WAITER_FOR_A = """
import sys, threading
if "a_late" in sys.modules:
    threading.Event().wait()
"""
_LOADS = """
import sys
from genai_host.config import Config
from genai_host.plugins.discovery import InstalledPlugins, Plugins
from genai_host.plugins.index import PluginIndex
Plugins(InstalledPlugins(PluginIndex([sys.argv[1]], sys.argv[2])), Config()).results
"""
_ENDS = "it ends the process while it is loaded (exit code {0})"
_SUSPECT = "the process crashed or was killed while loading it the last time"
_NEVER = "it takes longer than 1 s to load"


def install(site: Path, **sources: str) -> None:
    for name, source in sources.items():
        make_distribution(site, name, files={f"{name}.py": source})


def index(site: Path) -> PluginIndex:
    return PluginIndex([str(site)], str(site.parent / "index"))


def forget(site: Path, name: str) -> None:
    there = index(site)
    there.forget(plugin for plugin in there.plugins() if plugin.name == name)


def load(site: Path) -> Plugins:
    return Plugins(InstalledPlugins(index(site)), Config())


def outcomes(plugins: Plugins) -> dict[str, str]:
    """Name to the reason why it is broken; empty if it is not."""
    return {each.found.name: getattr(each, "reason", "") for each in plugins.results}


@pytest.mark.process
class TestTrial:
    def faults(self, site: Path, seconds: float = 20) -> dict[str, str]:
        plugins = index(site).plugins()
        faults = try_plugins(plugins, seconds)
        return {each.name: faults[each.key].reason for each in plugins if each.key in faults}

    @pytest.mark.skipif(os.name != "posix", reason="exit codes of signals")
    def test_what_ends_the_process_is_named_and_the_others_pass(self, site: Path) -> None:
        install(
            site,
            a_good=GOOD,
            b_exit="import os; os._exit(3)",
            c_exit=_GOOD.format("import os; os._exit(0)"),
            d_crash="import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
            e_interrupt="raise KeyboardInterrupt",
            f_good=GOOD,
        )
        assert self.faults(site) == {
            "b_exit": _ENDS.format(3),
            "c_exit": _ENDS.format(0),
            "d_crash": _ENDS.format(128 + signal.SIGSEGV),
            "e_interrupt": "it raises KeyboardInterrupt when it is loaded",
        }

    @pytest.mark.parametrize("source", [
        "while True: pass",
        "import time\ntime.sleep(600)",
        _GOOD.format("while True: pass"),
        _GOOD.format("import threading; threading.Event().wait()"),
        "import subprocess\nsubprocess.run(['sleep', '600'])",
    ])  # fmt: skip
    def test_hanging_plugin_is_named(self, site: Path, source: str) -> None:
        install(site, a_good=GOOD, b_slow=source, c_good=GOOD)
        assert self.faults(site, 1) == {"b_slow": _NEVER}

    def test_what_this_process_can_tell_is_no_fault(self, site: Path) -> None:
        """It is loaded here, which shows what is wrong, and whether that is over."""
        install(
            site,
            a="1 / 0",
            b="raise SystemExit(4)",
            c="import not_there",
            d="def f(:",
            e="class Odd(BaseException): pass\nraise Odd",
            f="x = 1",
            g="import os, sys\nos.close(1)\nprint('x' * 100_000, file=sys.stderr)\ninput()",
        )
        assert self.faults(site) == {}

    def test_suspects_are_tried_alone(self, site: Path) -> None:
        """The first ends the process while the second is loaded."""
        install(site, a_late=_EXITS_WITH_B + GOOD, b_slow=_WAITER_FOR_A + GOOD, c_good=GOOD)
        assert self.faults(site) == {}

    def test_a_process_that_is_left_behind_keeps_no_one_waiting(self, site: Path) -> None:
        source = "import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {0!r}])\n"
        install(site, a_parent=source.format("import sys; sys.stdin.read()") + GOOD)
        assert self.faults(site) == {}


@pytest.mark.process
class TestLoading:
    def test_only_what_passed_is_imported_here_and_that_is_known_the_next_time(
        self, site: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        install(site, a_exit="import os; os._exit(3)", b_good=GOOD)
        plugins = load(site)
        assert outcomes(plugins) == {"a_exit": _ENDS.format(3), "b_good": ""}
        [broken] = plugins.broken
        assert broken.line() == f"plugin a_exit (a_exit 1.0) is broken: {_ENDS.format(3)}"
        assert broken.fix.endswith("genai-host plugins check a_exit:a_exit")
        assert list(plugins.registry.models) == ["b_good"]
        monkeypatch.setattr(trial, "_run", None)
        assert outcomes(load(site)) == outcomes(plugins)

    def test_another_build_is_tried_again(self, site: Path) -> None:
        install(site, a_exit="import os; os._exit(3)")
        load(site)
        install(site, a_exit=GOOD)
        assert outcomes(load(site)) == {"a_exit": ""}

    @pytest.mark.skipif(os.name != "posix", reason="signals")
    def test_what_crashes_is_left_out(self, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """It passed, and changed its mind."""
        crash = "__import__('os').kill(__import__('os').getpid(), 9)"
        install(
            site,
            a_good=GOOD,
            b_crash=_GOOD.format(f"'CRASHES' in __import__('os').environ and {crash}"),
        )
        command = [sys.executable, "-c", _LOADS, str(site), str(site.parent / "index")]
        usual = {**os.environ, "PYTHONPATH": str(site)}
        crashing = {**usual, "CRASHES": "1"}
        codes = [subprocess.run(command, env=each).returncode for each in (usual, *[crashing] * 2)]
        assert codes == [0, -9, 0]
        plugins = load(site)
        assert outcomes(plugins) == {"a_good": "", "b_crash": _SUSPECT}
        assert plugins.broken[0].fix.endswith("genai-host plugins check b_crash:b_crash")
        forget(site, "b_crash")
        assert outcomes(load(site)) == {"a_good": "", "b_crash": ""}


_BAD = LoadResult("broken", "it ends the process", "do this", is_skipped=True)


class TestWithoutProcesses:
    """What is tried, and what becomes of it."""

    @pytest.fixture
    def tried(self, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
        """The names of each trial; those that begin with `bad` fail."""
        calls = []

        def run(plugins: list[InstalledPlugin]) -> dict[str, LoadResult]:
            calls.append([plugin.name for plugin in plugins])
            return {plugin.key: _BAD for plugin in plugins if plugin.name.startswith("bad")}

        monkeypatch.setattr(trial, "try_plugins", run)
        return calls

    def test_what_is_new_is_tried_once(self, site: Path, tried: list[list[str]]) -> None:
        install(site, bad="1 / 0", good=GOOD, other="1 / 0")
        reasons = [outcomes(load(site)) for _ in range(2)]
        assert tried == [["bad", "good", "other"]]
        assert reasons[0] == reasons[1]
        assert reasons[0]["bad"] == "it ends the process"
        assert "ZeroDivisionError" in reasons[0]["other"]
        install(site, later=GOOD)
        load(site)
        assert tried[1:] == [["later"]]

    def test_our_own_are_not_tried(self, site: Path, tried: list[list[str]]) -> None:
        for number, name in enumerate(("genai-host", "genai_vendor_mock", "Genai.Feature.Chat")):
            make_distribution(site, name, entry_points={f"own{number}": "json"}, files={})
        load(site)
        assert tried == []

    def test_what_is_disabled_is_not_tried(self, site: Path, tried: list[list[str]]) -> None:
        install(site, good=GOOD, bad="1 / 0")
        plugins = Plugins(InstalledPlugins(index(site)), Config(disabled=["bad"]))
        assert tried == [["good"]]
        assert not plugins.broken

    def test_what_ended_is_kept_before_imports(self, site: Path, tried: list[list[str]]) -> None:
        install(site, bad="1 / 0", good="raise KeyboardInterrupt")
        with pytest.raises(KeyboardInterrupt):
            load(site)
        there = index(site)
        [bad] = [plugin for plugin in there.plugins() if plugin.name == "bad"]
        assert there.outcomes()[bad.key].is_skipped

    def test_without_a_cache(self, site: Path, tried: list[list[str]], tmp_path: Path) -> None:
        nowhere = tmp_path / "file"
        nowhere.write_text("")
        install(site, good=GOOD)
        there = PluginIndex([str(site)], str(nowhere / "index"))
        assert not Plugins(InstalledPlugins(there), Config()).broken
        assert tried == []
        Plugins(InstalledPlugins(there, on_trial="all"), Config())
        assert tried == [["good"]]

    def test_which_are_tried_again(self, site: Path, tried: list[list[str]]) -> None:
        """All but those that are left out, and these once they are forgotten."""
        install(site, bad="1 / 0", good=GOOD)
        load(site)
        plugins = Plugins(InstalledPlugins(index(site), on_trial="all"), Config())
        assert tried[1:] == [["good"]]
        assert [type(each) for each in plugins.results] == [BrokenPlugin, LoadedPlugin]
        forget(site, "bad")
        load(site)
        assert tried[2:] == [["bad"]]

    @pytest.mark.parametrize("executable", ["", None, "/not/there"])
    def test_where_no_other_python_can_be_started_they_are_loaded_here(
        self, site: Path, monkeypatch: pytest.MonkeyPatch, executable: str | None
    ) -> None:
        def fail(*args: object, **more: object) -> None:
            raise FileNotFoundError(2, "No such file or directory")

        monkeypatch.setattr(trial, "has_interpreter", has_interpreter)
        monkeypatch.setattr("subprocess.Popen", fail)
        monkeypatch.setattr(sys, "executable", executable)
        install(site, good=GOOD, other="1 / 0")
        reasons = outcomes(load(site))
        assert reasons["good"] == ""
        assert "ZeroDivisionError" in reasons["other"]

    def test_a_frozen_program_is_alone(self, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(trial, "has_interpreter", has_interpreter)
        monkeypatch.setattr(sys, "frozen", True, raising=False)
        monkeypatch.setattr("subprocess.Popen", None)
        install(site, good=GOOD)
        assert outcomes(load(site)) == {"good": ""}


class TestMarks:
    @pytest.fixture(autouse=True)
    def known(self, site: Path) -> None:
        """What is loaded has passed before."""
        install(site, one=GOOD, two=GOOD)
        there = index(site)
        there.remember({plugin.key: LoadResult("loaded") for plugin in there.plugins()})

    def marks(self, site: Path) -> list[Path]:
        return sorted((site.parent / "index" / "loading").glob("*"))

    def test_there_is_one_while_a_plugin_is_loaded(self, site: Path) -> None:
        there = index(site)
        one, two = there.plugins()
        discovery = InstalledPlugins(there)
        discovery.skipped([one, two])
        for found in (one, two):
            with discovery.loading(found):
                [mark] = self.marks(site)
                assert mark.read_text() == found.key
                assert outcomes(load(site)) == {"one": "", "two": ""}  # this process lives
        assert self.marks(site) == []

    @pytest.mark.parametrize("error", [RuntimeError, SystemExit, KeyboardInterrupt])
    def test_there_is_none_after_an_error(self, site: Path, error: type[BaseException]) -> None:
        there = index(site)
        discovery = InstalledPlugins(there)
        [one, _] = there.plugins()
        discovery.skipped([one])
        with pytest.raises(error), discovery.loading(one):
            raise error
        assert self.marks(site) == []

    def leave(self, site: Path, key: str) -> None:
        with index(site).marks.loading(key):
            [mark] = self.marks(site)
        mark.write_text(key)

    @pytest.mark.parametrize(("key", "reason"), [("", _SUSPECT), ("one:one:0.9:abc", "")])
    def test_one_that_is_left_names_the_suspect(self, site: Path, key: str, reason: str) -> None:
        """One of a build that is gone is removed."""
        self.leave(site, key or index(site).plugins()[0].key)
        for _ in range(2):
            assert outcomes(load(site)) == {"one": reason, "two": ""}
            assert self.marks(site) == []

    def test_one_of_another_environment_stays(self, site: Path, tmp_path: Path) -> None:
        self.leave(site, index(site).plugins()[0].key)
        make_distribution(tmp_path / "other", "three")
        there = PluginIndex([str(tmp_path / "other")], str(site.parent / "index"))
        Plugins(InstalledPlugins(there), Config(disabled=["three"]))
        assert len(self.marks(site)) == 1

    def test_an_interrupt_names_the_plugin(
        self, site: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupt(*args: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(InstalledPlugins, "load", interrupt)
        with pytest.raises(KeyboardInterrupt):
            load(site)
        assert caplog.messages == ["interrupted while the plugin one of one was loaded"]
        assert self.marks(site) == []
