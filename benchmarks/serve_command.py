"""Command line of `genai-host serve` in front of one service."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

MODEL = "gpt-4o-mini"


def serve_command(
    port: int,
    url: str,
    directory: Path,
    max_concurrency: int = 64,
    options: Sequence[str] = (),
    idle_timeout: float = 60,
    database: str = "",
) -> tuple[Sequence[str], Mapping[str, str]]:
    """Write the configuration of a server.

    Args:
        port: Port of the server.
        url: Base URL of the service, with its API version.
        directory: Directory for the files of the server.
        max_concurrency: Maximum number of concurrent requests.
        options: Further options of the command.
        idle_timeout: Seconds without data from the service after which a call fails.
        database: Database of the conversations; empty for the default file.

    Returns:
        The command, and its environment variables.
    """
    home = directory / "home"
    file = home / "config" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    conversations = f"[conversations]\ndatabase = {json.dumps(database)}\n" if database else ""
    file.write_text(
        f"""
{conversations}[server]
max_concurrency = {max_concurrency}
[providers.service]
type = "openai-compatible"
base_url = "{url}"
models = {{ "{MODEL}" = "{MODEL}" }}
[providers.service.limits]
first_token_timeout = {idle_timeout}
read_timeout = {idle_timeout}
""",
        encoding="utf-8",
    )
    program = Path(sys.executable).with_name("genai-host")
    return [str(program), "serve", "--port", str(port), *options], {"GENAI_HOST_HOME": str(home)}
