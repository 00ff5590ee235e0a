"""An agent, and a chart that it shows."""

from __future__ import annotations

from genai_host import Config

AGENT = Config(feature="agent", models={"chat": "fake"})


DATA = {
    "columns": ["month", "north", "south"],
    "rows": [["Jan", 1, 4], ["Feb", 2, 3]],
    "more": False,
}


CHART = {
    "type": "chart", "display-type": "bar", "title": "Sales", "label": "month",
    "values": ["north", "south"], **DATA,
}  # fmt: skip
