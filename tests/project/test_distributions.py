"""The lists of distributions, and what the extras of the host bring."""

from __future__ import annotations

import re
from configparser import ConfigParser

from environments import ROOT
from packaging.requirements import Requirement

from genai_host.util.names import our_distributions

PLUGINS = sorted(file.parent.name for file in ROOT.glob("plugins/*/setup.cfg"))


def _read(file: str) -> ConfigParser:
    parser = ConfigParser(interpolation=None)
    parser.read(ROOT / file, encoding="utf-8")
    return parser


def _extra(name: str) -> list[str]:
    lines = _read("setup.cfg")["options.extras_require"][name].split("\n")
    return [Requirement(line).name for line in lines if line]


def test_item_1_the_extra_all_has_all_plugins() -> None:
    """But not the testing kit, which only developers of plugins need."""
    assert our_distributions() == PLUGINS
    assert _extra("all") == [each for each in PLUGINS if each != "genai-host-testing"]


def test_item_1_the_extra_starter_has_chat_server_and_embedded_model() -> None:
    assert _extra("starter") == ["genai-feature-chat", "genai-server", "genai-vendor-local"]


def test_item_1_tests_and_image_install_all() -> None:
    editable = (ROOT / "tests" / "editable.txt").read_text(encoding="utf-8")
    assert re.findall(r"-e \./plugins/([\w-]+)", editable) == PLUGINS
    image = (ROOT / "Containerfile").read_text(encoding="utf-8")
    assert '".[all,postgresql,prices]" ./plugins/genai-*' in image
    skipped = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "plugins/genai-host-testing" in skipped
