"""The files of a new plugin, written by `genai-host plugins new`.

They make up a distribution whose tests pass. These placeholders depend on the chosen name; for
`my-ai` they are:

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
from pathlib import Path

from attrs import frozen

from genai_host.errors import ConfigurationError
from genai_host.plugins.index import PluginIndex
from genai_host.util.names import PLAIN_NAME

_VENDOR_PROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "<distribution>"
version = "0.1.0"
description = "The provider <name> for genai-host"
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["genai-host"]

[project.optional-dependencies]
test = ["genai-host[testing]"]

[project.entry-points.genai_host]
<name> = "<module>"

[tool.setuptools]
py-modules = ["<module>"]

[tool.pytest.ini_options]
testpaths = ["tests"]
"""

_VENDOR_README = """\
# <distribution>

The provider `<name>` for genai-host.

```console
$ pip install <distribution>
$ export <variable>=...
$ genai-host ask --model <name>-1 "Why is the sky blue?"
```
"""

_VENDOR_MODULE = '''\
"""The provider <name>, and its models."""

from genai_host.api import Model, DialectEndpoint, hookimpl, http_provider


@hookimpl
def genai_providers():
    yield http_provider(
        "<name>",
        "https://api.<name>.example/v1",
        {"openai-chat": DialectEndpoint()},
        key="<variable>",
    )


@hookimpl
def genai_models():
    yield Model(
        "<name>-1",
        dialects=["openai-chat"],
        at={"<name>": "<name>-1"},
    )
'''

_VENDOR_TESTS = '''\
"""The provider <name>, with a service on this machine in place of the real one."""

import <module>

from genai_host.testing.suites import HttpProviderSuite, ModelSuite, OpenAIChatReplies


class Test<class>(OpenAIChatReplies, HttpProviderSuite):
    plugin = <module>
    provider = "<name>"
    settings = {"base_url": "{url}/v1"}
    keys = ["<variable>"]


class Test<class>Models(ModelSuite):
    plugin = <module>
'''

_VENDOR_NEXT = """\
next: say in <module>.py where the service is and what its models are, then
  pip install -e "<folder>[test]"
  pytest "<folder>"
  export <variable>=...
  genai-host ask -m <name>-1 "Why is the sky blue?"
"""

_FEATURE_PROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "<distribution>"
version = "0.1.0"
description = "The feature <name> for genai-host"
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["attrs>=23.2", "genai-host"]

[project.optional-dependencies]
test = ["genai-host[testing]"]

[project.entry-points.genai_host]
<name> = "<module>"

[tool.setuptools]
py-modules = ["<module>"]

[tool.pytest.ini_options]
testpaths = ["tests"]
"""

_FEATURE_README = """\
# <distribution>

The feature `<name>` for genai-host.

```console
$ pip install <distribution>
$ genai-host ask --feature <name> --set style="in one sentence" "Why is the sky blue?"
```
"""

_FEATURE_MODULE = '''\
"""The feature <name>: it drafts an answer, and writes it again."""

from attrs import field, frozen

from genai_host.api import Answer, Feature, Message, Prompt, FeatureSteps, Turn, about, hookimpl


@frozen
class Settings:
    style: str = field(default="in plain words", metadata=about("how it answers"))


def respond(turn: Turn[Settings]) -> FeatureSteps:
    draft = yield from Prompt([*turn.history, turn.message], show=False)
    again = f"Write this again, {turn.settings.style}: {draft.text}"
    final = yield from Prompt([Message("user", again)])
    return Answer(final.text)


@hookimpl
def genai_features():
    yield Feature("<name>", Settings, respond, help="drafts an answer, and writes it again")
'''

_FEATURE_TESTS = '''\
"""The feature <name>, with a model in this process that repeats what it hears."""

import <module>

from genai_host.testing.suites import FeatureSuite


class Test<class>(FeatureSuite):
    plugin = <module>
    feature = "<name>"
    settings = {"style": "in verse"}

    def test_the_draft_is_written_again(self) -> None:
        self.take(self.open(), "hello")
        draft, final = self.model.prompts
        assert draft.text == "hello"
        assert final.text == "Write this again, in verse: hello"
'''

_FEATURE_NEXT = """\
next: say in <module>.py what it asks a model, then
  pip install -e "<folder>[test]"
  pytest "<folder>"
  genai-host ask -f <name> "Why is the sky blue?"
"""

_TOOL_PROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "<distribution>"
version = "0.1.0"
description = "The tool <function> for genai-host"
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["genai-host"]

[project.optional-dependencies]
test = ["genai-host[testing]"]

[project.entry-points.genai_host]
<name> = "<module>"

[tool.setuptools]
py-modules = ["<module>"]

[tool.pytest.ini_options]
testpaths = ["tests"]
"""

_TOOL_README = """\
# <distribution>

The tool `<function>` for genai-host: features offer it to models, which ask for it.

```console
$ pip install <distribution>
$ genai-host tools call <function> text="Why is the sky blue?"
```
"""

_TOOL_MODULE = '''\
"""The tool <function>: it counts words."""

from typing import Annotated

from genai_host.api import ToolOutput, hookimpl, tool


@tool(repeatable=True)
def <function>(text: Annotated[str, "the text to count in"]) -> str | ToolOutput:
    """Count the words of a text."""
    if not text.strip():
        return ToolOutput("there is no text to count in", error=True)
    return f"{len(text.split())} words"


@hookimpl
def genai_tools():
    yield <function>
'''

_TOOL_TESTS = '''\
"""The tool <function>, called as the host calls it for a model."""

import <module>

from genai_host.testing.suites import ToolSuite


class Test<class>(ToolSuite):
    plugin = <module>
    tool = "<function>"
    samples = [({"text": "one two"}, "2 words")]

    def test_without_a_text_there_is_nothing_to_count(self) -> None:
        output = self.called(self.host(), {"text": " "})
        assert output.error
        assert output.text == "there is no text to count in"
'''

_TOOL_NEXT = """\
next: say in <module>.py what it does, and to the model what it is for, then
  pip install -e "<folder>[test]"
  pytest "<folder>"
  genai-host tools call <function> text="Why is the sky blue?"
"""

FILES: Mapping[str, Mapping[str, str]] = {
    "vendor": {
        "pyproject.toml": _VENDOR_PROJECT,
        "README.md": _VENDOR_README,
        "<module>.py": _VENDOR_MODULE,
        "tests/test_<module>.py": _VENDOR_TESTS,
    },
    "feature": {
        "pyproject.toml": _FEATURE_PROJECT,
        "README.md": _FEATURE_README,
        "<module>.py": _FEATURE_MODULE,
        "tests/test_<module>.py": _FEATURE_TESTS,
    },
    "tool": {
        "pyproject.toml": _TOOL_PROJECT,
        "README.md": _TOOL_README,
        "<module>.py": _TOOL_MODULE,
        "tests/test_<module>.py": _TOOL_TESTS,
    },
}
"""By the kind of plugin, and the path in its folder."""

NEXT: Mapping[str, str] = {
    "vendor": _VENDOR_NEXT,
    "feature": _FEATURE_NEXT,
    "tool": _TOOL_NEXT,
}


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
                f"{folder} already exists",
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
                f"the name {name!r} is taken by {found.distribution}, which is installed",
                hint="choose another: of two plugins of one name, one is broken",
            )
    return scaffold
