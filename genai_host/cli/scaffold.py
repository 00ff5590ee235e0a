"""The files of a new plugin, written by `genai-host plugins new`.

They make up a distribution whose tests pass. Their templates are in `scaffolds`, a directory for
each kind. These placeholders depend on the chosen name; for `my-ai` they are:

    <name>            my-ai                 provider, feature or tool
    <distribution>    genai-vendor-my-ai
    <module>          genai_vendor_my_ai
    <variable>        MY_AI_API_KEY         environment variable of the key
    <class>           MyAi                  in the names of test classes
    <function>        my_ai                 function of a tool, and the name of that tool
    <folder>          directory of the distribution, as the user can type it
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from attrs import frozen

from genai_host.errors import ConfigurationError
from genai_host.plugins.index import PluginIndex
from genai_host.util.names import PLAIN_NAME

_DECLARES = {"vendor": "providers", "feature": "features", "tool": "tools"}
_PREFIXES = {"vendor": "genai-vendor", "feature": "genai-feature", "tool": "genai-tools"}
_WHAT = {"vendor": "provider <name>", "feature": "feature <name>", "tool": "tool <function>"}
_DEPENDENCIES = {
    "feature": '"attrs>=23.2", "genai-host"',
    "vendor": '"genai-host", "genai-wire-openai"',
}
_TEMPLATES = {
    "pyproject.toml": "pyproject.txt",
    "README.md": "<kind>/readme.txt",
    "<module>.py": "<kind>/module.txt",
    "tests/test_<module>.py": "<kind>/tests.txt",
}  # by path in the distribution
_USED = frozenset(
    {"genai_tools", "hookimpl", "len", "str", "text", "tool"}
)  # names that a tool's module uses


@frozen
class Scaffold:
    """A plugin distribution to write.

    Attributes:
        kind: `vendor`, `feature` or `tool`.
    """

    kind: str
    name: str

    @property
    def distribution(self) -> str:
        return f"{_PREFIXES[self.kind]}-{self.name}"

    @property
    def function(self) -> str:
        name = self.name.replace("-", "_")
        if name[0].isdigit():
            return f"_{name}"
        return f"{name}_" if keyword.iskeyword(name) or name in _USED else name

    def files(self) -> dict[str, str]:
        """Fill the templates, and return the text of each file by its path in the distribution."""
        filled = self._filled
        return {filled(path): filled(self._read(file)) for path, file in _TEMPLATES.items()}

    def next_steps(self, folder: Path) -> str:
        """Return the next steps for the plugin in a directory, with commands."""
        return self._filled(self._read("<kind>/next.txt"), folder=str(folder)).rstrip()

    def write(self, parent: Path) -> Path:
        """Write the distribution into a new directory in `parent`, and return the directory. Raises
        `ConfigurationError` if it exists already."""
        folder = parent / self.distribution
        try:
            folder.mkdir()
        except FileExistsError:
            raise ConfigurationError(
                f"{folder} already exists", hint="choose another name, or --directory DIR"
            ) from None
        for path, text in self.files().items():
            file = folder / path
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8", newline="\n")
        return folder

    def _read(self, file: str) -> str:
        path = "scaffolds/" + file.replace("<kind>", self.kind)
        return files(__package__).joinpath(path).read_text(encoding="utf-8")

    def _filled(self, text: str, **further: str) -> str:
        for marker, value in {**self._values(), **further}.items():
            text = text.replace(f"<{marker}>", value)
        return text

    def _values(self) -> Mapping[str, str]:
        name = self.name.replace("-", "_")
        variable = f"{name.upper()}_API_KEY"
        return {
            "what": _WHAT[self.kind],
            "dependencies": _DEPENDENCIES.get(self.kind, '"genai-host"'),
            "name": self.name,
            "distribution": self.distribution,
            "module": f"{_PREFIXES[self.kind]}_{name}".replace("-", "_"),
            "function": self.function,
            # shells do not accept variable names that begin with a digit
            "variable": f"_{variable}" if variable[0].isdigit() else variable,
            "class": "".join(each.capitalize() for each in self.name.split("-")),
        }


def new_scaffold(kind: str, name: str, index: PluginIndex) -> Scaffold:
    """Make the scaffold for a name. Raises `ConfigurationError` if the name is invalid or taken."""
    if not re.fullmatch(PLAIN_NAME, name):
        raise ConfigurationError(
            f"invalid {kind} name {name!r}",
            hint="use lower-case letters, digits and single hyphens, for example my-ai-2",
        )
    outcomes = index.outcomes()
    scaffold = Scaffold(kind, name)
    declares = scaffold.function if kind == "tool" else name
    for found in index.plugins():
        outcome = outcomes.get(found.key)
        declared = outcome.provides.get(_DECLARES[kind], ()) if outcome else ()
        if name == found.name or declares in declared:
            raise ConfigurationError(
                f"the name {name!r} is used by the installed distribution {found.distribution}",
                hint="choose another name: two plugins cannot have the same name",
            )
    return scaffold
