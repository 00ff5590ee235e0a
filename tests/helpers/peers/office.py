"""An office whose people and groups an agent can look up and change, by tools."""

from __future__ import annotations

import threading
from typing import Annotated

from genai_host.api import Tool, ToolOutput, tool
from genai_host.errors import ValidationError
from genai_host.testing import InlinePlugin

ADDED = {"type": "writeback", "message": "the group has changed"}


class Office:
    """Its tools do what they say, and keep what they did.

    done      the calls, in the order in which they ended
    members   of groups: a user's number and a group's
    """

    def __init__(self) -> None:
        self.users = {"Ada": 7}
        self.groups = {"Staff": 9}
        self.done: list[str] = []
        self.members: list[tuple[int, int]] = []
        self.plugin = InlinePlugin(tools=self._tools())
        self._group_was_found = threading.Event()

    def _tools(self) -> list[Tool]:
        @tool(repeatable=True)
        def find_user(name: Annotated[str, "as the user is called"]) -> str:
            """Find the number of a user."""
            self._group_was_found.wait(30)  # so that it ends after what was asked for after it
            self.done.append("find_user")
            return f"user {_found(self.users, name)}"

        @tool(repeatable=True)
        def find_group(name: Annotated[str, "as the group is called"]) -> str:
            """Find the number of a group."""
            self.done.append("find_group")
            self._group_was_found.set()
            return f"group {_found(self.groups, name)}"

        @tool
        def add(user: int, group: int) -> ToolOutput:
            """Add a user to a group, by their numbers."""
            self.done.append("add")
            self.members.append((user, group))
            return ToolOutput(f"added {user} to {group}", reactions=[ADDED])

        return [find_user, find_group, add]


def _found(known: dict[str, int], name: str) -> int:
    if name not in known:
        raise ValidationError(f"there is nothing called {name}")
    return known[name]
