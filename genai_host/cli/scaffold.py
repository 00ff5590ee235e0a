"""What `genai-host plugins new` writes: a distribution whose tests pass, to go on from."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from pathlib import Path

from attrs import frozen

from genai_host.cli.scaffold_files import FILES, NEXT
from genai_host.errors import ConfigurationError
from genai_host.index import PluginIndex
from genai_host.names import PLAIN_NAME

_DECLARES = {"vendor": "providers", "feature": "features", "tool": "tools"}
_PREFIXES = {"vendor": "genai-vendor", "feature": "genai-feature", "tool": "genai-tools"}
_USED = frozenset(
    {"genai_tools", "hookimpl", "len", "str", "text", "tool"}
)  # names that the module of a tool uses


@frozen
class Scaffold:
    """A distribution that is to be written.

    kind   `vendor`, `feature` or `tool`
    name   of the provider or the feature; a tool has it as `function`
    """

    kind: str
    name: str

    @property
    def distribution(self) -> str:
        return f"{_PREFIXES[self.kind]}-{self.name}"

    @property
    def function(self) -> str:
        """The name as that of a function."""
        word = self.name.replace("-", "_")
        if word[0].isdigit():
            return f"_{word}"
        return f"{word}_" if keyword.iskeyword(word) or word in _USED else word

    def files(self) -> dict[str, str]:
        """Path below its folder to text."""
        filled = self._filled
        return {filled(path): filled(text) for path, text in FILES[self.kind].items()}

    def next_steps(self, folder: Path) -> str:
        """What to do once it is in that folder, with commands to type."""
        return self._filled(NEXT[self.kind], folder=str(folder)).rstrip()

    def write(self, parent: Path) -> Path:
        """Write it into a new folder in `parent`, and return that.

        Raises `ConfigurationError` where there is something of that name already.
        """
        folder = parent / self.distribution
        try:
            folder.mkdir()
        except FileExistsError:
            raise ConfigurationError(
                f"{folder} is there already, and stays as it is",
                hint="choose another name, or --directory DIR",
            ) from None
        for path, text in self.files().items():
            file = folder / path
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8", newline="\n")
        return folder

    def _filled(self, text: str, **further: str) -> str:
        for marker, value in {**self._values(), **further}.items():
            text = text.replace(f"<{marker}>", value)
        return text

    def _values(self) -> Mapping[str, str]:
        word = self.name.replace("-", "_")
        variable = f"{word.upper()}_API_KEY"
        return {
            "name": self.name,
            "distribution": self.distribution,
            "module": f"{_PREFIXES[self.kind]}_{word}".replace("-", "_"),
            "function": self.function,
            # no shell takes a variable that begins with a digit
            "variable": f"_{variable}" if variable[0].isdigit() else variable,
            "class": "".join(each.capitalize() for each in self.name.split("-")),
        }


def new_scaffold(kind: str, name: str, index: PluginIndex) -> Scaffold:
    """What is to be written for a name.

    index   of what is installed, which need not work

    Raises `ConfigurationError` for a name that none may have, and for one that is taken.
    """
    if not re.fullmatch(PLAIN_NAME, name):
        raise ConfigurationError(
            f"{name!r} cannot be the name of a {kind}",
            hint="lower case letters and digits, with single hyphens between, as my-ai-2",
        )
    outcomes = index.outcomes()
    scaffold = Scaffold(kind, name)
    declares = scaffold.function if kind == "tool" else name
    for found in index.plugins():
        outcome = outcomes.get(found.key)
        declared = outcome.provides.get(_DECLARES[kind], ()) if outcome else ()
        if name == found.name or declares in declared:
            raise ConfigurationError(
                f"the name {name!r} is taken by {found.distribution}, which is installed",
                hint="choose another: of two plugins of one name, one is broken",
            )
    return scaffold
