"""Metadata as it is found: whole, half, left behind, in archives."""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
from pathlib import Path
from unittest.mock import Mock

import pytest

from genai_host.plugins.discovery import InstalledPlugins
from genai_host.plugins.distributions import find_distributions
from genai_host.plugins.index import PluginIndex
from genai_host.plugins.installer import installed_sources
from genai_host_testing import make_distribution


def index(*path: Path) -> PluginIndex:
    return PluginIndex([str(each) for each in path], str(path[0].parent / "index"))


def look(*path: Path) -> list[str]:
    return [f"{plugin.name} {plugin.version}" for plugin in index(*path).plugins()]


def archive(site: Path, file: Path, folder: str = "") -> Path:
    """A site packed as a wheel; as an egg, its metadata is in another folder."""
    with zipfile.ZipFile(file, "w") as packed:
        for each in sorted(site.rglob("*")):
            if each.is_file():
                name = each.relative_to(site)
                if folder and name.parent.name.endswith(".dist-info"):
                    name = Path(folder, "PKG-INFO" if name.name == "METADATA" else name.name)
                packed.write(each, name)
    return file


class TestArchives:
    @pytest.mark.parametrize(
        ("name", "folder"),
        [("one-1.0-py3-none-any.whl", ""), ("one.zip", ""), ("one-1.0-py3.11.egg", "EGG-INFO")],
    )
    def test_a_plugin_in_an_archive_is_found_and_loaded(
        self, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, folder: str
    ) -> None:
        make_distribution(site, "in-archive", files={"in_archive.py": "here = __file__"})
        file = archive(site, tmp_path / name, folder)
        monkeypatch.syspath_prepend(str(file))
        monkeypatch.delitem(sys.modules, "in_archive", raising=False)
        plugin_index = index(file)
        [each] = plugin_index.plugins()
        assert (each.name, each.version, each.unreadable) == ("in-archive", "1.0", "")
        plugin = InstalledPlugins(plugin_index).load(each)
        assert str(file) in vars(plugin)["here"]
        del sys.modules["in_archive"]

    def test_an_archive_that_changes_is_read_again(self, site: Path, tmp_path: Path) -> None:
        make_distribution(site, "one")
        file = archive(site, tmp_path / "one.whl")
        assert look(file) == ["one 1.0"]
        make_distribution(site, "two")
        archive(site, file)
        assert look(file) == ["one 1.0", "two 1.0"]

    @pytest.mark.parametrize("content", [b"", b"PK", b"no archive", None])
    def test_no_zip_hides_nothing(self, site: Path, tmp_path: Path, content: bytes | None) -> None:
        make_distribution(site, "packed")
        file = archive(site, tmp_path / "odd.whl")
        if content is None:  # a damaged one: its list of contents is at the end
            size = file.stat().st_size // 2
            content = bytes(size) + file.read_bytes()[size:]
        file.write_bytes(content)
        make_distribution(tmp_path / "other", "one")
        assert "one 1.0" in look(file, tmp_path / "other")

    def test_entries_that_python_passes_over_are_passed_over(self, site: Path) -> None:
        make_distribution(site, "one")
        odd: list[object] = [site, os.fsencode(site), None, "a\0b", "\udcff", str(site)]
        plugins = PluginIndex(odd, str(site.parent / "index")).plugins()  # type: ignore[arg-type]
        assert [each.name for each in plugins] == ["one"]


_EMPTY: dict[str, bytes] = {}


