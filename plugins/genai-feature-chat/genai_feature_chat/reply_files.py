"""Which file the raw replies of a chat are kept in:

    raw_engine_responses/<session_id>/<agent_id>_<timestamp>.txt

and without a session, in the folder itself. Ids come from programs and their users:
one that is not safe as the name of a file on any system gets a name that is made from
it. It has a `~`, which no safe one has, and a digest of the id, so that no two ids have
the same name.
"""

from __future__ import annotations

import hashlib
import os.path
import re

_LONGEST = 100  # which leaves room for the time and the tag, of the usual 255
_SAFE = re.compile(rf"[A-Za-z0-9](?:[A-Za-z0-9._ -]{{0,{_LONGEST - 2}}}[A-Za-z0-9_-])?")
_OTHERS = re.compile(r"[^A-Za-z0-9_-]+")
# Microsoft, "Naming Files, Paths, and Namespaces": with any extension as well
_RESERVED = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9])(?: *\..*)?", re.I)
_SHOWN = 32


def reply_file(folder: str, session_id: str, agent_id: str, began: str) -> str:
    """Path of the file for the raw replies of a conversation.

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
    # a session without the suffix, since files without a session stand beside it
    if _SAFE.fullmatch(id) and not _RESERVED.fullmatch(id) and not id.lower().endswith(".txt"):
        return id
    digest = hashlib.sha256(id.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{_OTHERS.sub('-', id)[:_SHOWN]}~{digest}"
