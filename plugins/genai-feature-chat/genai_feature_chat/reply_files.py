"""The path of the file for the raw replies of a chat:

    raw_engine_responses/<session_id>/<agent_id>_<timestamp>.txt

Without a session, the file is in the directory itself. Ids are untrusted. An id that is not a safe
file name on every system is replaced by a derived name with a `~`, which safe names lack, and a
digest of the id, so that names are unique.
"""

from __future__ import annotations

import hashlib
import os.path
import re

_LONGEST = 100  # leaves room for the time and the tag in the usual 255
_SAFE = re.compile(rf"[A-Za-z0-9](?:[A-Za-z0-9._ -]{{0,{_LONGEST - 2}}}[A-Za-z0-9_-])?")
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
