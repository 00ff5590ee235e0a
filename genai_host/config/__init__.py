"""The configuration: one TOML file, read whole, checked, and written atomically; and the
environment, which comes before it.

    version = 1
    read_only = false                # true: no command changes anything

    [defaults]
    feature = "chat"
    model = "smollm2"                # for chat
    embed = "multilingual-e5-small"  # for embeddings
    moderate = "omni-moderation"     # for judging texts
    prefer = ["local"]               # provider instances, best first
    remember = false                 # true: what was used last is used again

    [aliases]
    fast = "smollm2@local"           # a name of your own for a model

    [models.precise]                 # the same, with parameters that hold by that name
    of = "smollm2"
    provider_order = ["local"]       # of those that have it, best first
    parameters = { temperature = 0 }

    [approvals]
    send_mail = "ask"                # or allow, or deny: what a tool says does not hold then

    [tools.files]
    folder = "/data/notes"           # settings of a set of tools, as its plugin has them

    [plugins]
    disabled = ["some-plugin"]
    allowed = ["chat", "local"]      # if present, all others are blocked
    strict = false                   # whether a broken plugin is an error

    [conversations]
    record = true                    # whether the command line keeps them
    store = "/data/mine.db"          # where; or postgresql://user@host/database

    [server]                         # how `genai-host serve` does
    host = "127.0.0.1"
    port = 8642
    token = { env = "MY_TOKEN" }     # where it is; or GENAI_HOST_SERVER_TOKEN

    [server.users.ann]               # whoever has this token sees her conversations alone
    token = { file = "/run/secrets/ann" }

    [budgets]
    run = 0.5                        # US dollars of a turn
    user = { day = 2, month = 30 }   # of each user; users.ann is hers, total that of all

    [providers.my-llama]             # a named instance
    type = "local"
    enabled = true
    models = { my-model = "/models/my-model.gguf" }   # name to id there
    threads = 2                      # and the settings of its type
    calls = { first_token = 120 }    # what bounds its calls, see `genai_host.providers.limits`

It is imported to list plugins, so it imports nothing heavy itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from genai_host.config.loading import read_config, unread_config
from genai_host.config.schema import (
    BudgetConfig,
    BudgetsConfig,
    Config,
    InstanceConfig,
    ModelConfig,
    ServerConfig,
    SetConfig,
)

if TYPE_CHECKING:
    from genai_host.config.editing import edit_config, must_be_writable

__all__ = [
    "BudgetConfig",
    "BudgetsConfig",
    "Config",
    "InstanceConfig",
    "ModelConfig",
    "ServerConfig",
    "SetConfig",
    "edit_config",
    "must_be_writable",
    "read_config",
    "unread_config",
]


def __getattr__(name: str) -> Any:
    """What changes the file is imported where that is done."""
    if name not in ("edit_config", "must_be_writable"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from genai_host.config import editing

    return getattr(editing, name)
