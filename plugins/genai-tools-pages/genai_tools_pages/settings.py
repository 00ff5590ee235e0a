"""Settings for reading pages, which only the user can set."""

from __future__ import annotations

from attrs import field, frozen, validators

from genai_host.api import about

MOST_MEGABYTES = 100
MOST_SECONDS = 300


@frozen
class PagesSettings:
    """Those of the table `[tools.pages]`."""

    private: bool = field(
        default=False,
        metadata=about("allow pages at private addresses, for example of your network"),
    )
    megabytes: int = field(
        default=10,
        validator=[validators.ge(1), validators.le(MOST_MEGABYTES)],
        metadata=about(f"maximum size of a page in MiB, 1 to {MOST_MEGABYTES}"),
    )
    seconds: float = field(
        default=20.0,
        validator=[validators.ge(1), validators.le(MOST_SECONDS)],
        metadata=about(f"timeout of a page in seconds, 1 to {MOST_SECONDS}"),
    )
