"""The tool `searxng__search` beside a searx that runs here."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import genai_search_web
import pytest
from page.chromium import missing

from genai_host import Config
from genai_host.api import ToolOutput
from genai_host_testing.internal.configs import tools_config
from genai_host_testing.internal.fixtures import MakeHost

_SIMULATED = ("apt-get", "install", "--no-install-recommends", "--simulate", "searx")
_PATIENCE = 300  # seconds that packages may take to come


def searx_files(cache: Path) -> Path:
    """The folder with its files, unpacked once for all test runs. What cannot be had skips
    the test, and fails it in CI."""
    folder = cache / "searx"
    if not folder.exists():
        if shutil.which("apt-get") is None:
            missing("searx comes from Debian: there is no apt-get here")
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as directory:
            unpacked = Path(directory) / "searx"
            _unpack(_packages(), unpacked)
            unpacked.rename(folder)
    return folder


def _packages() -> list[str]:
    """Those that would be installed. The lists of packages are fetched where there are none,
    which takes root."""
    output = _output_of(_SIMULATED)
    if output is None:
        update = ["apt-get", "update"]
        _output_of(update if os.geteuid() == 0 else ["sudo", "-n", *update])
        output = _output_of(_SIMULATED)
    if output is None:
        missing("apt-get knows no package searx: apt-get update may bring it")
    lines = [line.split() for line in (output or "").splitlines()]
    return [words[1] for words in lines if words[:1] == ["Inst"]]


def _unpack(packages: Sequence[str], folder: Path) -> None:
    archives = folder.with_name("archives")
    archives.mkdir()
    if _output_of(["apt-get", "download", *packages], archives) is None:
        missing("the packages of searx cannot be fetched")
    folder.mkdir()
    for archive in archives.glob("*.deb"):
        subprocess.run(["dpkg", "-x", str(archive), str(folder)], check=True)


def _output_of(command: Sequence[str], folder: Path | None = None) -> str | None:
    """None for a failure."""
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_PATIENCE
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


@contextmanager
def searx(files: Path, folder: Path, pages: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    """One that runs in a folder; its address.

    files   from `searx_files`
    pages   title, link and text of what it can find
    """
    database = folder / "pages.db"
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("CREATE VIRTUAL TABLE pages USING fts5 (title, url UNINDEXED, content)")
        connection.executemany("INSERT INTO pages VALUES (?, ?, ?)", pages)
    settings = folder / "settings.yml"
    settings.write_text(json.dumps(_settings(files, database)))  # JSON is YAML, too
    own = files / "usr" / "bin" / "python3"
    with subprocess.Popen(
        [str(own) if own.exists() else "/usr/bin/python3", "-m", "searx.webapp"],
        env={
            "LD_LIBRARY_PATH": ":".join(map(str, files.glob("usr/lib/*-linux-gnu*"))),
            "PATH": os.defpath,
            "PYTHONPATH": str(files / "usr" / "lib" / "python3" / "dist-packages"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "SEARX_SETTINGS_PATH": str(settings),
        },
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        lines = []
        try:
            for line in process.stdout:
                lines.append(line)
                if "Running on" in line:
                    yield line.split("Running on")[1].split()[0].rstrip("/")
                    return
            pytest.fail("".join(lines))
        finally:
            process.kill()


def _settings(files: Path, database: Path) -> dict[str, object]:
    """Those of its example, with one engine that looks into a table."""
    share = files / "usr" / "share" / "python3-searx"
    return {
        "general": {"debug": False, "instance_name": "searx", "contact_url": False}, "brand": {},
        "search": {"safe_search": 0, "autocomplete": ""},
        "server": {
            "bind_address": "127.0.0.1", "port": 0, "secret_key": "test", "base_url": False,
            "image_proxy": False, "http_protocol_version": "1.0", "method": "GET",
            "default_http_headers": {},
        },
        "ui": {
            "static_path": str(share / "static"), "templates_path": str(share / "templates"),
            "default_theme": "oscar", "default_locale": "",
            "theme_args": {"oscar_style": "logicodev"},
        },
        "outgoing": {
            "request_timeout": 10.0, "useragent_suffix": "", "pool_connections": 10,
            "pool_maxsize": 10,
        },
        "engines": [
            {
                "name": "pages", "engine": "sqlite", "shortcut": "pg", "categories": "general",
                "database": str(database),
                "query_str": "SELECT title, url, content FROM pages"
                " WHERE pages MATCH :query ORDER BY rank",
                "limit": 10, "result_template": "default.html",
            },
        ],
        "locales": {"en": "English"}, "doi_resolvers": {"none": "https://doi.example/"},
        "default_doi_resolver": "none",
    }  # fmt: skip


pytestmark = pytest.mark.peers

PAGES = [
    *(
        (f"Hens {number}", f"https://hens.example/{number}", "Hens lay <b>eggs</b> &amp; sleep.")
        for number in range(25)
    ),
    ("Cats", "https://cats.example/", "Cats sleep."),
]


@pytest.fixture(scope="module")
def files(pytestconfig: pytest.Config) -> Path:
    return searx_files(pytestconfig.rootpath / ".cache")


@pytest.fixture(scope="module")
def url(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with searx(files, tmp_path_factory.mktemp("searx"), PAGES) as running:
        yield running


class TestSearx:
    @pytest.fixture(autouse=True)
    def _made(self, make_host: MakeHost) -> None:
        self.make = make_host

    def search(self, url: str, query: str, **arguments: Any) -> ToolOutput:
        config = Config(tools={"searxng": tools_config(base_url=url)})
        host = self.make(config=config, web=genai_search_web)
        return host.call_tool("searxng__search", {"query": query, **arguments})

    def find_links(self, url: str, query: str, **arguments: Any) -> Any:
        output = self.search(url, query, **arguments)
        assert not output.error, output.text
        return json.loads(output.text)

    def test_it_finds(self, url: str) -> None:
        expected = {"title": "Cats", "link": "https://cats.example/", "text": "Cats sleep."}
        assert self.find_links(url, "cats") == [expected]

    def test_texts_are_plain(self, url: str) -> None:
        [hit] = self.find_links(url, "hens", limit=1)
        assert hit["text"] == "Hens lay eggs & sleep."

    def test_several_pages_are_one_list(self, url: str) -> None:
        hits = self.find_links(url, "hens", limit=50)
        assert sorted(each["link"] for each in hits) == sorted(link for _, link, _ in PAGES[:25])
        assert len(self.find_links(url, "hens", limit=12)) == 12

    def test_nothing_that_is_found_is_an_empty_list(self, url: str) -> None:
        assert self.find_links(url, "dogs") == []

    @pytest.mark.parametrize(
        "region", ["us-en", "uk-en", "ch-de", "jp-jp", "tw-tzh", "xa-ar", "ph-tl"]
    )
    def test_regions_are_languages_that_it_takes(self, url: str, region: str) -> None:
        assert len(self.find_links(url, "cats", region=region)) == 1

    def test_a_search_engine_of_its_own_that_fails_is_an_outage(self, url: str) -> None:
        """This one is asked what is no query of a full-text search."""
        output = self.search(url, 'cats AND "')
        assert output.error
        assert "SearXNG's search engines failed (pages: " in output.text
