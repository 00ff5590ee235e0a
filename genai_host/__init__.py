"""genai-host: use any model at any provider through any feature.

    from genai_host import Host

    with Host() as host:
        conversation = host.open("chat", model="smollm2")
        print(conversation.say("What is the capital of France?").text)
        for event in conversation.stream("And of Norway?"):
            print(event.text, end="")

The path of one message; see docs/architecture.md for details:

    Host.open          host/host.py                     loads plugins, joins models and providers
    Conversation.say   conversations/conversation.py    one user, one feature, one event log
    Driver.run         conversations/driver.py          performs the steps of the feature
    Agent.stream       calls/agent.py                   the model of a role, its history
    Retry.stream       calls/retry.py                   attempts, on one route or several
    Route.stream       calls/route.py                   one call of a model at a provider
    Dialect            (a plugin)                       writes the request, reads the reply
    Provider           (a plugin)                       sends the request

Plugins import `genai_host.api`, `genai_host.errors`, `genai_host.serving` for HTTP routes, and
names of this package such as `paths`.
The names below are imported on first use, so that `import genai_host` is fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from genai_host.aio import (
        AsyncCompletion as AsyncCompletion,
        AsyncConversation as AsyncConversation,
        AsyncHost as AsyncHost,
    )
    from genai_host.api.features import Answer as Answer, Detail as Detail, Event as Event
    from genai_host.api.messages import (
        File as File,
        Image as Image,
        Message as Message,
        Text as Text,
        Usage as Usage,
    )
    from genai_host.api.results import Cost as Cost
    from genai_host.api.services import TurnLimits as TurnLimits
    from genai_host.api.tools import ToolOutput as ToolOutput
    from genai_host.calls.retry import RetryPolicy as RetryPolicy
    from genai_host.cli import commands as commands
    from genai_host.config import Config as Config
    from genai_host.conversations.conversation import Conversation as Conversation
    from genai_host.conversations.record import InMemoryRecord as InMemoryRecord
    from genai_host.errors import GenaiError as GenaiError
    from genai_host.host import Host as Host
    from genai_host.http.transport import Transport as Transport
    from genai_host.plugins.discovery import (
        InstalledPlugins as InstalledPlugins,
        StaticPlugins as StaticPlugins,
    )
    from genai_host.prompts.attachments import attachment as attachment
    from genai_host.secrets.keys import SecretStore as SecretStore
    from genai_host.store import Store as Store
    from genai_host.util import paths as paths
    from genai_host.util.names import __version__ as __version__

_HOMES = {
    "Answer": "api.features",
    "AsyncCompletion": "aio",
    "AsyncConversation": "aio",
    "AsyncHost": "aio",
    "Config": "config",
    "Conversation": "conversations.conversation",
    "Cost": "api.results",
    "Detail": "api.features",
    "Event": "api.features",
    "File": "api.messages",
    "GenaiError": "errors",
    "Host": "host",
    "Image": "api.messages",
    "InMemoryRecord": "conversations.record",
    "InstalledPlugins": "plugins.discovery",
    "Message": "api.messages",
    "RetryPolicy": "calls.retry",
    "SecretStore": "secrets.keys",
    "StaticPlugins": "plugins.discovery",
    "Store": "store",
    "Text": "api.messages",
    "ToolOutput": "api.tools",
    "Transport": "http.transport",
    "TurnLimits": "api.services",
    "Usage": "api.messages",
    "__version__": "util.names",
    "attachment": "prompts.attachments",
    "commands": "cli.commands",
    "paths": "util.paths",
}
"""Module of each name; `commands` and `paths` are modules themselves."""

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{home}")
    value = module if home.endswith(f".{name}") else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
