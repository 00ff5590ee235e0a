"""Settings of the data and the directory, which only the user can set."""

from __future__ import annotations

import os

from attrs import field, frozen

from genai_host.api import about


@frozen
class DataSettings:
    """Those of the table `[tools.data]`."""

    path: str = field(
        default="",
        metadata=about(
            f"a SQLite database, or CSV files separated by {os.pathsep}",
            env="GENAI_TOOLS_DATA",
        ),
    )

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(name for name in self.path.split(os.pathsep) if name)


@frozen
class FilesSettings:
    """Those of the table `[tools.files]`."""

    folder: str = field(
        default="",
        metadata=about("directory whose text files may be read", env="GENAI_TOOLS_FILES"),
    )
