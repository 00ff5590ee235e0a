"""`genai-host serve`, in front of one service."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

MODEL = "gpt-4o-mini"


def serve_command(
    port: int,
    url: str,
    folder: Path,
    at_once: int = 64,
    options: Sequence[str] = (),
    silence: float = 60,
    store: str = "",
) -> tuple[Sequence[str], Mapping[str, str]]:
    """The command, and what it needs in its environment; files are kept in the folder.

    url       of the service, with its version
    at_once   requests that are answered at once
    options   further ones of the command
    silence   seconds without a sign of the service after which a call fails
    store     where conversations are kept; empty for the usual file
    """
    home = folder / "home"
    file = home / "config" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    kept = f"[conversations]\ndatabase = {json.dumps(store)}\n" if store else ""
    file.write_text(
        f"""
{kept}[server]
max_concurrency = {at_once}
[providers.service]
type = "openai-compatible"
base_url = "{url}"
models = {{ "{MODEL}" = "{MODEL}" }}
[providers.service.limits]
first_token_timeout = {silence}
read_timeout = {silence}
""",
        encoding="utf-8",
    )
    program = Path(sys.executable).with_name("genai-host")
    return [str(program), "serve", "--port", str(port), *options], {"GENAI_HOST_HOME": str(home)}
