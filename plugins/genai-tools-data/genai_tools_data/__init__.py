"""Tools for queries and charts over the user's data, files of a directory, arithmetic and the time.

The user configures the data and the directory in the tables `[tools.data]` and `[tools.files]`, or
in the environment. Without them the tools are not offered.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

from attrs import frozen

from genai_host.api import ReactionType, Tool, ToolSet, hookimpl, setting


@frozen
class DataSettings:
    """Those of the table `[tools.data]`."""

    path: str = setting(
        "", f"a SQLite database, or CSV files separated by {os.pathsep}", env="GENAI_TOOLS_DATA"
    )

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(name for name in self.path.split(os.pathsep) if name)


@frozen
class FilesSettings:
    """Those of the table `[tools.files]`."""

    folder: str = setting("", "directory whose text files may be read", env="GENAI_TOOLS_FILES")


@hookimpl
def genai_tools() -> Iterable[Tool]:
    from genai_tools_data.plain_tools import PLAIN_TOOLS

    return PLAIN_TOOLS


@hookimpl
def genai_reactions() -> Iterable[ReactionType]:
    from genai_tools_data.reactions import reaction_types

    return reaction_types()


@hookimpl
def genai_tool_sources() -> Iterable[ToolSet[Any]]:
    yield ToolSet("data", DataSettings, _data_tools)
    yield ToolSet("files", FilesSettings, _file_tools)


def _data_tools(settings: DataSettings) -> Sequence[Tool]:
    from genai_tools_data.data_tools import DataTools
    from genai_tools_data.source import DataSource

    return DataTools(DataSource(settings.paths)).tools()


def _file_tools(settings: FilesSettings) -> Sequence[Tool]:
    from genai_tools_data.file_tools import FileTools, Folder

    return FileTools(Folder(settings.folder)).tools()
