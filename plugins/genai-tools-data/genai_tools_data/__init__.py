"""Tools that do something real: look-ups and charts over the user's data, files of a
folder, arithmetic, the time.

The user names the data and the folder, in the environment: `GENAI_TOOLS_DATA` and
`GENAI_TOOLS_FILES`. Where nothing is named, its tools are not offered.
"""

from __future__ import annotations

from collections.abc import Iterable

from genai_host.api import ReactionType, Tool, hookimpl


@hookimpl
def genai_tools() -> Iterable[Tool]:
    from genai_tools_data.data_tools import DataTools
    from genai_tools_data.file_tools import FILE_TOOLS
    from genai_tools_data.plain_tools import PLAIN_TOOLS
    from genai_tools_data.source import DataSource

    return [*PLAIN_TOOLS, *FILE_TOOLS, *DataTools(DataSource()).tools()]


@hookimpl
def genai_reactions() -> Iterable[ReactionType]:
    from genai_tools_data.reactions import reaction_types

    return reaction_types()
