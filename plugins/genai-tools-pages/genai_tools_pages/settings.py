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
        metadata=about("whether pages at private addresses may be read, as of your own network"),
    )
    megabytes: int = field(
        default=10,
        validator=[validators.ge(1), validators.le(MOST_MEGABYTES)],
        metadata=about(f"most of a page that is downloaded; 1 to {MOST_MEGABYTES}"),
    )
    seconds: float = field(
        default=20.0,
        validator=[validators.ge(1), validators.le(MOST_SECONDS)],
        metadata=about(f"the time that one page may take; 1 to {MOST_SECONDS}"),
    )
