"""The host, which puts all packages together.

    host.py     `Host`: conversations, and calls of models without one
    parts.py    `HostParts`, its base: plugins, providers, models, tools, store

It has no global state and does no work at import; two hosts in one process are independent.
"""

from genai_host.host.host import Host

__all__ = ["Host"]
