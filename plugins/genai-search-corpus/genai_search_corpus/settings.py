"""Settings of the directory, which only the user can set."""

from __future__ import annotations

from attrs import field, frozen

from genai_host.api import about


@frozen
class Settings:
    """Those of the table `[tools.corpus]`."""

    folder: str = field(
        default="",
        metadata=about("directory of the documents", env="GENAI_TOOLS_CORPUS"),
    )
    index: str = field(
        default="",
        metadata=about("the file of the index; a place in your cache folder unless it is said"),
    )
