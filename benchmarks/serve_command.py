"""`genai-host serve`, in front of one service."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

MODEL = "gpt-4o-mini"


def serve_command(
    port: int, url: str, folder: Path, at_once: int = 64
) -> tuple[Sequence[str], Mapping[str, str]]:
    """The command, and what it needs in its environment; files are kept in the folder.

    url       of the service, with its version
    at_once   requests that are answered at once
    """
    home = folder / "home"
    file = home / "config" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        f"""
[server]
at_once = {at_once}
[providers.service]
type = "openai-compatible"
base_url = "{url}"
models = {{ "{MODEL}" = "{MODEL}" }}
""",
        encoding="utf-8",
    )
    program = Path(sys.executable).with_name("genai-host")
    return [str(program), "serve", "--port", str(port)], {"GENAI_HOST_HOME": str(home)}
