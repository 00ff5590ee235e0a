"""A running ministack, which speaks as Amazon Bedrock does in front of a service that speaks
as OpenAI does."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def ministack(folder: Path, behind: str) -> Iterator[str]:
    """One that runs in a folder; its address.

    behind   the address of the service that it stands in front of
    """
    port = _free_port()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "IOT_MTLS_ENABLED": "0",  # which would listen as well
        "MINISTACK_BEDROCK_PROXY_URL": behind,
        "NO_PROXY": "*",
    }
    with subprocess.Popen(
        [sys.executable, "-m", "ministack"],
        env=environment,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        lines = []
        try:
            for line in process.stdout:
                lines.append(line)
                if "Running on" in line:
                    break
            else:
                pytest.fail("".join(lines))
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


def use_ministack(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the environment name it, and nothing else of AWS."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    environment: Mapping[str, str] = {
        "AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test", "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }  # fmt: skip
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
