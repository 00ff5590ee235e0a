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
        metadata=about("file of the index; in your cache directory if not set"),
    )
