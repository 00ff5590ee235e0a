"""A search engine for a directory of the user's documents, without a network: by words and by
meaning.

The user configures the directory in the table `[tools.corpus]`, or in the environment. Without it
the tool is not offered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from attrs import frozen

from genai_host.api import Command, Tool, ToolSet, hookimpl, setting


@frozen
class Settings:
    """Those of the table `[tools.corpus]`."""

    folder: str = setting("", "directory of the documents", env="GENAI_TOOLS_CORPUS")
    index: str = setting("", "file of the index; in your cache directory if not set")


@hookimpl
def genai_tool_sources() -> Iterable[ToolSet[Any]]:
    yield ToolSet("corpus", Settings, _tools)


@hookimpl
def genai_commands() -> Iterable[Command]:
    yield Command(
        "corpus", "Index and search a directory of documents.", "genai_search_corpus.cli:corpus"
    )


def _tools(settings: Settings) -> Sequence[Tool]:
    from genai_search_corpus.corpus import CorpusTools

    return CorpusTools(settings).tools()
