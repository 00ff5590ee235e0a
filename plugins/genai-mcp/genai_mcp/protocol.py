"""What both ends know of MCP: its versions, the names of its notifications, its bounds."""

from __future__ import annotations

MODERN = "2026-07-28"
"""The version of the protocol in which each request stands for itself."""

HANDSHAKES = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Those in which a session is opened first, the newest first."""

CANCELLED = "notifications/cancelled"
CHANGED = "notifications/tools/list_changed"
LISTEN = "subscriptions/listen"
HEARD = "notifications/subscriptions/acknowledged"

OWN = "io.modelcontextprotocol/"
"""What the protocol's own names in `_meta` begin with."""

LARGEST = 32 << 20
"""Bytes of one message: pictures of 20 MiB as base64 still fit."""
