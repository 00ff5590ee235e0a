"""The index of installed plugins: always right, and quick when nothing has changed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from genai_host.plugins.index import InstalledPlugin, LoadResult, PluginIndex
from genai_host_testing import make_distribution


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def new_index(cache: Path, *path: Path) -> PluginIndex:
    """That of a new process."""
    return PluginIndex([str(each) for each in path], str(cache))


def look(cache: Path, *path: Path) -> list[str]:
    return [f"{plugin.name} {plugin.version}" for plugin in new_index(cache, *path).plugins()]


def settle(*folders: Path) -> None:
    """Make it look as if the last change were long ago."""
    past = time.time_ns() - 60_000_000_000
    for folder in folders:
        for each in (folder, *folder.rglob("*")):
            os.utime(each, ns=(past, past))


class TestChanges:
    """Each of them on a warm index, and again at once, within one second."""

    def test_installs_upgrades_and_uninstalls_are_seen(self, site: Path, cache: Path) -> None:
        """Also a reinstall in place, as of an editable one whose entry points have changed."""
        assert look(cache, site.parent / "later") == []
        settle(site)
        assert look(cache, site) == []
        one = make_distribution(site, "one")
        assert look(cache, site) == ["one 1.0"]
        two = make_distribution(site, "two")
        assert look(cache, site) == ["one 1.0", "two 1.0"]
        settle(site)
        for version in ("2.0", "3.0"):
            shutil.rmtree(one)
            one = make_distribution(site, "one", version=version)
            assert look(cache, site) == [f"one {version}", "two 1.0"]
        settle(site)
        for point in ("first", "second"):
            make_distribution(site, "two", entry_points={point: "two"})
            assert look(cache, site) == ["one 3.0", f"{point} 1.0"]
        settle(site)
        shutil.rmtree(two)
        assert look(cache, site) == ["one 3.0"]
        shutil.rmtree(one)
        assert look(cache, site) == []
        make_distribution(site.parent / "later", "one")
        assert look(cache, site.parent / "later") == ["one 1.0"]

    def test_a_change_without_a_mark_on_the_folder_is_seen(self, site: Path, cache: Path) -> None:
        """Two changes within one tick of the file system's clock look like one."""
        make_distribution(site, "one")
        assert look(cache, site) == ["one 1.0"]
        before = site.stat()
        make_distribution(site, "two")
        os.utime(site, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert look(cache, site) == ["one 1.0", "two 1.0"]

    def test_a_changed_path_is_seen(self, site: Path, cache: Path, tmp_path: Path) -> None:
        other = tmp_path / "other"
        make_distribution(site, "one")
        make_distribution(other, "two")
        settle(site, other)
        assert look(cache, site) == ["one 1.0"]
        assert look(cache, site, other) == ["one 1.0", "two 1.0"]
        assert look(cache, other) == ["two 1.0"]
        assert look(cache, site) == ["one 1.0"]

    def test_a_source_tree_that_is_rebuilt_in_place_is_seen(self, site: Path, cache: Path) -> None:
        info = site / "dev.egg-info"
        info.mkdir()
        (info / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: dev\nVersion: 1\n")
        settle(site)
        assert look(cache, site) == []
        (info / "entry_points.txt").write_text("[genai_host]\nfirst = dev\n")
        assert look(cache, site) == ["first 1"]
        settle(site)
        assert look(cache, site) == ["first 1"]
        (info / "entry_points.txt").write_text("[genai_host]\nsecond = dev\n")
        assert look(cache, site) == ["second 1"]


class TestWarm:
    @pytest.mark.smoke
    @pytest.mark.process
    def test_a_warm_index_reads_no_metadata(self, site: Path, cache: Path) -> None:
        """Not even the library for it is imported."""
        make_distribution(site, "one")
        settle(site)
        code = (
            "import sys; from genai_host.plugins.index import PluginIndex\n"
            f"print(len(PluginIndex([{str(site)!r}], {str(cache)!r}).plugins()),"
            " 'importlib_metadata' in sys.modules)"
        )
        seen = [
            subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
            for _ in range(2)
        ]
        assert [each.stdout.split() for each in seen] == [["1", "True"], ["1", "False"]]

    def test_distributions_without_plugins_are_not_looked_at(self, site: Path, cache: Path) -> None:
        for number in range(20):
            make_distribution(site, f"other{number}", entry_points={}, files={})
        for info in site.glob("*.dist-info"):
            (info / "entry_points.txt").write_text("[console_scripts]\nx = y:z\n")
        make_distribution(site, "one")
        settle(site)
        look(cache, site)
        [file] = cache.iterdir()
        stamps = json.loads(file.read_text())["stamps"]
        assert set(stamps) == {str(site), str(site / "one-1.0.dist-info" / "entry_points.txt")}


class TestReading:
    def test_what_is_known_of_a_plugin(self, site: Path, cache: Path) -> None:
        points = {"q": "pkg", "p": "pkg.mod:obj"}
        make_distribution(site, "My.Dist", version="2.1", entry_points=points)
        plugin, other = new_index(cache, site).plugins()
        assert (plugin.name, plugin.value, other.name) == ("p", "pkg.mod:obj", "q")
        assert (plugin.distribution, plugin.version) == ("My.Dist", "2.1")
        assert len(plugin.record) == 64

    def test_the_record_tells_one_build_from_another(self, site: Path, cache: Path) -> None:
        keys = set()
        for text in ("x = 1", "x = 2"):
            make_distribution(site, "one", files={"one.py": text})
            keys |= {plugin.key for plugin in new_index(cache, site).plugins()}
        assert len(keys) == 2

    def test_of_two_builds_the_first_counts(self, site: Path, cache: Path, tmp_path: Path) -> None:
        user = tmp_path / "user"
        make_distribution(user, "One_Dist", version="2.0", entry_points={"p": "a"})
        make_distribution(site, "one-dist", version="1.0", entry_points={"p": "a"})
        assert look(cache, user, site) == ["p 2.0"]

    def test_a_distribution_without_metadata_or_name(self, site: Path, cache: Path) -> None:
        (site / "broken-1.0.dist-info").mkdir()
        make_distribution(site, "one")
        assert look(cache, site) == ["one 1.0"]
        (make_distribution(site, "odd") / "METADATA").write_text("Metadata-Version: 2.1\n")
        assert [plugin.name for plugin in new_index(cache, site).plugins()] == ["odd", "one"]

    @pytest.mark.parametrize("raw", [b"[genai_host]\nnonsense\n", b"\xff[genai_host]\nx = y\n"])
    def test_odd_entry_points_are_unreadable(self, site: Path, cache: Path, raw: bytes) -> None:
        (make_distribution(site, "odd") / "entry_points.txt").write_bytes(raw)
        make_distribution(site, "one")
        odd, one = new_index(cache, site).plugins()
        assert (odd.name, bool(odd.unreadable), one.unreadable) == ("odd", True, "")

    @pytest.mark.parametrize(
        "raw", ["[genai_host]\n", "[console_scripts]\nx = genai_host_tool:main\n"]
    )
    def test_one_that_only_names_the_group(self, site: Path, cache: Path, raw: str) -> None:
        (make_distribution(site, "other") / "entry_points.txt").write_text(raw)
        assert look(cache, site) == []


class TestFile:
    @pytest.mark.parametrize("content", [
        "", "{", "[]", '{"form": 0}', '{"form": 1}', "null", "\0", "[" * 100_000,
    ], ids=lambda content: content[:12])  # fmt: skip
    def test_a_damaged_index_is_made_again(self, site: Path, cache: Path, content: str) -> None:
        make_distribution(site, "one")
        look(cache, site)
        [file] = cache.iterdir()
        file.write_text(content)
        assert look(cache, site) == ["one 1.0"]

    @pytest.mark.parametrize("changed", [
        {"path": None},
        {"scanned": "yesterday"},
        {"stamps": []},
        {"stamps": {}},
        {"stamps": {"\0": [1, 2, 3]}},
        {"stamps": {"x": 1}},
        {"stamps": {"x": ["1", 2, 3]}},
        {"plugins": None},
        {"plugins": {"a": "b"}},
        {"plugins": [["one", "one", "one"]]},
        {"plugins": [["one", "one", "one", "1.0", "", 5]]},
        {"plugins": [None]},
        {"outcomes": []},
        {"outcomes": {"x": "loaded"}},
        {"outcomes": {"x": ["loaded"]}},
        {"outcomes": {"x": ["odd", "", "", {}, [], False]}},
        {"outcomes": {"x": ["loaded", 1, "", {}, [], False]}},
        {"outcomes": {"x": ["loaded", "", None, {}, [], False]}},
        {"outcomes": {"x": ["loaded", "", "", [], [], False]}},
        {"outcomes": {"x": ["loaded", "", "", {"models": "abc"}, [], False]}},
        {"outcomes": {"x": ["loaded", "", "", {"models": [1]}, [], False]}},
        {"outcomes": {"x": ["loaded", "", "", {}, [["only-a-name"]], False]}},
        {"outcomes": {"x": ["loaded", "", "", {}, ["ab"], False]}},
        {"outcomes": {"x": ["loaded", "", "", {}, 5, False]}},
        {"outcomes": {"x": ["loaded", "", "", {}, []]}},
        {"outcomes": {"x": ["loaded", "", "", {}, [], 1]}},
        {"leftovers": None},
        {"leftovers": [["only-a-folder"]]},
    ], ids=str)  # fmt: skip
    def test_an_index_of_another_shape_is_made_again(
        self, site: Path, cache: Path, changed: dict[str, object]
    ) -> None:
        make_distribution(site, "one")
        settle(site)
        look(cache, site)
        [file] = cache.iterdir()
        content = json.loads(file.read_text())
        file.write_text(json.dumps({**content, **changed}))
        index = new_index(cache, site)
        assert [plugin.name for plugin in index.plugins()] == ["one"]
        assert index.outcomes() == {}
        index.remember({index.plugins()[0].key: LoadResult("loaded")})
        assert new_index(cache, site).outcomes()
        for name in set(content) - {"scanned", "outcomes"}:
            assert json.loads(file.read_text())[name] == content[name]

    def test_an_index_that_lacks_a_part_is_made_again(self, site: Path, cache: Path) -> None:
        make_distribution(site, "one")
        look(cache, site)
        [file] = cache.iterdir()
        content = json.loads(file.read_text())
        for name in content:
            file.write_text(json.dumps({key: each for key, each in content.items() if key != name}))
            assert look(cache, site) == ["one 1.0"]

    def test_a_read_only_cache_costs_time_only(self, site: Path, tmp_path: Path) -> None:
        make_distribution(site, "one")
        nowhere = tmp_path / "file"
        nowhere.write_text("")
        assert look(nowhere / "cache", site) == ["one 1.0"]

    def test_old_indexes_are_dropped(self, cache: Path, tmp_path: Path) -> None:
        for number in range(40):
            look(cache, tmp_path / str(number))
        assert len(list(cache.iterdir())) <= 32

    @pytest.mark.process
    def test_processes_that_look_at_once_leave_a_whole_index(self, site: Path, cache: Path) -> None:
        make_distribution(site, "one")
        code = (
            "from genai_host.plugins.index import PluginIndex\n"
            f"for _ in range(20): assert PluginIndex([{str(site)!r}], {str(cache)!r}).plugins()"
        )
        started = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(4)]
        assert [process.wait() for process in started] == [0] * 4
        assert look(cache, site) == ["one 1.0"]
        assert not [file for file in cache.iterdir() if file.suffix == ".new"]


class TestOutcomes:
    def test_outcomes_are_kept_for_the_build_they_are_of(self, site: Path, cache: Path) -> None:
        make_distribution(site, "one")
        index = new_index(cache, site)
        [plugin] = index.plugins()
        outcome = LoadResult("broken", "why", "how", {"models": ["m"]}, [("do", "help", "x:y")])
        index.remember({plugin.key: outcome})
        assert new_index(cache, site).outcomes()[plugin.key].reason == "why"
        make_distribution(site, "one", files={"one.py": "x = 2"})
        changed = new_index(cache, site)
        [plugin] = changed.plugins()
        assert plugin.key not in changed.outcomes()

    def test_outcomes_survive_other_installs_and_go_later(self, site: Path, cache: Path) -> None:
        info = make_distribution(site, "one")
        index = new_index(cache, site)
        [one] = index.plugins()
        missing = InstalledPlugin("x", "y", "z")
        index.remember({each.key: LoadResult("loaded") for each in (one, missing)})
        make_distribution(site, "two")
        outcomes = new_index(cache, site).outcomes()
        assert {key: each.status for key, each in outcomes.items()} == {one.key: "loaded"}
        shutil.rmtree(info)
        new_index(cache, site).remember({})
        assert new_index(cache, site).outcomes() == {}
