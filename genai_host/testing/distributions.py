"""Installed distributions, made up: a module and its metadata in a folder."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from pathlib import Path

from genai_host.names import GROUP


def make_distribution(
    folder: Path,
    name: str,
    *,
    version: str = "1.0",
    entry_points: Mapping[str, str] | None = None,
    files: Mapping[str, str] | None = None,
) -> Path:
    """Install a distribution into a folder, as an installer would leave it there.

    folder         as it stands on `sys.path`
    entry_points   in the group of our plugins: name to value; None for a plugin
                   that has the distribution's name and its module
    files          path below the folder to text; None for an empty module

    Returns its `.dist-info` folder. Anything that it had there before is replaced.
    """
    module = name.replace("-", "_")
    texts = dict(files if files is not None else {f"{module}.py": ""})
    points = entry_points if entry_points is not None else {name: module}
    info = f"{module}-{version}.dist-info"
    lines = "".join(f"{point} = {value}\n" for point, value in points.items())
    texts[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    texts[f"{info}/entry_points.txt"] = f"[{GROUP}]\n{lines}"
    for path, text in texts.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    record = "".join(_record_line(folder, path) for path in texts)
    (folder / info / "RECORD").write_text(f"{record}{info}/RECORD,,\n", encoding="utf-8")
    return folder / info


def _record_line(folder: Path, path: str) -> str:
    """As the specification of RECORD has it (PyPA, Recording installed projects)."""
    content = (folder / path).read_bytes()
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
    return f"{path},sha256={digest},{len(content)}\n"
