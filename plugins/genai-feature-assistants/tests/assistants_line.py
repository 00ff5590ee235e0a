"""The command `genai-host assistants`, in this process, over a host with a fake model.

line = Line(make_host, store, capsys, monkeypatch, FakeModel())
code, out, err = line("list", "--json")
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import genai_feature_assistants
import pytest

from genai_host import Config, Host
from genai_host.cli.app import App
from genai_host.cli.main import run
from genai_host.config import InstanceConfig
from genai_host.store import Store
from genai_host.testing import FakeModel
from genai_host.testing.pytest_plugin import MakeHost


class Line:
    """`genai-host assistants` with what is written after it: the exit code, the output and
    the errors of each.

    host    what it works over, with a store
    model   what answers, as `fake`
    """

    def __init__(
        self,
        make_host: MakeHost,
        folder: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        **plugins: Any,
    ) -> None:
        self.model = FakeModel()
        self.store = Store(folder / "store.db")
        config = Config(
            providers={"fake": InstanceConfig("fake")}, models={"embed": "fake-embed@fake"}
        )
        self.host: Host = make_host(
            config=config,
            store=self.store,
            fake=self.model,
            assistants=genai_feature_assistants,
            **plugins,
        )
        self._capsys = capsys
        self._monkeypatch = monkeypatch
        monkeypatch.setattr(App, "host", property(lambda app: self.host))
        monkeypatch.setattr(App, "store", property(lambda app: self.store))

    def __call__(self, *arguments: object, stdin: str = "") -> tuple[int, str, str]:
        self._monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        code = run(["assistants", *map(str, arguments)])
        said = self._capsys.readouterr()
        return code, said.out, said.err

    def done(self, *arguments: object, stdin: str = "") -> str:
        """The output of one that has to succeed."""
        code, out, err = self(*arguments, stdin=stdin)
        assert code == 0, err
        return out

    def close(self) -> None:
        self.store.close()
