"""The boundary of plugins: what is public, and that bundled plugins use nothing else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import genai_host
import genai_host.api
import genai_host.errors
import genai_host.serving
import genai_host_testing
from genai_host import Config, Host, StaticPlugins, Transport
from genai_host.api import CommandState, HostServices, HttpTransport
from genai_host.cli.app import App

ROOT = Path(__file__).resolve().parents[2]
PUBLIC = (genai_host, genai_host.api, genai_host.errors, genai_host.serving)
_PARTS = {"genai_host_testing", "genai_server"}
"""Parts of the host that are installed separately."""


def _product() -> Iterator[Path]:
    """The modules of bundled plugins, without tests."""
    for package in sorted(ROOT.glob("plugins/*/genai_*")):
        if package.name not in _PARTS:
            yield from sorted(package.rglob("*.py"))


def _imports(file: Path) -> Iterator[tuple[str, str]]:
    """Each import from the host: the module, and the name or an empty string."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            imports = [(node.module or "", each.name) for each in node.names]
        elif isinstance(node, ast.Import):
            imports = [(each.name, "") for each in node.names]
        else:
            continue
        yield from (each for each in imports if each[0].split(".")[0] == "genai_host")


def test_bundled_plugins_import_only_what_is_exported() -> None:
    exported = {(module.__name__, name) for module in PUBLIC for name in module.__all__}
    wrong = [
        f"{file.relative_to(ROOT)}: {module} {name}"
        for file in _product()
        for module, name in _imports(file)
        if (module, name) not in exported
    ]
    assert not wrong


@pytest.mark.parametrize(
    "module", [*PUBLIC, genai_host_testing], ids=lambda module: module.__name__
)
def test_the_reference_lists_the_public_names(module: ModuleType) -> None:
    text = (ROOT / "docs/reference/python.md").read_text(encoding="utf-8")
    (section,) = re.findall(
        rf"^## {re.escape(module.__name__)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL
    )
    assert re.findall(r"^### (\w+)$", section, re.MULTILINE) == sorted(module.__all__)
    for name in module.__all__:
        assert getattr(module, name) is not None


def test_the_host_is_what_plugins_are_handed() -> None:
    """Mypy compares the signatures."""
    with App() as app, Host(config=Config(), discovery=StaticPlugins({})) as host:
        handed: HostServices = host
        state: CommandState = app
        transport: HttpTransport = Transport()
        for object, protocol in (
            (handed, HostServices),
            (state, CommandState),
            (transport, HttpTransport),
        ):
            names = [name for name in vars(protocol) if not name.startswith("_")]
            assert names
            assert not set(names) - set(dir(object))