class TestLeftovers:
    @pytest.mark.parametrize("version", ["0.0.1", "0.9", "2.0", "9.9.9"])
    @pytest.mark.parametrize("files", [
        _EMPTY,
        {"METADATA": b""},
        {"RECORD": b"one.py,,\n"},
        {"entry_points.txt": b"[genai_host]\none = gone\n"},
        {"METADATA": b"Name: one\nVersion: 3.0\n"},
        {"METADATA": b"Name: one\nVersion: 3.0\n", "entry_points.txt": b""},
        {"METADATA": b"\xff\xfe\x00", "RECORD": b"\xff"},
    ], ids=str)  # fmt: skip
    def test_they_hide_no_plugin(self, site: Path, version: str, files: dict[str, bytes]) -> None:
        """Whatever comes first depends on the file system."""
        good = make_distribution(site, "one")
        folder = site / f"one-{version}.dist-info"
        folder.mkdir()
        for name, content in files.items():
            (folder / name).write_bytes(content)
        assert look(site) == ["one 1.0"]
        assert [each.folder for each in index(site).leftovers()] == [str(folder)]
        shutil.rmtree(folder)
        assert index(site).leftovers() == []
        shutil.rmtree(good)

    def test_they_hide_no_build_that_is_later_on_the_path(self, site: Path, tmp_path: Path) -> None:
        first = tmp_path / "first"
        (first / "one-2.0.dist-info").mkdir(parents=True)
        make_distribution(site, "one")
        assert look(first, site) == ["one 1.0"]

    def test_one_that_is_filled_later_is_seen(self, site: Path) -> None:
        directory = site / "one-1.0.dist-info"
        directory.mkdir()
        past = (site.stat().st_mtime_ns - 60_000_000_000,) * 2
        for folder in (site, directory):
            os.utime(folder, ns=past)
        assert look(site) == []
        make_distribution(site, "one")
        os.utime(site, ns=past)
        assert look(site) == ["one 1.0"]

    @pytest.mark.parametrize("name", ["~ne-1.0.dist-info", "-ne-1.0.dist-info", "~~e.dist-info"])
    def test_what_pip_renamed_to_remove_it_is_no_second_plugin(self, site: Path, name: str) -> None:
        shutil.copytree(make_distribution(site, "one", version="2.0"), site / name)
        assert look(site) == ["one 2.0"]
        [leftover] = index(site).leftovers()
        assert leftover == (str(site / name), "left by an interrupted installer")

    def test_of_two_whole_builds_in_one_folder_the_newest_counts(self, site: Path) -> None:
        for version in ("1.9", "1.10", "1.2"):
            make_distribution(site, "one", version=version)
        assert look(site) == ["one 1.10"]
        reason = "one-1.10.dist-info belongs to the same distribution"
        reasons = {os.path.basename(each.folder): each.reason for each in index(site).leftovers()}
        assert reasons == dict.fromkeys(("one-1.9.dist-info", "one-1.2.dist-info"), reason)

    def test_an_unreadable_folder_is_one(self, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        make_distribution(site, "one")
        denied = make_distribution(site, "two")
        ask = os.stat

        def stat(path: str, **more: object) -> os.stat_result:
            if os.path.dirname(str(path)) == str(denied):
                raise PermissionError(13, "Permission denied", path)
            return ask(path, **more)  # type: ignore[arg-type]

        def read(path: Path) -> bytes:
            if path.parent == denied:
                raise PermissionError(13, "Permission denied", str(path))
            with open(path, "rb") as stream:
                return stream.read()

        monkeypatch.setattr(os, "stat", stat)
        monkeypatch.setattr(Path, "read_bytes", read)
        assert look(site) == ["one 1.0"]
        assert [each.folder for each in index(site).leftovers()] == [str(denied)]

    def test_metadata_that_is_missing_is_told_for_a_plugin(self, site: Path) -> None:
        (make_distribution(site, "one") / "METADATA").unlink()
        [plugin] = index(site).plugins()
        assert (plugin.name, plugin.distribution, plugin.version) == ("one", "one", "1.0")
        assert plugin.unreadable == "METADATA is missing"

    def test_bytes_that_are_not_utf_8_in_the_metadata_break_no_plugin(self, site: Path) -> None:
        info = make_distribution(site, "one")
        (info / "METADATA").write_bytes(
            b"Metadata-Version: 2.1\nAuthor: Andr\xe9\nName: one\nVersion: 1.0\n\nlong \xff\n"
        )
        (info / "RECORD").write_bytes(b"caf\xe9.py,,\n")
        [plugin] = index(site).plugins()
        assert (plugin.distribution, plugin.version, plugin.unreadable) == ("one", "1.0", "")
        assert len(plugin.record) == 64


class TestEntryPoints:
    def points(self, site: Path, text: str | bytes) -> dict[str, tuple[str, str]]:
        data = text.encode() if isinstance(text, str) else text
        (make_distribution(site, "one") / "entry_points.txt").write_bytes(data)
        return {plugin.name: (plugin.value, plugin.unreadable) for plugin in index(site).plugins()}

    def test_a_malformed_row_hides_no_other(self, site: Path) -> None:
        rows = "[genai_host]\na = one\nodd row\nb = one:plugin\nc = one:\n= one\nd = one:x y\n"
        points = self.points(site, rows)
        values = {name: value for name, (value, fault) in points.items() if not fault}
        assert values == {"a": "one", "b": "one:plugin"}
        faults = {name: fault for name, (_, fault) in points.items() if fault}
        assert set(faults) == {"one", "c", "d"}
        assert faults["c"] == "entry_points.txt, line 5: invalid entry point 'c = one:'"

    @pytest.mark.parametrize("text", [
        "[console_scripts]\nodd row\n\n[genai_host]\na = one\n",
        "[genai_host]\na = one\n[odd\nodd row\n",
        "# odd\n; odd\n\n[genai_host]\n# odd\n;odd\n  a=one  \n",
        "\ufeff[genai_host]\r\na = one\r\n",
        b"[console_scripts]\n\xff = x\n[genai_host]\na = one\n",
    ])  # fmt: skip
    def test_what_is_wrong_elsewhere_breaks_no_plugin(self, site: Path, text: str | bytes) -> None:
        assert self.points(site, text) == {"a": ("one", "")}

    @pytest.mark.parametrize(
        "value",
        ["here", "here [x]", "here[x, y]", "here:plugin", "here : plugin [x]", "here:plugin[x]"],
    )
    def test_extras_are_no_part_of_a_name(self, site: Path, value: str) -> None:
        source = "import sys\nplugin = sys.modules[__name__]\n"
        make_distribution(site, "one", entry_points={"a": value}, files={"here.py": source})
        plugin_index = index(site)
        [each] = plugin_index.plugins()
        assert InstalledPlugins(plugin_index).load(each) is sys.modules.pop("here")


def test_a_finder_that_fails_hides_nothing(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_distribution(site, "one")
    finder = Mock(
        **{"find_distributions.side_effect": RuntimeError, "find_spec.return_value": None}
    )
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    assert look(site) == ["one 1.0"]
    assert finder.find_distributions.called


def test_installed_distributions_are_those_that_are_whole(site: Path) -> None:
    good = make_distribution(site, "one", version="2.0")
    shutil.copytree(good, site / "~ne-1.0.dist-info")
    (site / "one-9.0.dist-info").mkdir()
    (site / "nothing-1.0.dist-info").mkdir()
    (good / "direct_url.json").write_text('{"url": "file:///src/one"}')
    sources = installed_sources()
    assert sources["one"] == "file:///src/one"
    assert "nothing" not in sources
    assert [each.key for each in find_distributions([str(site)])[0]].count("one") == 1
