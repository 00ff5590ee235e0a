"""Names that must be the same everywhere, and those that are suggested."""

from __future__ import annotations

from pathlib import Path

import pytest

from genai_host.util.names import (
    install_line,
    our_distributions,
    plugin_line,
    unknown_name_hint,
    vendors_hint,
)

PLUGINS = Path(__file__).parents[2] / "plugins"


def test_item_6_the_distributions_that_are_suggested_are_those_of_this_project() -> None:
    assert our_distributions() == sorted(each.parent.name for each in PLUGINS.glob("*/setup.cfg"))


@pytest.mark.parametrize("name", ["grok", "NAME", "resarch", "", "local ", "../local"])
def test_item_6_a_name_that_nobody_owns_is_never_suggested(name: str) -> None:
    assert plugin_line("vendor", name) == plugin_line("feature", name) == ""
    assert install_line(f"genai-vendor-{name}") == install_line(name) == ""
    assert unknown_name_hint("vendor", name, ["mock"]) == "choose from mock"
    assert "NAME" not in vendors_hint()


def test_item_6_one_of_ours_is() -> None:
    assert plugin_line("vendor", "local") == "genai-host install genai-vendor-local"
    assert unknown_name_hint("feature", "agent", ["chat"]) == (
        "choose from chat; install its plugin: genai-host install genai-feature-agent"
    )
