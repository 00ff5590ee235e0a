"""The turn of a chat model: the profile of the chat for programs, which require a complete answer
in the requested form, and a rate that services accept.

Raw replies are kept in files:

    raw_engine_responses/<session_id>/<agent_id>_<timestamp>.txt

Without a session, the file is in the directory itself. Ids are untrusted. An id that is not a safe
file name on every system is replaced by a derived name with a `~`, which safe names lack, and a
digest of the id, so that names are unique.
"""

from __future__ import annotations

import hashlib
import os.path
import re
from collections.abc import Generator
from typing import Any

from attrs import evolve, frozen, validators as must

from genai_feature_chat.chat import extraction
from genai_host.api import (
    Answer,
    Completion,
    FeatureSteps,
    Message,
    Now,
    Prompt,
    RateLimit,
    Step,
    Turn,
    setting,
)

_MAX_LENGTH = 100  # leaves room for the time and the tag in the usual 255
_SAFE = re.compile(rf"[A-Za-z0-9](?:[A-Za-z0-9._ -]{{0,{_MAX_LENGTH - 2}}}[A-Za-z0-9_-])?")
_OTHERS = re.compile(r"[^A-Za-z0-9_-]+")
# Microsoft, "Naming Files, Paths, and Namespaces": reserved with any extension
_RESERVED = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9])(?: *\..*)?", re.I)
_SHOWN = 32


def reply_file(folder: str, session_id: str, agent_id: str, began: str) -> str:
    """Return the path of the file for the raw replies of a conversation.

    Args:
        folder: The directory.
        session_id: Id of the session, for a subdirectory; empty for none.
        agent_id: Id of the agent, for the file name; may be empty.
        began: When the conversation was opened, ISO 8601.
    """
    timestamp = began[:19].replace("T", "_").replace(":", "-")
    name = f"{_safe_name(agent_id) if agent_id else ''}_{timestamp}.txt"
    if not session_id:
        return os.path.join(folder, name)
    return os.path.join(folder, _safe_name(session_id), name)


def _safe_name(id: str) -> str:
    # a session must not look like the files without a session
    if _SAFE.fullmatch(id) and not _RESERVED.fullmatch(id) and not id.lower().endswith(".txt"):
        return id
    digest = hashlib.sha256(id.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{_OTHERS.sub('-', id)[:_SHOWN]}~{digest}"


_COUNT: Any = must.optional(must.ge(1))


@frozen
class Settings:
    session_id: str = setting("", "session under which raw responses are saved")
    agent_id: str = setting("", "distinguishes the chats of one session in raw responses")
    system_prompt: str = setting("", "system prompt; empty for none")
    temperature: float | None = setting(None, "temperature; the default of the model if not set")
    max_tokens: int | None = setting(
        8192, "maximum number of output tokens; null for the limit of the model", validator=_COUNT
    )
    keep_raw_engine_responses: bool = setting(False, "save raw replies of services to files")
    raw_engine_responses: str = setting("raw_engine_responses", "directory for raw replies")
    request_limit: int | None = setting(
        10, "maximum number of model calls in request_seconds; null for no limit", validator=_COUNT
    )
    request_seconds: float = setting(
        60.0, "seconds for which request_limit applies", validator=must.gt(0)
    )

    @property
    def rate(self) -> RateLimit | None:
        limit = self.request_limit
        return None if limit is None else RateLimit(limit, self.request_seconds)

    @property
    def defaults(self) -> dict[str, Any]:
        """Return default model parameters, overridden by those of the conversation."""
        named = {"temperature": self.temperature, "max_tokens": self.max_tokens}
        return {name: value for name, value in named.items() if value is not None}


def respond(turn: Turn[Settings]) -> FeatureSteps:
    """Prompt the model. Data, if requested, is returned by the model, or extracted from its answer
    by the support model, if there is one. An incomplete answer is an error.
    """
    settings = turn.settings
    extract = turn.schema is not None and "support" in turn.roles
    messages = [*turn.history, turn.message]
    if settings.system_prompt:
        messages.insert(0, Message("system", settings.system_prompt))
    kept_in = yield from _kept_in(turn)
    prompt = Prompt(messages, schema=None if extract else turn.schema, defaults=settings.defaults)
    completion = yield from evolve(prompt, rate=settings.rate, raw_reply_file=kept_in)
    _must_end(completion)
    value = completion.value
    if extract and turn.schema is not None:
        second = extraction(completion.text, turn.schema)
        found = yield from evolve(second, rate=settings.rate, raw_reply_file=kept_in)
        _must_end(found)
        value = found.value
    return Answer(completion.text, data=value)


def _kept_in(turn: Turn[Settings]) -> Generator[Step[Any], Any, str]:
    settings = turn.settings
    if not settings.keep_raw_engine_responses:
        return ""
    began = turn.opened_at or (yield from Now())
    folder = settings.raw_engine_responses
    return reply_file(folder, settings.session_id, settings.agent_id, began)


def _must_end(completion: Completion) -> None:
    completion.check_finish("stop")
    completion.check_text()
