"""Types of the fixtures of the page's tests."""

from __future__ import annotations

from collections.abc import Callable

from page.visits import Visit

from genai_host import Host

Visiting = Callable[..., Visit]
"""`visit(host, place, root=, token=, **context)` opens the page in a window of its own."""


MakeChatHost = Callable[..., Host]


Assisted = Callable[..., Host]
"""`assisted(answer, *tools)` makes a host with the API of assistants and a model."""


Check = Callable[[Visit, str], None]
"""`check(visit, state)` fails where the page, in that state, keeps people out."""
