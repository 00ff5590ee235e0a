"""genai-host: any model on any provider, through any feature, as plugins.

    from genai_host import Host

    with Host() as host:
        conversation = host.open("chat", model="smollm2")
        print(conversation.say("What is the capital of France?").text)
        for event in conversation.stream("And of Norway?"):
            print(event.text, end="")

The way of one message, down and back:

    Host.open          host.py           composition root: finds plugins, joins, opens
    Conversation.say   conversation.py   one user, one feature, one record
    Driver.run         driver.py         performs the steps of the feature, a generator
    Agent.stream       agent.py          the model of a role, its parameters, its history
    Route.stream       route.py          one call: a model at a provider in a dialect
    Dialect            dialects/         writes the request, reads the reply
    Provider           (a plugin)        carries it

Plugins are written with `genai_host.api`. What can go wrong is in `genai_host.errors`.
The names below are imported when first used, so that `import genai_host` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from genai_host.aio import AsyncConversation, AsyncHost
    from genai_host.api.costs import Cost
    from genai_host.api.features import Answer, Detail
    from genai_host.api.messages import File, Image, Message, Text, Usage
    from genai_host.api.tools import ToolOutput
    from genai_host.attachments import attachment
    from genai_host.config import Config
    from genai_host.conversation import Conversation
    from genai_host.discovery import EntryPoints, Given
    from genai_host.driver import Caps
    from genai_host.errors import GenaiError
    from genai_host.events import Event
    from genai_host.host import Host
    from genai_host.keys import Keys
    from genai_host.record import Record
    from genai_host.retry import Patience

__version__ = "0.1.0"

_HOMES = {
    "Answer": "api.features",
    "AsyncConversation": "aio",
    "AsyncHost": "aio",
    "Caps": "driver",
    "Config": "config",
    "Conversation": "conversation",
    "Cost": "api.costs",
    "Detail": "api.features",
    "EntryPoints": "discovery",
    "Event": "events",
    "File": "api.messages",
    "GenaiError": "errors",
    "Given": "discovery",
    "Host": "host",
    "Image": "api.messages",
    "Keys": "keys",
    "Message": "api.messages",
    "Patience": "retry",
    "Record": "record",
    "Text": "api.messages",
    "ToolOutput": "api.tools",
    "Usage": "api.messages",
    "attachment": "attachments",
}

__all__ = [
    "Answer",
    "AsyncConversation",
    "AsyncHost",
    "Caps",
    "Config",
    "Conversation",
    "Cost",
    "Detail",
    "EntryPoints",
    "Event",
    "File",
    "GenaiError",
    "Given",
    "Host",
    "Image",
    "Keys",
    "Message",
    "Patience",
    "Record",
    "Text",
    "ToolOutput",
    "Usage",
    "__version__",
    "attachment",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
